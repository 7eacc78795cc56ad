//! Kernel expressions as trees that callers in other languages can read.

use super::input_scale::InputScale;
use super::node::{BaseKernel, Node};
use super::{Kernel, family::Value, transform::KernelTransform};

/// A kernel expression as a tree.
///
/// ```
/// use kapprox::kernel::{Expression, Kernel};
/// let spec = Kernel::parse("2 * gaussian(sigma=3)")?;
/// let Some(Expression::Scaled(factor, kernel)) = spec.expression() else { panic!() };
/// let Expression::Kernel { family, parameters, .. } = *kernel else { panic!() };
/// assert_eq!((factor, family, &parameters[..]), (2.0, "gaussian", &[("sigma", vec![3.0])][..]));
/// # Ok::<(), kapprox::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Expression {
    /// A kernel of the registry.
    Kernel {
        /// Name of the kernel.
        family: &'static str,
        /// Names of the parameters, each with one number, or with one number per feature.
        parameters: Vec<(&'static str, Vec<f64>)>,
        /// Positions of the features that the kernel uses; `None` for all.
        columns: Option<Vec<usize>>,
        /// Knots of the quantile scores that replace the features, as in [`kpass::quantiles`];
        /// empty if the kernel uses the features themselves.
        #[doc(hidden)]
        knots: Vec<f64>,
    },
    /// A number times a kernel.
    Scaled(f64, Box<Expression>),
    /// exp(k).
    Exp(Box<Expression>),
    /// k raised to an integer power.
    Power(u32, Box<Expression>),
    /// k(x, z) divided by the geometric mean of k(x, x) and k(z, z).
    Normalised(Box<Expression>),
    /// k(x, z) divided by the power mean of k(x, x) and k(z, z) with this exponent.
    Mean(f64, Box<Expression>),
    /// A product of kernels.
    Product(Vec<Expression>),
    /// A sum of kernels.
    Sum(Vec<Expression>),
}

impl Kernel {
    /// Returns the expression as a tree. Returns `None` if a length scale is still `median` or
    /// `auto`, if a parameter is still relative to the number of features (`1/d`), if a column name
    /// is not yet resolved to a position, or if the quantiles of an input are not yet computed.
    #[doc(hidden)]
    pub fn expression(&self) -> Option<Expression> {
        expression_of(&self.0)
    }
}

fn expression_of(node: &Node) -> Option<Expression> {
    let expressions_of = |nodes: &[Node]| nodes.iter().map(expression_of).collect::<Option<Vec<_>>>();
    Some(match node {
        Node::Base(base_kernel) => return call_expression(base_kernel),
        Node::Scaled(factor, node) => Expression::Scaled(*factor, Box::new(expression_of(node)?)),
        Node::Transformed(KernelTransform::Exp, node) => Expression::Exp(Box::new(expression_of(node)?)),
        Node::Transformed(KernelTransform::Power(power), node) => {
            Expression::Power(*power, Box::new(expression_of(node)?))
        }
        Node::Transformed(KernelTransform::Normalised, node) => Expression::Normalised(Box::new(expression_of(node)?)),
        Node::Transformed(KernelTransform::Mean(p), node) => Expression::Mean(*p, Box::new(expression_of(node)?)),
        Node::Product(nodes) => Expression::Product(expressions_of(nodes)?),
        Node::Sum(nodes) => Expression::Sum(expressions_of(nodes)?),
    })
}

fn call_expression(base_kernel: &BaseKernel) -> Option<Expression> {
    let knots = match &base_kernel.scale {
        None => Vec::new(),
        Some(InputScale::Knots(knots)) => knots.to_vec(),
        Some(InputScale::Quantile) => return None,
    };
    let numbers_of = |value: &Value| match value {
        Value::Number(number) => Some(vec![*number]),
        Value::List(numbers) => Some(numbers.clone()),
        Value::OverInputCount(_) | Value::Median | Value::Auto => None,
    };
    let named_values = base_kernel.family.parameters.iter().zip(&base_kernel.values);
    let parameters =
        named_values.map(|(parameter, value)| Some((parameter.name, numbers_of(value)?))).collect::<Option<_>>()?;
    let columns = match (&base_kernel.columns, base_kernel.column_indices()) {
        (None, _) => None,
        (Some(_), Some(indices)) => Some(indices.iter().collect()),
        (Some(_), None) => return None,
    };
    Some(Expression::Kernel { family: base_kernel.family.name, parameters, columns, knots })
}
