//! Kernel herding: a few rows whose mean in feature space approximates the mean of all rows.
//!
//! Let φ(x) (length p) be the features of a row and μ their mean over all n rows. Rows are selected
//! one after the other, each at most once:
//!
//! ```text
//! x_t = argmax wᵀφ(x),     w ← w + μ − φ(x_t),     w = μ at first
//! ```
//!
//! Each step is a step of the conditional gradient method, which minimises the squared distance
//!
//! ```text
//! |μ − (1/t) Σ_{s ≤ t} φ(x_s)|²
//! ```
//!
//! For t random rows, the mean of this squared distance is tr C/t, where C is the covariance of the
//! features. For selected rows in a space of finite dimension, the squared distance is O(1/t²) as
//! long as rows close to the direction w remain.
//!
//! *Passes*: one over the rows for the features; over the stored features, one for the mean and one
//! for each selected row. *Flops*: the map, and 2np for each selected row. *Bytes*: the features,
//! and n bytes that mark the selected rows.
//!
//! References: Chen, Welling, Smola, "Super-samples from kernel herding", UAI 2010; Bach,
//! Lacoste-Julien, Obozinski, "On the equivalence between herding and conditional gradient
//! algorithms", ICML 2012.

use crate::features::{FeatureTier, FitData, GatherOptions, SectionPoints, StoredFeatures};
use crate::prepare::stage_plans;
use crate::request::{PassShape, ProblemSize, Resources, RowAccess, TrainOptions};
use crate::train::prepared::{self, PreparedFit};
use crate::{Error, Result};
use kapprox::Real;
use kstore::{MemoryPlan, Pass, SelectedTable};

/// The rows that herding selected, and the distance of their mean from the mean of all rows.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Herd {
    /// Positions of the selected rows among the rows of the fit, from 0, in order of selection.
    pub positions: Vec<usize>,
    /// |μ − mean of the rows selected so far|² after each step.
    pub squared_distances: Vec<f64>,
    /// tr C, the mean squared distance of the rows from μ. For the mean of t random rows, the
    /// expected squared distance is tr C/t.
    pub variance: f64,
}

/// Rows that represent a table, with the cost of selecting them.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Representatives {
    /// Row numbers of the selected rows in the table, in order of selection.
    pub rows: Vec<u64>,
    /// Mean of every input over the rows of the table; it replaces missing values.
    #[serde(skip)]
    pub means: Vec<f64>,
    /// |μ − mean of the rows selected so far|² after each step, as in [`Herd`].
    pub squared_distances: Vec<f64>,
    /// Mean squared distance of the rows from μ, as in [`Herd`].
    pub variance: f64,
    /// Number of rows of the table.
    #[serde(rename = "among")]
    pub table_rows: u64,
    /// Kernel, with numeric parameters.
    pub kernel: String,
    /// Number of features of the map.
    pub rank: usize,
    /// Number of passes over the table.
    pub passes: u64,
    /// Planned memory of the largest stage, in bytes.
    pub planned_bytes: usize,
}

/// Selects `count` rows of a table.
///
/// *Passes*: statistics, candidates, the passes of [`herd`], and one for the row numbers.
///
/// # Errors
/// [`kstore::Error::OverBudget`] before the first pass if the plan exceeds the memory. An invalid
/// row (the error names its position); errors of [`herd`].
pub fn represent<T: Real>(
    selected: &SelectedTable,
    options: &TrainOptions,
    count: usize,
    resources: &Resources<'_>,
) -> Result<Representatives> {
    let size = ProblemSize {
        stores_features: true,
        ..ProblemSize::from_selected::<T>(selected, options, resources.workers.threads(), 0, 1)?
    };
    let choose_tier = |size: &ProblemSize, pass_shape: PassShape| -> (FeatureTier, MemoryPlan) {
        let n = usize::try_from(size.n).unwrap_or(usize::MAX);
        let plan = stage_plans::plan_feature_pass("herding", size, pass_shape, resources.memory)
            // per row, its number (8 bytes) and the mark of a selected row (1 byte)
            .term("row numbers", n.saturating_mul(9), "select among fewer rows (`rows`)")
            .term("selected rows", count.saturating_mul(32), "lower `count`");
        FeatureTier::select(plan, size, resources)
    };
    let (pass_shape, plans) =
        stage_plans::select_pass_shape(&size, &|pass_shape| choose_tier(&size, pass_shape).1, resources.memory);
    let prepared = prepared::prepare::<T>(
        selected,
        options,
        RowAccess::Features,
        resources,
        pass_shape,
        plans,
        Default::default(),
    )?;
    let PreparedFit { survey, built_map, rank_warning, .. } = &prepared;
    rank_warning.iter().for_each(|text| resources.stage_observer.warn(text.clone()));
    let (tier, plan) = choose_tier(&size, pass_shape);
    tier.warning(&size).into_iter().for_each(|text| resources.stage_observer.warn(text));
    let features = prepared.features(tier, &plan, SectionPoints::NoPoints, resources);
    let selected_herd = herd(&features, count)?;
    let observer = resources.start_stage_over("row numbers", prepared.source().range());
    let mut row_numbers = Vec::new();
    let pass = Pass { journal: None, ..pass_shape.pass(1, resources, &*observer) };
    pass.visit(prepared.source(), |block| {
        row_numbers.extend_from_slice(block.row_numbers);
        Ok::<(), Error>(())
    })?;
    Ok(Representatives {
        rows: selected_herd.positions.iter().map(|position| row_numbers[*position]).collect(),
        means: survey.scaler.mean.clone(),
        squared_distances: selected_herd.squared_distances,
        variance: selected_herd.variance,
        table_rows: survey.row_count(),
        kernel: built_map.kernel.to_string(),
        rank: built_map.map.dims().1,
        // two passes for the features and the row numbers; recomputed features take one more pass
        // for the mean, and one for each selected row
        passes: prepared.passes() + 2 + if tier == FeatureTier::Recomputed { 1 + count as u64 } else { 0 },
        planned_bytes: prepared.planned_bytes,
    })
}

