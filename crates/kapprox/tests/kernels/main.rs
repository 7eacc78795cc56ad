//! Tests of kernels over the whole registry and some expressions.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

mod accuracy;
mod builders;
mod feature_space;
mod features;
mod formulas;
mod golden;
mod gradients;
mod gram;
mod inputs;
mod laws;
mod limits;
mod projections;
mod restricted;
mod scaled_inputs;
mod sparse;
mod specs;
mod thin;
