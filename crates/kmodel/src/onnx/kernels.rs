//! Kernel values k(x, z_j) and k(x, x) as ONNX operations.

use super::graph::Value;
use super::quantile_scores::quantile_scores;
use kapprox::kernel::Expression;
use kstore::quantiles::{self, KNOTS_PER_INPUT};

/// Points of the kernel functions, m x d row-major.
#[derive(Clone, Copy)]
pub(super) struct KernelPoints<'a> {
    pub(super) values: &'a [f64],
    pub(super) d: usize,
}

impl KernelPoints<'_> {
    /// Returns the features of the points that a kernel on `columns` reads (all features if
    /// `None`), and the number of these features.
    fn in_columns(self, columns: Option<&[usize]>) -> (Vec<f64>, usize) {
        let Some(columns) = columns else { return (self.values.to_vec(), self.d) };
        let rows = self.values.chunks_exact(self.d.max(1));
        (rows.flat_map(|row| columns.iter().map(|column| row[*column])).collect(), columns.len())
    }
}

/// Replaces each of d features of points (row-major) by its quantile score.
fn to_quantile_scores(points: &mut [f64], d: usize, knots: &[f64]) {
    for row in points.chunks_exact_mut(d.max(1)) {
        row.iter_mut()
            .zip(knots.chunks_exact(KNOTS_PER_INPUT))
            .for_each(|(value, knots)| *value = quantiles::apply(knots, *value));
    }
}

/// Returns the matrix of k(x_i, z_j), N x m, for the points z_j. Without points, returns k(x_i,
/// x_i), N x 1, or a single number if it is the same for all rows. The error is the part of the
/// kernel expression that ONNX operations cannot express.
pub(super) fn kernel_values<'g>(
    expression: &Expression,
    x: &Value<'g>,
    points: Option<KernelPoints<'_>>,
) -> Result<Value<'g>, String> {
    let combine = |operation: &str, parts: &[Expression]| {
        let terms = parts.iter().map(|part| kernel_values(part, x, points)).collect::<Result<Vec<_>, _>>()?.into_iter();
        let combined = terms.reduce(|left, right| left.apply_binary(operation, &right));
        combined.ok_or("an empty expression".to_string())
    };
    match expression {
        Expression::Kernel { family, parameters, columns, knots } => {
            let parameter_values =
                |name: &str| parameters.iter().find(|(other, _)| *other == name).map(|(_, values)| &values[..]);
            let mut inputs = select_columns(x, columns.as_deref());
            let mut points = points.map(|points| points.in_columns(columns.as_deref()));
            if !knots.is_empty() {
                inputs = quantile_scores(&inputs, knots);
                points.iter_mut().for_each(|(points, d)| to_quantile_scores(points, *d, knots));
            }
            kernel(family, &parameter_values, KernelArguments { x: inputs, points, sigma: parameter_values("sigma") })
                .ok_or_else(|| format!("the kernel {family}"))
        }
        Expression::Scaled(factor, part) => Ok(kernel_values(part, x, points)?.apply_number("Mul", *factor)),
        Expression::Exp(part) => Ok(kernel_values(part, x, points)?.apply_unary("Exp")),
        Expression::Power(power, part) => Ok(kernel_values(part, x, points)?.apply_number("Pow", f64::from(*power))),
        Expression::Product(parts) => combine("Mul", parts),
        Expression::Sum(parts) => combine("Add", parts),
        _ => Err("a normalised kernel".to_string()),
    }
}

