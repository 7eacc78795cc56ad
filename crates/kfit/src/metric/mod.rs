//! Metrics learned from a target: which inputs, and which of their combinations, the kernel should
//! use.
//!
//! The learned function is f(x) = h(A(x − μ)/s), with h in the span of a kernel. A may drop
//! directions along which f is constant, and should stretch directions along which f changes fast.
//! A is therefore learned in **rounds**: fit f by kernel ridge regression, then average the outer
//! products of its gradients over the rows,
//!
//! ```text
//! M = (1/n) Σ_i Σ_c ∇f_c(x_i) ∇f_c(x_i)ᵀ      (d x d, over the outputs c)
//! ```
//!
//! set A = M^½, scaled so that AᵀA has trace d, and fit again. The round with the smallest held-out
//! error wins. A diagonal metric uses the diagonal of M, a low-rank metric its leading
//! eigenvectors.
//!
//! If the first fit explains almost nothing, its gradients are not informative; the rounds then
//! start from one factor per input, learned by maximum marginal likelihood.
//!
//! *Cost*: the rounds use a uniform sample in memory; if the table has more rows, one round over
//! all rows follows. *Passes over the table*: two for the sample, and five for that round.
//!
//! References: Radhakrishnan, Beaglehole, Pandit, Belkin, "Mechanism for feature learning in neural
//! networks and backpropagation-free machine learning models", Science 383, 2024 (recursive feature
//! machines); Beaglehole, Holzmüller, Radhakrishnan, Belkin, "xRFM: accurate, scalable, and
//! interpretable feature learning models for tabular data", 2025.

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
