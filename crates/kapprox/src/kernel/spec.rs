//! Kernels as expressions, which can be parsed, printed, compared, resolved on a sample, and built.

use super::column_choice::ColumnSelection;
use super::family::{Domain, ExplicitForm, KernelFamily, Value};
use super::node::{BaseKernel, Node};
use super::{AnyKernel, gaussian, parse, points::row_slice, transform::KernelTransform};
use crate::{Error, Real, Result};
use faer::MatRef;
use std::ops::{Add, Mul};
use std::{fmt, str::FromStr, sync::Arc};

/// A kernel as an expression, such as `gaussian(sigma=3) + 0.5*linear()`.
///
/// ```text
/// sum      = product { "+" product }
/// product  = factor { "*" factor }
/// factor   = number | "(" sum ")" | function "(" sum [ "," parameter "=" number ] ")"
///          | name [ "(" [ argument { "," … } ] ")" ]
/// function = "exp" | "power" | "normalised" | "mean"
/// argument = parameter "=" value | "on" "=" columns | "scale" "=" scale
/// scale    = "quantile" | "[" number { "," number } "]"
/// value    = number [ "/" "d" ] | "median" | "auto" | "[" number { "," number } "]"
/// columns  = part | "[" part { "," part } "]"
/// part     = column [ ".." column ]
/// column   = characters except white space , ( ) [ ] " .. | '"' anything, with "" for a quote '"'
/// ```
/// `power(k, degree=2)` is k raised to an integer power, `normalised(k)` is k(x,z) / √(k(x,x)
/// k(z,z)), and `mean(k, p=1)` is k(x,z) / ((k(x,x)^p + k(z,z)^p) / 2)^(1/p). In both quotients 0/0
/// is 0. `mean(k, p=0)` is the limit p → 0, which is `normalised(k)`. Numeric factors must not be
/// negative.
///
/// Names are the kernels of the [`registry`](super::registry()), including
/// [registered](super::register) kernels; omitted parameters take the defaults of the registry.
/// Parsing brings an expression into a canonical form: nested sums and products are flat, factors
/// are in front, and parameters have the order of the registry. [`Display`](fmt::Display) writes
/// the canonical form. Parsing this text again gives an equal `Kernel`, in which every number has
/// the same bits.
///
/// A number that is a term of a sum is the [constant](super::registry()) kernel, as in `1 +
/// linear()`. In `gamma=1/d`, d is the number of features that the kernel uses; the fraction
/// becomes a number when the columns are resolved. Kernels that are often written with a rate
/// accept `gamma` instead of `sigma`: `gaussian(gamma=0.5)` is `gaussian(sigma=1)`, and
/// `laplacian(gamma=1/d)` on four features is `laplacian(sigma=4)`.
///
/// `scale=quantile` replaces the inputs of a kernel by their quantile scores, as quantile scaling
/// does for all kernels. The quantiles come from the sample that also gives the length scales, and
/// the resolved expression holds them as a list.
///
/// `on` selects the features of a kernel: `gaussian(sigma=1, on=x0..x9) * delta(on=city)`. A column
/// is written as the name of a feature. If no feature has this name, it means all items of a list
/// column (`emb` for `emb[0]`, `emb[1]`, …), or it is a pattern (`x*`). A range contains its first
/// and its last column and all columns between them in the order of the features. The kernel uses
/// each column once, in the order in which the columns are written. If a parameter is a list, its
/// numbers have this order. [`resolve_columns`](Self::resolve_columns) must find the names among
/// the features before the expression is used in any other way.
///
/// ```
/// use kapprox::kernel::Kernel;
/// let spec = Kernel::parse("(linear() * 2) + matern(nu=2.5, sigma=1)")?;
/// assert_eq!(spec.to_string(), "2*linear() + matern(nu=2.5, sigma=1)");
/// assert_eq!(Kernel::parse(&spec.to_string())?, spec);
///
/// let numbers = Kernel::parse("gaussian(sigma=1)")?.on("x0..x9")?;
/// let spec = numbers * Kernel::parse("delta(on=city)")?;
/// assert_eq!(spec.to_string(), "gaussian(sigma=1, on=x0..x9)*delta(on=city)");
/// # Ok::<(), kapprox::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel(pub(super) Node);

/// Returns the names of the registered kernels that support sparse points.
fn sparse_kernel_names() -> String {
    let is_supported = |family: &&KernelFamily| {
        let example = Kernel::parse(family.example);
        example.is_ok_and(|example| example.0.base_kernels().into_iter().all(BaseKernel::supports_sparse))
    };
    super::registry().into_iter().filter(is_supported).map(|family| family.name).collect::<Vec<_>>().join(", ")
}

