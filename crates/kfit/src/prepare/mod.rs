//! The steps common to all fits: statistics of the rows, candidate rows, landmarks and feature map,
//! and the memory plan of each step.

pub mod candidates;
pub mod exact_rows;
pub mod map_builder;
pub mod reduction_fn;
pub mod stage_plans;
pub mod survey;
pub mod target_counts;
