//! A model at work: predictions for rows in memory, for the rows of a table, into a file, and against the truth.
//!
//! | rows | call |
//! | --- | --- |
//! | one, without allocation | [`Predictor::predict_with`] |
//! | a slice | [`Predictor::predict`] |
//! | a table of any size | [`Predictor::scores`], segment by segment |
//! | a table, into a file | [`Predictor::write`] |
//! | a table with the truth | [`Predictor::evaluate`] |
//! | a table with grades, in groups | [`Predictor::ranking`] |
//! | a table with the truth, to learn it | [`Predictor::learn`] |

mod carried;
mod decision;
mod evaluate;
mod learn;
mod reasons;
mod table;
mod top;
mod typed;
mod writer;

pub use crate::score::{
    CalibrationBin, ClassScores, ClassificationScores, CostScores, RankingScores, RegressionScores, TargetScores,
    ThresholdScores,
};
pub use evaluate::{Details, Evaluation, NoveltyScores};
pub use learn::Learned;
pub use reasons::Reason;
pub use table::{Extras, Scores};
pub use top::Strange;
pub use writer::Predicted;

use crate::{
    AnyModel, Card, Classes, Error, Quadratic, Result, Task,
    model::{PredictScratch, either},
    score::toward,
};
use crate::{model::MetricReport, run::Run};
use decision::Decision;
use kstore::{Encoding, Label, Missing, Selected, Selection, Table, TextOptions, budget::Term};
use std::{path::Path, sync::Arc};
use table::TableScorer;
use typed::{SeenRows, Typed};

/// A model that predicts, whatever its precision; clones share it, and threads may use it at the same time.
///
/// Rows are given as they stand in a table, unscaled, in the order of [`Card::features`]. A model with columns of categories takes them
/// as a table ([`Table::from_batches`], or files), or as slices of its features: a 1 for the value of a row, and 0 for the others. A row's prediction has the same bits
/// alone, in a batch, and in a table that the command predicts.
///
/// ```
/// use ksolve::job::{Fit, Run};
/// use ksolve::predict::Predictor;
/// # let x: Vec<f64> = (0..200).map(|i| f64::from(i) / 20.0).collect();
/// # let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
/// let table = kstore::Table::from_rows(&x, 1, &y)?;
/// let fitted = Fit::ridge().rank(50).on(&table, &["y"], &Run::new())?;
/// let predictor = Predictor::new(fitted.model)?;
/// let mut out = [0.0];
/// predictor.predict(&[1.5], &mut out)?;
/// assert!((out[0] - 1.5f64.sin()).abs() < 0.01);
/// # Ok::<(), ksolve::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predictor(Inner, Decision);

#[derive(Clone, Debug)]
enum Inner {
    F32(Arc<Typed<f32>>),
    F64(Arc<Typed<f64>>),
}

/// What two precisions differ in, for [`Error::Shape`].
const ELEMENT: &str = "bytes of an element of the scratch";

/// Buffers for [`Predictor::predict_with`], made once for a predictor and used for many rows.
#[derive(Clone, Debug)]
pub struct RowScratch(Buffers);

#[derive(Clone, Debug)]
enum Buffers {
    F32((SeenRows<f32>, PredictScratch<f32>)),
    F64((SeenRows<f64>, PredictScratch<f64>)),
}

impl Predictor {
    /// Makes a predictor of a model.
    ///
    /// # Errors
    /// A kernel or a map that this version does not know.
    pub fn new(model: AnyModel) -> Result<Self> {
        let inner = either!(AnyModel to Inner: model, model => Arc::new(Typed::new(model)?));
        Ok(Self(inner, Decision { positive: 1, score: 0.0, costs: None }))
    }

    /// The predictor that takes the class of this label as the positive one of two, in the place of the second; before [`Predictor::above`].
    ///
    /// # Errors
    /// A label that no class has; a model without two classes.
    pub fn positive(self, label: &str) -> Result<Self> {
        let two = self.two_classes("positive", label)?;
        let known: Vec<String> = two.labels().iter().map(ToString::to_string).collect();
        match known.iter().position(|known| known == label) {
            Some(positive) => Ok(Self(self.0, Decision { positive, ..self.1 })),
            None => Err(Error::option("positive", label, format!("the classes are {}", known.join(" and ")))),
        }
    }

