//! Learns a metric from a target: a matrix A that multiplies the scaled inputs before the kernel.
//!
//! Let x be the d scaled inputs of a row. The learned function is f(x) = h(Ax), where h is in the
//! span of kernel sections. A should drop directions in which f is constant, and stretch directions
//! in which f changes fast. A is therefore learned in **rounds**. A round fits f by kernel ridge
//! regression, and averages the outer products of the gradients of its outputs f_c over the n rows
//! x_i:
//!
//! ```text
//! M = (1/n) Σ_i Σ_c ∇f_c(x_i) ∇f_c(x_i)ᵀ      (d x d, over the outputs c)
//! ```
//!
//! The next round fits f with A = M^½, where M is first scaled so that AᵀA has trace d. The round
//! with the smallest held-out error wins. For a diagonal metric, M is replaced by its diagonal, and
//! for a low-rank metric by its leading eigenvectors and eigenvalues.
//!
//! If the first fit explains almost nothing, its gradients are not informative. The rounds then
//! start from one factor per input, and the factors are learned by maximum marginal likelihood.
//!
//! The form `likelihood` learns no matrix, but the weights of a sum of kernels and their length
//! scales per input, by maximum marginal likelihood ([`kmodel::likelihood`]).
//!
//! Sparse rows have the form `linear`: a factor for each column from the weights of a linear ridge
//! regression (`linear`).
//!
//! *Cost*: the rounds use a uniform sample in memory. If the table has more rows than the sample,
//! one round over all rows follows. *Passes over the table*: two to draw the sample, and five for
//! the round over all rows.
//!
//! References: Radhakrishnan, Beaglehole, Pandit, Belkin, "Mechanism for feature learning in neural
//! networks and backpropagation-free machine learning models", Science 383, 2024 (recursive feature
//! machines); Beaglehole, Holzmüller, Radhakrishnan, Belkin, "xRFM: accurate, scalable, and
//! interpretable feature learning models for tabular data", 2025.

pub mod combination;
mod learn;
mod length_scale;
mod likelihood;
pub(crate) mod linear;
mod marginal;
mod round;
mod round_search;
mod series;
mod settings;

pub use kmodel::likelihood::LikelihoodReport;
pub(crate) use kmodel::likelihood::{
    KernelSum, MIN_STAGED_ROWS, SampledRows, Stage as LikelihoodStage, bytes as likelihood_bytes,
};
pub use learn::LearnedMetric;
pub use learn::MetricTestErrors;
pub(crate) use learn::{MetricRequest, RoundRequest, as_text, draw_sample, resolve_metric, select_rows};
pub use length_scale::LengthScaleReport;
pub(crate) use length_scale::resolve_length_scale;
pub(crate) use round::RoundData;
pub use round_search::RoundReport;
pub(crate) use round_search::apply_metric;
pub(crate) use series::{BLOCK_COUNT, blocks_note, series_correlation, series_warning};
pub(crate) use settings::{
    REFINED_RANK, ROUND_RANK, default_folds, learning_plan, learning_stage, length_scale_stage, sample_size,
};
