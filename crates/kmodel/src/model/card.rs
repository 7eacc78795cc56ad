//! What a model file says of its model in words: options, names and classes, and the treatment of its constant.

use crate::{Certificate, Link, Result, Task};
use faer::Mat;
use kapprox::Kernel;
use kstore::{Encoding, Label, Missing, TextReading, sparse::SparseShape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The name of the solver whose outputs are the features of the map themselves.
pub const FEATURES: &str = "features";

/// The card of a model: the options that change its result, and names. It has no path, thread, memory size, time, host
/// or file format of the rows, so that the same result is the same file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// The task that was learned, such as regression or components.
    pub task: Task,
    /// Name of the solver: `ridge`.
    pub solver: String,
    /// The kernel as an expression that parses back to it.
    pub kernel: String,
    /// The second of two views, whose kernel functions are the last ones; absent for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<SecondView>,
    /// The type that predictions are computed in: `f32` or `f64`. A fit in f32 whose landmarks need it predicts in f64.
    pub precision: String,
    /// The feature map as an expression that parses back to it.
    pub map: String,
    /// Number of features used.
    pub rank: usize,
    /// Regularisation strength: (1/n)Σloss + lambda‖w‖²; `None` for solvers without.
    pub lambda: Option<f64>,
    /// Treatment of the constant.
    pub intercept: Intercept,
    /// Names of the features, in the order of the columns.
    pub features: Vec<String>,
    /// How the columns of a table become the features; absent where every feature is a column of numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Arc<Encoding>>,
    /// How the numbers and dates of these columns and the targets are written in text files, and which words stand for missing values;
    /// absent if they are written as by default.
    #[serde(default, skip_serializing_if = "TextReading::is_default")]
    pub reading: TextReading,
    /// Names of the targets; the name of the class column for a classification.
    pub targets: Vec<String>,
    /// Labels of the classes, by code; empty for a regression.
    pub classes: Vec<Label>,
    /// How scores become probabilities; absent where they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// True where the scores are those of pairs of classes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pairs: bool,
    /// Error of the approximation at this rank; null for maps without one.
    pub certificate: Option<Certificate>,
    /// Number of rows trained on.
    pub rows: u64,
    /// Number of rows learned on line since; the certificate is not of these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub learned: u64,
    /// Seed of every random choice.
    pub seed: u64,
    /// How landmarks were chosen: `rpcholesky`; `None` for a map without.
    pub landmarks: Option<String>,
    /// True where features go through asinh after they were centred and divided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asinh: bool,
    /// The least and the greatest value of each feature among the rows of the fit, in the units of the table, between which new rows are
    /// taken; empty where new rows are taken as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<[f64; 2]>,
    /// The other options that define the result, as the caller names them.
    pub options: serde_json::Value,
}

/// The second view of a model of two sets of columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondView {
    /// Its kernel, as an expression that parses back to it.
    pub kernel: String,
    /// Number of its kernel functions; those of the first view are the others.
    pub functions: usize,
}

pub(crate) fn is_zero<N: Default + PartialEq>(count: &N) -> bool {
    *count == N::default()
}

impl Card {
    /// How the fit treated missing values, and how they are treated where nothing else is asked for.
    pub fn missing(&self) -> Missing {
        self.options["missing"].as_str().and_then(Missing::named).unwrap_or(Missing::Error)
    }

    /// The shape of the rows, where these are sparse.
    pub fn sparse(&self) -> Option<SparseShape> {
        self.encoding.as_ref()?.sparse()
    }

    /// Number of features of a row, the zeros of sparse ones among them.
    pub fn width(&self) -> usize {
        self.sparse().map_or(self.features.len(), |shape| shape.width)
    }

    pub(crate) fn on_rows(&self, kernel: &str) -> Result<Kernel> {
        Ok(Kernel::parse(kernel)?.on_rows(&self.features, self.sparse().map(|shape| shape.width))?)
    }

    /// True where the outputs are the features of the map themselves.
    pub(crate) fn is_features(&self) -> bool {
        self.solver == FEATURES
    }
}

/// How the constant is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intercept {
    /// Fitted without a penalty.
    #[default]
    Free,
    /// The coefficient of a constant feature 1, penalised like the others.
    Penalised,
    /// No constant.
    None,
}

crate::enum_of_words!(Intercept, "intercept", "free" => Free, "penalised" => Penalised, "none" => None);

impl Intercept {
    /// Number of constant features that go first: 0 or 1.
    pub fn lead(self) -> usize {
        usize::from(self == Self::Penalised)
    }
}

/// Linear functions of the features, f(x) = wᵀφ(x) + c, one for each target.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Coefficients w of the leading r features, r x t.
    pub weights: Mat<f64>,
    /// Intercepts c, t numbers, for the targets as they were before any shift.
    pub intercept: Vec<f64>,
}
