//! Kernels as expressions: values that can be written, compared, resolved and built.

use super::AnyKernel;
use super::algebra::{Combined, Operation, Scaled};
use super::applied::{Applied, Function};
use super::median::median_distance;
use super::parse;
use super::points::row;
use super::registry::{Domain, Family, Metric, Value, registry};
use crate::{Error, Real, Result};
use faer::MatRef;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A kernel as an expression, such as `gaussian(sigma=3) + 0.5*linear()`.
///
/// ```text
/// sum     = product { "+" product }
/// product = factor { "*" factor }
/// factor  = number | "(" sum ")" | function "(" sum [ "," parameter "=" number ] ")" | name [ "(" [ parameter "=" value { "," … } ] ")" ]
/// value   = number | "median" | "[" number { "," number } "]"
/// function = "exp" | "power" | "normalised" | "mean"
/// ```
/// `power(k, degree=2)` is k to a whole power, `normalised(k)` is k(x,z) / √(k(x,x) k(z,z)), and `mean(k, p=1)` is
/// k(x,z) / ((k(x,x)^p + k(z,z)^p) / 2)^(1/p), where 0/0 is 0.
/// Names are those of the [`registry()`]; parameters that are not given have its defaults; factors are not
/// negative. Reading brings an expression into a canonical form (nested sums and products flat, factors in front,
/// parameters in the registry's order), and [`Display`](fmt::Display) writes that form: reading it again gives an equal
/// `Spec`, to the last bit of each number.
///
/// ```
/// use kapprox::kernel::Spec;
/// let spec = Spec::parse("(linear() * 2) + matern(nu=2.5, sigma=1)")?;
/// assert_eq!(spec.to_string(), "2*linear() + matern(nu=2.5, sigma=1)");
/// assert_eq!(Spec::parse(&spec.to_string())?, spec);
/// # Ok::<(), kapprox::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Spec(pub(super) Node);

/// An expression in canonical form.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// A kernel of the registry, with a value for each of its parameters.
    Call(&'static Family, Vec<Value>),
    /// A number ≥ 0 other than 1, times what is no `Scaled` itself.
    Scaled(f64, Box<Node>),
    /// A function of a kernel.
    Applied(Function, Box<Node>),
    /// Two or more, none of them a `Product` or `Scaled`.
    Product(Vec<Node>),
    /// Two or more, none of them a `Sum`.
    Sum(Vec<Node>),
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Call(a, x), Self::Call(b, y)) => a.name == b.name && x == y,
            (Self::Scaled(a, x), Self::Scaled(b, y)) => a == b && x == y,
            (Self::Applied(a, x), Self::Applied(b, y)) => a == b && x == y,
            (Self::Product(x), Self::Product(y)) | (Self::Sum(x), Self::Sum(y)) => x == y,
            _ => false,
        }
    }
}

impl Default for Spec {
    /// `gaussian(sigma=median)`.
    fn default() -> Self {
        let gaussian = &registry()[0];
        Self(Node::Call(gaussian, gaussian.parameters.iter().map(|p| p.default.clone()).collect()))
    }
}

impl FromStr for Spec {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl Spec {
    /// Reads an expression.
    ///
    /// # Errors
    /// [`Error::Spec`], which points at the character that cannot be right and says what would be.
    pub fn parse(text: &str) -> Result<Self> {
        parse::parse(text).map(Self)
    }

    /// exp(k).
    #[must_use]
    pub fn exp(self) -> Self {
        Self(Node::Applied(Function::Exp, Box::new(self.0)))
    }

    /// k(x, z) / √(k(x, x) k(z, z)), where 0/0 is 0.
    #[must_use]
    pub fn normalised(self) -> Self {
        Self(Node::Applied(Function::Normalised, Box::new(self.0)))
    }

    /// Whether any parameter is `median`, so that [`resolve_median`](Self::resolve_median) must come before
    /// [`build`](Self::build).
    pub fn needs_median(&self) -> bool {
        METRICS.iter().any(|&metric| self.0.uses(metric))
    }

