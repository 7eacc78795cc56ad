//! Metrics learned from a target: which features, and which of their combinations, the kernel should look at.
//!
//! The learned function is f(x) = h(A(x − μ)/s), with h in the span of a kernel. Where f does not change along a direction of x, A
//! need not keep it; where f changes fast, points should lie far apart. So A is learned in **rounds**: fit f by kernel ridge
//! regression, take the average of the outer products of its gradients over the rows,
//!
//! ```text
//! M = (1/n) Σ_i Σ_c ∇f_c(x_i) ∇f_c(x_i)ᵀ      (d x d, over the outputs c)
//! ```
//!
//! set A = M^½, with the trace of AᵀA made d, and fit again. The round with the least held-out error wins. A diagonal metric takes
//! the diagonal of M, one of low rank its leading eigenvectors.
//!
//! Where the features as they are explain next to nothing, their gradients say nothing either; then the rounds begin from a factor
//! for each feature, found by marginal likelihood.
//!
//! *Cost*: the rounds see a uniform sample that is held in memory; where the table has more rows, one round over all rows
//! follows. *Passes over the table*: two for the sample, and five for that round.
//!
//! References: Radhakrishnan, Beaglehole, Pandit, Belkin, "Mechanism for feature learning in neural networks and
//! backpropagation-free machine learning models", Science 383, 2024 (recursive feature machines); Beaglehole, Holzmüller,
//! Radhakrishnan, Belkin, "xRFM: accurate, scalable, and interpretable feature learning models for tabular data", 2025.

pub mod alignment;
pub mod combination;
mod learn;
mod length;
mod likelihood;
mod marginal;
mod plan;
mod round;
mod search;
mod series;

pub use learn::Judgement;
pub use learn::{Learned, MetricRequest, RoundRequest, as_text, draw, picked, settle};
pub use length::LengthReport;
pub use length::settle_length;
pub use plan::{RANK, REFINED, folds, length_stage, plan as planned, sampled, stage};
pub use round::Rows;
pub use search::RoundReport;
pub use search::behind;
pub use series::{BLOCKS, series, told_of_blocks, warning as warning_of_series};
