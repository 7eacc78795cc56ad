//! Standard errors of scores over clusters: rows of a cluster may depend on each other, such as the
//! rows of a subject, or the rows of a week.
//!
//! A score is, to first order, a sum over rows of their influence ψ. With the sums Ψ_g over the G
//! clusters, its standard error is √(G/(G − 1) Σ_g Ψ_g²). For the mean θ of numbers v with weights
//! w, Ψ_g = Σ_{i in g} w_i (v_i − θ)/Σw. Blocks of consecutive rows are clusters too, which makes
//! this the method of batch means: blocks are nearly independent if they are longer than the
//! dependence of their rows.
//!
//! References: Liang, Zeger, "Longitudinal data analysis using generalized linear models", 1986;
//! Cameron, Miller, "A practitioner's guide to cluster-robust inference", 2015; Schmeiser, "Batch
//! size effects in the analysis of simulation output", 1982.

/// Sums of several numbers per row over each cluster.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSums {
    column_count: usize,
    /// Sums, clusters × columns.
    sums: Vec<f64>,
    has_rows: Vec<bool>,
}

impl ClusterSums {
    pub(crate) fn new(cluster_count: usize, column_count: usize) -> Self {
        Self { column_count, sums: vec![0.0; cluster_count * column_count], has_rows: vec![false; cluster_count] }
    }

    pub(crate) fn bytes(cluster_count: usize, column_count: usize) -> usize {
        cluster_count.saturating_mul(8 * column_count + 1)
    }

    /// Adds the numbers of a row to its cluster.
    pub(crate) fn push(&mut self, cluster: usize, values: impl IntoIterator<Item = f64>, weight: f64) {
        self.has_rows[cluster] |= weight > 0.0;
        let sums = &mut self.sums[cluster * self.column_count..(cluster + 1) * self.column_count];
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
    }

    fn clusters(&self) -> impl Iterator<Item = &[f64]> {
        let sums = self.sums.chunks_exact(self.column_count.max(1));
        sums.zip(&self.has_rows).filter(|(_, has_rows)| **has_rows).map(|(sums, _)| sums)
    }

    /// Returns the number of clusters with rows.
    pub(crate) fn cluster_count(&self) -> usize {
        self.clusters().count()
    }

    /// Returns the total over all clusters of a function of their sums.
    pub(crate) fn total(&self, value: impl Fn(&[f64]) -> f64) -> f64 {
        self.clusters().map(value).sum()
    }

    /// Returns the standard error of a score, given the influence of a cluster as a function of its
    /// sums. `None` for fewer than two clusters.
    pub(crate) fn standard_error(&self, influence: impl Fn(&[f64]) -> f64) -> Option<f64> {
        standard_error(self.clusters().map(influence))
    }

    /// Returns the standard error of the ratio of the sums of two columns.
    pub(crate) fn ratio_standard_error(&self, numerator: usize, denominator: usize) -> Option<f64> {
        let (total, weight) = (self.total(|sums| sums[numerator]), self.total(|sums| sums[denominator]));
        self.standard_error(|sums| (sums[numerator] - total / weight * sums[denominator]) / weight)
    }
}

/// Returns √(G/(G − 1) Σ_g Ψ_g²) of the influences Ψ_g of G clusters; `None` for fewer than two, or
/// if the sum is not finite.
pub(crate) fn standard_error(influences: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) =
        influences.fold((0.0, 0.0), |(count, sum), influence| (count + 1.0, sum + influence * influence));
    let square: f64 = if count > 1.0 { count / (count - 1.0) * sum } else { f64::NAN };
    Some(square.sqrt()).filter(|error| error.is_finite())
}

/// The clusters over which standard errors are computed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ClusterReport {
    /// What a cluster is: `groups of subject`, `blocks of consecutive rows`.
    pub clusters: String,
    /// Number of clusters with rows.
    pub count: u64,
}

impl std::fmt::Display for ClusterReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", kstore::display::format_count(self.count), self.clusters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_rows_as_clusters_give_the_error_of_independent_rows() {
        let mut sums = ClusterSums::new(5, 2);
        let values = [1.0, 2.0, 3.0, 6.0];
        values.iter().enumerate().for_each(|(i, value)| sums.push(i, [*value, 1.0], 1.0));
        // s² = (4 + 1 + 0 + 9)/3, and the fifth cluster has no rows
        assert!((sums.ratio_standard_error(0, 1).unwrap() - (14.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-14);
        assert_eq!(sums.cluster_count(), 4);
        let mut one = ClusterSums::new(1, 2);
        one.push(0, [1.0, 1.0], 1.0);
        assert_eq!(one.ratio_standard_error(0, 1), None);
    }
}
