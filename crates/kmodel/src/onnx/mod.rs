//! Export of models to ONNX files, for runtimes that know no kernels.
//!
//! The file has one input `X`, N x d in float64: the features of N rows, in the model's order and
//! the units of the table. Everything is computed in float64. The outputs depend on the task:
//!
//! - regression: `prediction`, N x t;
//! - classification: `label`, N; `scores`; and `probabilities`, N x classes in the order of the
//!   metadata, if the model has them;
//! - clusters: `group`, N; and `scores`;
//! - other tasks: `scores`.
//!
//! *Supported models*: models on landmarks whose kernel is composed of gaussian, exponential,
//! laplacian, matern, rational_quadratic, cauchy, linear, polynomial, sigmoid, cosine and constant
//! kernels, on all or some features or their quantile scores, with sums, products, powers and
//! exponentials.
//! *Bytes*: 8·m·(d + t) for m landmarks.
//!
//! Reference: the ONNX standard, <https://onnx.ai/onnx/intro/>.

mod graph;
mod kernels;
mod quantile_scores;

use crate::{
    AnyModel, Error, Link, Model, RegressionLoss, Result, Task,
    model::{BasisTransform, match_precision},
    quadratic::Quadratic,
};
use faer::Mat;
use graph::{Graph, Value};
use kapprox::{Kernel, Real};
use kernels::KernelPoints;
use quantile_scores::quantile_scores;

impl AnyModel {
    /// Returns the bytes of an ONNX file of the model: see [`crate::onnx`].
    ///
    /// # Errors
    /// [`Error::OnnxUnsupported`] with the reason, if the model is not supported.
    pub fn to_onnx(&self) -> Result<Vec<u8>> {
        match_precision!(Self: self, model => model.to_onnx())
    }
}

impl<T: Real> Model<T> {
    fn to_onnx(&self) -> Result<Vec<u8>> {
        let unsupported = |why: &str| Error::OnnxUnsupported { why: why.to_string() };
        let Some((points, _)) = self.basis.landmarks() else {
            return Err(unsupported("it uses random features; fit it on landmarks, with `map` nystrom"));
        };
        if self.transform != BasisTransform::Identity || self.metadata.second_view.is_some() {
            let solver = &self.metadata.solver;
            return Err(unsupported(&format!("a model of {solver} is not a sum of kernel functions; use predict")));
        }
        if self.metadata.sparse_shape().is_some() {
            return Err(unsupported("its rows are sparse; use predict"));
        }
        if self.metadata.base_column().is_some() {
            return Err(unsupported(
                "it predicts changes (`difference`), and adds earlier values of the table; use predict",
            ));
        }
        if self.leaves.is_some() {
            return Err(unsupported(
                "it has local models in the leaves of a tree; use predict, or fit it without `local`",
            ));
        }
        if self.metadata.outputs_per_target() > 1 {
            return Err(unsupported("its quantiles are sorted in each row; fit a model for each quantile"));
        }
        if self.metadata.one_vs_one {
            return Err(unsupported("it is a one-vs-one classifier; fit it with `multiclass` one-vs-rest"));
        }
        let kernel_expression = |kernel: &str| {
            let kernel = Kernel::parse(kernel)?.resolve_columns(&self.metadata.features)?;
            let without_values = || unsupported("its kernel has parameters without values; fit it again");
            kernel.expression().ok_or_else(without_values)
        };
        let points: Vec<f64> = points.iter().map(|value| value.to_f64()).collect();
        let graph = Graph::default();
        let x = self.basis_inputs(&graph);
        let unsupported_kernel = |what: String| {
            unsupported(&format!("{what} has no ONNX operations; use predict, or fit with another kernel"))
        };
        let (d, intercept) = (self.dims().1, graph.row(&self.intercept));
        let expression = kernel_expression(&self.metadata.kernel)?;
        // the members of a mean have their own kernels, and add their scores
        let (mut first, mut scores, mut k) = (0, None, None);
        for (kernel, count) in self.metadata.kernels_of_functions(self.coefficients.nrows()) {
            let values = &points[first * d..(first + count) * d];
            let member_values =
                kernels::kernel_values(&kernel_expression(kernel)?, &x, Some(KernelPoints { values, d }))
                    .map_err(unsupported_kernel)?;
            let weights = graph.matrix(&self.coefficients.subrows(first, count).to_owned());
            let member_scores = member_values.apply_binary("MatMul", &weights);
            scores = Some(match &scores {
                Some(sum) => member_scores.apply_binary("Add", sum),
                None => member_scores,
            });
            k = k.or(Some(member_values));
            first += count;
        }
        let (Some(scores), Some(k)) = (scores, k) else { return Err(unsupported("it has no kernel functions")) };
        let mut scores = scores.apply_binary("Add", &intercept);
        if let Some(quadratic_function) = self.quadratic_in_scores() {
            let diagonal = kernels::kernel_values(&expression, &x, None).map_err(unsupported_kernel)?;
            scores = scores.apply_binary("Sub", &quadratic(quadratic_function, &k, &diagonal));
        }
        self.add_outputs(&scores);
        Ok(graph.to_bytes("X", self.scaler.input_count()))
    }

