//! Which rows stay sparse, and the scaling of sparse rows.

use crate::{Error, Result};
use kapprox::Kernel;
use kfit::request::Scaling;
use kstore::{Missing, SelectedTable, Selection, TextOptions};

/// Returns the options that open a table of the selected rows. If the scaling weights the entries
/// of sparse rows, all rows stay sparse. Otherwise rows with few nonzeros stay sparse, unless a
/// kernel or another step (if `supports_sparse` is false) computes with columns, or missing values
/// are replaced.
#[doc(hidden)]
pub fn text_options_for(
    selection: &Selection,
    kernel: &Kernel,
    scaling: Option<Scaling>,
    supports_sparse: bool,
    options: TextOptions,
) -> TextOptions {
    if !selection.sparse || !matches!(selection.missing, Missing::Fitted | Missing::Error) {
        return options;
    }
    let no_columns: [&str; 0] = [];
    match scaling {
        Some(Scaling::TfIdf | Scaling::Unit | Scaling::Maxabs) => options.sparse(),
        None | Some(Scaling::None) if supports_sparse && kernel.resolve_for_rows(&no_columns, Some(1)).is_ok() => {
            options.prefer_sparse()
        }
        _ => options,
    }
}

/// Returns the scaling of the rows. The default is standard scaling; for sparse rows, the default
/// is the scaling that corresponds to the weighting of the entries in the selection.
///
/// # Errors
/// A scaling that would fill the zeros of sparse rows, or that applies only to sparse rows.
#[doc(hidden)]
pub fn scaling_for(requested: Option<Scaling>, selected: &SelectedTable) -> Result<Scaling> {
    let is_sparse = selected.sparse_shape().is_some();
    match requested.filter(|scaling| is_sparse != scaling.weighting().is_some() && *scaling != Scaling::None) {
        None if is_sparse => Ok(Scaling::from_weighting(selected.weighting())),
        None => Ok(requested.unwrap_or_default()),
        Some(scaling) if is_sparse => {
            let why = "it would fill the zeros of sparse rows; use tf-idf, unit, maxabs or none";
            Err(Error::option("scale", scaling, why))
        }
        Some(scaling) => Err(scaling.sparse_only_error()),
    }
}

/// Returns the kernel on the features of these rows, or on their sparse columns.
///
/// # Errors
/// Columns that do not exist; a kernel that does not support sparse rows.
#[doc(hidden)]
pub fn kernel_for(kernel: &Kernel, selected: &SelectedTable) -> Result<Kernel> {
    let sparse_columns = selected.sparse_shape().map(|shape| shape.column_count);
    Ok(kernel.resolve_for_rows(&selected.feature_names(), sparse_columns)?)
}

/// Returns the error of a metric on sparse rows.
pub(super) fn metric_error(metric: &dyn std::fmt::Display) -> Error {
    Error::option(
        "metric",
        metric,
        "sparse rows do not support it; use linear, which learns a factor for each column, or leave it out",
    )
}
