//! File formats: the interface that each format implements, and the registry that finds the format
//! of a file.
//!
//! To add a format, write one file that implements [`TableFile`] and [`FileCursor`] and defines a
//! [`Format`], and add one line to `FORMATS` in `registry.rs`, behind its own feature. To add a
//! format from another crate, call [`register`]. A format that stores columns returns Arrow
//! buffers. A format that stores rows returns [`StridedColumn`] views of the bytes that it reads.
//! All code that uses this interface treats both the same.

mod arrow_values;
mod chained_rows;
mod column;
mod computed_columns;
#[cfg(feature = "csv")]
mod csv;
mod data_type;
mod extended_file;
mod format;
pub(crate) mod hive_partitions;
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
mod record_batches;
mod registry;
pub mod remote;
pub(crate) mod shared_file;
mod sparse_entries;
#[cfg(feature = "svmlight")]
mod svmlight;
mod text;
pub(crate) mod union_schema;
#[doc(hidden)]
pub mod unsupported;

#[doc(hidden)]
pub use chained_rows::ChainedRows;
pub(crate) use computed_columns::ComputedColumns;
use extended_file::missing_values;
pub(crate) use extended_file::{AbsentRows, AddedColumn, ExtendedFile};
pub use format::{BoxedCursor, FileCursor, FileMetadata, Format, OpenFn, TableFile};
pub use kpass::identity::Identity;
#[doc(hidden)]
pub use kpass::identity::regular_metadata;
pub(crate) use kpass::identity::{STDIN, check_stdin, url_scheme};
#[doc(hidden)]
pub use load_error::is_decoding;
pub(crate) use record_batches::{BatchTable, RECORD_BATCHES, TABLE_IN_MEMORY};
#[doc(hidden)]
pub use registry::{format_by_extension, open};
pub use registry::{formats, register};
pub(crate) use registry::{list_extensions, list_known_extensions, open_remote, open_standard_input};
#[doc(hidden)]
pub use text::NumberFormat;
pub use text::{ColumnType, TextOptions, TextReadOptions};
pub(crate) use text::{SparseRule, is_marked_number};

#[doc(hidden)]
pub use crate::schema::{QUERY_COLUMN, TARGET_COLUMN};
pub use crate::view::{ColumnView, Element, RowIndices, StridedColumn, Values};
