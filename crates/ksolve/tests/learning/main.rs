//! Tests of learning: statistics, fits, models, predictions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod allocations;
mod categories;
mod clip;
mod curve;
mod effects;
mod ensemble;
mod estimators;
mod gram;
mod job;
mod learn;
mod metric;
mod model;
mod predict;
mod resume;
mod shapley;
mod surface;
mod train;
