//! What every fit begins with: statistics of the rows, candidates, landmarks, and the map; and what each of these steps holds.

pub mod adding;
pub mod candidates;
pub mod landmarks;
pub mod plan;
pub mod survey;
pub mod whole;
