//! Export of models to ONNX, for runtimes without kernels.
//!
//! The file has one input `X`, N x d in float64: the features in the order and units of the table.
//! Everything is computed in float64. The outputs depend on the task:
//!
//! - regression: `prediction`, N x t;
//! - classification: `label`, N; `scores`; and `probabilities`, N x classes in the order of the
//!   metadata, if the model has them;
//! - clusters: `group`, N; and `scores`;
//! - other tasks: `scores`.
//!
//! *Supported models*: models on landmarks whose kernel is composed of gaussian, exponential,
//! laplacian, matern, rational_quadratic, cauchy, linear, polynomial, sigmoid, cosine and constant
//! kernels, on all or some features, with sums, products, powers and exponentials.
//! *Bytes*: 8·m·(d + t) for m landmarks.
//!
//! Reference: the ONNX standard, <https://onnx.ai/onnx/intro/>.

mod graph;
mod kernels;

use crate::{
    AnyModel, Error, Link, Model, Result, Task,
    model::{Form, either},
    quadratic::Quadratic,
};
use faer::Mat;
use graph::{Graph, Value};
use kapprox::{Kernel, Real};
use kernels::KernelPoints;

impl AnyModel {
    /// Converts the model to an ONNX file: see [`crate::onnx`].
    ///
    /// # Errors
    /// [`Error::Onnx`] with the reason, if the model is not supported.
    pub fn to_onnx(&self) -> Result<Vec<u8>> {
        either!(Self: self, model => model.to_onnx())
    }
}

impl<T: Real> Model<T> {
    fn to_onnx(&self) -> Result<Vec<u8>> {
        let refused = |why: &str| Error::Onnx { why: why.to_string() };
        let Some((points, _)) = self.basis.landmarks() else {
            return Err(refused("it uses random features; fit it on landmarks, with `map` nystrom"));
        };
        if self.form != Form::Plain || self.card.with.is_some() {
            let solver = &self.card.solver;
            return Err(refused(&format!("a model of {solver} is not a sum of kernel functions; use predict")));
        }
        if self.card.sparse().is_some() {
            return Err(refused("its rows are sparse; use predict"));
        }
        if !self.scaler.knots.is_empty() {
            return Err(refused("its features are scaled by quantiles; use predict, or fit with another `scale`"));
        }
        if self.leaves.is_some() {
            return Err(refused("it has local models in the leaves of a tree; use predict, or fit it without `local`"));
        }
        if self.card.pairs {
            return Err(refused("it is a one-vs-one classifier; fit it without `pairs`"));
        }
        let spec = Kernel::parse(&self.card.kernel)?.resolve_columns(&self.card.features)?;
        let expression =
            spec.expression().ok_or_else(|| refused("its kernel has parameters without values; fit it again"))?;
        let points: Vec<f64> = points.iter().map(|value| value.to_f64()).collect();
        let graph = Graph::default();
        let x = self.scaled(&graph);
        let unknown =
            |what: String| refused(&format!("{what} has no ONNX operations; use predict, or fit with another kernel"));
        let k = kernels::values(&expression, &x, Some(KernelPoints { values: &points, d: self.dims().1 }))
            .map_err(unknown)?;
        let (weights, intercept) = (graph.matrix(&self.coefficients), graph.row(&self.intercept));
        let mut scores = k.with("MatMul", &weights).with("Add", &intercept);
        if let Some(distance) = self.distance() {
            let own = kernels::values(&expression, &x, None).map_err(unknown)?;
            scores = scores.with("Sub", &quadratic(distance, &k, &own));
        }
        self.answers(&scores);
        Ok(graph.file("X", self.scaler.features()))
    }

