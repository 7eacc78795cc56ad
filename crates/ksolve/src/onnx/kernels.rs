//! Kernel values k(x, z_j) and k(x, x) as ONNX operations.

use super::graph::{Graph, Name};
use kapprox::kernel::Expression;

/// The points of the kernel functions, m x d row-major.
#[derive(Clone, Copy)]
pub(super) struct Points<'a> {
    pub(super) values: &'a [f64],
    pub(super) d: usize,
}

impl Points<'_> {
    /// The features of the points that a kernel looks at, and their number.
    fn of(self, columns: Option<&[usize]>) -> (Vec<f64>, usize) {
        let Some(columns) = columns else { return (self.values.to_vec(), self.d) };
        let rows = self.values.chunks_exact(self.d.max(1));
        (rows.flat_map(|row| columns.iter().map(|column| row[*column])).collect(), columns.len())
    }
}

/// The matrix of k(x_i, z_j), N x m, or without points the k(x_i, x_i), N x 1 or one number for all rows; otherwise the part of the
/// expression that has no such operations.
pub(super) fn values(
    graph: &mut Graph,
    expression: &Expression,
    x: &str,
    points: Option<Points<'_>>,
) -> Result<Name, String> {
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
            let part = values(graph, part, x, points)?;
            Ok(graph.with_number("Mul", &part, *factor))
        }
        Expression::Exp(part) => {
            let part = values(graph, part, x, points)?;
            Ok(graph.apply("Exp", &[&part]))
        }
        Expression::Power(power, part) => {
            let part = values(graph, part, x, points)?;
            Ok(graph.with_number("Pow", &part, f64::from(*power)))
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
    points: Option<Points<'_>>,
    columns: Option<&[usize]>,
) -> Option<Name> {
    let one = |name: &str| parameter(name).and_then(|values| values.first().copied());
    let x = looked_at(graph, x, columns);
    let points = points.map(|points| points.of(columns));
    let pair = Pair { x: &x, points, sigma: parameter("sigma") };
    Some(match family {
        "gaussian" => {
            let s = pair.squares(graph);
            let s = graph.with_number("Mul", &s, -0.5);
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
            let s = pair.squares(graph);
            let s = graph.with_number("Mul", &s, 0.5 / alpha);
            let base = graph.with_number("Add", &s, 1.0);
            graph.with_number("Pow", &base, -alpha)
        }
        "cauchy" => {
            let (s, unit) = (pair.squares(graph), graph.number(1.0));
            let base = graph.apply("Add", &[&unit, &s]);
            graph.apply("Div", &[&unit, &base])
        }
        "linear" => pair.products(graph),
        "polynomial" => {
            let base = affine(graph, &pair, one("gamma")?, one("c0")?);
            graph.with_number("Pow", &base, one("degree")?)
        }
        "sigmoid" => {
            let base = affine(graph, &pair, one("gamma")?, one("c0")?);
            graph.apply("Tanh", &[&base])
        }
        "cosine" => pair.cosines(graph),
        "constant" => {
            let products = pair.products(graph);
            let zeros = graph.with_number("Mul", &products, 0.0);
            graph.with_number("Add", &zeros, one("value")?)
        }
        _ => return None,
    })
}

/// γ x·z + c₀.
fn affine(graph: &mut Graph, pair: &Pair<'_>, gamma: f64, c0: f64) -> Name {
    let products = pair.products(graph);
    let products = graph.with_number("Mul", &products, gamma);
    graph.with_number("Add", &products, c0)
}

/// The Matérn kernel of ν = 1/2, 3/2 or 5/2: a polynomial of t = √(2ν) r times exp(−t).
fn matern(graph: &mut Graph, nu: f64, pair: &Pair<'_>) -> Option<Name> {
    let r = match nu {
        0.5 => pair.distances(graph),
        // smoother ones feel the square of a short distance alone
        _ => {
            let squares = pair.squares(graph);
            graph.apply("Sqrt", &[&squares])
        }
    };
    let t = graph.with_number("Mul", &r, (2.0 * nu).sqrt());
    let minus = graph.apply("Neg", &[&t]);
    let decay = graph.apply("Exp", &[&minus]);
    if nu == 0.5 {
        return Some(decay);
    }
    let line = graph.with_number("Add", &t, 1.0);
    let polynomial = match nu {
        1.5 => line,
        2.5 => {
            let square = graph.apply("Mul", &[&t, &t]);
            let square = graph.with_number("Mul", &square, 1.0 / 3.0);
            graph.apply("Add", &[&line, &square])
        }
        _ => return None,
    };
    Some(graph.apply("Mul", &[&polynomial, &decay]))
}

/// The features of the rows that a kernel looks at.
fn looked_at(graph: &mut Graph, x: &str, columns: Option<&[usize]>) -> Name {
    let Some(columns) = columns else { return x.to_string() };
    let places = graph.integers(&columns.iter().map(|column| *column as i64).collect::<Vec<_>>());
    graph.apply_with("Gather", &[x, &places], &[("axis", 1)])
}

/// Rows and points, or each row and itself, and the length scale of each feature or of all.
struct Pair<'a> {
    x: &'a str,
    points: Option<(Vec<f64>, usize)>,
    sigma: Option<&'a [f64]>,
}

