//! What every fit begins with: statistics of the rows, candidates, landmarks, and the map; and what each of these steps holds.

pub(crate) mod adding;
pub(crate) mod candidates;
pub(crate) mod landmarks;
pub(crate) mod plan;
pub(crate) mod survey;
pub(crate) mod whole;
