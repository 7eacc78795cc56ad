//! The report of a learned sum of kernels.

use kapprox::Kernel;

/// A learned sum of kernels.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Combination {
    /// The kernels, with every parameter resolved to a number.
    pub kernels: Vec<String>,
    /// The weights μ of the kernels, with sum 1; 0 for unused kernels.
    pub weights: Vec<f64>,
    /// The alignment of each kernel with the target. For one target it is from 0 to 1.
    pub alignments: Vec<f64>,
    /// The alignment of the weighted sum of the kernels with the target.
    pub alignment: f64,
    /// Number of passes over the rows.
    pub passes: u64,
    /// The sum of the kernels with positive weights.
    #[serde(skip)]
    pub kernel: Kernel,
}

impl Combination {
    /// Formats one line per kernel, with weight and alignment, and one line for the sum.
    #[doc(hidden)]
    pub fn report_lines(&self) -> Vec<String> {
        let weighted_kernels = self.kernels.iter().zip(&self.weights).zip(&self.alignments);
        let line = |((kernel, weight), alignment): ((&String, &f64), &f64)| {
            format!("combination: weight {weight:.4}, alignment {alignment:.4}: {kernel}")
        };
        weighted_kernels.map(line).chain([format!("combination: alignment of the sum {:.4}", self.alignment)]).collect()
    }
}
