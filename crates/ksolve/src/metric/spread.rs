//! How much the importance of a feature depends on the rows.

use super::round::{Round, Rows};
use crate::Result;
use kapprox::Real;
use kstore::{Coded, MemoryRows, Pass};

/// The standard deviation over folds of the share of each feature in the trace of M, where M averages the gradients of one function,
/// that of `round`, over the rows of one fold. `None` for fewer than two folds with rows, and where a fold's gradients are 0.
///
/// *Cost*: the gradients of all rows once. *Bytes*: the rows of a fold once more.
///
/// # Errors
/// Those of reading, and a wish for a stop.
pub(super) fn spread<T: Real>(rows: &Rows<'_, T>, round: &Round<T>) -> Result<Option<Vec<f64>>> {
    let mut shares: Vec<Vec<f64>> = Vec::new();
    for fold in 0..rows.folds.count() {
        let part = of_fold(rows, fold)?;
        if part.is_empty() {
            continue;
        }
        let products = Rows { source: &part, n: part.len() as u64, ..*rows }.products(round)?;
        let trace: f64 = (0..products.nrows()).map(|j| products[(j, j)]).sum();
        if !(trace.is_finite() && trace > 0.0) {
            return Ok(None);
        }
        shares.push((0..products.nrows()).map(|j| products[(j, j)] / trace).collect());
    }
    Ok(deviations(&shares))
}

/// The rows of a fold, with their weights.
fn of_fold<T: Real>(rows: &Rows<'_, T>, fold: usize) -> Result<MemoryRows<T>> {
    let (shape, observer) = (rows.source.shape(), rows.resources.stages.stage("rows of a fold", None));
    let pass = Pass { journal: None, ..rows.cut.pass(1, rows.resources, &*observer) };
    let (mut x, mut weights) = (Vec::new(), Vec::new());
    pass.visit(rows.source, |block| {
        for (i, row) in block.rows.iter().enumerate() {
            let code = block.groups.as_ref().map_or(Coded::UNKNOWN, |groups| groups.codes[i]);
            if rows.folds.fold_of(*row, code)? == fold {
                x.extend_from_slice(&block.x[i * shape.features..(i + 1) * shape.features]);
                weights.push(block.weight(i).unwrap_or(1.0));
            }
        }
        Ok::<(), crate::Error>(())
    })?;
    Ok(MemoryRows::new(x, shape.features)?.with_targets(weights, 1)?.weighted(true)?)
}

/// The standard deviation of each column; `None` for fewer than two rows.
fn deviations(rows: &[Vec<f64>]) -> Option<Vec<f64>> {
    let n = rows.len() as f64;
    let deviation = |j: usize| {
        let mean = rows.iter().map(|row| row[j]).sum::<f64>() / n;
        (rows.iter().map(|row| (row[j] - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
    };
    (rows.len() > 1).then(|| (0..rows[0].len()).map(deviation).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_a_sample() {
        assert_eq!(deviations(&[vec![1.0]]), None);
        assert_eq!(deviations(&[vec![1.0, 5.0], vec![3.0, 5.0]]), Some(vec![2f64.sqrt(), 0.0]));
    }
}
