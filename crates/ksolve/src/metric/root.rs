//! The metric that the gradients ask for: the root of the average of their outer products.

use super::source::MetricForm;
use crate::Result;
use faer::Mat;
use kapprox::decompose::symmetric_eigen;
use kapprox::metric::Metric;

/// The metric of a form whose AᵀA is M, with the trace d; `None` where M is 0.
pub(super) fn root(m: &Mat<f64>, form: MetricForm) -> Result<Option<Metric>> {
    let d = m.nrows();
    let trace: f64 = (0..d).map(|j| m[(j, j)].max(0.0)).sum();
    if !(trace > 0.0 && trace.is_finite()) {
        return Ok(None);
    }
    let unit = d as f64 / trace;
    if form == MetricForm::Diagonal {
        return Ok(Some(Metric::diagonal((0..d).map(|j| (m[(j, j)].max(0.0) * unit).sqrt()).collect())?));
    }
    let scaled = Mat::from_fn(d, d, |i, j| m[(i, j)] * unit);
    let (values, vectors) = symmetric_eigen(scaled.as_ref())?;
    let roots: Vec<f64> = values.iter().map(|value| value.max(0.0).sqrt()).collect();
    Ok(Some(match form {
        MetricForm::LowRank(r) => {
            // the eigenvalues ascend
            let leading: Vec<usize> = (d - r.min(d)..d).rev().collect();
            let kept: f64 = leading.iter().map(|k| values[*k].max(0.0)).sum();
            let unit = (d as f64 / kept).sqrt();
            let rows: Vec<f64> =
                leading.iter().flat_map(|k| (0..d).map(|j| unit * roots[*k] * vectors[(j, *k)])).collect();
            Metric::matrix(&rows, leading.len())?
        }
        _ => {
            let half = Mat::from_fn(d, d, |i, k| vectors[(i, k)] * roots[k]);
            let a = kapprox::decompose::product(half.as_ref(), vectors.transpose());
            let rows: Vec<f64> =
                (0..d).flat_map(|i| (0..d).map(|j| (a[(i, j)] + a[(j, i)]) / 2.0).collect::<Vec<_>>()).collect();
            Metric::matrix(&rows, d)?
        }
    }))
}