    /// The expression with a number for each `median`: the median distance over all pairs of rows of `sample`
    /// (n x d, of 1,000 evenly spaced rows if there are more), in the metric of the kernel it stands in.
    ///
    /// If that median is 0, the median of the distances that are not 0; if all are 0, 1. Costs at most 500,000 d
    /// operations per metric. (Garreau, Jitkrittum, Kanagawa, arXiv 1707.07269, 2017.)
    ///
    /// # Errors
    /// [`Error::NotFinite`] if a distance is not finite.
    pub fn resolve_median(&self, sample: MatRef<'_, f64>) -> Result<Self> {
        let mut medians = [f64::NAN; METRICS.len()];
        for (median, &metric) in medians.iter_mut().zip(METRICS) {
            if self.0.uses(metric) {
                *median = median_distance(sample, metric)?;
            }
        }
        Ok(Self(self.0.with_medians(&medians)))
    }

    /// Name and numbers of an expression that is a single kernel of the registry, without lists or medians.
    pub fn call(&self) -> Option<(&'static str, Vec<f64>)> {
        let Node::Call(family, values) = &self.0 else { return None };
        let number = |value: &Value| match value {
            Value::Number(number) => Some(*number),
            Value::Each(_) | Value::Median => None,
        };
        Some((family.name, values.iter().map(number).collect::<Option<_>>()?))
    }

    /// Whether k is positive definite whatever the points, as far as the rules of sums, products and multiples tell.
    pub fn positive_definite(&self) -> bool {
        let mut families = Vec::new();
        self.0.families(&mut families);
        families.iter().all(|family| family.positive_definite)
    }

    /// Refuses a number of features that a list in the expression does not have.
    ///
    /// # Errors
    /// [`Error::Features`].
    pub fn check_features(&self, d: usize) -> Result<()> {
        match self.0.list_of_other_length(d) {
            None => Ok(()),
            Some((kernel, listed)) => Err(Error::Features { kernel, listed, features: d }),
        }
    }

    /// The values that every kernel of the expression is defined for.
    pub fn domain(&self) -> Domain {
        let mut families = Vec::new();
        self.0.families(&mut families);
        families.into_iter().map(|family| family.domain).max().unwrap_or(Domain::Any)
    }

