//! Learns a factor for each column of sparse rows from the weights of a linear model.
//!
//! Let x_i (d columns, most values 0) be the rows, y_i (t numbers) their targets or class codes,
//! ω_i their weights with the sum Ω, and x̄ and ȳ the means. Linear ridge regression finds the
//! d x t matrix V that minimises
//!
//! ```text
//! (1/Ω) Σ_i ω_i ‖y_i − ȳ − Vᵀ(x_i − x̄)‖² + λ‖V‖²,   λ = RIDGE · (1/Ω) Σ_i ω_i ‖x_i‖²
//! ```
//!
//! The factor of column j is a multiple of √(‖V_j‖ / mean_k ‖V_k‖) + FLOOR, where V_j is row j of
//! V, and each numeric target is divided by its standard deviation. The multiple is such that the
//! factors leave Σ_i ω_i ‖x_i‖² unchanged, so that a length scale keeps its meaning. A column
//! without a linear effect keeps a small factor, because its effect may be nonlinear. On three
//! tables the root had a lower log-loss than ‖V_j‖ itself, and ridge regression was as good as
//! logistic regression.
//!
//! The gradient outer products of [`crate::metric`] need the columns of dense rows. A linear model
//! of sparse rows has one weight per column, and costs a multiple of the number of entries.
//!
//! V solves (C + λI) V = B, where C is the covariance of the rows and B their covariance with the
//! targets. Conjugate gradients solve it without C: each step is one pass over the rows, which
//! computes C P for d x t directions P. The condition number is at most 1 + 1/RIDGE, because the
//! trace of C is at most λ/RIDGE. After [`MAX_STEPS`] steps the iteration stops; fewer steps are a
//! stronger regularisation, not an error.
//!
//! *Cost*: 2·t flops for each entry and pass. *Passes*: 1 + the number of steps. *Memory*: a state
//! of 8·d·(t + 2) bytes for each lane, and six d x t matrices.
//!
//! References: Hestenes, Stiefel, "Methods of conjugate gradients for solving linear systems",
//! Journal of Research of the National Bureau of Standards 49, 1952; Guyon, Weston, Barnhill,
//! Vapnik, "Gene selection for cancer classification using support vector machines", Machine
//! Learning 46, 2002 (columns ranked by the weights of a linear model).

use crate::prepare::stage_plans::{add_row_terms, base_plan};
use crate::prepare::survey::Survey;
use crate::request::{FitRequest, MetricForm, MetricSource, PassShape, Resources, Stage, TrainOptions};
use crate::{Error, Folds, Result, Targets};
use kapprox::Real;
use kmodel::model::MetricReport;
use kstore::pass::{Observer, state_count};
use kstore::sparse::entries;
use kstore::{LabelCodes, Merge, Reduction, RowBlock, RowSource, SelectedTable, Workers};
use std::collections::HashSet;

/// Name of the stage that learns the factors.
const STAGE: &str = "linear metric";

/// Regularisation parameter, as a fraction of the mean squared norm of the rows.
const RIDGE: f64 = 1e-3;

/// Factor of a column without a linear effect, before the factors are normalised. A column whose
/// weights have the mean norm has the factor 1 + FLOOR.
const FLOOR: f64 = 0.3;

/// Maximum number of steps of conjugate gradients.
const MAX_STEPS: usize = 20;

/// The iteration stops when every residual has at most this fraction of its first norm.
const TOLERANCE: f64 = 1e-8;

/// Maximum number of columns in the report.
const MAX_REPORTED_COLUMNS: usize = 1_000;

/// Maximum size of the state of a lane if there are several lanes. With larger states, one lane
/// reads the rows.
const MAX_STATE_BYTES: usize = 4 << 20;

/// Factors of the columns of sparse rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinearMetric {
    /// Factor of each column.
    pub(crate) factors: Vec<f64>,
    /// Factor of a column without entries.
    pub(crate) unseen_factor: f64,
    /// The fold from which the factors were not learned; `None` if all rows were used.
    pub(crate) test_fold: Option<usize>,
    /// Passes over the table.
    pub(crate) passes: u64,
}