    /// The predictor that decides for the positive one of two classes where its probability is above `threshold`, or, in a model without
    /// probabilities, its score.
    ///
    /// # Errors
    /// A model without two classes; a probability that is not between 0 and 1.
    pub fn above(self, threshold: f64) -> Result<Self> {
        self.two_classes("threshold", threshold)?;
        match self.score_above(threshold) {
            Some(score) => Ok(Self(self.0, Decision { score, ..self.1 })),
            None => {
                let why = "give a number, of models with probabilities one between 0 and 1";
                Err(Error::option("threshold", threshold, why))
            }
        }
    }

    /// The predictor that also looks for the threshold of the least cost in [`Predictor::evaluate`], where a false alarm costs the first number
    /// and a missed row of the positive class the second.
    ///
    /// # Errors
    /// A model without two classes; costs below 0 or not finite.
    pub fn costing(self, costs: [f64; 2]) -> Result<Self> {
        let told = format!("{}:{}", costs[0], costs[1]);
        self.two_classes("cost", &told)?;
        match costs.iter().all(|cost| cost.is_finite() && *cost >= 0.0) {
            true => Ok(Self(self.0, Decision { costs: Some(costs), ..self.1 })),
            false => Err(Error::option("cost", told, "costs are numbers from 0 on")),
        }
    }

    fn two_classes(&self, option: &'static str, value: impl std::fmt::Display) -> Result<&Classes> {
        let why = "it decides between two classes, and this model has not two; leave it out";
        let two = self.classes().filter(|classes| classes.labels().len() == 2);
        two.ok_or_else(|| Error::option(option, value, why))
    }

    /// The score of the second class above which it is decided for, where the positive class has this probability or score.
    fn score_above(&self, threshold: f64) -> Option<f64> {
        let second = self.1.positive == 1;
        let score = match &self.card().link {
            Some(link) => link.score_of(if second { threshold } else { 1.0 - threshold })?,
            None => Some(toward(threshold, self.1.positive)).filter(|score| score.is_finite())?,
        };
        // at the threshold itself the positive class does not win
        Some(if second { score } else { score.next_down() })
    }

    /// Returns the classes with the threshold between two of them; `None` for a model without classes.
    #[doc(hidden)]
    pub fn decisions(&self) -> Option<Classes> {
        self.classes().map(|classes| classes.clone().above(self.1.score))
    }

    /// Reads a model from a file.
    ///
    /// # Errors
    /// The errors of [`AnyModel::load`] and [`Predictor::new`].
    pub fn load(path: &Path) -> Result<Self> {
        Self::new(AnyModel::load(path)?)
    }