/// Selects `count` rows. If several rows attain the maximum, selects the first of them.
///
/// # Errors
/// Errors of reading the rows and of the map; [`Error::TooFewRowsFor`] if there are fewer than
/// `count` rows.
pub fn herd<T: Real>(data: &FitData<'_, T>, count: usize) -> Result<Herd> {
    super::require_rows("herding", count as u64, data.n)?;
    let (stored_features, _) = StoredFeatures::gather(data, GatherOptions::default())?;
    let (mean, variance) = mean_and_variance(data, &stored_features)?;
    let (mut direction, mut selected_sum) = (mean.clone(), vec![0.0; stored_features.p]);
    let (mut is_selected, mut herd) = (vec![false; stored_features.n], Herd { variance, ..Herd::default() });
    let observer = data
        .resources
        .stage_observer
        .start_stage("herding", Some((stored_features.n as u64).saturating_mul(count as u64)));
    for t in 1..=count {
        let weights: Vec<T> = direction.iter().map(|w| T::from_f64(*w)).collect();
        let (mut scores, mut best_row) = (Vec::new(), None::<(usize, f64)>);
        let mut features = vec![T::ZERO; stored_features.p];
        stored_features.visit(&*observer, |tile| {
            scores.resize(tile.row_count(), T::ZERO);
            tile.multiply(&weights, &mut scores, stored_features.workers());
            for (i, score) in scores.iter().map(|score| score.to_f64()).enumerate() {
                let is_larger = best_row.is_none_or(|(_, largest)| score > largest);
                if is_larger && !is_selected[tile.first_row + i] {
                    best_row = Some((tile.first_row + i, score));
                    features.copy_from_slice(tile.row(i));
                }
            }
            Ok(())
        })?;
        let remedy = "scale the features, choose another kernel or use `precision` f64";
        let (position, _) = best_row.ok_or(Error::NotFinite { what: "the score of every row", remedy })?;
        is_selected[position] = true;
        herd.positions.push(position);
        let mut squared_distance = 0.0;
        for (((sum, direction), mean), feature) in selected_sum.iter_mut().zip(&mut direction).zip(&mean).zip(&features)
        {
            *sum += feature.to_f64();
            *direction += mean - feature.to_f64();
            squared_distance += (mean - *sum / t as f64).powi(2);
        }
        herd.squared_distances.push(squared_distance);
    }
    Ok(herd)
}

/// Computes μ and tr C: one pass over the features.
fn mean_and_variance<T: Real>(
    data: &FitData<'_, T>,
    stored_features: &StoredFeatures<'_, T>,
) -> Result<(Vec<f64>, f64)> {
    let (mut mean, mut square_sum, n) = (vec![0.0; stored_features.p], 0.0, stored_features.n as f64);
    let observer = data.resources.stage_observer.start_stage("mean", Some(stored_features.n as u64));
    stored_features.visit(&*observer, |tile| {
        tile.add_transposed_product(&vec![T::ONE; tile.row_count()], &mut mean, stored_features.workers());
        square_sum += tile.phi.iter().map(|v| v.to_f64() * v.to_f64()).sum::<f64>();
        Ok(())
    })?;
    mean.iter_mut().for_each(|sum| *sum /= n);
    let squared_norm: f64 = mean.iter().map(|v| v * v).sum();
    Ok((mean, (square_sum / n - squared_norm).max(0.0)))
}
