//! The parts of Apache Arrow that appear in the signatures of this crate: columns in memory, their
//! types, and the file format.
//!
//! The items are re-exported from the crate `arrow`, version 60. This crate accepts record batches
//! that were made with that version.
//!
//! ```
//! use kstore::arrow::array::{ArrayRef, Float64Array, RecordBatch};
//! use std::sync::Arc;
//!
//! let x: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]));
//! let y: ArrayRef = Arc::new(Float64Array::from(vec![2.0, 4.0, 6.0]));
//! let batch = RecordBatch::try_from_iter([("x", x), ("y", y)])?;
//! assert_eq!(kstore::Table::from_batches(vec![batch])?.stored_rows(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// Arrays, their builders and casts.
pub mod array {
    pub use arrow_array::builder::*;
    pub use arrow_array::cast::*;
    pub use arrow_array::*;
    pub use arrow_data::{ArrayData, ByteView};
}

/// Types of columns and of their elements.
pub mod datatypes {
    pub use arrow_array::types::*;
    pub use arrow_array::{ArrowNativeTypeOp, ArrowNumericType, ArrowPrimitiveType};
    pub use arrow_buffer::{ArrowNativeType, i256};
    pub use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit, UnionFields, UnionMode};
}

/// The memory behind columns.
#[doc(hidden)]
pub use arrow_buffer::buffer;

/// Selection and concatenation of arrays.
#[doc(hidden)]
pub mod compute {
    pub use arrow_select::concat::{concat, concat_batches};
    pub use arrow_select::take::{TakeOptions, take};
}

/// The error type of Arrow.
#[doc(hidden)]
pub mod error {
    pub use arrow_schema::ArrowError;
}

#[cfg(feature = "ipc")]
/// The file and stream formats.
#[doc(hidden)]
pub use arrow_ipc as ipc;