    /// Reads a model from the bytes of its file.
    ///
    /// # Errors
    /// The errors of [`AnyModel::from_bytes`] and [`Predictor::new`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::new(AnyModel::from_bytes(bytes)?)
    }

    /// The bytes of the model's file.
    ///
    /// # Errors
    /// The errors of [`crate::Model::to_bytes`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        either!(Inner: &self.0, typed => typed.model.to_bytes())
    }

    /// Writes the model to a file, whole or not at all.
    ///
    /// # Errors
    /// The errors of [`crate::Model::save`].
    pub fn save(&self, path: &Path) -> Result<()> {
        either!(Inner: &self.0, typed => typed.model.save(path))
    }

    /// The card of the model: its options, names and classes.
    pub fn card(&self) -> &Card {
        either!(Inner: &self.0, typed => &typed.model.card)
    }

    /// The options for text files with rows of the model: numbers, dates and missing values are read as those of the fit were, and each
    /// column as what the model knows it as.
    pub fn reading(&self, options: TextOptions) -> TextOptions {
        let card = self.card();
        let options = if card.sparse().is_some() { options.sparse() } else { options };
        options.like(card.reading.clone().knowing(card.encoding.as_deref()))
    }

    /// The metric before the kernel, and what each feature counts in it; `None` for a model without one.
    pub fn metric(&self) -> Option<MetricReport> {
        let metric = either!(Inner: &self.0, typed => typed.model.metric.as_ref())?;
        let card = self.card();
        // directions that a solver found are its model
        let source = card.options["metric"].as_str().unwrap_or(&card.solver).to_string();
        let shares = card.features.iter().cloned().zip(metric.importance()).collect();
        Some(MetricReport::new(source, metric.outputs(), shares, &[], Vec::new()))
    }

    /// Numbers of nodes and of nearest nodes that a row is placed by, of a model of a graph; `None` for others.
    #[doc(hidden)]
    pub fn nodes(&self) -> Option<(usize, usize)> {
        either!(Inner: &self.0, typed => Some((typed.model.basis.landmarks()?.1.len(), typed.model.form.neighbours()?)))
    }

    /// Numbers of leaves in which the model has machines on the kernel itself, and of their rows; `None` for most.
    #[doc(hidden)]
    pub fn leaves(&self) -> Option<(usize, usize)> {
        let counts = either!(Inner: &self.0, typed => typed.model.leaves.as_ref().map(|leaves| &leaves.counts))?;
        Some((counts.len(), counts.iter().sum()))
    }

    /// Number of features of a row, d.
    pub fn features(&self) -> usize {
        self.card().features.len()
    }

    /// Number of outputs of a row, t: targets, scores of classes or pairs, components, groups.
    pub fn outputs(&self) -> usize {
        either!(Inner: &self.0, typed => typed.model.dims().2)
    }

    /// Number of components that the model holds beside its predictions, for [`Extras::components`]; 0 for most.
    pub fn components(&self) -> usize {
        either!(Inner: &self.0, typed => typed.model.component_count())
    }

    /// Makes buffers for [`Predictor::predict_with`].
    pub fn scratch(&self) -> RowScratch {
        RowScratch(either!(Inner to Buffers: &self.0, typed => typed.scratch()))
    }

    /// Writes the scores of the rows of `x` (n x d, row-major) to `out` (n x t, row-major).
    ///
    /// # Errors
    /// [`Error::Shape`] for slices of other lengths; [`Error::Row`] for a value that is not finite, and for a prediction that is
    /// not.
    pub fn predict<V: kstore::Real>(&self, x: &[V], out: &mut [f64]) -> Result<()> {
        either!(Inner: &self.0, typed => typed.predict(x, out))
    }

    /// Writes the scores of one row `x` (d numbers) to `out` (t numbers), without allocation where the model has
    /// landmarks and no leaves: 3 to 5 µs at 1,000 landmarks of 10 features.
    ///
    /// # Errors
    /// The errors of [`Predictor::predict`], and [`Error::Shape`] for the scratch of another predictor.
    pub fn predict_with<V: kstore::Real>(&self, x: &[V], out: &mut [f64], scratch: &mut RowScratch) -> Result<()> {
        match (&self.0, &mut scratch.0) {
            (Inner::F32(typed), Buffers::F32(scratch)) => typed.predict_row(x, out, scratch),
            (Inner::F64(typed), Buffers::F64(scratch)) => typed.predict_row(x, out, scratch),
            (Inner::F32(_), Buffers::F64(_)) => Err(Error::Shape { what: ELEMENT, expected: 4, got: 8 }),
            (Inner::F64(_), Buffers::F32(_)) => Err(Error::Shape { what: ELEMENT, expected: 8, got: 4 }),
        }
    }

    /// The predicted label of a row with these scores; `None` for models without classes.
    pub fn label(&self, scores: &[f64]) -> Option<&Label> {
        let code = self.decisions()?.decide(scores.iter().copied());
        self.classes()?.labels().get(code)
    }

    /// Writes the probabilities of the classes of a row with these scores to `out`, in the order of [`Card::classes`];
    /// nothing for models without probabilities.
    pub fn probabilities(&self, scores: &[f64], out: &mut Vec<f64>) {
        out.clear();
        if let Some(link) = &self.card().link {
            link.probabilities(scores, out);
        }
    }
}

/// What the noise of a new observation adds to the variance of the mean, in units of the noise.
const NOISE: f64 = 1.0;

fn deviation(noise: f64, units: f64) -> f64 {
    (noise * units).sqrt()
}

impl Predictor {
    /// The rows of a table that the model can read: the columns of the fit by name, and what else `selection` names. Categories have the values
    /// that the fit found; missing values are treated as in the fit, unless `selection` says how.
    ///
    /// # Errors
    /// Columns that are not there.
    pub fn select(&self, table: &Table, selection: Selection) -> Result<Selected> {
        let class_target = !self.card().classes.is_empty() && !selection.targets.is_empty();
        let numbers = || Arc::new(Encoding::of_numbers(&self.card().features));
        let encoding = Some(self.card().encoding.clone().unwrap_or_else(numbers));
        let missing = if selection.missing == Missing::Fitted { self.card().missing() } else { selection.missing };
        Ok(table.select(&Selection { encoding, missing, class_target, ..selection })?)
    }

    /// The term of a plan for the loaded model, with further bytes.
    #[doc(hidden)]
    pub fn term(&self, more: usize) -> Term {
        either!(Inner: &self.0, typed => typed.term(more))
    }

    /// Bytes that [`Predictor::predict`] holds beside its slices.
    #[doc(hidden)]
    pub fn scratch_bytes(&self) -> usize {
        either!(Inner: &self.0, typed => typed.scratch_bytes())
    }

