//! Length scales of an expression: resolving them on a sample, and multiplying them.

use super::family::{NumericParameter, Value};
use super::spec::{INPUT_COUNT_UNKNOWN, Kernel};
use super::{input_scale::InputScale, median::median_distance, node::BaseKernel, node::Node};
use crate::{Error, Result};
use faer::MatRef;

impl Kernel {
    /// Returns whether any parameter is `median`, `auto` or `quantile`, so that
    /// [`resolve_median`](Self::resolve_median) must be called before [`build`](Self::build).
    #[doc(hidden)]
    pub fn needs_median(&self) -> bool {
        self.0.base_kernels().into_iter().any(|base_kernel| {
            base_kernel.median_distance_kind().is_some() || base_kernel.scale == Some(InputScale::Quantile)
        })
    }

    /// Returns whether any length scale is `auto`. If there is a target, the caller chooses this
    /// length scale among multiples of the median
    /// ([`resolve_length_scales`](Self::resolve_length_scales)).
    #[doc(hidden)]
    pub fn is_auto(&self) -> bool {
        self.auto_count() > 0
    }

    /// Returns the expression with `auto` instead of each `median`.
    ///
    /// # Errors
    /// Never returns an error; other functions that rewrite expressions have the same result type.
    #[doc(hidden)]
    pub fn with_auto_length_scales(&self) -> Result<Self> {
        let replace_median = |value: &Value| if *value == Value::Median { Value::Auto } else { value.clone() };
        self.0
            .map_base_kernels(&mut |base_kernel| {
                Ok(BaseKernel {
                    values: base_kernel.values.iter().map(replace_median).collect(),
                    ..base_kernel.clone()
                })
            })
            .map(Self)
    }

    /// Returns the number of kernels in the expression whose length scale is `auto`.
    #[doc(hidden)]
    pub fn auto_count(&self) -> usize {
        self.0.base_kernels().into_iter().filter(|base_kernel| base_kernel.has_auto_value()).count()
    }

    /// Returns the expression with a number instead of each `median` and `auto`, and with the
    /// quantiles of the sample instead of each `scale=quantile`. The number is the
    /// median distance over all pairs of rows of `sample` (n x d), computed with the distance of
    /// the kernel on the kernel's columns. If the sample has more than 1,000 rows, 1,000 evenly
    /// spaced rows of it are used.
    ///
    /// If that median is 0, the number is the median of the nonzero distances. If all distances are
    /// 0, the number is 1. Costs at most 500,000 d operations for each combination of a distance
    /// and columns. (Garreau, Jitkrittum, Kanagawa, arXiv 1707.07269, 2017.)
    ///
    /// # Errors
    /// [`Error::NotFinite`] if a distance is not finite, [`Error::Kernel`] if columns have not been
    /// resolved.
    pub fn resolve_median(&self, sample: MatRef<'_, f64>) -> Result<Self> {
        Ok(self.resolve_length_scales(sample, &[], &[vec![1.0]])?.swap_remove(0))
    }

    /// Returns the expression for each list of factors. Each `median` is resolved as in
    /// [`resolve_median`](Self::resolve_median), and each `auto` becomes a factor times the median.
    /// A list contains either a single factor for all `auto`, or one factor for each `auto` in the
    /// order of the expression. `weights` are the weights of the rows of `sample`, and empty if all
    /// rows count alike; a row of weight 2 counts like two equal rows.
    ///
    /// # Errors
    /// As for [`resolve_median`](Self::resolve_median).
    #[doc(hidden)]
    pub fn resolve_length_scales(
        &self,
        sample: MatRef<'_, f64>,
        weights: &[f64],
        factors: &[Vec<f64>],
    ) -> Result<Vec<Self>> {
        self.require_columns()?;
        let mut medians = Vec::new();
        let mut compute_median = |base_kernel: &BaseKernel, distance_kind| {
            let key = (distance_kind, base_kernel.column_indices().cloned(), base_kernel.scale.clone());
            if let Some((_, median)) = medians.iter().find(|(known_key, _)| *known_key == key) {
                return Ok(*median);
            }
            let is_sparse = base_kernel.sparse_column_count.is_some();
            let median = match (base_kernel.column_indices(), &base_kernel.scale) {
                (None, None) => median_distance(sample, weights, distance_kind, is_sparse)?,
                _ => {
                    let columns = base_kernel.select_columns(sample);
                    let inputs = base_kernel.scaled_inputs(columns.as_ref()).unwrap_or(columns);
                    median_distance(inputs.as_ref(), weights, distance_kind, is_sparse)?
                }
            };
            medians.push((key, median));
            Ok::<f64, Error>(median)
        };
        let mut resolve = |base_kernel: &BaseKernel, factors: &mut dyn Iterator<Item = f64>| {
            let base_kernel = &match base_kernel.scale {
                Some(_) => base_kernel.resolve_scale(base_kernel.select_columns(sample).as_ref(), weights),
                None => base_kernel.clone(),
            };
            let Some(distance_kind) = base_kernel.median_distance_kind() else { return Ok(base_kernel.clone()) };
            let median = compute_median(base_kernel, distance_kind)?;
            let factor = if base_kernel.has_auto_value() { factors.next().unwrap_or(1.0) } else { 1.0 };
            let resolve_value = |value: &Value| match value {
                Value::Median => Value::Number(median),
                Value::Auto => Value::Number((factor * median).clamp(f64::MIN_POSITIVE, f64::MAX)),
                other => other.clone(),
            };
            Ok(BaseKernel { values: base_kernel.values.iter().map(resolve_value).collect(), ..base_kernel.clone() })
        };
        let resolve_all = |factors: &Vec<f64>| {
            let mut factors = factors.iter().copied().cycle();
            self.0.map_base_kernels(&mut |base_kernel| resolve(base_kernel, &mut factors)).map(Self)
        };
        factors.iter().map(resolve_all).collect()
    }

