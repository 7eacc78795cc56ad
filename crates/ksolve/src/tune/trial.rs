//! Trial fits on a part of the rows of a search, scored on another part.

use super::SolverMeasure;
use crate::job::{Fit, Fitted, Run};
use crate::metric::select_rows;
use crate::predict::{Evaluation, Predictor, RankingScores, RegressionScores};
use crate::ranking_pairs::{self, Groups};
use crate::{Error, Folds, Result, Task, folds::FoldRule, folds::FoldSpec, request::Scaling, solver::parameter};
use kapprox::{Real, landmark::RowSample};
use kstore::{LabelCodes, MemoryRows, RowBuf, RowSource, Selection, Table};
use std::collections::BTreeSet;

/// Minimum number of pairs for a meaningful error of their order.
const MIN_PAIRS: f64 = 100.0;

/// The rows of a search, scaled, each with its fold. One fold may be the test set, which no step of
/// the search uses.
pub(super) struct Trials<T> {
    rows: MemoryRows<T>,
    /// Names of the features, to which kernels may refer.
    names: Vec<String>,
    folds: Vec<usize>,
    count: usize,
    /// Rule that defines which folds are scored, and on which folds each is trained.
    rule: FoldRule,
    test_fold: Option<usize>,
    /// True if the folds are contiguous: neighbouring rows are correlated.
    blocks: bool,
    /// Target columns of the table of a trial, `t` numbers per row: the targets or the class code,
    /// then the row weight, then the group code.
    values: Vec<f64>,
    t: usize,
    weighted: bool,
    /// Factor by which the row weights were divided.
    weight_unit: f64,
    grouped: bool,
}

