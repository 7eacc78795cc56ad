//! The steps common to all fits: statistics of the rows, candidates, landmarks and map; and the
//! memory of each step.

pub mod adding;
pub mod candidates;
pub mod landmarks;
pub mod plan;
pub mod survey;
pub mod whole;
