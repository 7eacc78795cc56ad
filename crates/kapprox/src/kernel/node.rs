//! Kernel expressions: trees in canonical form, their text, and the kernels that they compute.

use super::algebra::{CombinedKernel, Operation};
use super::column_choice::{ColumnIndices, ColumnSelection};
use super::family::{Distance, ExplicitForm, GAMMA, KernelFamily, NumericParameter, Value};
use super::transform::{KernelTransform, ScaleFactor, transformed_kernel};
use super::{AnyKernel, embedded::embedded_kernel, input_scale::InputScale};
use crate::{Error, Result};
use kpass::quantiles::KNOTS_PER_INPUT;
use std::{fmt, sync::Arc};

/// An expression in canonical form.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Base(BaseKernel),
    /// A number ≥ 0 other than 1, times an expression other than `Scaled`.
    Scaled(f64, Box<Node>),
    Transformed(KernelTransform, Box<Node>),
    /// Two or more factors, none of them a `Product` or `Scaled`.
    Product(Vec<Node>),
    /// Two or more terms, none of them a `Sum`.
    Sum(Vec<Node>),
}

#[derive(Debug, Clone)]
pub(super) struct BaseKernel {
    pub(super) family: &'static KernelFamily,
    pub(super) values: Vec<Value>,
    /// Columns that the kernel uses; `None` for all.
    pub(super) columns: Option<ColumnSelection>,
    /// Transform of these columns before the kernel; `None` for the identity.
    pub(super) scale: Option<InputScale>,
    /// Number of columns if the points are sparse.
    pub(super) sparse_column_count: Option<usize>,
}

impl PartialEq for BaseKernel {
    fn eq(&self, other: &Self) -> bool {
        self.family.name == other.family.name
            && self.values == other.values
            && (&self.columns, self.sparse_column_count) == (&other.columns, other.sparse_column_count)
            && self.scale == other.scale
    }
}

impl Node {
    pub(super) fn sum(terms: impl IntoIterator<Item = Self>) -> Self {
        let mut flat_terms = Vec::new();
        for term in terms {
            match term {
                Self::Sum(inner) => flat_terms.extend(inner),
                term => flat_terms.push(term),
            }
        }
        unwrap_single(flat_terms, Self::Sum)
    }

    /// Returns `scale` ≥ 0 times the product of one or more expressions. Numeric factors of these
    /// expressions are multiplied into `scale`; a factor that overflows becomes the largest finite
    /// number.
    pub(super) fn product(mut scale: f64, factors: impl IntoIterator<Item = Self>) -> Self {
        let mut flat_terms = Vec::new();
        for factor in factors {
            let factor = match factor {
                Self::Scaled(number, node) => {
                    scale = (scale * number).min(f64::MAX);
                    *node
                }
                factor => factor,
            };
            match factor {
                Self::Product(inner) => flat_terms.extend(inner),
                factor => flat_terms.push(factor),
            }
        }
        let node = unwrap_single(flat_terms, Self::Product);
        if scale == 1.0 { node } else { Self::Scaled(scale, Box::new(node)) }
    }

    /// Returns whether the kernel is provably characteristic (and universal, if `also_universal` is
    /// true). The rules cover registry kernels, sums with one such term, products of kernels that
    /// are characteristic and universal, and the exponential of the linear kernel.
    pub(super) fn is_characteristic(&self, also_universal: bool) -> bool {
        match self {
            Self::Base(base_kernel) => {
                base_kernel.family.properties.characteristic
                    && base_kernel.scale.is_none()
                    && (!also_universal || base_kernel.family.properties.universal)
            }
            Self::Scaled(factor, node) => *factor > 0.0 && node.is_characteristic(also_universal),
            Self::Transformed(KernelTransform::Exp, node) => {
                matches!(&**node, Self::Base(base_kernel) if base_kernel.family.explicit_form == Some(ExplicitForm::Linear))
            }
            Self::Transformed(..) => false,
            Self::Product(nodes) => nodes.iter().all(|node| node.is_characteristic(true)),
            Self::Sum(nodes) => nodes.iter().any(|node| node.is_characteristic(also_universal)),
        }
    }

    /// Returns the kernels of the registry in the expression, from left to right.
    pub(super) fn base_kernels(&self) -> Vec<&BaseKernel> {
        match self {
            Self::Base(base_kernel) => vec![base_kernel],
            Self::Scaled(_, node) | Self::Transformed(_, node) => node.base_kernels(),
            Self::Product(nodes) | Self::Sum(nodes) => nodes.iter().flat_map(Self::base_kernels).collect(),
        }
    }

