//! Descriptions of clusters by the columns of their rows.

use serde::{Deserialize, Serialize};

/// A cluster: its size, the columns that set it apart, and its most typical rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterProfile {
    /// Number of training rows.
    pub rows: u64,
    /// Weight of these rows as a fraction of the weight of all rows.
    pub fraction: f64,
    /// The columns that differ most from the mean of all rows, the largest difference first.
    pub columns: Vec<DistinctiveColumn>,
    /// Stored numbers of the rows nearest to the centroid, the nearest first.
    pub typical_rows: Vec<u64>,
    /// Names of these rows; empty in a model, and if no column names the rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub typical_names: Vec<String>,
}

/// A column whose mean in a cluster differs from its mean over all rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DistinctiveColumn {
    /// Name of the feature: a column, or a level of a category.
    pub column: String,
    /// Mean over the rows of the cluster; the fraction of these rows for a level.
    pub mean: f64,
    /// Mean over all rows; the fraction of all rows for a level.
    pub mean_of_all: f64,
    /// Difference of the two means, in standard deviations of the column over all rows.
    pub difference: f64,
    /// Ratio of the two fractions, for a level of a category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lift: Option<f64>,
}
