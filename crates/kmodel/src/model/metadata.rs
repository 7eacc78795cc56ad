//! The metadata of a model: options, names and classes; and the kinds of intercept.

use super::{ClusterProfile, ColumnDistribution};
use crate::{Certificate, Link, RegressionLoss, Result, Task, growth::Growth};
use faer::Mat;
use kapprox::Kernel;
use kstore::{Encoding, Label, Lags, Missing, TestRows, TextReadOptions, sparse::SparseShape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Name of the solver whose outputs are the features of the map.
pub const FEATURES_SOLVER: &str = "features";

/// The metadata of a model: names, and the options that affect its result.
///
/// It contains no path, thread count, memory size, time, host or file format of the rows, so equal
/// models have identical files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelMetadata {
    /// Learning task, such as regression or components.
    pub task: Task,
    /// Name of the solver: `ridge`.
    pub solver: String,
    /// Kernel, as an expression that can be parsed.
    pub kernel: String,
    /// Second view of a model of two views, whose kernel functions come last; absent for one view.
    #[serde(rename = "with", default, skip_serializing_if = "Option::is_none")]
    pub second_view: Option<SecondView>,
    /// Further members of a model whose prediction is the mean of several fits; their kernel
    /// functions come last, member by member. Absent for a single fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[doc(hidden)]
    pub members: Vec<EnsembleMember>,
    /// Kernel of the leaves, as an expression that can be parsed; absent if it is the kernel of
    /// the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub leaf_kernel: Option<String>,
    /// Type of the predictions: `f32` or `f64`. A fit in f32 predicts in f64 if its landmarks are
    /// so close to each other that f32 is too inaccurate.
    pub precision: String,
    /// Feature map, as an expression that can be parsed.
    pub map: String,
    /// Number of features.
    pub rank: usize,
    /// Regularisation parameter of (1/n)Σloss + lambda‖w‖²; `None` for solvers without
    /// regularisation.
    pub lambda: Option<f64>,
    /// Treatment of the intercept.
    pub intercept: Intercept,
    /// Feature names, in the order of the columns.
    pub features: Vec<String>,
    /// Encoding of the table columns as features; absent if every feature is a numeric column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Arc<Encoding>>,
    /// How text files are read: number and date formats of the feature columns and targets, and the
    /// words for missing values; absent for the defaults.
    #[serde(rename = "reading", default, skip_serializing_if = "TextReadOptions::is_default")]
    pub text_reading: TextReadOptions,
    /// Target names; for a classification the name of the class column.
    pub targets: Vec<String>,
    /// Class labels, by code; empty for a regression.
    pub classes: Vec<Label>,
    /// Link from scores to probabilities; absent if the model has no probabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// Loss of quantiles, expectiles or robust means; absent for other models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub loss: Option<RegressionLoss>,
    /// True if the scores belong to pairs of classes (one-vs-one).
    #[serde(rename = "pairs", default, skip_serializing_if = "std::ops::Not::not")]
    pub one_vs_one: bool,
    /// Certificate at `rank`; null for maps without a certificate.
    pub certificate: Option<Certificate>,
    /// Number of training rows.
    pub rows: u64,
    /// Number of rows learned by updates after the fit. The certificate does not cover them.
    #[serde(rename = "learned", default, skip_serializing_if = "is_zero")]
    pub online_rows: u64,
    /// The rows that were learned since the landmarks were chosen, compared with the rows of the
    /// fit; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub growth: Option<Growth>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Landmark selection: `rpcholesky`; `None` for a map without landmarks.
    pub landmarks: Option<String>,
    /// True if features are transformed by asinh after centring and scaling.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asinh: bool,
    /// Training range of each feature, in the units of the table. New rows are clipped to it; empty
    /// if they are not clipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<[f64; 2]>,
    /// Descriptions of the clusters by their columns, in the order of the clusters; empty for other
    /// models, and for models of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[doc(hidden)]
    pub clusters: Vec<ClusterProfile>,
    /// The features of a picture of the clusters, by which they are best separated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[doc(hidden)]
    pub cluster_axes: Vec<String>,
    /// Distributions of the numeric columns over the training rows, with which new rows are
    /// compared; empty for other models than mean embeddings, and for models of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[doc(hidden)]
    pub distributions: Vec<ColumnDistribution>,
    /// Other options that define the result, under the caller's names.
    pub options: serde_json::Value,
}