    /// Refuses points with values that the kernel is not defined for: negative ones for chi-squared kernels, others than
    /// 0 and 1 for kernels of sets. `first_row` is the number of the first row, for the message. Costs a look at every
    /// value for those kernels, nothing for others.
    ///
    /// # Errors
    /// [`Error::Domain`].
    pub fn check_values<T: Real>(&self, x: MatRef<'_, T>, first_row: u64) -> Result<()> {
        let (mut families, mut spare) = (Vec::new(), Vec::new());
        self.0.families(&mut families);
        for family in families.into_iter().filter(|family| family.domain != Domain::Any) {
            for i in 0..x.nrows() {
                let row = row(x, i, &mut spare);
                if let Some(k) = row.iter().position(|value| !family.domain.contains(value.to_f64())) {
                    return Err(Error::Domain {
                        kernel: family.name,
                        domain: family.domain,
                        row: first_row + i as u64,
                        feature: k,
                        value: row[k].to_f64(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The kernel.
    ///
    /// # Errors
    /// [`Error::Spec`] if a `median` has not been resolved.
    pub fn build(&self) -> Result<Arc<dyn AnyKernel>> {
        if self.needs_median() {
            let text = self.to_string();
            let at = text.find("median").unwrap_or(0);
            let message = "median has no value yet: it is resolved on a sample of the rows".into();
            return Err(Error::Spec { text, at, message });
        }
        Ok(self.0.build())
    }
}

/// The distances that medians are taken of.
const METRICS: &[Metric] = &[Metric::L1, Metric::L2, Metric::ChiSquared];

impl Node {
    /// The kernels of the registry that stand in the expression.
    fn families(&self, found: &mut Vec<&'static Family>) {
        match self {
            Self::Call(family, _) => found.push(family),
            Self::Scaled(_, node) | Self::Applied(_, node) => node.families(found),
            Self::Product(nodes) | Self::Sum(nodes) => nodes.iter().for_each(|node| node.families(found)),
        }
    }

    /// A kernel with a list that has not `d` numbers, and how many it has.
    fn list_of_other_length(&self, d: usize) -> Option<(&'static str, usize)> {
        match self {
            Self::Call(family, values) => values.iter().find_map(|value| match value {
                Value::Each(list) if list.len() != d => Some((family.name, list.len())),
                _ => None,
            }),
            Self::Scaled(_, node) | Self::Applied(_, node) => node.list_of_other_length(d),
            Self::Product(nodes) | Self::Sum(nodes) => nodes.iter().find_map(|node| node.list_of_other_length(d)),
        }
    }

    fn uses(&self, metric: Metric) -> bool {
        match self {
            Self::Call(family, values) => family.metric == Some(metric) && values.contains(&Value::Median),
            Self::Scaled(_, node) | Self::Applied(_, node) => node.uses(metric),
            Self::Product(nodes) | Self::Sum(nodes) => nodes.iter().any(|node| node.uses(metric)),
        }
    }

    /// `medians` in the order of [`METRICS`].
    fn with_medians(&self, medians: &[f64; METRICS.len()]) -> Self {
        let all = |nodes: &[Self]| nodes.iter().map(|node| node.with_medians(medians)).collect();
        match self {
            Self::Call(family, values) => {
                let index = METRICS.iter().position(|&metric| family.metric == Some(metric));
                let median = index.map_or(f64::NAN, |index| medians[index]);
                let resolve = |value: &Value| match value {
                    Value::Median => Value::Number(median),
                    given => given.clone(),
                };
                Self::Call(family, values.iter().map(resolve).collect())
            }
            Self::Scaled(factor, node) => Self::Scaled(*factor, Box::new(node.with_medians(medians))),
            Self::Applied(function, node) => Self::Applied(*function, Box::new(node.with_medians(medians))),
            Self::Product(nodes) => Self::Product(all(nodes)),
            Self::Sum(nodes) => Self::Sum(all(nodes)),
        }
    }

    /// The kernel of an expression without medians.
    fn build(&self) -> Arc<dyn AnyKernel> {
        let text = self.to_string();
        match self {
            Self::Call(family, values) => match (values.as_slice(), family.each) {
                ([Value::Each(list)], Some(each)) => each(text, list),
                _ => {
                    let number = |value: &Value| match value {
                        Value::Number(number) => *number,
                        Value::Each(_) | Value::Median => f64::NAN,
                    };
                    (family.build)(text, &values.iter().map(number).collect::<Vec<_>>())
                }
            },
            Self::Scaled(factor, node) => Arc::new(Scaled { text, factor: *factor, kernel: node.build() }),
            Self::Applied(function, node) => Arc::new(Applied { text, function: *function, kernel: node.build() }),
            Self::Product(nodes) => combined(text, Operation::Product, nodes),
            Self::Sum(nodes) => combined(text, Operation::Sum, nodes),
        }
    }
}

fn combined(text: String, operation: Operation, nodes: &[Node]) -> Arc<dyn AnyKernel> {
    let others = nodes[1..].iter().map(Node::build).collect();
    Arc::new(Combined { text, operation, first: nodes[0].build(), others })
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(family, values) => {
                write!(f, "{}(", family.name)?;
                for (i, (parameter, value)) in family.parameters.iter().zip(values).enumerate() {
                    write!(f, "{}{}={value}", if i > 0 { ", " } else { "" }, parameter.name)?;
                }
                write!(f, ")")
            }
            Self::Scaled(factor, node) => {
                write!(f, "{}*", Value::Number(*factor))?;
                node.fmt_operand(f)
            }
            Self::Applied(Function::Exp, node) => write!(f, "exp({node})"),
            Self::Applied(Function::Power(degree), node) => write!(f, "power({node}, degree={degree})"),
            Self::Applied(Function::Normalised, node) => write!(f, "normalised({node})"),
            Self::Applied(Function::Mean(p), node) => write!(f, "mean({node}, p={})", Value::Number(*p)),
            Self::Product(nodes) => join(f, nodes, "*", Self::fmt_operand),
            Self::Sum(nodes) => join(f, nodes, " + ", Self::fmt),
        }
    }
}

impl Node {
    /// As an operand of `*`: sums in parentheses.
    fn fmt_operand(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sum(_) => write!(f, "({self})"),
            _ => write!(f, "{self}"),
        }
    }
}

fn join(
    f: &mut fmt::Formatter<'_>,
    nodes: &[Node],
    between: &str,
    write: impl Fn(&Node, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    for (i, node) in nodes.iter().enumerate() {
        if i > 0 {
            f.write_str(between)?;
        }
        write(node, f)?;
    }
    Ok(())
}

impl fmt::Display for Value {
    /// The shortest digits that read back to the same number; an exponent where plain digits would be long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Median => f.write_str("median"),
            Self::Each(numbers) => {
                f.write_str("[")?;
                for (i, number) in numbers.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { ", " } else { "" }, Self::Number(*number))?;
                }
                f.write_str("]")
            }
            Self::Number(number) if *number == 0.0 || (1e-5..1e16).contains(&number.abs()) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number:e}"),
        }
    }
}