/// Returns the values of a registered kernel; `None` if ONNX operations cannot express it.
fn kernel<'v, 'g>(
    family: &str,
    parameter: &dyn Fn(&str) -> Option<&'v [f64]>,
    arguments: KernelArguments<'_, 'g>,
) -> Option<Value<'g>> {
    let number = |name: &str| parameter(name).and_then(|values| values.first().copied());
    // γ x·z + c₀, for the kernels with these parameters
    let affine =
        || Some(arguments.inner_products().apply_number("Mul", number("gamma")?).apply_number("Add", number("c0")?));
    Some(match family {
        "gaussian" => arguments.squared_distances().apply_number("Mul", -0.5).apply_unary("Exp"),
        "exponential" => matern(0.5, &arguments)?,
        "matern" => matern(number("nu")?, &arguments)?,
        "laplacian" => arguments.l1_distances().apply_unary("Neg").apply_unary("Exp"),
        "rational_quadratic" => {
            let alpha = number("alpha")?;
            arguments
                .squared_distances()
                .apply_number("Mul", 0.5 / alpha)
                .apply_number("Add", 1.0)
                .apply_number("Pow", -alpha)
        }
        "cauchy" => {
            let (squared_distances, unit) = (arguments.squared_distances(), arguments.x.graph.number(1.0));
            unit.apply_binary("Div", &unit.apply_binary("Add", &squared_distances))
        }
        "linear" => arguments.inner_products(),
        "polynomial" => affine()?.apply_number("Pow", number("degree")?),
        "sigmoid" => affine()?.apply_unary("Tanh"),
        "cosine" => arguments.cosine_similarities(),
        "constant" => arguments.inner_products().apply_number("Mul", 0.0).apply_number("Add", number("value")?),
        _ => return None,
    })
}

/// Returns the Matérn kernel for ν = 1/2, 3/2 or 5/2, and `None` for other ν. It is a polynomial of
/// t = √(2ν) r times exp(−t), where r is the distance.
fn matern<'g>(nu: f64, arguments: &KernelArguments<'_, 'g>) -> Option<Value<'g>> {
    // for ν > 1/2 the kernel near r = 0 depends on r², so squared distances are accurate enough
    let r = if nu == 0.5 { arguments.distances() } else { arguments.squared_distances().apply_unary("Sqrt") };
    let t = r.apply_number("Mul", (2.0 * nu).sqrt());
    let decay = t.apply_unary("Neg").apply_unary("Exp");
    if nu == 0.5 {
        return Some(decay);
    }
    let linear_factor = t.apply_number("Add", 1.0);
    let polynomial = match nu {
        1.5 => linear_factor,
        2.5 => linear_factor.apply_binary("Add", &t.apply_binary("Mul", &t).apply_number("Mul", 1.0 / 3.0)),
        _ => return None,
    };
    Some(polynomial.apply_binary("Mul", &decay))
}

fn select_columns<'g>(x: &Value<'g>, columns: Option<&[usize]>) -> Value<'g> {
    let Some(columns) = columns else { return x.clone() };
    let indices = x.graph.integers(&columns.iter().map(|column| *column as i64).collect::<Vec<_>>());
    x.apply_node("Gather", &[&indices], &[("axis", 1)])
}

/// The arguments of a kernel: rows x and points z, with the length scales of the features. Without
/// points, each row is compared with itself.
struct KernelArguments<'a, 'g> {
    x: Value<'g>,
    points: Option<(Vec<f64>, usize)>,
    sigma: Option<&'a [f64]>,
}