    /// Returns the expression with each of its kernels replaced by the result of `replace`.
    pub(super) fn map_base_kernels(&self, replace: &mut dyn FnMut(&BaseKernel) -> Result<BaseKernel>) -> Result<Self> {
        let mut map_all =
            |nodes: &[Self]| nodes.iter().map(|node| node.map_base_kernels(replace)).collect::<Result<_>>();
        Ok(match self {
            Self::Product(nodes) => Self::Product(map_all(nodes)?),
            Self::Sum(nodes) => Self::Sum(map_all(nodes)?),
            Self::Base(base_kernel) => Self::Base(replace(base_kernel)?),
            Self::Scaled(factor, node) => Self::Scaled(*factor, Box::new(node.map_base_kernels(replace)?)),
            Self::Transformed(function, node) => {
                Self::Transformed(*function, Box::new(node.map_base_kernels(replace)?))
            }
        })
    }

    /// Builds the kernel. The columns must be resolved, and each `median`, `auto` and c/d must
    /// already be replaced by a number.
    pub(super) fn build(&self) -> Arc<dyn AnyKernel> {
        let text = self.to_string();
        match self {
            Self::Base(base_kernel) => base_kernel.build(text),
            Self::Scaled(factor, node) => transformed_kernel(text, ScaleFactor(*factor), node.build()),
            Self::Transformed(function, node) => transformed_kernel(text, *function, node.build()),
            Self::Product(nodes) | Self::Sum(nodes) => {
                let operation = if matches!(self, Self::Sum(_)) { Operation::Sum } else { Operation::Product };
                Arc::new(CombinedKernel { text, operation, kernels: nodes.iter().map(Self::build).collect() })
            }
        }
    }

    /// Returns the expression as an operand of `*`, with a sum in parentheses.
    fn operand_text(&self) -> String {
        if matches!(self, Self::Sum(_)) { format!("({self})") } else { self.to_string() }
    }
}

impl BaseKernel {
    /// Returns the distance whose median replaces `median` or `auto`, or `None` if no parameter has
    /// such a value.
    pub(super) fn median_distance_kind(&self) -> Option<Distance> {
        self.family.distance.filter(|_| self.values.contains(&Value::Median) || self.has_auto_value())
    }

    pub(super) fn has_auto_value(&self) -> bool {
        self.values.contains(&Value::Auto)
    }

    /// Returns the positions of the columns that the kernel uses. Returns `None` if it uses all
    /// columns, or if its columns are not resolved.
    pub(super) fn column_indices(&self) -> Option<&ColumnIndices> {
        self.columns.as_ref().and_then(ColumnSelection::indices)
    }

    pub(super) fn depends_on_feature_count(&self) -> bool {
        self.values.iter().any(|value| matches!(value, Value::OverInputCount(_)))
    }

    /// Returns the kernel for points with `d` features in total. Each parameter of the form c/d, a
    /// number divided by the number of features, becomes a number; if c/d is the rate of a length
    /// scale (`gamma`), it becomes the length scale.
    pub(super) fn with_feature_count(self, d: usize) -> Self {
        let d = self.column_indices().map_or(d, |indices| indices.len()).max(1) as f64;
        let resolve = |(value, parameter): (Value, &NumericParameter)| match (value, self.family.rate_to_length_scale) {
            (Value::OverInputCount(number), Some(rate)) if parameter.is_length_scale() => {
                Value::Number(rate(number / d).min(f64::MAX))
            }
            (Value::OverInputCount(number), _) => Value::Number(number / d),
            (other, _) => other,
        };
        Self { values: self.values.into_iter().zip(self.family.parameters).map(resolve).collect(), ..self }
    }

    pub(super) fn has_unresolved_columns(&self) -> bool {
        self.columns.is_some() && self.column_indices().is_none()
    }

    /// Returns the position of the length scale among the parameters.
    pub(super) fn length_position(&self) -> Option<usize> {
        self.family.parameters.iter().position(NumericParameter::is_length_scale)
    }

    /// Returns the length scales, one per feature. Returns `None` if there is one for all features.
    fn length_scale_list(&self) -> Option<&[f64]> {
        self.values.iter().find_map(|value| if let Value::List(list) = value { Some(&list[..]) } else { None })
    }

    /// Returns the values, or `None` if any value is not a single number.
    pub(super) fn numbers(&self) -> Option<Vec<f64>> {
        self.values.iter().map(Value::number).collect()
    }

    pub(super) fn check_feature_count(&self, d: usize) -> Result<()> {
        let features = self.column_indices().map_or(d, |indices| indices.len());
        let count_error = |why| Err(Error::InputCount { kernel: self.family.name, feature_count: features, why });
        if let Some(InputScale::Knots(knots)) = self.scale.as_ref().filter(|_| features > 0)
            && knots.len() != features * KNOTS_PER_INPUT
        {
            return count_error(format!("but scale has the quantiles of {}", knots.len() / KNOTS_PER_INPUT));
        }
        if let Some(list) = self.length_scale_list().filter(|list| list.len() != features) {
            return count_error(format!("but the list has {} numbers; give one for each input", list.len()));
        }
        self.numbers()
            .map_or(Ok(()), |numbers| (self.family.check_input_count)(&numbers, features).or_else(count_error))
    }

