//! Kernel values k(x, z_j) as ONNX operations.

use super::graph::{Graph, Name};
use kapprox::kernel::Expression;

/// The points of the kernel functions, m x d row-major.
#[derive(Clone, Copy)]
pub(super) struct Points<'a> {
    pub(super) values: &'a [f64],
    pub(super) d: usize,
}

impl Points<'_> {
    fn count(&self) -> usize {
        self.values.len() / self.d.max(1)
    }
}

/// The matrix of k(x_i, z_j), N x m; otherwise the part of the expression that has no such operations.
pub(super) fn values(graph: &mut Graph, expression: &Expression, x: &str, points: Points<'_>) -> Result<Name, String> {
    let chain = |graph: &mut Graph, operation: &str, parts: &[Expression]| {
        let mut all =
            parts.iter().map(|part| values(graph, part, x, points)).collect::<Result<Vec<_>, _>>()?.into_iter();
        let first = all.next().ok_or("an empty expression")?;
        Ok(all.fold(first, |left, right| graph.apply(operation, &[&left, &right])))
    };
    match expression {
        Expression::Kernel { family, parameters, columns } => {
            let chosen = columns.as_deref();
            let named = |name: &str| parameters.iter().find(|(other, _)| *other == name).map(|(_, values)| &values[..]);
            kernel(graph, family, &named, x, points, chosen).ok_or_else(|| format!("the kernel {family}"))
        }
        Expression::Scaled(factor, part) => {
            let (part, factor) = (values(graph, part, x, points)?, graph.number(*factor));
            Ok(graph.apply("Mul", &[&part, &factor]))
        }
        Expression::Exp(part) => {
            let part = values(graph, part, x, points)?;
            Ok(graph.apply("Exp", &[&part]))
        }
        Expression::Power(power, part) => {
            let (part, power) = (values(graph, part, x, points)?, graph.number(f64::from(*power)));
            Ok(graph.apply("Pow", &[&part, &power]))
        }
        Expression::Product(parts) => chain(graph, "Mul", parts),
        Expression::Sum(parts) => chain(graph, "Add", parts),
        _ => Err("a normalised kernel".to_string()),
    }
}

/// A kernel of the registry; `None` for one that is not written here.
fn kernel<'v>(
    graph: &mut Graph,
    family: &str,
    parameter: &dyn Fn(&str) -> Option<&'v [f64]>,
    x: &str,
    points: Points<'_>,
    columns: Option<&[usize]>,
) -> Option<Name> {
    let one = |name: &str| parameter(name).and_then(|values| values.first().copied());
    let (x, points, d) = chosen(graph, x, points, columns);
    let sigma = parameter("sigma");
    let pair = Pair { x: &x, points: &points, d, sigma };
    Some(match family {
        "gaussian" => {
            let (s, half) = (pair.squares(graph), graph.number(-0.5));
            let s = graph.apply("Mul", &[&s, &half]);
            graph.apply("Exp", &[&s])
        }
        "exponential" => matern(graph, 0.5, &pair)?,
        "matern" => matern(graph, one("nu")?, &pair)?,
        "laplacian" => {
            let lengths = pair.absolutes(graph);
            let lengths = graph.apply("Neg", &[&lengths]);
            graph.apply("Exp", &[&lengths])
        }
        "rational_quadratic" => {
            let alpha = one("alpha")?;
            let (s, share) = (pair.squares(graph), graph.number(0.5 / alpha));
            let (unit, power) = (graph.number(1.0), graph.number(-alpha));
            let s = graph.apply("Mul", &[&s, &share]);
            let base = graph.apply("Add", &[&unit, &s]);
            graph.apply("Pow", &[&base, &power])
        }
        "cauchy" => {
            let (s, unit) = (pair.squares(graph), graph.number(1.0));
            let base = graph.apply("Add", &[&unit, &s]);
            graph.apply("Div", &[&unit, &base])
        }
        "linear" => pair.products(graph),
        "polynomial" => {
            let (base, power) = (affine(graph, &pair, one("gamma")?, one("c0")?), graph.number(one("degree")?));
            graph.apply("Pow", &[&base, &power])
        }
        "sigmoid" => {
            let base = affine(graph, &pair, one("gamma")?, one("c0")?);
            graph.apply("Tanh", &[&base])
        }
        "cosine" => pair.cosines(graph),
        "constant" => {
            let (zero, value) = (graph.number(0.0), graph.number(one("value")?));
            let products = pair.products(graph);
            let zeros = graph.apply("Mul", &[&products, &zero]);
            graph.apply("Add", &[&zeros, &value])
        }
        _ => return None,
    })
}

/// γ x·z + c₀.
fn affine(graph: &mut Graph, pair: &Pair<'_>, gamma: f64, c0: f64) -> Name {
    let (products, gamma, c0) = (pair.products(graph), graph.number(gamma), graph.number(c0));
    let products = graph.apply("Mul", &[&products, &gamma]);
    graph.apply("Add", &[&products, &c0])
}