impl LinearMetric {
    /// Returns the report of the metric, with the largest weights of columns.
    pub(crate) fn report(&self, source: String, names: impl Iterator<Item = String>) -> MetricReport {
        let total: f64 = self.factors.iter().map(|factor| factor * factor).sum();
        let mut order: Vec<usize> = (0..self.factors.len()).collect();
        order.sort_by(|a, b| self.factors[*b].total_cmp(&self.factors[*a]).then(a.cmp(b)));
        order.truncate(MAX_REPORTED_COLUMNS);
        let reported: HashSet<usize> = order.into_iter().collect();
        let weight = |(j, name): (usize, String)| (name, self.factors[j] * self.factors[j] / total);
        let weights = names.enumerate().filter(|(j, _)| reported.contains(j)).map(weight).collect();
        MetricReport::new(source, self.factors.len(), weights, &[], Vec::new())
    }
}

/// The rows, targets and folds from which factors are learned.
pub(crate) struct LinearRequest<'a, T: Real> {
    pub(crate) source: &'a dyn RowSource<T>,
    pub(crate) column_count: usize,
    pub(crate) survey: &'a Survey,
    pub(crate) targets: &'a Targets,
    pub(crate) folds: &'a Folds,
    /// True if the solver can hold out a single fold. The factors are then learned without it.
    pub(crate) holds_out_fold: bool,
    pub(crate) pass_shape: PassShape,
    pub(crate) resources: &'a Resources<'a>,
}

/// Returns the number of columns of the selected rows if the fit learns factors for them.
pub(crate) fn linear_columns(selected: &SelectedTable, options: &TrainOptions) -> Option<usize> {
    let is_linear = options.metric == MetricSource::Learned(MetricForm::Linear);
    selected.sparse_shape().filter(|_| is_linear).map(|shape| shape.column_count)
}

/// Returns the selection with factors of 1 that [`learn_factors`] replaces, so that memory plans
/// contain the factors. Without a linear metric the selection is unchanged.
pub(crate) fn with_unit_factors(selected: &SelectedTable, options: &TrainOptions) -> Result<SelectedTable> {
    match linear_columns(selected, options) {
        Some(column_count) => Ok(selected.with_entry_factors(&vec![1.0; column_count], 1.0)?),
        None => Ok(selected.clone()),
    }
}

/// Returns the stage that learns the factors; `None` without a linear metric.
pub(crate) fn linear_stage(selected: &SelectedTable, request: &FitRequest<'_>, pass_shape: PassShape) -> Option<Stage> {
    let column_count = linear_columns(selected, &request.options)?;
    let (size, remedy) = (&request.size, "read fewer columns (`features`), hash words, or give `metric` none");
    let lanes = lane_count(column_count, size.t, pass_shape);
    let states = state_count(lanes, size.n.div_ceil(pass_shape.segment_rows));
    let plan = base_plan(STAGE, size, request.resources.memory);
    let plan = add_row_terms(plan, size, pass_shape, lanes, size.element_bytes)
        .term("sums of columns", states.saturating_mul(state_bytes(column_count, size.t)), remedy)
        .term("linear model", column_count.saturating_mul(8 * (6 * size.t + 6)), remedy);
    Some(Stage { plan, passes: 1 + MAX_STEPS as u64 })
}

fn state_bytes(column_count: usize, t: usize) -> usize {
    column_count.saturating_mul(8 * (t + 2))
}

fn lane_count(column_count: usize, t: usize, pass_shape: PassShape) -> usize {
    if state_bytes(column_count, t) <= MAX_STATE_BYTES { pass_shape.scan_lanes } else { 1 }
}

