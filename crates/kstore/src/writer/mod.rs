//! Output tables: the interface of a written table, its columns, and the files of each format.

#[cfg(any(feature = "parquet", feature = "ipc"))]
mod arrow;
mod column;
#[cfg(feature = "csv")]
pub(crate) mod csv;
mod interface;
#[cfg(feature = "ipc")]
pub(crate) mod ipc;
#[cfg(feature = "npy")]
pub(crate) mod npy;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
#[cfg(any(feature = "csv", feature = "npy", feature = "svmlight"))]
mod rows;
#[cfg(feature = "svmlight")]
pub(crate) mod svmlight;

pub use column::OutputColumn;
pub(crate) use column::kept_kind;
pub(crate) use interface::FormatWriter;
pub use interface::{CreateFn, STDOUT, Sink};
use kpass::{OutputKind, OutputValues};