/// The Matérn kernel of ν = 1/2, 3/2 or 5/2: a polynomial of t = √(2ν) r times exp(−t).
fn matern(graph: &mut Graph, nu: f64, pair: &Pair<'_>) -> Option<Name> {
    let (s, factor) = (pair.squares(graph), graph.number((2.0 * nu).sqrt()));
    let r = graph.apply("Sqrt", &[&s]);
    let t = graph.apply("Mul", &[&r, &factor]);
    let minus = graph.apply("Neg", &[&t]);
    let decay = graph.apply("Exp", &[&minus]);
    if nu == 0.5 {
        return Some(decay);
    }
    let unit = graph.number(1.0);
    let line = graph.apply("Add", &[&unit, &t]);
    let polynomial = match nu {
        1.5 => line,
        2.5 => {
            let (square, third) = (graph.apply("Mul", &[&t, &t]), graph.number(1.0 / 3.0));
            let square = graph.apply("Mul", &[&square, &third]);
            graph.apply("Add", &[&line, &square])
        }
        _ => return None,
    };
    Some(graph.apply("Mul", &[&polynomial, &decay]))
}

/// The features that a kernel looks at, of rows and points.
fn chosen(graph: &mut Graph, x: &str, points: Points<'_>, columns: Option<&[usize]>) -> (Name, Vec<f64>, usize) {
    let Some(columns) = columns else { return (x.to_string(), points.values.to_vec(), points.d) };
    let places = graph.integers(&columns.iter().map(|column| *column as i64).collect::<Vec<_>>());
    let x = graph.apply_with("Gather", &[x, &places], &[("axis", 1)]);
    let rows = (0..points.count()).map(|i| &points.values[i * points.d..(i + 1) * points.d]);
    (x, rows.flat_map(|row| columns.iter().map(|column| row[*column])).collect(), columns.len())
}

/// Rows and points of d features, and the length scale of each or of all.
struct Pair<'a> {
    x: &'a str,
    points: &'a [f64],
    d: usize,
    sigma: Option<&'a [f64]>,
}

impl Pair<'_> {
    /// Rows and points over the length scale.
    fn in_lengths(&self, graph: &mut Graph) -> (Name, Vec<f64>) {
        let Some(sigma) = self.sigma else { return (self.x.to_string(), self.points.to_vec()) };
        let all: Vec<f64> = (0..self.d).map(|j| sigma[j % sigma.len()]).collect();
        let lengths = graph.numbers(&[1, self.d], &all);
        let points = self.points.chunks_exact(self.d).flat_map(|z| z.iter().zip(&all).map(|(z, sigma)| z / sigma));
        let points = points.collect();
        (graph.apply("Div", &[self.x, &lengths]), points)
    }

    fn dot(&self, graph: &mut Graph, x: &str, points: &[f64]) -> Name {
        let (m, d) = (points.len() / self.d, self.d);
        let turned: Vec<f64> = (0..d).flat_map(|j| (0..m).map(move |i| points[i * d + j])).collect();
        let turned = graph.numbers(&[d, m], &turned);
        graph.apply("MatMul", &[x, &turned])
    }

    /// x·z.
    fn products(&self, graph: &mut Graph) -> Name {
        self.dot(graph, self.x, self.points)
    }

    /// Sums of a matrix along its columns, N x 1.
    fn row_sums(graph: &mut Graph, matrix: &str, axis: i64, keep: bool) -> Name {
        let axis = graph.integers(&[axis]);
        graph.apply_with("ReduceSum", &[matrix, &axis], &[("keepdims", i64::from(keep))])
    }

    /// ‖x − z‖² in units of the length scale.
    fn squares(&self, graph: &mut Graph) -> Name {
        let (x, points) = self.in_lengths(graph);
        let own: Vec<f64> = points.chunks_exact(self.d).map(|z| z.iter().map(|v| v * v).sum()).collect();
        let (own, two, zero) = (graph.numbers(&[1, own.len()], &own), graph.number(2.0), graph.number(0.0));
        let square = graph.apply("Mul", &[&x, &x]);
        let square = Self::row_sums(graph, &square, 1, true);
        let dot = self.dot(graph, &x, &points);
        let dot = graph.apply("Mul", &[&dot, &two]);
        let both = graph.apply("Add", &[&square, &own]);
        let squares = graph.apply("Sub", &[&both, &dot]);
        // rounding may take a small distance below 0
        graph.apply("Max", &[&squares, &zero])
    }

    /// Σ |x − z| in units of the length scale: holds N x m x d numbers.
    fn absolutes(&self, graph: &mut Graph) -> Name {
        let (x, points) = self.in_lengths(graph);
        let points = graph.numbers(&[1, points.len() / self.d, self.d], &points);
        let axis = graph.integers(&[1]);
        let x = graph.apply("Unsqueeze", &[&x, &axis]);
        let difference = graph.apply("Sub", &[&x, &points]);
        let difference = graph.apply("Abs", &[&difference]);
        Self::row_sums(graph, &difference, 2, false)
    }

    /// x·z / (‖x‖ ‖z‖); 0 where a point is 0.
    fn cosines(&self, graph: &mut Graph) -> Name {
        let norm = |z: &[f64]| z.iter().map(|v| v * v).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        let points: Vec<f64> =
            self.points.chunks_exact(self.d).flat_map(|z| z.iter().map(move |v| v / norm(z))).collect();
        let least = graph.number(f64::MIN_POSITIVE);
        let square = graph.apply("Mul", &[self.x, self.x]);
        let square = Self::row_sums(graph, &square, 1, true);
        let length = graph.apply("Sqrt", &[&square]);
        let length = graph.apply("Max", &[&length, &least]);
        let dot = self.dot(graph, self.x, &points);
        graph.apply("Div", &[&dot, &length])
    }
}
