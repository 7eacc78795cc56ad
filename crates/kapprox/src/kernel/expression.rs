//! Kernel expressions as trees that other programs can read, for whoever writes them in another language.

use super::node::{Call, Node};
use super::{Kernel, applied::KernelTransform, family::Value};

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
        /// Its name.
        family: &'static str,
        /// The names of its parameters, each with a number, or a number for each feature.
        parameters: Vec<(&'static str, Vec<f64>)>,
        /// The positions of the features that it looks at; `None` for all.
        columns: Option<Vec<usize>>,
    },
    /// A number times a kernel.
    Scaled(f64, Box<Expression>),
    /// exp(k).
    Exp(Box<Expression>),
    /// k to a whole power.
    Power(u32, Box<Expression>),
    /// k(x, z) over a mean of k(x, x) and k(z, z): the geometric mean.
    Normalised(Box<Expression>),
    /// k(x, z) over the mean of k(x, x) and k(z, z) with this exponent.
    Mean(f64, Box<Expression>),
    /// A product of kernels.
    Product(Vec<Expression>),
    /// A sum of kernels.
    Sum(Vec<Expression>),
}

impl Kernel {
    /// The expression as a tree; `None` where a parameter still waits for a length or a number of features, or columns for their names.
    #[doc(hidden)]
    pub fn expression(&self) -> Option<Expression> {
        tree(&self.0)
    }
}

fn tree(node: &Node) -> Option<Expression> {
    let all = |nodes: &[Node]| nodes.iter().map(tree).collect::<Option<Vec<_>>>();
    Some(match node {
        Node::Call(call) => return kernel(call),
        Node::Scaled(factor, node) => Expression::Scaled(*factor, Box::new(tree(node)?)),
        Node::Applied(KernelTransform::Exp, node) => Expression::Exp(Box::new(tree(node)?)),
        Node::Applied(KernelTransform::Power(power), node) => Expression::Power(*power, Box::new(tree(node)?)),
        Node::Applied(KernelTransform::Normalised, node) => Expression::Normalised(Box::new(tree(node)?)),
        Node::Applied(KernelTransform::Mean(p), node) => Expression::Mean(*p, Box::new(tree(node)?)),
        Node::Product(nodes) => Expression::Product(all(nodes)?),
        Node::Sum(nodes) => Expression::Sum(all(nodes)?),
    })
}

fn kernel(call: &Call) -> Option<Expression> {
    let number = |value: &Value| match value {
        Value::Number(number) => Some(vec![*number]),
        Value::Each(numbers) => Some(numbers.clone()),
        Value::Share(_) | Value::Median | Value::Auto => None,
    };
    let named = call.family.parameters.iter().zip(&call.values);
    let parameters = named.map(|(parameter, value)| Some((parameter.name, number(value)?))).collect::<Option<_>>()?;
    let columns = match (&call.columns, call.places()) {
        (None, _) => None,
        (Some(_), Some(places)) => Some(places.iter().collect()),
        (Some(_), None) => return None,
    };
    Some(Expression::Kernel { family: call.family.name, parameters, columns })
}