/// Learns the factors of the columns of sparse rows.
///
/// # Errors
/// The rows cannot be read; the run was interrupted.
pub(crate) fn learn_factors<T: Real>(request: &LinearRequest<'_, T>) -> Result<LinearMetric> {
    let (d, t) = (request.column_count, request.targets.count());
    let test_fold = if request.holds_out_fold { request.folds.test_fold(&request.fold_sizes()) } else { None };
    let observer = request.resources.stage_observer.start_stage(STAGE, None);
    let reduce = |values: &RowValues<'_>| request.reduce(test_fold, values, &*observer);
    let sums = reduce(&RowValues::Targets)?;
    let model = RidgeSystem::new(&sums, d, t);
    let (weights, steps) =
        model.solve(|directions, offsets| reduce(&RowValues::Projections { directions, offsets }))?;
    drop(observer);
    let scales = match request.targets {
        Targets::Numeric { .. } => request.survey.statistics.targets.iter().map(|target| target.deviation()).collect(),
        Targets::Classes(_) => vec![1.0; t],
    };
    let strengths: Vec<f64> = weights.chunks_exact(t.max(1)).map(|weights| strength(weights, &scales)).collect();
    let passes = 1 + steps as u64;
    let Some((factors, unseen_factor)) = factors_of(&strengths, &sums.squares) else {
        let why = "a linear model of the rows explains nothing of the target: all columns keep the same factor";
        request.resources.stage_observer.warn(why.to_string());
        return Ok(LinearMetric { factors: vec![1.0; d], unseen_factor: 1.0, test_fold, passes });
    };
    Ok(LinearMetric { factors, unseen_factor, test_fold, passes })
}

/// Returns the norm of the weights of a column, each divided by the scale of its target.
fn strength(weights: &[f64], scales: &[f64]) -> f64 {
    let scaled_weight = |(weight, scale): (&f64, &f64)| if *scale > 0.0 { weight / scale } else { 0.0 };
    weights.iter().zip(scales).map(scaled_weight).map(|weight| weight * weight).sum::<f64>().sqrt()
}

/// Returns the factors of columns with these strengths, and the factor of a column of strength 0.
/// Returns `None` if no column has a strength. `squares` are the sums of the squared values of the
/// columns.
fn factors_of(strengths: &[f64], squares: &[f64]) -> Option<(Vec<f64>, f64)> {
    let mean = strengths.iter().sum::<f64>() / strengths.len().max(1) as f64;
    if !mean.is_finite() || mean <= 0.0 {
        return None;
    }
    let factors: Vec<f64> = strengths.iter().map(|strength| (strength / mean).sqrt() + FLOOR).collect();
    let new_squares: f64 = factors.iter().zip(squares).map(|(factor, square)| factor * factor * square).sum();
    let ratio = (squares.iter().sum::<f64>() / new_squares).sqrt();
    let ratio = if ratio.is_finite() && ratio > 0.0 { ratio } else { 1.0 };
    Some((factors.iter().map(|factor| ratio * factor).collect(), ratio * FLOOR))
}

/// The numbers u_i of a row whose products with the row are summed.
enum RowValues<'a> {
    /// The t targets, followed by 1.
    Targets,
    /// Pᵀx_i − offsets for d x t directions P.
    Projections { directions: &'a [f64], offsets: &'a [f64] },
}

/// Sums over rows x_i with weights ω_i and numbers u_i.
#[derive(Clone, Debug)]
struct ColumnSums {
    /// Σ ω_i x_i u_iᵀ, row-major: the numbers of a column are adjacent.
    products: Vec<f64>,
    /// Σ ω_i u_i.
    totals: Vec<f64>,
    /// Σ ω_i x_ij² for each column j; empty for projections.
    squares: Vec<f64>,
}

kstore::persist!(ColumnSums { fill "products": products, fill "totals": totals, fill "squares": squares });

impl Merge for ColumnSums {
    fn merge(&mut self, later: &Self) {
        let add = |sums: &mut [f64], later: &[f64]| sums.iter_mut().zip(later).for_each(|(sum, later)| *sum += later);
        add(&mut self.products, &later.products);
        add(&mut self.totals, &later.totals);
        add(&mut self.squares, &later.squares);
    }
}

