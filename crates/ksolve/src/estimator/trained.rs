//! The result of an estimator: a model that predicts.

use super::inputs::Inputs;
use super::predictions::{Predictions, ScoreMatrix};
use crate::fit_report::FitReport;
use crate::job::{Fitted, Run};
use crate::predict::{Extras, Predictor};
use crate::{Error, Result};
use faer::Mat;
use kstore::{Label, Selection};
use std::marker::PhantomData;
use std::path::Path;

/// Memory and threads; `None` selects the defaults of [`Run::new`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResourceLimits {
    pub(super) memory: Option<usize>,
    pub(super) threads: Option<usize>,
}

impl ResourceLimits {
    pub(super) fn build_run(self) -> Run<'static> {
        let mut run = Run::new();
        if let Some(memory) = self.memory {
            run = run.memory(memory);
        }
        if let Some(threads) = self.threads {
            run = run.threads(threads);
        }
        run
    }
}

/// A fitted model whose predictions are a `P`.
#[derive(Clone, Debug)]
pub struct Trained<P> {
    predictor: Predictor,
    report: FitReport,
    resources: ResourceLimits,
    predicted: PhantomData<fn() -> P>,
}

impl<P: Predictions> Trained<P> {
    pub(super) fn new(fitted: Fitted, resources: ResourceLimits) -> Result<Self> {
        let Fitted { model, report, .. } = fitted;
        Ok(Self { predictor: Predictor::new(model)?, report, resources, predicted: PhantomData })
    }

    /// Returns the predictions of the rows.
    ///
    /// # Errors
    /// Columns that differ from the fit; a value or a prediction that is not finite.
    pub fn predict<X: Inputs + ?Sized>(&self, x: &X) -> Result<P> {
        let scores = self.scores(x)?;
        Ok(P::collect(scores, self.predictor.decision_classes().as_ref()))
    }

    /// Returns the scores of the rows, n x t. A regression has one score per target, a classifier
    /// of more than two classes one score per class, and any other model one decision value.
    ///
    /// # Errors
    /// The errors of [`Trained::predict`].
    pub fn decision_function<X: Inputs + ?Sized>(&self, x: &X) -> Result<Mat<f64>> {
        Ok(self.scores(x)?.matrix())
    }

    /// Returns the probabilities of the classes, n x classes, in the order of [`Trained::classes`].
    ///
    /// # Errors
    /// A model without probabilities (to get them, fit [`Logistic`](super::Logistic), or
    /// [`Svm`](super::Svm) with `probabilities`); the errors of [`Trained::predict`].
    pub fn predict_proba<X: Inputs + ?Sized>(&self, x: &X) -> Result<Mat<f64>> {
        if self.predictor.metadata().link.is_none() {
            let why = "the scores of this model are not probabilities; fit logistic, or svm with `probabilities`";
            return Err(Error::option("probabilities", "", why));
        }
        let scores = self.scores(x)?;
        let (mut row, mut probabilities) = (Vec::new(), Vec::new());
        for scores in scores.rows() {
            self.predictor.probabilities(scores, &mut row);
            probabilities.extend_from_slice(&row);
        }
        Ok(ScoreMatrix { n: scores.n, scores: probabilities }.matrix())
    }

    /// Returns the labels of the classes; empty for a regression.
    pub fn classes(&self) -> &[Label] {
        self.predictor.classes().map_or(&[], |classes| classes.labels())
    }

    /// Returns the report of the fit: kernel, rank, certificate, cross-validation, warnings.
    pub fn report(&self) -> &FitReport {
        &self.report
    }

    /// Returns the predictor, for single rows and for tables larger than memory.
    pub fn predictor(&self) -> &Predictor {
        &self.predictor
    }

    /// Writes the model to a file, atomically. [`Predictor::load`] and the command read it.
    ///
    /// # Errors
    /// Values that are not finite, and errors of the file system.
    pub fn save<F: AsRef<Path>>(&self, path: F) -> Result<()> {
        self.predictor.save(path.as_ref())
    }

    fn scores<X: Inputs + ?Sized>(&self, x: &X) -> Result<ScoreMatrix> {
        let table = x.rows()?.table(Vec::new())?;
        let selected = self.predictor.select(&table, Selection::default())?;
        let mut score_matrix = ScoreMatrix::default();
        self.predictor.score_table(
            &selected,
            Extras::default(),
            Vec::new(),
            &self.resources.build_run(),
            |scores| {
                score_matrix.n += scores.row_numbers.len();
                score_matrix.scores.extend_from_slice(&scores.scores);
                Ok(())
            },
        )?;
        Ok(score_matrix)
    }
}

/// A fitted model that maps rows to coordinates.
#[derive(Clone, Debug)]
pub struct Transformer(pub(super) Trained<Mat<f64>>);

/// A fitted model that separates outliers from inliers.
#[derive(Clone, Debug)]
pub struct OutlierDetector(pub(super) Trained<Vec<f64>>);

/// A fitted clustering.
#[derive(Clone, Debug)]
pub struct Clustering(pub(super) Trained<Vec<usize>>);

/// Defines the methods that all kinds of models share.
macro_rules! model_methods {
    ($($type:ty),*) => {
        $(impl $type {
            /// Returns the report of the fit.
            pub fn report(&self) -> &FitReport {
                self.0.report()
            }

            /// Returns the predictor, for single rows and for tables larger than memory.
            pub fn predictor(&self) -> &Predictor {
                self.0.predictor()
            }

            /// Writes the model to a file; see [`Trained::save`].
            ///
            /// # Errors
            /// The errors of [`Trained::save`].
            pub fn save<F: AsRef<Path>>(&self, path: F) -> Result<()> {
                self.0.save(path)
            }
        })*
    };
}

model_methods!(Transformer, OutlierDetector, Clustering);

impl Transformer {
    /// Returns the coordinates of the rows, n x components.
    ///
    /// # Errors
    /// The errors of [`Trained::predict`].
    pub fn transform<X: Inputs + ?Sized>(&self, x: &X) -> Result<Mat<f64>> {
        self.0.predict(x)
    }
}

impl OutlierDetector {
    /// Returns true for each row that is an outlier: its score is negative.
    ///
    /// # Errors
    /// The errors of [`Trained::predict`].
    pub fn predict<X: Inputs + ?Sized>(&self, x: &X) -> Result<Vec<bool>> {
        Ok(self.0.predict(x)?.into_iter().map(|score| score < 0.0).collect())
    }

    /// Returns the scores of the rows: negative outside the region that contains a fraction 1 − nu
    /// of the training rows.
    ///
    /// # Errors
    /// The errors of [`Trained::predict`].
    pub fn decision_function<X: Inputs + ?Sized>(&self, x: &X) -> Result<Vec<f64>> {
        self.0.predict(x)
    }
}

impl Clustering {
    /// Returns the cluster of each row, counted from 0.
    ///
    /// # Errors
    /// The errors of [`Trained::predict`].
    pub fn predict<X: Inputs + ?Sized>(&self, x: &X) -> Result<Vec<usize>> {
        self.0.predict(x)
    }
}

impl<P> From<Trained<P>> for Predictor {
    fn from(trained: Trained<P>) -> Self {
        trained.predictor
    }
}