    /// Returns the inputs of the basis: rows that are centred, scaled, transformed by asinh or to
    /// quantile scores, clipped, and transformed by the metric.
    fn basis_inputs<'g>(&self, graph: &'g Graph) -> Value<'g> {
        let inverse_scales: Vec<f64> =
            self.scaler.scale.iter().map(|scale| if *scale == 0.0 { 0.0 } else { 1.0 / scale }).collect();
        let (centre, inverse_scales) = (graph.row(&self.scaler.centre), graph.row(&inverse_scales));
        let mut x = graph.input("X").apply_binary("Sub", &centre).apply_binary("Mul", &inverse_scales);
        if self.metadata.asinh {
            x = asinh(&x);
        }
        if !self.scaler.knots.is_empty() {
            x = quantile_scores(&x, &self.scaler.knots);
        }
        if !self.metadata.ranges.is_empty() {
            let range_ends = |end_index: usize| -> Vec<f64> {
                self.metadata
                    .ranges
                    .iter()
                    .enumerate()
                    .map(|(j, range)| self.scaler.apply(j, range[end_index]))
                    .collect()
            };
            let (lower_ends, upper_ends) = (graph.row(&range_ends(0)), graph.row(&range_ends(1)));
            x = x.apply_binary("Max", &lower_ends).apply_binary("Min", &upper_ends);
        }
        let Some(metric) = &self.metric else { return x };
        let (numbers, d, r) = (metric.to_row_major(), metric.input_count(), metric.output_count());
        match metric.is_diagonal() {
            true => x.apply_binary("Mul", &graph.row(&numbers)),
            false => x.apply_binary("MatMul", &graph.matrix(&Mat::from_fn(d, r, |j, k| numbers[k * d + j]))),
        }
    }

    fn add_outputs(&self, scores: &Value<'_>) {
        let t = self.intercept.len();
        let argmax = || scores.apply_node("ArgMax", &[], &[("axis", 1), ("keepdims", 0)]);
        match self.metadata.task {
            Task::Regression if matches!(self.metadata.loss, Some(RegressionLoss::Deviance(_))) => {
                return scores.apply_unary("Exp").output("prediction", t);
            }
            Task::Regression => return scores.output("prediction", t),
            Task::Classification => {
                let class_index = match t {
                    1 => {
                        // class index 1 if the score is above 0, as a vector of N integers
                        let column = scores.apply_binary("Squeeze", &scores.graph.integers(&[1]));
                        column.apply_number("Greater", 0.0).apply_node("Cast", &[], &[("to", 7)])
                    }
                    _ => argmax(),
                };
                scores.graph.output_labels(&self.metadata.classes, &class_index, "label");
                if let Some(link) = &self.metadata.link {
                    let log_probabilities = log_probabilities(link, scores, t);
                    let probabilities = log_probabilities.apply_node("Softmax", &[], &[("axis", 1)]);
                    probabilities.output("probabilities", self.metadata.classes.len());
                }
            }
            Task::Clusters => argmax().output_integers("group"),
            Task::Components | Task::Ranking | Task::Novelty => {}
        }
        scores.output("scores", t);
    }
}

/// Returns the values of the quadratic function, from the basis values k and the diagonal k(x, x).
fn quadratic<'g>(function: &Quadratic, k: &Value<'g>, diagonal: &Value<'g>) -> Value<'g> {
    let mut value = k.graph.number(function.constant);
    if function.factor.ncols() > 0 {
        value = value.apply_binary("Add", &squared_norms(k, &function.factor, &function.shift));
    }
    let Some(features) = &function.feature_coefficients else { return value };
    let mut residual = diagonal.clone();
    if features.ncols() > 0 {
        let projected_norms = squared_norms(k, features, &vec![0.0; features.ncols()]);
        residual = diagonal.apply_binary("Sub", &projected_norms);
    }
    value.apply_binary(
        "Add",
        &residual
            .apply_number("Sub", function.residual_allowance)
            .apply_number("Max", 0.0)
            .apply_number("Mul", function.residual_factor),
    )
}

/// Returns the logarithms of the class probabilities, up to a constant per row, from t scores. A
/// single score belongs to the second of two classes.
fn log_probabilities<'g>(link: &Link, scores: &Value<'g>, t: usize) -> Value<'g> {
    let log_odds = match link {
        Link::Logit => scores.clone(),
        Link::Platt { a, b } => {
            let (a, b) = (scores.graph.row(a), scores.graph.row(b));
            scores.apply_binary("Mul", &a).apply_binary("Add", &b).apply_number("Mul", -1.0)
        }
    };
    match (link, t) {
        (_, 1) => log_odds.apply_number("Mul", 0.0).apply_node("Concat", &[&log_odds], &[("axis", 1)]),
        (Link::Logit, _) => log_odds,
        // logarithm of the logistic function, without overflow
        (Link::Platt { .. }, _) => {
            let log1p_term = log_odds
                .apply_unary("Abs")
                .apply_number("Mul", -1.0)
                .apply_unary("Exp")
                .apply_number("Add", 1.0)
                .apply_unary("Log");
            log_odds.apply_number("Min", 0.0).apply_binary("Sub", &log1p_term)
        }
    }
}

/// Returns ‖kV + s‖², N x 1, where V is `factor` and s is `shift`.
fn squared_norms<'g>(k: &Value<'g>, factor: &Mat<f64>, shift: &[f64]) -> Value<'g> {
    let (factor, shift) = (k.graph.matrix(factor), k.graph.row(shift));
    kernels::squared_norms(&k.apply_binary("MatMul", &factor).apply_binary("Add", &shift))
}

/// Returns asinh(x) = sign(x) ln(|x| + √(x² + 1)).
fn asinh<'g>(x: &Value<'g>) -> Value<'g> {
    let (sign, magnitude) = (x.apply_unary("Sign"), x.apply_unary("Abs"));
    let root = magnitude.apply_binary("Mul", &magnitude).apply_number("Add", 1.0).apply_unary("Sqrt");
    sign.apply_binary("Mul", &magnitude.apply_binary("Add", &root).apply_unary("Log"))
}