/// The pass that computes [`ColumnSums`].
struct ColumnPass<'a> {
    column_count: usize,
    targets: &'a Targets,
    folds: &'a Folds,
    excluded_fold: Option<usize>,
    values: &'a RowValues<'a>,
}

impl ColumnPass<'_> {
    /// Computes u_i of row `i` of a block, whose entries are `indices` and `entry_values`.
    fn row_values<T: Real>(
        &self,
        block: &RowBlock<'_, T>,
        i: usize,
        (indices, entry_values): (&[T], &[T]),
        out: &mut Vec<f64>,
    ) -> Result<()> {
        out.clear();
        match self.values {
            RowValues::Targets => {
                self.targets.append_to(block, i, out)?;
                out.push(1.0);
            }
            RowValues::Projections { directions, offsets } => {
                out.extend(offsets.iter().map(|offset| -offset));
                for (index, value) in indices.iter().zip(entry_values) {
                    let first = index.to_f64() as usize * offsets.len();
                    let value = value.to_f64();
                    out.iter_mut().zip(&directions[first..]).for_each(|(sum, direction)| *sum += value * direction);
                }
            }
        }
        Ok(())
    }
}

impl<T: Real> Reduction<T> for ColumnPass<'_> {
    type State = ColumnSums;
    type Scratch = Vec<f64>;
    type Error = Error;

    fn init(&self) -> ColumnSums {
        let t = self.targets.count();
        let (value_count, square_count) = match self.values {
            RowValues::Targets => (t + 1, self.column_count),
            RowValues::Projections { .. } => (t, 0),
        };
        let (products, totals) = (vec![0.0; self.column_count * value_count], vec![0.0; value_count]);
        ColumnSums { products, totals, squares: vec![0.0; square_count] }
    }

    fn scratch(&self) -> Vec<f64> {
        Vec::new()
    }

    fn step(&self, state: &mut ColumnSums, values: &mut Vec<f64>, block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        for (i, row) in block.x.chunks_exact(block.d).enumerate() {
            let group = block.groups.map_or(LabelCodes::UNKNOWN, |groups| groups.codes[i]);
            if self.excluded_fold.is_some()
                && self.excluded_fold == Some(self.folds.fold_of(block.row_numbers[i], group)?)
            {
                continue;
            }
            let (weight, row) = (block.weight(i).unwrap_or(1.0), entries(row));
            self.row_values(block, i, row, values)?;
            values.iter_mut().for_each(|value| *value *= weight);
            state.totals.iter_mut().zip(&*values).for_each(|(total, value)| *total += value);
            for (index, entry) in row.0.iter().zip(row.1) {
                let (index, entry) = (index.to_f64() as usize, entry.to_f64());
                let products = &mut state.products[index * values.len()..];
                products.iter_mut().zip(&*values).for_each(|(sum, value)| *sum += entry * value);
                state.squares.get_mut(index).into_iter().for_each(|square| *square += weight * entry * entry);
            }
        }
        Ok(())
    }
}

impl<T: Real> LinearRequest<'_, T> {
    /// Returns the number of rows of each fold if folds differ in size by design, else equal
    /// numbers.
    fn fold_sizes(&self) -> Vec<usize> {
        match self.folds {
            Folds::Column { labels } => {
                let groups = &self.survey.statistics.groups;
                labels.iter().map(|label| groups.weight(label) as usize).collect()
            }
            folds => vec![1; folds.count()],
        }
    }

    fn reduce(
        &self,
        excluded_fold: Option<usize>,
        values: &RowValues<'_>,
        observer: &dyn Observer,
    ) -> Result<ColumnSums> {
        let Self { source, column_count, targets, folds, pass_shape, resources, .. } = *self;
        let pass = ColumnPass { column_count, targets, folds, excluded_fold, values };
        let lanes = lane_count(column_count, targets.count(), pass_shape);
        Ok(pass_shape.pass(lanes, resources, observer).resume(STAGE, source, &pass)?.0)
    }
}

