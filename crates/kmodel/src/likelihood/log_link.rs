//! The marginal likelihood for regressions with a logarithmic link.
//!
//! The functions of such a regression are logarithms of means, so that length scales are learned
//! from the logarithms of the targets. But logarithms of small counts have much noise, and then the
//! targets themselves tell more. The likelihood of the targets decides. With z = ln y, it is the
//! likelihood of z times the Jacobian Π dz/dy (Box, Cox, "An analysis of transformations", 1964).

use super::{LikelihoodReport, learn};
use crate::Result;
use faer::{Mat, MatRef};
use kapprox::Kernel;
use kstore::{Workers, pass::Observer};

/// The logarithms of targets.
#[derive(Clone, Debug)]
pub struct Logarithms {
    /// Logarithms, n x t.
    pub values: Mat<f64>,
    /// Mean over the rows and targets of ln dz/dy, where z are the logarithms and y the targets,
    /// both with mean variance 1.
    pub log_jacobian: f64,
}

impl Logarithms {
    /// Returns the logarithms of targets y ≥ 0 (n x t). In a column with zeros, half of the
    /// smallest positive target is added first: ½ for counts. Returns `None` if all targets are
    /// constant, or a column has no positive target.
    pub fn new(y: MatRef<'_, f64>) -> Option<Self> {
        let mut values = y.to_owned();
        for j in 0..y.ncols() {
            let lowest = y.col(j).iter().copied().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
            let shift = if y.col(j).iter().all(|v| *v > 0.0) { 0.0 } else { 0.5 * lowest };
            values.col_mut(j).iter_mut().for_each(|v| *v = (v.max(0.0) + shift).ln());
        }
        if !values.is_all_finite() {
            return None;
        }
        let [variance, log_variance] = [y, values.as_ref()].map(|targets| super::standardise(targets).0);
        let is_varying = variance > 0.0 && log_variance > 0.0;
        let mean = values.sum() / (values.nrows() * values.ncols()).max(1) as f64;
        is_varying.then(|| Self { log_jacobian: 0.5 * (variance / log_variance).ln() - mean, values })
    }

    /// Returns the report of the likelihood of the logarithms as a report of the likelihood of the
    /// targets.
    pub fn report_of_targets(&self, report: LikelihoodReport) -> LikelihoodReport {
        let terms = (report.rows as usize * self.values.ncols()) as f64;
        LikelihoodReport { log_likelihood: report.log_likelihood + terms * self.log_jacobian, ..report }
    }
}

/// Works like [`learn`], from the targets and from their logarithms, and returns the kernel with
/// the larger likelihood of the targets.
///
/// # Errors
/// The errors of [`learn`].
pub fn learn_with_log_link(
    kernel: &Kernel,
    x: MatRef<'_, f64>,
    y: MatRef<'_, f64>,
    weights: &[f64],
    observer: &dyn Observer,
    workers: &Workers,
) -> Result<(Kernel, Option<LikelihoodReport>)> {
    let (plain_kernel, plain_report) = learn(kernel, x, y, weights, observer, workers)?;
    let Some(logarithms) = Logarithms::new(y) else { return Ok((plain_kernel, plain_report)) };
    let (log_kernel, log_report) = learn(kernel, x, logarithms.values.as_ref(), weights, observer, workers)?;
    let log_report = log_report.map(|report| logarithms.report_of_targets(report));
    let likelihood = |report: &Option<LikelihoodReport>| report.as_ref().map(|report| report.log_likelihood);
    Ok(match likelihood(&log_report) > likelihood(&plain_report) {
        true => (log_kernel, log_report),
        false => (plain_kernel, plain_report),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_shifted_by_half_of_the_smallest_positive_target() {
        let counts = Mat::from_fn(4, 1, |i, _| [0.0, 1.0, 3.0, 7.0][i]);
        let logarithms = Logarithms::new(counts.as_ref()).unwrap();
        let expected = [0.5f64, 1.5, 3.5, 7.5].map(f64::ln);
        for (i, expected) in expected.into_iter().enumerate() {
            assert!((logarithms.values[(i, 0)] - expected).abs() < 1e-15);
        }
        // without zeros, nothing is added
        let positive = Mat::from_fn(3, 1, |i, _| [0.1, 1.0, 10.0][i]);
        assert!((Logarithms::new(positive.as_ref()).unwrap().values[(1, 0)]).abs() < 1e-15);
        // constant targets have no likelihood, and zeros alone no logarithm
        assert!(Logarithms::new(Mat::from_fn(3, 1, |_, _| 2.0).as_ref()).is_none());
        assert!(Logarithms::new(Mat::<f64>::zeros(3, 1).as_ref()).is_none());
    }

    #[test]
    fn the_jacobian_does_not_depend_on_the_unit_of_the_targets() {
        let y = |unit: f64| Mat::from_fn(5, 1, |i, _| unit * [0.2, 1.0, 3.0, 7.0, 40.0][i]);
        let [a, b] = [1.0, 1e3].map(|unit| Logarithms::new(y(unit).as_ref()).unwrap().log_jacobian);
        assert!((a - b).abs() < 1e-12, "{a} {b}");
        // ln dz/dy of z = ln(y)/sd(ln y) as a function of y/sd(y), by hand
        let values: Vec<f64> = (0..5).map(|i| y(1.0)[(i, 0)]).collect();
        let deviation = |v: &[f64]| {
            let mean = v.iter().sum::<f64>() / 5.0;
            (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 5.0).sqrt()
        };
        let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
        let (sd, log_sd) = (deviation(&values), deviation(&logs));
        let by_hand = values.iter().map(|v| (sd / (log_sd * v)).ln()).sum::<f64>() / 5.0;
        assert!((a - by_hand).abs() < 1e-12, "{a} {by_hand}");
    }
}