pub(super) const INPUT_COUNT_UNKNOWN: &str = "the number of features is unknown; call resolve_columns first";

impl Default for Kernel {
    /// Returns the kernel `gaussian(sigma=auto)`.
    fn default() -> Self {
        let family = &gaussian::FAMILY;
        let values = family.parameters.iter().map(|p| p.default.clone()).collect();
        Self(Node::Base(BaseKernel { family, values, columns: None, scale: None, sparse_column_count: None }))
    }
}

impl FromStr for Kernel {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl Add for Kernel {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(Node::sum([self.0, other.0]))
    }
}

impl Mul for Kernel {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self(Node::product(1.0, [self.0, other.0]))
    }
}

impl Kernel {
    /// Parses an expression.
    ///
    /// # Errors
    /// [`Error::Kernel`], or [`Error::UnknownKernel`] for an unknown name. Both errors point at the
    /// invalid character and say what is expected.
    pub fn parse(text: &str) -> Result<Self> {
        parse::parse(text).map(Self)
    }

    /// Returns the kernel of a family with these parameter values, in the order of the family.
    pub(super) fn from_family(family: &'static KernelFamily, values: impl IntoIterator<Item = Value>) -> Self {
        let values = values.into_iter().collect();
        Self(Node::Base(BaseKernel { family, values, columns: None, scale: None, sparse_column_count: None }))
    }

    /// Returns the kernel exp(k).
    #[must_use]
    pub fn exp(self) -> Self {
        Self(Node::Transformed(KernelTransform::Exp, Box::new(self.0)))
    }

    /// Returns the kernel k(x, z) / √(k(x, x) k(z, z)), where 0/0 is 0.
    #[must_use]
    pub fn normalised(self) -> Self {
        Self(Node::Transformed(KernelTransform::Normalised, Box::new(self.0)))
    }

    /// Restricts this kernel to some columns, written as in an expression: `x0..x9`, `x*`,
    /// `[city, x3..x5]`.
    ///
    /// Kernels of the expression that are already restricted to columns keep their columns.
    ///
    /// # Errors
    /// [`Error::Kernel`], which points into `columns`.
    pub fn on(self, columns: &str) -> Result<Self> {
        let columns = parse::parse_column_selection(columns)?;
        let restrict = |base_kernel: &BaseKernel| base_kernel.columns.clone().or_else(|| Some(columns.clone()));
        self.0
            .map_base_kernels(&mut |base_kernel| {
                Ok(BaseKernel { columns: restrict(base_kernel), ..base_kernel.clone() })
            })
            .map(Self)
    }

    /// Restricts this kernel to the columns with these names; see [`on`](Self::on).
    ///
    /// # Errors
    /// [`Error::Kernel`] for a name that an expression cannot hold.
    #[doc(hidden)]
    pub fn on_columns(self, names: &[String]) -> Result<Self> {
        // the names are quoted, so that special characters and `..` are parts of the name
        let quoted = names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
        self.on(&format!("[{}]", quoted.collect::<Vec<_>>().join(", ")))
    }

    /// Returns whether any kernel is restricted to columns that are not resolved, so that
    /// [`resolve_columns`](Self::resolve_columns) must be called before anything else.
    #[doc(hidden)]
    pub fn needs_columns(&self) -> bool {
        self.0.base_kernels().into_iter().any(BaseKernel::has_unresolved_columns)
    }

    /// Returns whether any kernel is restricted to columns.
    #[doc(hidden)]
    pub fn restricts_columns(&self) -> bool {
        self.0.base_kernels().into_iter().any(|base_kernel| base_kernel.columns.is_some())
    }

    /// Returns the expression with its columns found among `features`, the names of the features in
    /// order, and with a number for each fraction of the number of features, such as `gamma=1/d`.
    ///
    /// The text keeps its names, ranges and patterns. On tables whose features have the same names
    /// in the same order, they select the same columns. A model that stores the text and the
    /// feature names therefore finds its columns again.
    ///
    /// # Errors
    /// [`Error::NoSuchFeature`] for a name that no feature has or a pattern without a match,
    /// [`Error::ReversedRange`] for a range whose last column comes before its first.
    #[doc(hidden)]
    pub fn resolve_columns<S: AsRef<str>>(&self, features: &[S]) -> Result<Self> {
        if self
            .0
            .base_kernels()
            .iter()
            .all(|base_kernel| base_kernel.columns.is_none() && !base_kernel.depends_on_feature_count())
        {
            return Ok(self.clone());
        }
        let names: Vec<&str> = features.iter().map(AsRef::as_ref).collect();
        let resolve = |base_kernel: &BaseKernel| {
            let columns = base_kernel.columns.as_ref().map(|columns| columns.resolve(&names, base_kernel.family.name));
            Ok(BaseKernel { columns: columns.transpose()?, ..base_kernel.clone() }.with_feature_count(features.len()))
        };
        self.0.map_base_kernels(&mut |base_kernel| resolve(base_kernel)).map(Self)
    }