/// The second view of a model of two sets of columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondView {
    /// Kernel, as an expression that can be parsed.
    pub kernel: String,
    /// Number of kernel functions of the second view; all other kernel functions belong to the
    /// first view.
    pub functions: usize,
}

/// A further member of a mean of fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnsembleMember {
    /// Kernel, as an expression that can be parsed.
    pub kernel: String,
    /// Number of kernel functions of the member.
    pub functions: usize,
}

pub(crate) fn is_zero<N: Default + PartialEq>(count: &N) -> bool {
    *count == N::default()
}

impl ModelMetadata {
    /// Returns how the fit treated missing values. By default, new rows are treated in the same
    /// way.
    pub fn missing(&self) -> Missing {
        self.options["missing"].as_str().and_then(Missing::from_name).unwrap_or(Missing::Error)
    }

    /// Returns the rule of the test rows, which the fit did not read; `None` if the fit had no test
    /// rows.
    #[doc(hidden)]
    pub fn test_rows(&self) -> Option<TestRows> {
        serde_json::from_value(self.options.get("test")?.clone()).ok()
    }

    /// Returns the lags among the features; `None` if the fit had no lags.
    #[doc(hidden)]
    pub fn lags(&self) -> Option<Lags> {
        serde_json::from_value(self.options.get("lags")?.clone()).ok()
    }

    /// Returns the name of the column that is added to the predictions of a model of changes: the
    /// target at an earlier row. `None` if the model predicts values.
    #[doc(hidden)]
    pub fn base_column(&self) -> Option<String> {
        self.lags()?.base_column()
    }

    /// Returns the shape of the rows if they are sparse, otherwise `None`.
    pub fn sparse_shape(&self) -> Option<SparseShape> {
        self.encoding.as_ref()?.sparse_shape()
    }

    /// Returns the number of features of a row; for sparse rows, the number of columns, including
    /// zeros.
    pub fn dense_feature_count(&self) -> usize {
        self.sparse_shape().map_or(self.features.len(), |shape| shape.column_count)
    }

    pub(crate) fn parse_kernel(&self, kernel: &str) -> Result<Kernel> {
        Ok(Kernel::parse(kernel)?
            .resolve_for_rows(&self.features, self.sparse_shape().map(|shape| shape.column_count))?)
    }

    /// Returns the column of the exposures of the rows; `None` if the fit had no exposures.
    #[doc(hidden)]
    pub fn exposure_column(&self) -> Option<&str> {
        self.options.get("solver_options")?.get("exposure")?.as_str()
    }

    /// Returns the kernels of `m` kernel functions in the order of these functions, each with its
    /// number of functions.
    pub(crate) fn kernels_of_functions(&self, m: usize) -> Vec<(&str, usize)> {
        let second_view = self.second_view.iter().map(|view| (&view.kernel[..], view.functions));
        let members = self.members.iter().map(|member| (&member.kernel[..], member.functions));
        let further: Vec<(&str, usize)> = second_view.chain(members).collect();
        let further_count = further.iter().fold(0usize, |sum, (_, count)| sum.saturating_add(*count));
        let first = (&self.kernel[..], m.saturating_sub(further_count));
        std::iter::once(first).chain(further).collect()
    }

    /// Returns the number of outputs of each target: the number of quantiles, or 1.
    #[doc(hidden)]
    pub fn outputs_per_target(&self) -> usize {
        self.loss.as_ref().map_or(1, RegressionLoss::outputs_per_target)
    }

    /// Returns true if the outputs are the features of the map.
    pub(crate) fn has_feature_outputs(&self) -> bool {
        self.solver == FEATURES_SOLVER
    }
}

/// Treatment of the intercept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intercept {
    /// Fitted without a regularisation term.
    #[default]
    Free,
    /// Weight of a constant feature 1, penalised like the other weights.
    Penalised,
    /// No intercept.
    None,
}

crate::enum_of_words!(Intercept, "intercept", "free" => Free, "penalised" => Penalised, "none" => None);

impl Intercept {
    /// Returns the number of leading constant features: 0 or 1.
    #[doc(hidden)]
    pub fn constant_feature_count(self) -> usize {
        usize::from(self == Self::Penalised)
    }
}

/// Linear functions of the features, f(x) = wᵀφ(x) + c, one per target.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearHead {
    /// Weights w of the leading r features, r x t.
    pub weights: Mat<f64>,
    /// Intercepts c, length t, for the targets before any shift.
    pub intercept: Vec<f64>,
}