/// The error of a model on test rows, which no step of the search used.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct HeldOutScore {
    /// Number of training rows.
    pub learned_from: u64,
    /// Number of test rows.
    pub rows: u64,
    /// Rank of the fit.
    pub rank: usize,
    /// Regularisation parameter that the model cross-validated or was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lambda: Option<f64>,
    /// Mean squared error, error rate, or fraction of discordant pairs within groups.
    pub error: f64,
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
    pub(super) fn measure(&self, by: SolverMeasure) -> Option<f64> {
        match by {
            SolverMeasure::Error => Some(self.error),
            SolverMeasure::Auc => self.auc.map(|auc| 1.0 - auc),
            SolverMeasure::LogLoss => self.log_loss,
            SolverMeasure::Brier => self.brier,
        }
    }

    /// Adds the scores of a ranking; `None` if no group has rows of different grades.
    fn of_pairs(self, scores: RankingScores) -> Option<Self> {
        Some(Self { error: scores.wrong_pairs?, pairs: Some(scores.pairs), ..self })
    }

    /// Adds the scores of predictions; `None` if the evaluation has no scores.
    fn of_targets(self, scores: Evaluation) -> Option<Self> {
        Some(match scores {
            Evaluation::Regression(RegressionScores { scores, .. }) => {
                Self { error: scores.mse?, r2: scores.r2, ..self }
            }
            Evaluation::Classification(classification) => Self {
                error: classification.error?,
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
    /// Stores the rows of a search. If there are three folds or more and `may` is true, one fold
    /// becomes the test set. If the folds are the values of a column, it is the fold whose fraction
    /// of the rows is closest to a fifth, otherwise the last fold.
    pub(super) fn new(
        (rows, weight_unit): (MemoryRows<T>, f64),
        names: Vec<String>,
        folds: &Folds,
        may: bool,
    ) -> Result<Self> {
        let shape = rows.shape();
        let classes = usize::from(shape.targets == 0);
        let grouped = rows.group_codes().is_some();
        let t = shape.targets + classes + usize::from(shape.has_weights) + usize::from(grouped);
        let (mut of_rows, mut values) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len() * t));
        let (mut cursor, mut tile) = (rows.open(rows.range())?, RowBuf::new(256));
        while cursor.next(&mut tile)? {
            let block = tile.block(&shape);
            let code =
                |coded: &Option<LabelCodes<'_>>, i: usize| coded.as_ref().map_or(LabelCodes::UNKNOWN, |c| c.codes[i]);
            for (i, row) in block.rows.iter().enumerate() {
                of_rows.push(folds.fold_of(*row, code(&block.groups, i))?);
                values.extend((classes == 1).then(|| f64::from(code(&block.classes, i))));
                values.extend_from_slice(&block.y[i * block.t..][..block.t]);
                // the fit of a trial scales C by the weights in its table
                values.extend(block.weight(i).map(|weight| weight * weight_unit));
                values.extend(grouped.then(|| f64::from(code(&block.groups, i))));
            }
        }
        drop(cursor);
        let count = folds.count();
        let mut sizes = vec![0; count];
        of_rows.iter().for_each(|fold| sizes[*fold] += 1);
        let test_fold = folds.test_fold(&sizes).filter(|_| may);
        let blocks = matches!(folds, Folds::Blocks { .. });
        let rule = folds.rule();
        Ok(Self {
            weighted: shape.has_weights,
            weight_unit,
            grouped,
            rows,
            names,
            folds: of_rows,
            count,
            rule,
            test_fold,
            blocks,
            values,
            t,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.folds.len()
    }

    /// Returns the first target of a row, or the code of its class.
    pub(super) fn target(&self, position: usize) -> f64 {
        self.values[position * self.t]
    }

    pub(super) fn is_search_row(&self, position: usize) -> bool {
        Some(self.folds[position]) != self.test_fold
    }

    /// Returns true for a training row of the winner's test.
    fn trains_winner(&self, position: usize) -> bool {
        self.is_search_row(position) && self.rule.is_training(self.test_fold, self.folds[position])
    }

    pub(super) fn rows(&self) -> &MemoryRows<T> {
        &self.rows
    }

    /// Returns the folds that a contest scores in turn: all folds with rows except the test fold.
    pub(super) fn folds(&self) -> impl Iterator<Item = usize> + '_ {
        let scored = (0..self.count).filter(|fold| Some(*fold) != self.test_fold && self.rule.is_held_out(*fold));
        scored.filter(|fold| self.folds.contains(fold))
    }

    /// Returns the number of rows that the search uses: all except the test rows.
    pub(super) fn search_row_count(&self) -> usize {
        (0..self.folds.len()).filter(|position| self.is_search_row(*position)).count()
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.bytes() + 8 * (self.folds.capacity() + self.values.capacity())
    }

    /// Returns the fraction of the rarer of two classes among all rows.
    pub(super) fn rarer_fraction(&self) -> f64 {
        let second = self.values.chunks_exact(self.t).filter(|values| values[0] == 1.0).count() as f64;
        let share = second / self.folds.len().max(1) as f64;
        share.min(1.0 - share)
    }

    pub(super) fn without_test_rows(&self, sample: &RowSample<T>) -> RowSample<T> {
        let seen = (0..self.folds.len()).filter(|i| self.is_search_row(*i)).map(|i| self.rows.row(i));
        let seen: BTreeSet<u64> = seen.collect();
        select_rows(sample, (0..sample.len()).filter(|i| seen.contains(&sample.rows[*i])))
    }

    /// Returns a warning if the test rows have few pairs to rank.
    ///
    /// # Errors
    /// [`Error::Option`] for a ranking without any comparable pair of rows outside the test set.
    pub(super) fn check_pairs(&self) -> Result<Option<String>> {
        let group = |i: usize| if self.grouped { self.values[(i + 1) * self.t - 1] as u32 } else { 0 };
        let pairs = |seen: bool| {
            let takes = |i: usize| self.is_search_row(i) == seen;
            Groups::new(self.folds.len(), takes, group, |i| self.values[i * self.t]).count_pairs()
        };
        let (seen, test_pairs) = (pairs(true), pairs(false));
        if seen == 0.0 {
            return Err(ranking_pairs::no_pairs_error());
        }
        let has_few_pairs = self.test_fold.is_some() && test_pairs < MIN_PAIRS;
        Ok(has_few_pairs.then(|| {
            format!("the test rows have only {test_pairs} pairs of different grades, too few for a reliable error; raise `sample`")
        }))
    }

    /// Returns the rows that the search uses, as a sample.
    pub(super) fn sample(&self) -> RowSample<T> {
        let d = self.rows.shape().inputs;
        let seen: Vec<usize> = (0..self.folds.len()).filter(|position| self.is_search_row(*position)).collect();
        let x = seen.iter().flat_map(|i| &self.rows.x()[i * d..(i + 1) * d]).copied().collect();
        let weight = |i: &usize| self.values[(i + 1) * self.t - 1 - usize::from(self.grouped)] / self.weight_unit;
        let weights = seen.iter().filter(|_| self.weighted).map(weight).collect();
        RowSample { rows: seen.iter().map(|i| self.rows.row(*i)).collect(), x, d, weights }
    }

    /// Returns the positions of the training rows for `fold`, evenly thinned to at most `most`.
    pub(super) fn training_rows(&self, fold: usize, most: usize) -> Vec<usize> {
        let learns = |position: &usize| self.rule.is_training(Some(fold), self.folds[*position]);
        let others = (0..self.folds.len()).filter(|position| self.is_search_row(*position) && learns(position));
        let others: Vec<usize> = others.collect();
        let count = others.len().min(most);
        (0..count).map(|i| others[i * others.len() / count]).collect()
    }

    /// Trains on at most `most` rows of the other folds, and returns the error on the rows of
    /// `fold`, in the measure by which solvers are compared.
    pub(super) fn validation_error(
        &self,
        fit: &Fit,
        fold: usize,
        by: SolverMeasure,
        most: usize,
        run: &Run<'_>,
    ) -> Result<f64> {
        let training_rows = self.training_rows(fold, most);
        let takes = |position: usize| training_rows.binary_search(&position).is_ok();
        let scores = self.scored(fit, &takes, &[&|position| self.folds[position] == fold], run)?;
        let lacks = || Error::option("measure", by, "all rows of a fold have the same class; use log-loss or error");
        scores.first().map_or(Ok(f64::INFINITY), |found| found.measure(by).ok_or_else(lacks))
    }

    /// Trains on all rows that the search uses, and scores the test rows; `None` if there are no
    /// test rows.
    pub(super) fn test_score(&self, fit: &Fit, run: &Run<'_>) -> Result<Option<HeldOutScore>> {
        let has_test_rows = (0..self.folds.len()).any(|position| !self.is_search_row(position));
        let scores = has_test_rows
            .then(|| self.scored(fit, &|i| self.trains_winner(i), &[&|i| !self.is_search_row(i)], run))
            .transpose()?;
        Ok(scores.into_iter().flatten().next())
    }

    /// Same as [`Trials::test_score`], but with random test rows and the same number of training
    /// rows. The result is the error that random folds would give instead of contiguous folds.
    pub(super) fn random_fold_score(&self, fit: &Fit, seed: u64, run: &Run<'_>) -> Result<Option<HeldOutScore>> {
        let folds = Folds::new(&FoldSpec::Random(self.count), seed, self.rows.range(), &[])?;
        let rows = (0..self.rows.len()).map(|position| folds.fold_of(self.rows.row(position), LabelCodes::UNKNOWN));
        let of_rows: Vec<usize> = rows.collect::<Result<_>>()?;
        Ok(self.scored(fit, &|i| of_rows[i] > 0, &[&|i| of_rows[i] == 0], run)?.into_iter().next())
    }

    /// Same as [`Trials::test_score`], but separately for two halves of the test rows: the score on
    /// the first half decides whether the metric is used, and the second half scores the result.
    /// `None` for fewer than two rows.
    ///
    /// The rows alternate between the halves, so that in a table sorted by its target both halves
    /// cover the whole range. With contiguous folds, consecutive rows are correlated, and the
    /// halves are the first and the last rows.
    pub(super) fn half_scores(&self, fit: &Fit, run: &Run<'_>) -> Result<Option<(HeldOutScore, HeldOutScore)>> {
        let test_rows: Vec<usize> = (0..self.folds.len()).filter(|position| !self.is_search_row(*position)).collect();
        if test_rows.len() < 2 {
            return Ok(None);
        }
        let middle = test_rows.len().div_ceil(2);
        let is_first = |k: usize| if self.blocks { k < middle } else { k.is_multiple_of(2) };
        let half = |i: usize| test_rows.binary_search(&i).ok().map(is_first);
        let (first, second) = (|i: usize| half(i) == Some(true), |i: usize| half(i) == Some(false));
        let scores = self.scored(fit, &|i| self.trains_winner(i), &[&first, &second], run)?;
        Ok(match &scores[..] {
            [first, second] => Some((first.clone(), second.clone())),
            _ => None,
        })
    }

    /// Trains on some rows and scores several sets of other rows, within the memory that remains
    /// next to the stored rows.
    pub(super) fn scored(
        &self,
        fit: &Fit,
        learned: &dyn Fn(usize) -> bool,
        scored: &[&dyn Fn(usize) -> bool],
        run: &Run<'_>,
    ) -> Result<Vec<HeldOutScore>> {
        let stored_bytes = self.bytes();
        let run = &run.clone().memory(run.memory_budget().saturating_sub(stored_bytes));
        self.fit_and_score_within(fit, learned, scored, run).map_err(|error| error.with_other_bytes(stored_bytes))
    }

    fn fit_and_score_within(
        &self,
        fit: &Fit,
        learned: &dyn Fn(usize) -> bool,
        scored: &[&dyn Fn(usize) -> bool],
        run: &Run<'_>,
    ) -> Result<Vec<HeldOutScore>> {
        let name = |j: usize| if self.t == 1 { "y".to_string() } else { format!("y{j}") };
        let kernel = fit.kernel_spec().by_position(&self.names)?;
        let fit = fit.clone().kernel(kernel).scaling(Scaling::None).with_landmark_scheme();
        let targets = self.t - usize::from(self.weighted) - usize::from(self.grouped);
        let weight = self.weighted.then(|| name(targets));
        let fit = weight.iter().fold(fit, |fit, weight| fit.set(parameter::WEIGHTS.name, weight));
        let group = fit.has_option(parameter::GROUP.name).then(|| name(self.t - 1));
        let fit = group.iter().fold(fit, |fit, group| fit.set(parameter::GROUP.name, group));
        // the rows are in table order, but without the column of the folds
        let fit = match fit.settings()?.folds(&parameter::FOLDS) {
            Some(folds) if folds.column().is_some() => fit.set(parameter::FOLDS.name, FoldSpec::DEFAULT),
            _ => fit,
        };
        let targets: Vec<String> = (0..targets).map(name).collect();
        let features = vec!["x*".to_string()];
        let selection = fit.selection(Selection { features, targets: targets.clone(), ..Selection::default() })?;
        let Fitted { model, report, .. } = fit.run(&self.table(learned)?.select(&selection)?, run)?;
        let predictor = Predictor::new(model)?;
        let task = fit.task()?;
        let class_target = task == Task::Classification;
        let unscored = || Error::NoCell { precision: T::NAME };
        let unpaired = || {
            let why = "no two rows of a validation group have different grades; raise `sample`, or use fewer folds";
            Error::option("folds", self.count, why)
        };
        let score = |rows: &&dyn Fn(usize) -> bool| {
            let (table, targets) = (self.table(*rows)?, targets.clone());
            let (group, weight) = (group.clone(), weight.clone());
            let selected =
                predictor.select(&table, Selection { targets, class_target, group, weight, ..Selection::default() })?;
            let (learned_from, lambda, rank) = (report.rows, report.lambda, report.rank);
            let none =
                HeldOutScore { rows: table.stored_rows(), learned_from, lambda, rank, ..HeldOutScore::default() };
            match task {
                Task::Ranking => none.of_pairs(predictor.evaluate_ranking(&selected, None, run)?).ok_or_else(unpaired),
                _ => none.of_targets(predictor.evaluate(&selected, run)?.0).ok_or_else(unscored),
            }
        };
        scored.iter().map(score).collect()
    }

    fn table(&self, take: &dyn Fn(usize) -> bool) -> Result<Table> {
        let (d, t) = (self.rows.shape().inputs, self.t);
        let positions: Vec<usize> = (0..self.folds.len()).filter(|position| take(*position)).collect();
        if positions.is_empty() {
            let why = "no row of the sample remains for training or scoring; use other folds, or raise `sample`";
            return Err(Error::UnsuitableFolds { folds: self.count.to_string(), why: why.to_string() });
        }
        let x: Vec<T> = positions.iter().flat_map(|i| &self.rows.x()[i * d..(i + 1) * d]).copied().collect();
        let y: Vec<f64> = positions.iter().flat_map(|i| &self.values[i * t..(i + 1) * t]).copied().collect();
        Ok(Table::from_rows(&x, d, &y)?)
    }
}
