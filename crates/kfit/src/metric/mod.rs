//! Learns a metric from a target: the matrix A that multiplies the scaled inputs before the kernel.
//!
//! The learned function is f(x) = h(A(x − μ)/s), with h in the span of a kernel. A should drop
//! directions along which f is constant, and stretch directions along which f changes fast. A is
//! therefore learned in **rounds**: fit f by kernel ridge regression, then average the outer
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
//! *Cost*: the rounds use a uniform sample in memory. If the table has more rows, one round over
//! all rows follows. *Passes over the table*: two for the sample, and five for the round over all
//! rows.
//!
//! References: Radhakrishnan, Beaglehole, Pandit, Belkin, "Mechanism for feature learning in neural
//! networks and backpropagation-free machine learning models", Science 383, 2024 (recursive feature
//! machines); Beaglehole, Holzmüller, Radhakrishnan, Belkin, "xRFM: accurate, scalable, and
//! interpretable feature learning models for tabular data", 2025.

pub mod combination;
mod learn;
mod length_scale;
mod likelihood;
mod marginal;
mod round;
mod round_search;
mod series;
mod settings;

pub use learn::MetricTestErrors;
pub use learn::{LearnedMetric, MetricRequest, RoundRequest, as_text, draw_sample, resolve_metric, select_rows};
pub use length_scale::LengthReport;
pub use length_scale::resolve_length_scale;
pub use round::RoundData;
pub use round_search::RoundReport;
pub use round_search::apply_metric;
pub use series::{BLOCK_COUNT, blocks_note, series_correlation, series_warning as warning_of_series};
pub use settings::{
    REFINED_RANK, ROUND_RANK, default_folds, learning_plan as planned, learning_stage, length_stage, sample_size,
};