    /// Returns the expression with every length scale (every parameter that can be `median`)
    /// multiplied by `factor`. Kernels without a length scale do not change.
    ///
    /// ```
    /// # use kapprox::Kernel;
    /// let spec: Kernel = "gaussian(sigma=3) + 0.5*linear()".parse()?;
    /// let scaled = spec.with_scaled_lengths(0.5)?;
    /// assert_eq!(scaled.to_string(), "gaussian(sigma=1.5) + 0.5*linear()");
    /// # Ok::<(), kapprox::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Kernel`] if a length scale has not been resolved, [`Error::NotFinite`] if a product
    /// is not a positive finite number.
    #[doc(hidden)]
    pub fn with_scaled_lengths(&self, factor: f64) -> Result<Self> {
        if self.needs_median() {
            return Err(self.unresolved_length_scale());
        }
        let scale = |value: &f64| {
            let length = value * factor;
            if length > 0.0 && length.is_finite() {
                return Ok(length);
            }
            let what = format!("the length scale {value} times {factor}");
            Err(Error::NotFinite { what, remedy: "choose another factor".to_string() })
        };
        let mut scale_lengths = |base_kernel: &BaseKernel| {
            let scale_value = |(value, parameter): (&Value, &NumericParameter)| -> Result<Value> {
                match value {
                    Value::Number(number) if parameter.is_length_scale() => Ok(Value::Number(scale(number)?)),
                    Value::OverInputCount(_) if parameter.is_length_scale() => {
                        Err(self.unresolved_error("/d", INPUT_COUNT_UNKNOWN))
                    }
                    Value::List(list) => Ok(Value::List(list.iter().map(scale).collect::<Result<_>>()?)),
                    other => Ok(other.clone()),
                }
            };
            let values =
                base_kernel.values.iter().zip(base_kernel.family.parameters).map(scale_value).collect::<Result<_>>()?;
            Ok(BaseKernel { values, ..base_kernel.clone() })
        };
        self.0.map_base_kernels(&mut scale_lengths).map(Self)
    }

    /// Returns the terms of a sum, each without its numeric factor. If the expression is not a sum,
    /// it is the only term.
    #[doc(hidden)]
    pub fn terms(&self) -> Vec<Self> {
        let term = |node: &Node| match node {
            Node::Scaled(_, node) => Self((**node).clone()),
            node => Self(node.clone()),
        };
        match &self.0 {
            Node::Sum(nodes) => nodes.iter().map(term).collect(),
            node => vec![term(node)],
        }
    }

    /// Returns the factor of each of the [`terms`](Self::terms).
    #[doc(hidden)]
    pub fn term_weights(&self) -> Vec<f64> {
        let weight = |node: &Node| if let Node::Scaled(factor, _) = node { *factor } else { 1.0 };
        match &self.0 {
            Node::Sum(nodes) => nodes.iter().map(weight).collect(),
            node => vec![weight(node)],
        }
    }

    /// Returns whether the expression has length scales, and each of them is a list with one number
    /// per column.
    #[doc(hidden)]
    pub fn has_length_lists(&self) -> bool {
        let base_kernels = self.0.base_kernels();
        let mut lengths =
            base_kernels.iter().filter_map(|kernel| kernel.values.get(kernel.length_position()?)).peekable();
        lengths.peek().is_some() && lengths.all(|length| matches!(length, Value::List(_)))
    }

    /// If the expression is a single kernel of the registry on dense rows, returns the columns that
    /// it uses among `d` features, each with its length scale. Returns `None` for other
    /// expressions, for a kernel that does not support a list of length scales, and for a length
    /// scale that is not resolved.
    #[doc(hidden)]
    pub fn column_lengths(&self, d: usize) -> Option<Vec<(usize, f64)>> {
        let Node::Base(base_kernel @ BaseKernel { sparse_column_count: None, .. }) = &self.0 else { return None };
        let length_index = base_kernel.length_position().filter(|_| base_kernel.family.build_list.is_some())?;
        let columns: Vec<usize> = match (&base_kernel.columns, base_kernel.column_indices()) {
            (None, _) => (0..d).collect(),
            (Some(_), indices) => indices?.iter().collect(),
        };
        match &base_kernel.values[length_index] {
            Value::Number(length) => Some(columns.into_iter().map(|column| (column, *length)).collect()),
            Value::List(lengths) => Some(columns.into_iter().zip(lengths.iter().copied()).collect()),
            Value::OverInputCount(_) | Value::Median | Value::Auto => None,
        }
    }

    /// Returns the kernel with these length scales, one for each column that it uses. An expression
    /// without [`column_lengths`](Self::column_lengths) does not change.
    #[doc(hidden)]
    #[must_use]
    pub fn with_column_lengths(&self, lengths: &[f64]) -> Self {
        let Node::Base(base_kernel) = &self.0 else { return self.clone() };
        let mut base_kernel = base_kernel.clone();
        if let Some(length_index) = base_kernel.length_position().filter(|_| base_kernel.family.build_list.is_some()) {
            base_kernel.values[length_index] = Value::List(lengths.to_vec());
        }
        Self(Node::Base(base_kernel))
    }

    /// Returns the sum of kernels, each times a weight ≥ 0.
    #[doc(hidden)]
    pub fn weighted_sum(terms: impl IntoIterator<Item = (f64, Self)>) -> Self {
        Self(Node::sum(terms.into_iter().map(|(weight, kernel)| Node::product(weight, [kernel.0]))))
    }
}