/// The system (C + λI) V = B of ridge regression.
struct RidgeSystem {
    t: usize,
    /// Ω, the sum of the row weights.
    row_weight: f64,
    lambda: f64,
    /// x̄, length d.
    mean: Vec<f64>,
    /// B, d x t.
    right_side: Vec<f64>,
}

impl RidgeSystem {
    fn new(sums: &ColumnSums, d: usize, t: usize) -> Self {
        let row_weight = sums.totals[t].max(f64::MIN_POSITIVE);
        let mean: Vec<f64> = (0..d).map(|j| sums.products[j * (t + 1) + t] / row_weight).collect();
        let covariance = |(j, c): (usize, usize)| {
            sums.products[j * (t + 1) + c] / row_weight - mean[j] * (sums.totals[c] / row_weight)
        };
        let right_side = (0..d).flat_map(|j| (0..t).map(move |c| (j, c))).map(covariance).collect();
        let lambda = RIDGE * sums.squares.iter().sum::<f64>() / row_weight;
        Self { t, row_weight, lambda, mean, right_side }
    }

    /// Returns the solution V, d x t, and the number of steps. `reduce` computes the sums of the
    /// projections of the rows on directions, minus offsets.
    fn solve(&self, reduce: impl Fn(&[f64], &[f64]) -> Result<ColumnSums>) -> Result<(Vec<f64>, usize)> {
        let t = self.t;
        let mut residual = self.right_side.clone();
        let (mut solution, mut directions) = (vec![0.0; residual.len()], residual.clone());
        let first_squares = column_products(&residual, &residual, t);
        let (mut squares, mut steps) = (first_squares.clone(), 0);
        let has_converged = |squares: &[f64]| {
            squares.iter().zip(&first_squares).all(|(square, first)| *square <= TOLERANCE * TOLERANCE * first)
        };
        while steps < MAX_STEPS && !has_converged(&squares) {
            let images = self.image(&directions, &reduce)?;
            let curvatures = column_products(&directions, &images, t);
            let lengths: Vec<f64> = quotients(&squares, &curvatures);
            for (i, image) in images.iter().enumerate() {
                solution[i] += lengths[i % t] * directions[i];
                residual[i] -= lengths[i % t] * image;
            }
            let new_squares = column_products(&residual, &residual, t);
            let ratios = quotients(&new_squares, &squares);
            for (i, direction) in directions.iter_mut().enumerate() {
                *direction = residual[i] + ratios[i % t] * *direction;
            }
            (squares, steps) = (new_squares, steps + 1);
        }
        Ok((solution, steps))
    }

    /// Returns (C + λI) P for the directions P.
    fn image(&self, directions: &[f64], reduce: impl Fn(&[f64], &[f64]) -> Result<ColumnSums>) -> Result<Vec<f64>> {
        let t = self.t;
        let mut offsets = vec![0.0; t];
        for (mean, direction) in self.mean.iter().zip(directions.chunks_exact(t)) {
            offsets.iter_mut().zip(direction).for_each(|(offset, direction)| *offset += mean * direction);
        }
        let ColumnSums { mut products, totals, .. } = reduce(directions, &offsets)?;
        for (i, (product, direction)) in products.iter_mut().zip(directions).enumerate() {
            let centred = *product - self.mean[i / t] * totals[i % t];
            *product = centred / self.row_weight + self.lambda * direction;
        }
        Ok(products)
    }
}

/// Returns the inner product of each of the t columns of two row-major matrices.
fn column_products(a: &[f64], b: &[f64], t: usize) -> Vec<f64> {
    let mut sums = vec![0.0; t];
    for (a, b) in a.chunks_exact(t.max(1)).zip(b.chunks_exact(t.max(1))) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
    }
    sums
}

/// Returns a/b for each pair, or 0 if b is 0: a target that is solved exactly takes no more steps.
fn quotients(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| if *b > 0.0 { a / b } else { 0.0 }).collect()
}
