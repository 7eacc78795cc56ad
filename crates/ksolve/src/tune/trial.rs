//! Trial fits on a part of the rows of a search, scored on another part.

use super::SolverMeasure;
use crate::job::{Fit, Fitted, Run};
use crate::metric::select_rows;
use crate::model::match_precision;
use crate::predict::{Evaluation, Predictor, RankingScores, RegressionScores};
use crate::ranking_pairs::{self, Groups};
use crate::request::{MetricSource, Scaling};
use crate::{AnyModel, Error, Folds, Result, Task, folds::FoldRule, folds::FoldSpec, solver::parameter};
use faer::Mat;
use kapprox::{Real, kernel::Kernel, landmark::RowSample};
use kstore::sparse::SparseShape;
use kstore::{LabelCodes, MemoryRows, RowBuf, RowSource, SelectedTable, Selection, Table};
use std::collections::BTreeSet;

/// Minimum number of pairs for a meaningful error of their order. With 100 independent pairs, the
/// standard error is at most 0.05.
const MIN_PAIRS: f64 = 100.0;

/// The rows of a search, scaled, each with its fold. One fold may be the test set, which no step of
/// the search uses.
pub(super) struct Trials<T> {
    rows: MemoryRows<T>,
    /// Shape of the rows if they are sparse.
    sparse_shape: Option<SparseShape>,
    /// Names of the features, to which kernels may refer.
    names: Vec<String>,
    fold_of_row: Vec<usize>,
    fold_count: usize,
    /// Rule that defines which folds are scored, and which folds train the model for each scored
    /// fold.
    fold_rule: FoldRule,
    test_fold: Option<usize>,
    /// True if the folds are contiguous, because neighbouring rows may be correlated.
    has_block_folds: bool,
    /// Target columns of the table of a trial, `column_count` numbers per row: the targets or the
    /// class code, then the row weight, then the group code.
    target_values: Vec<f64>,
    column_count: usize,
    has_weights: bool,
    /// Factor by which the row weights were divided.
    weight_unit: f64,
    has_groups: bool,
}

/// Names of the columns in the table of a trial, without the features.
struct TrialColumns {
    targets: Vec<String>,
    weight: Option<String>,
    group: Option<String>,
}

/// The scores of a model on rows that did not train it: test rows, or the validation rows of a
/// trial.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct HeldOutScore {
    /// Number of training rows.
    #[serde(rename = "learned_from")]
    pub training_rows: u64,
    /// Number of scored rows.
    pub rows: u64,
    /// Number of outer folds whose rows are scored, each by a search without them; absent for the
    /// test rows of a single search.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outer_folds: Option<u64>,
    /// Rank of the fit.
    pub rank: usize,
    /// Regularisation parameter that the model cross-validated or was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lambda: Option<f64>,
    /// Mean squared error, error rate, or fraction of discordant pairs within groups.
    pub error: f64,
    /// Standard error of `error` over the test rows; `None` for a ranking.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
    /// Mean absolute error and its standard error, for a regression.
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mae: Option<[f64; 2]>,
    /// Mean loss of a model that was fitted by a loss of its own (quantiles, deviances).
    #[doc(hidden)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Number of pairs of rows in a group with different grades, for a ranking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<u64>,
    /// Fraction of the variance explained; `None` for classes and for a constant target.
    pub r2: Option<f64>,
    /// Area under the ROC curve, for two classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auc: Option<f64>,
    /// Average precision of the second of two classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_precision: Option<f64>,
    /// Mean of −ln of the probability of the true class, for models with probabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_loss: Option<f64>,
    /// Brier score, for models with probabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brier: Option<f64>,
}

impl HeldOutScore {
    /// Returns the value of a measure (lower is better); `None` if the measure is undefined for the
    /// model or the rows.
    pub(super) fn measure(&self, measure: SolverMeasure) -> Option<f64> {
        match measure {
            SolverMeasure::Error => Some(self.error),
            SolverMeasure::Loss => self.loss,
            SolverMeasure::Auc => self.auc.map(|auc| 1.0 - auc),
            SolverMeasure::LogLoss => self.log_loss,
            SolverMeasure::Brier => self.brier,
        }
    }