impl<'g> KernelArguments<'_, 'g> {
    /// Returns rows and points, minus the mean of the points, divided by the length scales. The
    /// mean is subtracted to avoid cancellation in squared distances.
    fn scaled_by_length_scales(&self, (points, d): &(Vec<f64>, usize)) -> (Value<'g>, Vec<f64>) {
        let point_count = (points.len() / d.max(&1)).max(1) as f64;
        let means: Vec<f64> = (0..*d).map(|j| points.iter().skip(j).step_by(*d).sum::<f64>() / point_count).collect();
        let sigma = self.sigma.unwrap_or(&[1.0]);
        let length_scales: Vec<f64> = (0..*d).map(|j| sigma[j % sigma.len()]).collect();
        let scale = |(j, z): (usize, &f64)| (z - means[j % d]) / length_scales[j % d];
        let points = points.iter().enumerate().map(scale).collect();
        let (means, scale_row) = (self.x.graph.row(&means), self.x.graph.row(&length_scales));
        (self.x.apply_binary("Sub", &means).apply_binary("Div", &scale_row), points)
    }

    /// Returns x·z, N x m, or x·x without points.
    fn inner_products(&self) -> Value<'g> {
        match &self.points {
            Some((points, d)) => dot(&self.x, points, *d),
            None => squared_norms(&self.x),
        }
    }

    fn zero(&self) -> Value<'g> {
        self.x.graph.number(0.0)
    }

    /// Returns ‖x − z‖² in units of the length scale.
    fn squared_distances(&self) -> Value<'g> {
        let Some(points) = &self.points else { return self.zero() };
        let ((x, z), d) = (self.scaled_by_length_scales(points), points.1);
        let z_squared_norms: Vec<f64> = z.chunks_exact(d).map(|z| z.iter().map(|v| v * v).sum()).collect();
        let (z_squared_norms, x_squared_norms) = (x.graph.row(&z_squared_norms), squared_norms(&x));
        let doubled_products = dot(&x, &z, d).apply_number("Mul", 2.0);
        // rounding can make a small distance negative
        x_squared_norms
            .apply_binary("Add", &z_squared_norms)
            .apply_binary("Sub", &doubled_products)
            .apply_number("Max", 0.0)
    }

    /// Returns ‖x − z‖ in units of the length scale. It is computed from the differences x − z,
    /// which need N x m x d numbers, because cancellation in the square ‖x‖² − 2xᵀz + ‖z‖² would
    /// cost its root half of the digits.
    fn distances(&self) -> Value<'g> {
        let Some(difference) = self.differences() else { return self.zero() };
        row_sums(&difference.apply_binary("Mul", &difference), 2, false).apply_unary("Sqrt")
    }

    /// Returns Σ |x − z| in units of the length scale. Needs N x m x d numbers.
    fn l1_distances(&self) -> Value<'g> {
        self.differences().map_or_else(|| self.zero(), |difference| row_sums(&difference.apply_unary("Abs"), 2, false))
    }

    /// Returns x − z in units of the length scale, N x m x d. Returns `None` without points.
    fn differences(&self) -> Option<Value<'g>> {
        let points = self.points.as_ref()?;
        let ((x, z), d) = (self.scaled_by_length_scales(points), points.1);
        let z = x.graph.numbers(&[1, z.len() / d.max(1), d], &z);
        Some(x.apply_binary("Unsqueeze", &x.graph.integers(&[1])).apply_binary("Sub", &z))
    }

    /// Returns x·z / (‖x‖ ‖z‖); 0 if a point is 0.
    fn cosine_similarities(&self) -> Value<'g> {
        let square = squared_norms(&self.x);
        let Some((points, d)) = &self.points else { return square.apply_unary("Sign") };
        let x_norms = square.apply_unary("Sqrt").apply_number("Max", f64::MIN_POSITIVE);
        let norm = |z: &[f64]| z.iter().map(|v| v * v).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        let unit_points: Vec<f64> = points.chunks_exact(*d).flat_map(|z| z.iter().map(move |v| v / norm(z))).collect();
        dot(&self.x, &unit_points, *d).apply_binary("Div", &x_norms)
    }
}

fn dot<'g>(x: &Value<'g>, points: &[f64], d: usize) -> Value<'g> {
    let m = points.len() / d.max(1);
    let transposed: Vec<f64> = (0..d).flat_map(|j| (0..m).map(move |i| points[i * d + j])).collect();
    x.apply_binary("MatMul", &x.graph.numbers(&[d, m], &transposed))
}

/// Returns ‖x‖² of each row of a matrix, N x 1.
pub(super) fn squared_norms<'g>(x: &Value<'g>) -> Value<'g> {
    row_sums(&x.apply_binary("Mul", x), 1, true)
}

pub(super) fn row_sums<'g>(array: &Value<'g>, axis: i64, keep_axis: bool) -> Value<'g> {
    let axis = array.graph.integers(&[axis]);
    array.apply_node("ReduceSum", &[&axis], &[("keepdims", i64::from(keep_axis))])
}