    fn build(&self, text: String) -> Arc<dyn AnyKernel> {
        let Some(indices) = self.column_indices() else {
            let kernel = self.build_on_all_columns(text);
            return match self.sparse_column_count {
                // kernels without sparse support were rejected when the points were declared sparse
                Some(_) => kernel.typed::<f64>().sparse_kernel().unwrap_or(kernel),
                None => kernel,
            };
        };
        let unrestricted = Self { columns: None, ..self.clone() };
        embedded_kernel(text, indices.clone(), unrestricted.build(unrestricted.to_string()))
    }

    /// Returns whether every number is in the range of its parameter. Parsed numbers are in range;
    /// the constructors accept any number.
    pub(super) fn is_valid(&self) -> bool {
        self.family.parameters.iter().zip(&self.values).all(|(parameter, value)| match value {
            Value::Number(number) => parameter.range.contains(*number),
            Value::List(numbers) => {
                self.family.build_list.is_some()
                    && parameter.is_length_scale()
                    && numbers.iter().all(|number| parameter.range.contains(*number))
            }
            Value::OverInputCount(_) | Value::Median | Value::Auto => parameter.is_length_scale(),
        })
    }

    /// Returns whether the kernel supports sparse points, whatever the numbers of its parameters.
    pub(super) fn supports_sparse(&self) -> bool {
        self.columns.is_none()
            && self.scale.is_none()
            && self.build_on_all_columns(String::new()).typed::<f64>().sparse_kernel().is_some()
    }

    fn build_on_all_columns(&self, text: String) -> Arc<dyn AnyKernel> {
        // next to a list of length scales, the single length scale is 1 (see `BuildListFn`); an
        // unresolved value becomes NaN, which only `supports_sparse` allows, because it computes no
        // values
        let placeholder = if self.length_scale_list().is_some() { 1.0 } else { f64::NAN };
        let values: Vec<f64> = self.values.iter().map(|value| value.number().unwrap_or(placeholder)).collect();
        let unscaled_text = match self.scale {
            Some(_) => Self { scale: None, ..self.clone() }.to_string(),
            None => text.clone(),
        };
        let kernel = match (self.length_scale_list(), self.family.build_list) {
            (Some(lengths), Some(build)) => build(unscaled_text, &values, lengths),
            _ => (self.family.build)(unscaled_text, &values),
        };
        self.with_scaled_inputs(text, kernel)
    }
}

/// Returns the only node, or, if there are several nodes, the node that `combine` makes of them.
fn unwrap_single(mut nodes: Vec<Node>, combine: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(single) if nodes.is_empty() => single,
        last => {
            nodes.extend(last);
            combine(nodes)
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base(base_kernel) => base_kernel.fmt(f),
            Self::Scaled(factor, node) => write!(f, "{}*{}", Value::Number(*factor), node.operand_text()),
            Self::Transformed(KernelTransform::Exp, node) => write!(f, "exp({node})"),
            Self::Transformed(KernelTransform::Power(degree), node) => write!(f, "power({node}, degree={degree})"),
            Self::Transformed(KernelTransform::Normalised, node) => write!(f, "normalised({node})"),
            Self::Transformed(KernelTransform::Mean(p), node) => write!(f, "mean({node}, p={})", Value::Number(*p)),
            Self::Product(nodes) => f.write_str(&nodes.iter().map(Self::operand_text).collect::<Vec<_>>().join("*")),
            Self::Sum(nodes) => f.write_str(&nodes.iter().map(Self::to_string).collect::<Vec<_>>().join(" + ")),
        }
    }
}

impl fmt::Display for BaseKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named_values = self.family.parameters.iter().zip(&self.values);
        let name = |parameter: &NumericParameter, value: &Value| match value {
            Value::OverInputCount(_) if parameter.is_length_scale() => GAMMA,
            _ => parameter.name,
        };
        let mut arguments: Vec<_> =
            named_values.map(|(parameter, value)| format!("{}={value}", name(parameter, value))).collect();
        arguments.extend(self.scale.as_ref().map(|scale| format!("scale={scale}")));
        arguments.extend(self.columns.as_ref().map(|columns| format!("on={columns}")));
        write!(f, "{}({})", self.family.name, arguments.join(", "))
    }
}

impl Value {
    pub(crate) fn number(&self) -> Option<f64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }
}

impl fmt::Display for Value {
    /// Writes the shortest digits that parse back to the same number, with an exponent if plain
    /// digits would be long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Median => f.write_str("median"),
            Self::Auto => f.write_str("auto"),
            Self::OverInputCount(number) => write!(f, "{}/d", Self::Number(*number)),
            Self::List(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(|number| Self::Number(*number).to_string()).collect();
                write!(f, "[{}]", numbers.join(", "))
            }
            Self::Number(number) if *number == 0.0 || (1e-5..1e16).contains(&number.abs()) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number:e}"),
        }
    }
}