    /// Adds the scores of a ranking; `None` if no group has rows of different grades.
    fn with_ranking_scores(self, scores: RankingScores) -> Option<Self> {
        Some(Self { error: scores.wrong_pairs?, pairs: Some(scores.pairs), ..self })
    }

    /// Adds the scores of predictions; `None` if the evaluation has no scores.
    fn with_scores(self, scores: Evaluation) -> Option<Self> {
        Some(match scores {
            Evaluation::Regression(RegressionScores { scores, standard_errors, loss, .. }) => Self {
                error: scores.mse?,
                standard_error: standard_errors.mse,
                mae: scores.mae.zip(standard_errors.mae).map(|(mae, error)| [mae, error]),
                r2: scores.r2,
                loss: loss.map(|loss| loss.mean),
                ..self
            },
            Evaluation::Classification(classification) => Self {
                error: classification.error?,
                standard_error: classification.standard_errors.error,
                auc: classification.auc.flatten(),
                average_precision: classification.average_precision,
                log_loss: classification.log_loss,
                brier: classification.brier,
                ..self
            },
        })
    }
}

impl<T: Real> Trials<T> {
    /// Stores the rows of a search. If there are three folds or more and `holds_out_test_rows` is
    /// true, one fold becomes the test set. If the folds are the values of a column, the test set
    /// is the fold whose fraction of the rows is closest to a fifth, otherwise the last fold.
    pub(super) fn new(
        rows: MemoryRows<T>,
        weight_unit: f64,
        selected: &SelectedTable,
        folds: &Folds,
        holds_out_test_rows: bool,
    ) -> Result<Self> {
        let shape = rows.shape();
        let class_columns = usize::from(shape.target_count == 0);
        let has_groups = rows.group_codes().is_some();
        let column_count =
            shape.target_count + class_columns + usize::from(shape.has_weights) + usize::from(has_groups);
        let (mut fold_of_row, mut values) =
            (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len() * column_count));
        let (mut cursor, mut tile) = (rows.open(rows.range())?, RowBuf::new(256));
        while cursor.next(&mut tile)? {
            let block = tile.block(&shape);
            let code_of =
                |coded: &Option<LabelCodes<'_>>, i: usize| coded.as_ref().map_or(LabelCodes::UNKNOWN, |c| c.codes[i]);
            for (i, row) in block.row_numbers.iter().enumerate() {
                fold_of_row.push(folds.fold_of(*row, code_of(&block.groups, i))?);
                values.extend((class_columns == 1).then(|| f64::from(code_of(&block.classes, i))));
                values.extend_from_slice(&block.y[i * block.t..][..block.t]);
                // undo the division by the weight unit: the fit of a trial scales C by the weights
                // in its table
                values.extend(block.weight(i).map(|weight| weight * weight_unit));
                values.extend(has_groups.then(|| f64::from(code_of(&block.groups, i))));
            }
        }
        drop(cursor);
        let fold_count = folds.count();
        let mut fold_sizes = vec![0; fold_count];
        fold_of_row.iter().for_each(|fold| fold_sizes[*fold] += 1);
        let test_fold = folds.test_fold(&fold_sizes).filter(|_| holds_out_test_rows);
        let has_block_folds = folds.are_blocks();
        let fold_rule = folds.rule();
        Ok(Self {
            has_weights: shape.has_weights,
            weight_unit,
            has_groups,
            rows,
            sparse_shape: selected.sparse_shape(),
            names: selected.feature_names(),
            fold_of_row,
            fold_count,
            fold_rule,
            test_fold,
            has_block_folds,
            target_values: values,
            column_count,
        })
    }

    /// Returns the trials with another fold as test set.
    pub(super) fn with_test_fold(self, fold: usize) -> Self {
        Self { test_fold: Some(fold), ..self }
    }

    pub(super) fn test_fold(&self) -> Option<usize> {
        self.test_fold
    }

    pub(super) fn has_block_folds(&self) -> bool {
        self.has_block_folds
    }

    pub(super) fn len(&self) -> usize {
        self.fold_of_row.len()
    }

    /// Returns the first target of a row, or the code of its class.
    pub(super) fn target(&self, position: usize) -> f64 {
        self.target_values[position * self.column_count]
    }

    pub(super) fn is_search_row(&self, position: usize) -> bool {
        Some(self.fold_of_row[position]) != self.test_fold
    }

    /// Returns true for a training row of the winner's test.
    fn trains_winner(&self, position: usize) -> bool {
        self.is_search_row(position) && self.fold_rule.is_training(self.test_fold, self.fold_of_row[position])
    }

    pub(super) fn rows(&self) -> &MemoryRows<T> {
        &self.rows
    }

    /// Returns the folds that a contest scores in turn: all folds with rows except the test fold.
    pub(super) fn scored_folds(&self) -> impl Iterator<Item = usize> + '_ {
        let scored =
            (0..self.fold_count).filter(|fold| Some(*fold) != self.test_fold && self.fold_rule.is_held_out(*fold));
        scored.filter(|fold| self.fold_of_row.contains(fold))
    }

    /// Returns the number of rows that the search uses: all except the test rows.
    pub(super) fn search_row_count(&self) -> usize {
        (0..self.fold_of_row.len()).filter(|position| self.is_search_row(*position)).count()
    }

    pub(super) fn feature_count(&self) -> usize {
        self.names.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.bytes() + 8 * (self.fold_of_row.capacity() + self.target_values.capacity())
    }

    /// Returns the fraction of the rarer of two classes among all rows.
    pub(super) fn rarer_fraction(&self) -> f64 {
        let second_count =
            self.target_values.chunks_exact(self.column_count).filter(|values| values[0] == 1.0).count() as f64;
        let fraction = second_count / self.fold_of_row.len().max(1) as f64;
        fraction.min(1.0 - fraction)
    }

    pub(super) fn without_test_rows(&self, sample: &RowSample<T>) -> RowSample<T> {
        let search_rows =
            (0..self.fold_of_row.len()).filter(|i| self.is_search_row(*i)).map(|i| self.rows.row_number(i));
        let search_rows: BTreeSet<u64> = search_rows.collect();
        select_rows(sample, (0..sample.len()).filter(|i| search_rows.contains(&sample.row_numbers[*i])))
    }

    /// Returns a warning if the test rows have few pairs to rank.
    ///
    /// # Errors
    /// [`Error::Option`] for a ranking without any comparable pair of rows outside the test set.
    pub(super) fn check_pairs(&self) -> Result<Option<String>> {
        let group =
            |i: usize| if self.has_groups { self.target_values[(i + 1) * self.column_count - 1] as u32 } else { 0 };
        let pair_count = |is_search: bool| {
            let is_included = |i: usize| self.is_search_row(i) == is_search;
            Groups::new(self.fold_of_row.len(), is_included, group, |i| self.target_values[i * self.column_count])
                .count_pairs()
        };
        let (search_pairs, test_pairs) = (pair_count(true), pair_count(false));
        if search_pairs == 0.0 {
            return Err(ranking_pairs::no_pairs_error());
        }
        let has_few_pairs = self.test_fold.is_some() && test_pairs < MIN_PAIRS;
        Ok(has_few_pairs.then(|| {
            format!("the test rows have only {test_pairs} pairs of different grades, too few for a reliable error; raise `sample`")
        }))
    }

    /// Returns the rows that the search uses, as a sample.
    pub(super) fn sample(&self) -> RowSample<T> {
        let positions: Vec<usize> =
            (0..self.fold_of_row.len()).filter(|position| self.is_search_row(*position)).collect();
        self.sample_at(&positions)
    }

    /// Returns the rows at these positions, as a sample.
    pub(super) fn sample_at(&self, positions: &[usize]) -> RowSample<T> {
        let d = self.rows.shape().input_count;
        let x = positions.iter().flat_map(|i| &self.rows.x()[i * d..(i + 1) * d]).copied().collect();
        let weight = |i: &usize| {
            self.target_values[(i + 1) * self.column_count - 1 - usize::from(self.has_groups)] / self.weight_unit
        };
        let weights = positions.iter().filter(|_| self.has_weights).map(weight).collect();
        RowSample { row_numbers: positions.iter().map(|i| self.rows.row_number(*i)).collect(), x, d, weights }
    }

    /// Returns the targets of the rows at these positions, one column for each target.
    pub(super) fn targets_at(&self, positions: &[usize]) -> Mat<f64> {
        let target_count = self.column_count - usize::from(self.has_weights) - usize::from(self.has_groups);
        Mat::from_fn(positions.len(), target_count, |i, t| self.target_values[positions[i] * self.column_count + t])
    }

    pub(super) fn has_sparse_rows(&self) -> bool {
        self.sparse_shape.is_some()
    }

    /// Returns the positions of the training rows for `fold`, evenly thinned to at most `max_rows`.
    pub(super) fn training_rows(&self, fold: usize, max_rows: usize) -> Vec<usize> {
        let is_training = |position: &usize| self.fold_rule.is_training(Some(fold), self.fold_of_row[*position]);
        let available =
            (0..self.fold_of_row.len()).filter(|position| self.is_search_row(*position) && is_training(position));
        let available: Vec<usize> = available.collect();
        let count = available.len().min(max_rows);
        (0..count).map(|i| available[i * available.len() / count]).collect()
    }

    /// Trains on at most `max_rows` rows of the other folds, and returns the error on the rows of
    /// `fold`, in the measure by which solvers are compared, and the log-loss if the fit has
    /// probabilities.
    pub(super) fn validation_error(
        &self,
        fit: &Fit,
        fold: usize,
        measure: SolverMeasure,
        max_rows: usize,
        run: &Run<'_>,
    ) -> Result<(f64, Option<f64>)> {
        let undefined_error = || {
            let why = match measure {
                SolverMeasure::Loss => "these models have no loss of their own; use error",
                _ => "all rows of a fold have the same class; use log-loss or error",
            };
            Error::option("measure", measure, why)
        };
        let Some(score) = self.validation_score(fit, fold, max_rows, run)? else { return Ok((f64::INFINITY, None)) };
        Ok((score.measure(measure).ok_or_else(undefined_error)?, score.log_loss))
    }

    /// Returns the kernel and the metric that `fit` learns from the training rows of `fold`.
    pub(super) fn learned_metric(&self, fit: &Fit, fold: usize, run: &Run<'_>) -> Result<(Kernel, MetricSource)> {
        let training_rows = self.training_rows(fold, usize::MAX);
        let is_training = |position: usize| training_rows.binary_search(&position).is_ok();
        let model = self.train(fit, &is_training, run)?.model;
        let metric = match_precision!(AnyModel: &model, model => model.metric.clone());
        let metric_source = metric.map_or(MetricSource::None, MetricSource::from_metric);
        Ok((Kernel::parse(&model.metadata().kernel)?, metric_source))
    }

    /// Trains on at most `max_rows` rows of the other folds, and returns the scores on the rows of
    /// `fold`.
    pub(super) fn validation_score(
        &self,
        fit: &Fit,
        fold: usize,
        max_rows: usize,
        run: &Run<'_>,
    ) -> Result<Option<HeldOutScore>> {
        let training_rows = self.training_rows(fold, max_rows);
        let is_training_row = |position: usize| training_rows.binary_search(&position).is_ok();
        let scores =
            self.fit_and_score(fit, &is_training_row, &[&|position| self.fold_of_row[position] == fold], run)?;
        Ok(scores.into_iter().next())
    }

    /// Trains on all rows that the search uses, and scores the test rows; `None` if there are no
    /// test rows.
    pub(super) fn test_score(&self, fit: &Fit, run: &Run<'_>) -> Result<Option<HeldOutScore>> {
        let has_test_rows = (0..self.fold_of_row.len()).any(|position| !self.is_search_row(position));
        let scores = has_test_rows
            .then(|| self.fit_and_score(fit, &|i| self.trains_winner(i), &[&|i| !self.is_search_row(i)], run))
            .transpose()?;
        Ok(scores.into_iter().flatten().next())
    }

    /// Works like [`Trials::test_score`], but with random test rows and about the same number of
    /// training rows. The result is the error that random folds would give instead of contiguous
    /// folds.
    pub(super) fn random_fold_score(&self, fit: &Fit, seed: u64, run: &Run<'_>) -> Result<Option<HeldOutScore>> {
        let folds = Folds::new(&FoldSpec::Random(self.fold_count), seed, self.rows.range(), &[])?;
        let rows =
            (0..self.rows.len()).map(|position| folds.fold_of(self.rows.row_number(position), LabelCodes::UNKNOWN));
        let fold_of_row: Vec<usize> = rows.collect::<Result<_>>()?;
        Ok(self.fit_and_score(fit, &|i| fold_of_row[i] > 0, &[&|i| fold_of_row[i] == 0], run)?.into_iter().next())
    }

    /// Works like [`Trials::test_score`], but separately for two halves of the test rows: the score
    /// on the first half decides whether the metric is used, and the second half scores the result.
    /// `None` for fewer than two rows.
    ///
    /// The rows alternate between the halves, so that in a table sorted by its target both halves
    /// cover the whole range. With contiguous folds, consecutive rows are correlated, and the
    /// halves are the first and the last rows.
    pub(super) fn half_scores(&self, fit: &Fit, run: &Run<'_>) -> Result<Option<(HeldOutScore, HeldOutScore)>> {
        let test_rows: Vec<usize> =
            (0..self.fold_of_row.len()).filter(|position| !self.is_search_row(*position)).collect();
        if test_rows.len() < 2 {
            return Ok(None);
        }
        let middle = test_rows.len().div_ceil(2);
        let is_first = |k: usize| if self.has_block_folds { k < middle } else { k.is_multiple_of(2) };
        let half = |i: usize| test_rows.binary_search(&i).ok().map(is_first);
        let (is_in_first_half, is_in_second_half) =
            (|i: usize| half(i) == Some(true), |i: usize| half(i) == Some(false));
        let scores =
            self.fit_and_score(fit, &|i| self.trains_winner(i), &[&is_in_first_half, &is_in_second_half], run)?;
        Ok(match &scores[..] {
            [first, second] => Some((first.clone(), second.clone())),
            _ => None,
        })
    }

    /// Trains on the rows whose positions satisfy `is_training`, and scores each set of rows in
    /// `test_sets`, within the memory that remains next to the stored rows.
    pub(super) fn fit_and_score(
        &self,
        fit: &Fit,
        is_training: &dyn Fn(usize) -> bool,
        test_sets: &[&dyn Fn(usize) -> bool],
        run: &Run<'_>,
    ) -> Result<Vec<HeldOutScore>> {
        let fitted = self.train(fit, is_training, run)?;
        let stored_bytes = self.bytes();
        let run = &run.clone().memory(run.memory_budget().saturating_sub(stored_bytes));
        self.scores(fitted, fit, test_sets, run).map_err(|error| error.with_reserved(stored_bytes))
    }

    /// Trains on the rows whose positions satisfy `is_training`, within the memory that remains
    /// next to the stored rows.
    pub(super) fn train(&self, fit: &Fit, is_training: &dyn Fn(usize) -> bool, run: &Run<'_>) -> Result<Fitted> {
        // kernels on sparse rows do not refer to columns
        let fit = match self.sparse_shape {
            None => fit.clone().map_kernels(|kernel| kernel.with_positional_names(&self.names))?,
            Some(_) => fit.clone(),
        };
        let fit = fit.scaling(Scaling::None).with_landmark_scheme();
        let TrialColumns { targets, weight, group } = self.columns(&fit);
        let fit = weight.iter().fold(fit, |fit, weight| fit.set(parameter::WEIGHTS.name, weight));
        let fit = group.iter().fold(fit, |fit, group| fit.set(parameter::GROUP.name, group));
        // the table of a trial has no fold column, so default folds replace folds by a column
        let fit = match fit.settings()?.folds(&parameter::FOLDS) {
            Some(folds) if folds.column().is_some() => fit.set(parameter::FOLDS.name, FoldSpec::DEFAULT),
            _ => fit,
        };
        let sparse = self.sparse_shape.is_some();
        let features = vec![if sparse { "x" } else { "x*" }.to_string()];
        let selection = fit.complete_selection(Selection { features, targets, sparse, ..Selection::default() })?;
        let stored_bytes = self.bytes();
        let run = &run.clone().memory(run.memory_budget().saturating_sub(stored_bytes));
        let table = self.build_table(is_training)?;
        fit.run(&table.select(&selection)?, run).map_err(|error| error.with_reserved(stored_bytes))
    }

    /// Returns the names of the target columns, of the row weight, and of the group if the fit has
    /// one, in the table of a trial.
    fn columns(&self, fit: &Fit) -> TrialColumns {
        let column_name = |j: usize| if self.column_count == 1 { "y".to_string() } else { format!("y{j}") };
        let target_count = self.column_count - usize::from(self.has_weights) - usize::from(self.has_groups);
        TrialColumns {
            targets: (0..target_count).map(column_name).collect(),
            weight: self.has_weights.then(|| column_name(target_count)),
            group: fit.has_option(parameter::GROUP.name).then(|| column_name(self.column_count - 1)),
        }
    }

    /// Scores each set of rows in `test_sets` by the model of `fit`.
    fn scores(
        &self,
        fitted: Fitted,
        fit: &Fit,
        test_sets: &[&dyn Fn(usize) -> bool],
        run: &Run<'_>,
    ) -> Result<Vec<HeldOutScore>> {
        let Fitted { model, report, .. } = fitted;
        let predictor = Predictor::new(model)?;
        let task = fit.task()?;
        let class_target = task == Task::Classification;
        let unscored_error = || Error::NoCell { precision: T::NAME };
        let unpaired_error = || {
            let why = "no two rows of a validation group have different grades; raise `sample`, or use fewer folds";
            Error::option("folds", self.fold_count, why)
        };
        let score = |rows: &&dyn Fn(usize) -> bool| {
            let TrialColumns { targets, weight, group } = self.columns(fit);
            let table = self.build_table(*rows)?;
            let selected =
                predictor.select(&table, Selection { targets, class_target, group, weight, ..Selection::default() })?;
            let (training_rows, lambda, rank) = (report.rows, report.lambda, report.rank);
            let base_score =
                HeldOutScore { rows: table.stored_rows(), training_rows, lambda, rank, ..HeldOutScore::default() };
            match task {
                Task::Ranking => base_score
                    .with_ranking_scores(predictor.evaluate_ranking(&selected, None, run)?)
                    .ok_or_else(unpaired_error),
                _ => base_score.with_scores(predictor.evaluate(&selected, run)?.0).ok_or_else(unscored_error),
            }
        };
        test_sets.iter().map(score).collect()
    }

    fn build_table(&self, is_included: &dyn Fn(usize) -> bool) -> Result<Table> {
        let (d, column_count) = (self.rows.shape().input_count, self.column_count);
        let positions: Vec<usize> = (0..self.fold_of_row.len()).filter(|position| is_included(*position)).collect();
        if positions.is_empty() {
            let why = "no row of the sample remains for training or scoring; use other folds, or raise `sample`";
            return Err(Error::UnsuitableFolds { folds: self.fold_count.to_string(), why: why.to_string() });
        }
        let x: Vec<T> = positions.iter().flat_map(|i| &self.rows.x()[i * d..(i + 1) * d]).copied().collect();
        let y: Vec<f64> = positions
            .iter()
            .flat_map(|i| &self.target_values[i * column_count..(i + 1) * column_count])
            .copied()
            .collect();
        Ok(match self.sparse_shape {
            None => Table::from_rows(&x, d, &y)?,
            Some(shape) => Table::from_sparse_rows(&x, shape, &y)?,
        })
    }
}
