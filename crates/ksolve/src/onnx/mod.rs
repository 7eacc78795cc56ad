//! Models as ONNX files, for runtimes that know nothing of kernels.
//!
//! The file has one input `X`, N x d in float64: the features in the order and the units of the table. Outputs are, for a regression `prediction`, N x t; for
//! a classification `label`, N, and `scores`; for groups `group`, N, and `scores`; else `scores`. Everything is computed in float64.
//!
//! *What can be written*: models on landmarks whose kernel is made of gaussian, exponential, laplacian, matern, rational_quadratic, cauchy, linear, polynomial,
//! sigmoid, cosine and constant kernels, on all features or some, their sums, products, powers and exponentials. *Bytes*: 8·m·(d + t) for m
//! landmarks.
//!
//! Reference: the ONNX standard, <https://onnx.ai/onnx/intro/>.

mod graph;
mod kernels;

use crate::{AnyModel, Error, Model, Result, Task, model::Form, quadratic::Quadratic};
use faer::Mat;
use graph::{Graph, Labels, Name};
use kapprox::{Real, Spec};
use kernels::Points;
use kstore::Label;

impl AnyModel {
    /// The model as an ONNX file: see [`crate::onnx`].
    ///
    /// # Errors
    /// [`Error::Onnx`] for a model that cannot be written, with the reason.
    pub fn to_onnx(&self) -> Result<Vec<u8>> {
        match self {
            Self::F32(model) => model.to_onnx(),
            Self::F64(model) => model.to_onnx(),
        }
    }
}

impl<T: Real> Model<T> {
    fn to_onnx(&self) -> Result<Vec<u8>> {
        let refused = |why: &str| Error::Onnx { why: why.to_string() };
        let Some((points, _)) = self.basis.landmarks() else {
            return Err(refused("its features are those of random functions; fit it on landmarks, with `map` nystrom"));
        };
        if self.form != Form::Plain || self.card.with.is_some() {
            let solver = &self.card.solver;
            return Err(refused(&format!("a model of {solver} is no sum of kernel functions; use predict")));
        }
        if self.card.sparse().is_some() {
            return Err(refused("its rows are sparse; use predict"));
        }
        if !self.knots.is_empty() {
            return Err(refused("its features are scaled by quantiles; use predict, or fit with another `scale`"));
        }
        if self.leaves.is_some() {
            return Err(refused("it has machines in the leaves of a tree; use predict, or fit it without `local`"));
        }
        if self.card.pairs {
            return Err(refused("it decides between pairs of classes; fit it without `pairs`"));
        }
        let spec = Spec::parse(&self.card.kernel)?.resolve_columns(&self.card.features)?;
        let expression = spec.expression().ok_or_else(|| refused("its kernel has no numbers yet"))?;
        let points: Vec<f64> = points.iter().map(|value| value.to_f64()).collect();
        let (m, d, t) = self.dims();
        let mut graph = Graph::default();
        let x = self.scaled(&mut graph);
        let unknown =
            |what: String| refused(&format!("{what} has no such operations; use predict, or fit with another kernel"));
        let k = kernels::values(&mut graph, &expression, &x, Some(Points { values: &points, d })).map_err(unknown)?;
        let weights: Vec<f64> =
            (0..m).flat_map(|i| (0..t).map(move |j| (i, j))).map(|at| self.coefficients[at]).collect();
        let (weights, intercept) = (graph.numbers(&[m, t], &weights), graph.numbers(&[1, t], &self.intercept));
        let sums = graph.apply("MatMul", &[&k, &weights]);
        let mut scores = graph.apply("Add", &[&sums, &intercept]);
        if let Some(distance) = self.distance() {
            let own = kernels::values(&mut graph, &expression, &x, None).map_err(unknown)?;
            let distance = quadratic(&mut graph, distance, &k, &own);
            scores = graph.apply("Sub", &[&scores, &distance]);
        }
        self.answers(&mut graph, &scores, t);
        Ok(graph.file("X", self.centre.len()))
    }

