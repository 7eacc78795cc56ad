//! What a solver hands back: functions of the features, and what is reported of them.

use crate::model::{Basis, Form, Leaves};
use crate::{CertificateState, Head, Link, Surface, Task, quadratic::Quadratic};
use faer::Mat;
use kapprox::metric::Metric;
use std::sync::Arc;

/// The functions that a solver found, with its report.
#[derive(Debug)]
pub struct Found<T> {
    /// w, r x t: coefficients of the leading r features, or of the functions of `basis`.
    pub weights: Mat<f64>,
    /// The constants c, t numbers.
    pub intercept: Vec<f64>,
    /// The kernel functions that the coefficients multiply, of a solver that combines them itself.
    pub basis: Option<Basis<T>>,
    /// What is made of the features or of those functions before the coefficients multiply it.
    pub form: Form,
    /// True where those functions are needed in f64 though the rows are f32.
    pub wide: bool,
    /// What the functions mean, where that is not the task of the fit: components that were learned from a target.
    pub task: Option<Task>,
    /// Directions of the scaled rows, which the model projects on in the place of functions of the features.
    pub projection: Option<Projection>,
    /// The root mean square of the slope of the functions along each feature, d numbers, where it was asked for.
    pub slopes: Option<Vec<f64>>,
    /// How scores become probabilities.
    pub link: Option<Link>,
    /// True where the scores are those of pairs of classes.
    pub pairs: bool,
    /// A quadratic function of the features to be kept with the linear ones.
    pub quadratic: Option<Quadratic>,
    /// Coordinates of the rows, linear in the features, to be kept beside the predictions.
    pub components: Option<Head>,
    /// Machines in parts of space, whose splits are functions of the features.
    pub leaves: Option<Leaves<T>>,
    /// Residuals of the map at every rank, where the solver's passes saw them.
    pub certificate: Option<CertificateState>,
    /// Ranks whose certificates are of interest; empty for the rank of the weights alone.
    pub ranks: Vec<usize>,
    /// The penalty, where there is one.
    pub lambda: Option<f64>,
    /// Cross-validated errors of every rank and penalty that were compared.
    pub surface: Surface,
    /// How the system was solved and why so, where there are several ways.
    pub method: Option<Solved>,
    /// Mean squared error of every row by the fit to the others.
    pub left_out: Option<f64>,
    /// Mean squared error of the rows that were learned from, and the share of variance explained.
    pub train: Option<(f64, Option<f64>)>,
    /// What the solver says of its result: eigenvalues, gradient norm, duality gap.
    pub figures: Vec<Figure>,
    /// Number of passes over the rows.
    pub passes: u64,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self {
            weights: Mat::new(),
            intercept: Vec::new(),
            basis: None,
            form: Form::default(),
            wide: false,
            task: None,
            projection: None,
            slopes: None,
            link: None,
            pairs: false,
            quadratic: None,
            components: None,
            leaves: None,
            certificate: None,
            ranks: Vec::new(),
            lambda: None,
            surface: Surface::default(),
            method: None,
            left_out: None,
            train: None,
            figures: Vec::new(),
            passes: 0,
        }
    }
}

/// Directions of the scaled rows that a solver found: the metric of a model whose outputs are its features.
#[derive(Debug)]
pub struct Projection {
    /// Name of the solver that found them.
    pub solver: &'static str,
    /// The directions, as the rows of a metric.
    pub metric: Arc<Metric>,
    /// The share of each feature in what the directions were found by, d numbers that sum to 1.
    pub importance: Vec<f64>,
}

/// Named numbers of a solver's report.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    /// Name of the numbers in the report.
    pub name: &'static str,
    /// The numbers: one, or one for each component.
    pub values: Vec<f64>,
}

impl Figure {
    pub(crate) fn of(name: &'static str, value: f64) -> Self {
        Self { name, values: vec![value] }
    }
}

/// The method by which a system was solved.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Solved {
    /// Name of the method: `direct` or `pcg`.
    pub name: &'static str,
    /// Why this method was taken, and with what settings; a sentence for the report.
    pub why: String,
}

/// Mean squared error over targets, and the share of their variance that is explained, from sums over the targets.
pub fn explained(mse: f64, variance: f64, targets: usize) -> (f64, Option<f64>) {
    (mse / targets.max(1) as f64, (variance > 0.0).then(|| 1.0 - mse / variance))
}