    /// Returns the expression for a table that has the same features under the names `x0`, `x1`, …
    /// (`kstore::Table::from_rows`).
    ///
    /// # Errors
    /// As for [`resolve_columns`](Self::resolve_columns) with `names`, the features' own names.
    #[doc(hidden)]
    pub fn with_positional_names<S: AsRef<str>>(&self, names: &[S]) -> Result<Self> {
        let resolved = self.resolve_columns(names)?;
        let rename_columns = |base_kernel: &BaseKernel| BaseKernel {
            columns: base_kernel.columns.as_ref().map(ColumnSelection::with_positional_names),
            ..base_kernel.clone()
        };
        resolved.0.map_base_kernels(&mut |base_kernel| Ok(rename_columns(base_kernel))).map(Self)
    }

    /// Returns the expression on rows with these features, as
    /// [`resolve_columns`](Self::resolve_columns) does, or on sparse rows with the given number of
    /// columns, in the layout of [`kpass::sparse`].
    ///
    /// # Errors
    /// As for [`resolve_columns`](Self::resolve_columns); [`Error::SparseUnsupported`] for a kernel
    /// that does not support sparse rows, is restricted to columns, or has a list as a parameter
    /// value.
    #[doc(hidden)]
    pub fn resolve_for_rows<S: AsRef<str>>(&self, features: &[S], sparse_columns: Option<usize>) -> Result<Self> {
        let Some(column_count) = sparse_columns else { return self.resolve_columns(features) };
        let mut to_sparse = |base_kernel: &BaseKernel| match base_kernel.supports_sparse() {
            true => Ok(BaseKernel { sparse_column_count: Some(column_count), ..base_kernel.clone() }
                .with_feature_count(column_count)),
            false => Err(Error::SparseUnsupported { kernel: base_kernel.to_string(), known: sparse_kernel_names() }),
        };
        self.0.map_base_kernels(&mut to_sparse).map(Self)
    }

    /// If the expression is on sparse rows, returns the number of their columns.
    #[doc(hidden)]
    pub fn sparse_columns(&self) -> Option<usize> {
        self.0.base_kernels().into_iter().find_map(|base_kernel| base_kernel.sparse_column_count)
    }

    pub(crate) fn to_dense(&self) -> Result<Self> {
        self.0
            .map_base_kernels(&mut |base_kernel| Ok(BaseKernel { sparse_column_count: None, ..base_kernel.clone() }))
            .map(Self)
    }

    /// If the kernel is the inner product of sparse rows, returns the number of their columns.
    #[doc(hidden)]
    pub fn sparse_linear_columns(&self) -> Option<usize> {
        match &self.0 {
            Node::Base(BaseKernel { family, sparse_column_count: sparse_columns, .. })
                if family.explicit_form == Some(ExplicitForm::Linear) =>
            {
                *sparse_columns
            }
            _ => None,
        }
    }