    /// Returns the inputs of the basis: rows that are centred, scaled, transformed by asinh,
    /// clipped, and transformed by the metric.
    fn scaled<'g>(&self, graph: &'g Graph) -> Value<'g> {
        let factors: Vec<f64> =
            self.scaler.scale.iter().map(|scale| if *scale == 0.0 { 0.0 } else { 1.0 / scale }).collect();
        let (centre, factors) = (graph.row(&self.scaler.centre), graph.row(&factors));
        let mut x = graph.input("X").with("Sub", &centre).with("Mul", &factors);
        if self.card.asinh {
            x = asinh(&x);
        }
        if !self.card.ranges.is_empty() {
            let end = |at: usize| -> Vec<f64> {
                self.card.ranges.iter().enumerate().map(|(j, range)| self.scaler.apply(j, range[at])).collect()
            };
            let (least, greatest) = (graph.row(&end(0)), graph.row(&end(1)));
            x = x.with("Max", &least).with("Min", &greatest);
        }
        let Some(metric) = &self.metric else { return x };
        let (numbers, d, r) = (metric.numbers(), metric.inputs(), metric.outputs());
        match metric.is_diagonal() {
            true => x.with("Mul", &graph.row(&numbers)),
            false => x.with("MatMul", &graph.matrix(&Mat::from_fn(d, r, |j, k| numbers[k * d + j]))),
        }
    }

    fn answers(&self, scores: &Value<'_>) {
        let t = self.intercept.len();
        let largest = || scores.apply_to("ArgMax", &[], &[("axis", 1), ("keepdims", 0)]);
        match self.card.task {
            Task::Regression => return scores.output("prediction", t),
            Task::Classification => {
                let at = match t {
                    1 => {
                        // the second class if the score is above 0, as a vector
                        let column = scores.with("Squeeze", &scores.graph.integers(&[1]));
                        column.by("Greater", 0.0).apply_to("Cast", &[], &[("to", 7)])
                    }
                    _ => largest(),
                };
                scores.graph.labels(&self.card.classes, &at, "label");
                if let Some(link) = &self.card.link {
                    let logarithms = logarithms(link, scores, t);
                    let probabilities = logarithms.apply_to("Softmax", &[], &[("axis", 1)]);
                    probabilities.output("probabilities", self.card.classes.len());
                }
            }
            Task::Clusters => largest().output_integers("group"),
            Task::Components | Task::Ranking | Task::Novelty => {}
        }
        scores.output("scores", t);
    }
}

/// Returns the quadratic function from basis values k and the diagonal k(x, x).
fn quadratic<'g>(of: &Quadratic, k: &Value<'g>, own: &Value<'g>) -> Value<'g> {
    let mut value = k.graph.number(of.constant);
    if of.factor.ncols() > 0 {
        value = value.with("Add", &squares(k, &of.factor, &of.shift));
    }
    let Some(features) = &of.features else { return value };
    let mut outside = own.clone();
    if features.ncols() > 0 {
        let inside = squares(k, features, &vec![0.0; features.ncols()]);
        outside = own.with("Sub", &inside);
    }
    value.with("Add", &outside.by("Sub", of.typical).by("Max", 0.0).by("Mul", of.residual))
}

/// Returns the logarithms of the class probabilities, up to a constant per row; a single score
/// belongs to the second of two classes.
fn logarithms<'g>(link: &Link, scores: &Value<'g>, t: usize) -> Value<'g> {
    let odds = match link {
        Link::Logit => scores.clone(),
        Link::Platt { a, b } => {
            let (a, b) = (scores.graph.row(a), scores.graph.row(b));
            scores.with("Mul", &a).with("Add", &b).by("Mul", -1.0)
        }
    };
    match (link, t) {
        (_, 1) => odds.by("Mul", 0.0).apply_to("Concat", &[&odds], &[("axis", 1)]),
        (Link::Logit, _) => odds,
        // logarithm of the logistic function, without overflow
        (Link::Platt { .. }, _) => {
            let tail = odds.apply("Abs").by("Mul", -1.0).apply("Exp").by("Add", 1.0).apply("Log");
            odds.by("Min", 0.0).with("Sub", &tail)
        }
    }
}

/// Returns ‖kV + s‖², N x 1.
fn squares<'g>(k: &Value<'g>, factor: &Mat<f64>, shift: &[f64]) -> Value<'g> {
    let (factor, shift) = (k.graph.matrix(factor), k.graph.row(shift));
    kernels::own(&k.with("MatMul", &factor).with("Add", &shift))
}

/// Returns asinh(x) = sign(x) ln(|x| + √(x² + 1)).
fn asinh<'g>(x: &Value<'g>) -> Value<'g> {
    let (sign, size) = (x.apply("Sign"), x.apply("Abs"));
    let root = size.with("Mul", &size).by("Add", 1.0).apply("Sqrt");
    sign.with("Mul", &size.with("Add", &root).apply("Log"))
}
