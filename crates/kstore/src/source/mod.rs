//! File formats: the interface that each implements, and the registry that finds the right one.
//!
//! To add a format: write one file that implements [`TableFile`] and [`FileCursor`] and has a
//! [`Format`], and add one line to `FORMATS` in `registry.rs`, behind a feature of its own. For a
//! format of another crate, call [`register`]. Formats that store columns return Arrow buffers,
//! formats that store rows return [`Strided`] views of the bytes they read; everything above this
//! interface treats both the same.

mod batches;
mod chained;
mod column;
#[cfg(feature = "csv")]
mod csv;
mod data_type;
mod entries;
mod extended;
#[doc(hidden)]
pub mod foreign;
mod format;
#[cfg(feature = "ipc")]
#[doc(hidden)]
pub mod ipc;
#[cfg(feature = "jsonl")]
mod json_lines;
mod load_error;
#[cfg(feature = "npy")]
#[doc(hidden)]
pub mod npy;
#[cfg(feature = "npz")]
mod npz;
#[cfg(feature = "parquet")]
mod parquet;
pub(crate) mod partitioned;
mod plain;
pub(crate) mod positioned;
mod registry;
pub mod remote;
#[cfg(feature = "svmlight")]
mod svmlight;
mod text;
pub(crate) mod united;
pub(crate) mod view;

pub(crate) use batches::BatchTable;
#[doc(hidden)]
pub use chained::Chained;
#[cfg(any(feature = "parquet", feature = "ipc"))]
pub(crate) use entries::SPARSE;
use extended::missing;
pub(crate) use extended::{Absent, Added, Extended};
#[doc(hidden)]
pub use extended::{QUERY, TARGET};
pub use format::{BoxedCursor, Facts, FileCursor, Format, Open, TableFile};
pub use kpass::identity::Identity;
#[doc(hidden)]
pub use kpass::identity::regular;
pub(crate) use kpass::identity::{STDIN, check_input, scheme};
#[doc(hidden)]
pub use load_error::is_decoding;
#[doc(hidden)]
pub use registry::{by_extension, open};
pub use registry::{formats, register};
pub(crate) use registry::{known, listed, open_distant, standard_input};
#[doc(hidden)]
pub use text::NumberForm;
pub use text::{ColumnType, TextOptions, TextReading};
pub(crate) use text::{Sparse, is_marked_number};
pub use view::{Element, Positions, Strided, Values, View};