    /// If the expression is a single kernel of the registry on all features, returns the kernel's
    /// name.
    #[doc(hidden)]
    pub fn name(&self) -> Option<&'static str> {
        match &self.0 {
            Node::Base(BaseKernel { family, columns: None, scale: None, .. }) => Some(family.name),
            _ => None,
        }
    }

    /// If the expression is a single kernel of the registry, on all features of dense rows and
    /// without lists or medians, returns its explicit form and its parameter values.
    pub(crate) fn explicit_form(&self) -> Option<(ExplicitForm, Vec<f64>)> {
        let Node::Base(base_kernel @ BaseKernel { columns: None, scale: None, sparse_column_count: None, .. }) =
            &self.0
        else {
            return None;
        };
        Some((base_kernel.family.explicit_form?, base_kernel.numbers()?))
    }

    /// Returns whether k is known to be positive definite for all points. The answer follows from
    /// the kernels of the registry by the rules for sums, products and multiples.
    pub fn is_positive_definite(&self) -> bool {
        self.0.base_kernels().iter().all(|base_kernel| base_kernel.family.is_positive_definite)
    }

    /// Returns whether every kernel of the expression is bounded and none is periodic. In this
    /// case, sums of kernel sections approach constants far away from all points.
    #[doc(hidden)]
    pub fn is_constant_far_away(&self) -> bool {
        self.0
            .base_kernels()
            .iter()
            .all(|base_kernel| base_kernel.family.properties.bounded && !base_kernel.family.properties.periodic)
    }

    /// Returns whether a test with this kernel is known to detect every difference of
    /// distributions: see [`KernelProperties`](super::KernelProperties). Restrictions to columns
    /// are ignored.
    #[doc(hidden)]
    pub fn is_characteristic(&self) -> bool {
        self.0.is_characteristic(false)
    }

    /// Rejects a number of features that contradicts the parameters, for example if a list does not
    /// have one number per feature, or if images do not have an integer number of lines.
    ///
    /// # Errors
    /// [`Error::InputCount`]; [`Error::Kernel`] if columns have not been resolved.
    #[doc(hidden)]
    pub fn check_input_count(&self, d: usize) -> Result<()> {
        self.require_columns()?;
        self.0.base_kernels().into_iter().try_for_each(|base_kernel| base_kernel.check_feature_count(d))
    }

    /// Returns the values for which every kernel of the expression is defined.
    #[doc(hidden)]
    pub fn domain(&self) -> Domain {
        self.0.base_kernels().into_iter().map(|base_kernel| base_kernel.family.domain).max().unwrap_or(Domain::Any)
    }

    /// Rejects points with values outside the domain of a kernel, in the columns that this kernel
    /// uses: negative values for chi-squared kernels, values other than 0 and 1 for kernels of
    /// sets. `first_row` is the number of the first row, for the message. For kernels with such a
    /// domain, every value is read; for other kernels the check costs nothing.
    ///
    /// # Errors
    /// [`Error::Domain`]; [`Error::Kernel`] if columns have not been resolved.
    #[doc(hidden)]
    pub fn check_values<T: Real>(&self, x: MatRef<'_, T>, first_row: u64) -> Result<()> {
        self.require_columns()?;
        let mut row_buffer = Vec::new();
        for base_kernel in self.0.base_kernels().into_iter().filter(|call| call.family.domain != Domain::Any) {
            let domain = base_kernel.family.domain;
            let columns: Vec<usize> = base_kernel
                .column_indices()
                .map_or_else(|| (0..x.ncols()).collect(), |indices| indices.iter().collect());
            for i in 0..x.nrows() {
                let row = row_slice(x, i, &mut row_buffer);
                // the first half of a sparse row contains column numbers, and every domain contains
                // the omitted zeros
                let columns = if base_kernel.sparse_column_count.is_some() {
                    &columns[columns.len() / 2..]
                } else {
                    &columns[..]
                };
                if let Some(&feature) = columns.iter().find(|k| !domain.contains(row[**k].to_f64())) {
                    let (row, value) = (first_row + i as u64, row[feature].to_f64());
                    let (kernel, domain) = (base_kernel.family.name, domain.to_string());
                    return Err(Error::Domain { kernel, domain, row, feature_index: feature, value });
                }
            }
        }
        Ok(())
    }

    /// Builds the kernel of the expression.
    ///
    /// # Errors
    /// [`Error::Kernel`] if a parameter is out of range, or if columns or a length scale have not
    /// been resolved.
    pub fn build(&self) -> Result<Arc<dyn AnyKernel>> {
        if !self.0.base_kernels().into_iter().all(BaseKernel::is_valid) {
            // the parser checks every parameter, so it returns the error with its position
            Self::parse(&self.to_string())?;
        }
        self.require_columns()?;
        if self.needs_median() {
            return Err(self.unresolved_length_scale());
        }
        Ok(self.0.build())
    }

    pub(super) fn require_columns(&self) -> Result<()> {
        if self.needs_columns() {
            let why = "these columns are not resolved; call resolve_columns first";
            return Err(self.unresolved_error("on=", why));
        }
        if self.0.base_kernels().into_iter().any(BaseKernel::depends_on_feature_count) {
            return Err(self.unresolved_error("/d", INPUT_COUNT_UNKNOWN));
        }
        Ok(())
    }

    pub(super) fn unresolved_length_scale(&self) -> Error {
        let is_length = self.0.base_kernels().into_iter().any(|kernel| kernel.median_distance_kind().is_some());
        let word = if self.is_auto() { "auto" } else { if is_length { "median" } else { "quantile" } };
        self.unresolved_error(
            word,
            &format!("{word} has no value; call resolve_median with a sample of the rows first"),
        )
    }

    /// Returns the error for an expression in which `what` is not resolved yet.
    pub(super) fn unresolved_error(&self, what: &str, message: &str) -> Error {
        let text = self.to_string();
        let at = text.find(what).map_or(0, |bytes| text[..bytes].chars().count());
        Error::Kernel { text, position: at, message: message.into() }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