    /// The rows as the basis sees them: shifted, divided, through asinh and the metric.
    fn scaled(&self, graph: &mut Graph) -> Name {
        let d = self.centre.len();
        let factors: Vec<f64> = self.scale.iter().map(|scale| if *scale == 0.0 { 0.0 } else { 1.0 / scale }).collect();
        let (centre, factors) = (graph.numbers(&[1, d], &self.centre), graph.numbers(&[1, d], &factors));
        let shifted = graph.apply("Sub", &["X", &centre]);
        let mut x = graph.apply("Mul", &[&shifted, &factors]);
        if self.card.asinh {
            x = asinh(graph, &x);
        }
        if !self.card.ranges.is_empty() {
            let scaler = self.scaler();
            let end = |at: usize| -> Vec<f64> {
                self.card.ranges.iter().enumerate().map(|(j, range)| scaler.apply(j, range[at])).collect()
            };
            let (least, greatest) = (graph.numbers(&[1, d], &end(0)), graph.numbers(&[1, d], &end(1)));
            let above = graph.apply("Max", &[&x, &least]);
            x = graph.apply("Min", &[&above, &greatest]);
        }
        let Some(metric) = &self.metric else { return x };
        let (numbers, r) = (metric.numbers(), metric.outputs());
        match metric.is_diagonal() {
            true => {
                let diagonal = graph.numbers(&[1, r], &numbers);
                graph.apply("Mul", &[&x, &diagonal])
            }
            false => {
                let turned: Vec<f64> =
                    (0..d).flat_map(|j| (0..r).map(move |k| k * d + j)).map(|at| numbers[at]).collect();
                let turned = graph.numbers(&[d, r], &turned);
                graph.apply("MatMul", &[&x, &turned])
            }
        }
    }

    fn answers(&self, graph: &mut Graph, scores: &str, t: usize) {
        let largest = |graph: &mut Graph| graph.apply_with("ArgMax", &[scores], &[("axis", 1), ("keepdims", 0)]);
        match self.card.task {
            Task::Regression => graph.output(scores, "prediction", t),
            Task::Classification => {
                let at = match t {
                    1 => {
                        // the second class above 0, as a column of one
                        let axis = graph.integers(&[1]);
                        let column = graph.apply("Squeeze", &[scores, &axis]);
                        let above = graph.with_number("Greater", &column, 0.0);
                        graph.apply_with("Cast", &[&above], &[("to", 7)])
                    }
                    _ => largest(graph),
                };
                graph.labels(&labels(&self.card.classes), &at, "label");
                graph.output(scores, "scores", t);
            }
            Task::Clusters => {
                let at = largest(graph);
                graph.output_integers(&at, "group");
                graph.output(scores, "scores", t);
            }
            Task::Components | Task::Ranking | Task::Novelty => graph.output(scores, "scores", t),
        }
    }
}

/// The quadratic function of basis values k and the squares k(x, x).
fn quadratic(graph: &mut Graph, of: &Quadratic, k: &str, own: &str) -> Name {
    let mut value = graph.number(of.constant);
    if of.factor.ncols() > 0 {
        let square = squares(graph, k, &of.factor, &of.shift);
        value = graph.apply("Add", &[&value, &square]);
    }
    let Some(features) = &of.features else { return value };
    let mut outside = own.to_string();
    if features.ncols() > 0 {
        let inside = squares(graph, k, features, &vec![0.0; features.ncols()]);
        let rest = graph.apply("Sub", &[own, &inside]);
        outside = graph.with_number("Max", &rest, 0.0);
    }
    let outside = graph.with_number("Mul", &outside, of.residual);
    graph.apply("Add", &[&value, &outside])
}

/// ‖kV + s‖², N x 1.
fn squares(graph: &mut Graph, k: &str, factor: &Mat<f64>, shift: &[f64]) -> Name {
    let (m, q) = factor.shape();
    let rows: Vec<f64> = (0..m).flat_map(|i| (0..q).map(move |j| (i, j))).map(|at| factor[at]).collect();
    let (factor, shift) = (graph.numbers(&[m, q], &rows), graph.numbers(&[1, q], shift));
    let product = graph.apply("MatMul", &[k, &factor]);
    let moved = graph.apply("Add", &[&product, &shift]);
    kernels::own(graph, &moved)
}

/// sign(x) ln(|x| + √(x² + 1)).
fn asinh(graph: &mut Graph, x: &str) -> Name {
    let (sign, size) = (graph.apply("Sign", &[x]), graph.apply("Abs", &[x]));
    let square = graph.apply("Mul", &[&size, &size]);
    let square = graph.with_number("Add", &square, 1.0);
    let root = graph.apply("Sqrt", &[&square]);
    let sum = graph.apply("Add", &[&size, &root]);
    let logarithm = graph.apply("Log", &[&sum]);
    graph.apply("Mul", &[&sign, &logarithm])
}

fn labels(classes: &[Label]) -> Labels {
    let whole = classes.iter().map(|label| if let Label::Int(value) = label { Some(*value) } else { None });
    let truth = classes.iter().map(|label| if let Label::Bool(value) = label { Some(*value) } else { None });
    match (whole.collect::<Option<_>>(), truth.collect::<Option<_>>()) {
        (Some(whole), _) => Labels::Whole(whole),
        (None, Some(truth)) => Labels::Truth(truth),
        (None, None) => Labels::Text(classes.iter().map(Label::to_string).collect()),
    }
}