impl Pair<'_> {
    /// Rows and points over the length scale, from the middle of the points: far from the origin squares would cancel.
    fn in_lengths(&self, graph: &mut Graph, (points, d): &(Vec<f64>, usize)) -> (Name, Vec<f64>) {
        let count = (points.len() / d.max(&1)).max(1) as f64;
        let middle: Vec<f64> = (0..*d).map(|j| points.iter().skip(j).step_by(*d).sum::<f64>() / count).collect();
        let sigma = self.sigma.unwrap_or(&[1.0]);
        let lengths: Vec<f64> = (0..*d).map(|j| sigma[j % sigma.len()]).collect();
        let scale = |(j, z): (usize, &f64)| (z - middle[j % d]) / lengths[j % d];
        let points = points.iter().enumerate().map(scale).collect();
        let (middle, lengths) = (graph.numbers(&[1, *d], &middle), graph.numbers(&[1, *d], &lengths));
        let x = graph.apply("Sub", &[self.x, &middle]);
        (graph.apply("Div", &[&x, &lengths]), points)
    }

    fn dot(graph: &mut Graph, x: &str, points: &[f64], d: usize) -> Name {
        let m = points.len() / d.max(1);
        let turned: Vec<f64> = (0..d).flat_map(|j| (0..m).map(move |i| points[i * d + j])).collect();
        let turned = graph.numbers(&[d, m], &turned);
        graph.apply("MatMul", &[x, &turned])
    }

    /// x·z.
    fn products(&self, graph: &mut Graph) -> Name {
        match &self.points {
            Some((points, d)) => Self::dot(graph, self.x, points, *d),
            None => own(graph, self.x),
        }
    }

    /// ‖x − z‖² in units of the length scale.
    fn squares(&self, graph: &mut Graph) -> Name {
        let Some(points) = &self.points else { return graph.number(0.0) };
        let ((x, z), d) = (self.in_lengths(graph, points), points.1);
        let lengths: Vec<f64> = z.chunks_exact(d).map(|z| z.iter().map(|v| v * v).sum()).collect();
        let lengths = graph.numbers(&[1, lengths.len()], &lengths);
        let square = own(graph, &x);
        let dot = Self::dot(graph, &x, &z, d);
        let dot = graph.with_number("Mul", &dot, 2.0);
        let both = graph.apply("Add", &[&square, &lengths]);
        let squares = graph.apply("Sub", &[&both, &dot]);
        // rounding may take a small distance below 0
        graph.with_number("Max", &squares, 0.0)
    }

    /// ‖x − z‖ in units of the length scale, of differences: the root of a square that cancelled would have half of its digits. Holds
    /// N x m x d numbers, as the next does.
    fn distances(&self, graph: &mut Graph) -> Name {
        let Some(difference) = self.differences(graph) else { return graph.number(0.0) };
        let square = graph.apply("Mul", &[&difference, &difference]);
        let squares = row_sums(graph, &square, 2, false);
        graph.apply("Sqrt", &[&squares])
    }

    /// Σ |x − z| in units of the length scale.
    fn absolutes(&self, graph: &mut Graph) -> Name {
        let Some(difference) = self.differences(graph) else { return graph.number(0.0) };
        let difference = graph.apply("Abs", &[&difference]);
        row_sums(graph, &difference, 2, false)
    }

    /// x − z in units of the length scale, N x m x d; `None` for a row and itself.
    fn differences(&self, graph: &mut Graph) -> Option<Name> {
        let points = self.points.as_ref()?;
        let ((x, z), d) = (self.in_lengths(graph, points), points.1);
        let z = graph.numbers(&[1, z.len() / d.max(1), d], &z);
        let axis = graph.integers(&[1]);
        let x = graph.apply("Unsqueeze", &[&x, &axis]);
        Some(graph.apply("Sub", &[&x, &z]))
    }

    /// x·z / (‖x‖ ‖z‖); 0 where a point is 0.
    fn cosines(&self, graph: &mut Graph) -> Name {
        let square = own(graph, self.x);
        let Some((points, d)) = &self.points else { return graph.apply("Sign", &[&square]) };
        let length = graph.apply("Sqrt", &[&square]);
        let length = graph.with_number("Max", &length, f64::MIN_POSITIVE);
        let norm = |z: &[f64]| z.iter().map(|v| v * v).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        let units: Vec<f64> = points.chunks_exact(*d).flat_map(|z| z.iter().map(move |v| v / norm(z))).collect();
        let dot = Self::dot(graph, self.x, &units, *d);
        graph.apply("Div", &[&dot, &length])
    }
}

/// ‖x‖² for the rows of a matrix, N x 1.
pub(super) fn own(graph: &mut Graph, x: &str) -> Name {
    let square = graph.apply("Mul", &[x, x]);
    row_sums(graph, &square, 1, true)
}

fn row_sums(graph: &mut Graph, array: &str, axis: i64, keep: bool) -> Name {
    let axis = graph.integers(&[axis]);
    graph.apply_with("ReduceSum", &[array, &axis], &[("keepdims", i64::from(keep))])
}