    /// The mean of every feature over the rows of the fit, in the units of the table.
    #[doc(hidden)]
    pub fn means(&self) -> &[f64] {
        either!(Inner: &self.0, typed => &typed.model.scaler.mean)
    }

    /// The classes of the model, or its pairs of classes; `None` for a model without.
    pub fn classes(&self) -> Option<&Classes> {
        either!(Inner: &self.0, typed => typed.classes.as_ref())
    }

    /// Scores the selected rows and hands the segments to `deliver`, in row order. Returns the number of rows. `held` is the memory
    /// that the caller holds meanwhile.
    ///
    /// *Cost*: one pass, a row's prediction each. *Bytes*: the model, and for each lane a segment of scores.
    ///
    /// # Errors
    /// A plan that does not fit; bad rows with their place; a prediction that is not finite; errors of `deliver`.
    pub fn scores(
        &self,
        selected: &Selected,
        extras: Extras,
        held: Vec<Term>,
        run: &Run<'_>,
        deliver: impl FnMut(&Scores) -> Result<()> + Send,
    ) -> Result<u64> {
        self.check(extras)?;
        let lanes = run.workers().threads();
        either!(Inner: &self.0, typed => typed.scores(selected, (extras, lanes), held, run, deliver))
    }

    /// [`Predictor::scores`] for work that may use all threads itself on each segment: one lane.
    fn visit_scores(
        &self,
        selected: &Selected,
        held: Vec<Term>,
        run: &Run<'_>,
        visit: impl FnMut(&Scores) -> Result<()> + Send,
    ) -> Result<u64> {
        either!(Inner: &self.0, typed => typed.scores(selected, (Extras::default(), 1), held, run, visit))
    }

    /// Standard deviations of new observations of the rows of `scores`, one for each target, row-major: the deviation of the mean and
    /// the noise together. Empty without [`Extras::std`].
    pub fn deviations(&self, scores: &Scores) -> Vec<f64> {
        let noise = self.quadratic().filter(|_| self.card().task == Task::Regression).map_or(&[][..], |q| &q.units);
        scores.quadratic.iter().flat_map(|v| noise.iter().map(move |noise| deviation(*noise, v + NOISE))).collect()
    }

    fn check(&self, extras: Extras) -> Result<()> {
        let card = self.card();
        if extras.probabilities && card.link.is_none() {
            let why = format!(
                "the scores of {} are no probabilities; leave it out, or fit logistic, or svm with `probabilities`",
                card.solver
            );
            return Err(Error::option("probabilities", "", why));
        }
        if extras.scores && self.classes().is_none() {
            let why = "only classes are decided by scores, and this model has none; its predictions are its scores; leave it out";
            return Err(Error::option("scores", "", why));
        }
        if extras.components && self.components() == 0 {
            return Err(match card.task {
                Task::Components => Error::option("components", "", "they are its predictions; leave it out"),
                _ => Error::NoComponents,
            });
        }
        if extras.residual && !(card.is_features() && card.certificate.is_some()) {
            let why = "it is what a projection leaves of a row; fit features by a map on landmarks, or leave it out";
            return Err(Error::option("residual", "", why));
        }
        if extras.preimages && card.sparse().is_some() {
            return Err(Error::option("preimage", "", "sparse rows have none; leave it out"));
        }
        let asked = [
            ("std", extras.std, "ridge with `std`", Task::Regression),
            ("novelty", extras.novelty, "kpca with `novelty`", Task::Components),
            ("preimage", extras.preimages, "kpca with `novelty`", Task::Components),
        ];
        let holds = self.quadratic().is_some();
        match asked.into_iter().find(|(_, given, _, task)| *given && (!holds || card.task != *task)) {
            Some((option, _, needed, _)) => {
                let why = format!("the model was fitted without it; fit {needed} again, or leave it out");
                Err(Error::option(option, "", why))
            }
            None => Ok(()),
        }
    }

    fn quadratic(&self) -> Option<&Quadratic> {
        either!(Inner: &self.0, typed => typed.model.quadratic.as_ref())
    }

    fn intercept(&self) -> &[f64] {
        either!(Inner: &self.0, typed => &typed.model.intercept)
    }

    /// The bytes of the budget that a pass over the rows leaves beside `held`.
    fn spare(&self, selected: &Selected, extras: Extras, held: &[Term], run: &Run<'_>) -> Result<usize> {
        let (memory, threads) = (run.bytes(), run.workers().threads());
        let lanes =
            either!(Inner: &self.0, typed => TableScorer::new(typed, selected, extras)?.lanes(memory, threads, held));
        Ok(lanes?.0.spare)
    }
}
