//! Memory that belongs to Python: arrays of numpy that are read where they lie, and Arrow streams.
//!
//! This is the only file of the package with unsafe code: both interfaces are pointers by their nature.

#![allow(unsafe_code, reason = "numpy and the Arrow C stream interface hand out pointers")]

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use kstore::arrow::array::RecordBatch;
use numpy::{Element, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

/// The bytes of a C-ordered array of numpy, and a reference that keeps the array alive.
pub(crate) struct ArrayBytes {
    start: *const u8,
    length: usize,
    _owner: Py<PyAny>,
}

// SAFETY: the bytes are only read, and the reference to their owner may be dropped on any thread.
unsafe impl Send for ArrayBytes {}
// SAFETY: as above; nothing here changes after it is made.
unsafe impl Sync for ArrayBytes {}

impl std::fmt::Debug for ArrayBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ArrayBytes({} bytes)", self.length)
    }
}

impl ArrayBytes {
    /// The bytes of an array, which the caller must not change while they are in use, as no numpy function allows either.
    pub(crate) fn of<T: Element>(array: &Bound<'_, PyArray2<T>>) -> PyResult<Self> {
        if !array.is_c_contiguous() {
            return Err(PyValueError::new_err("the array must be in C order: pass numpy.ascontiguousarray of it"));
        }
        Ok(Self {
            start: array.data().cast::<u8>().cast_const(),
            length: array.len() * size_of::<T>(),
            _owner: array.clone().into_any().unbind(),
        })
    }

    /// The bytes, row after row.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: numpy allocated `length` bytes from `start`, and `_owner` keeps them; numpy refuses to resize an array
        // that others refer to.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

/// The record batches of an object with the Arrow PyCapsule interface (`__arrow_c_stream__`); nothing is copied.
/// Errors: `TypeError` for an object without it; `ValueError` for a stream that breaks off.
pub(crate) fn batches(object: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBatch>> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule =
        capsule.cast::<PyCapsule>().map_err(|_| PyTypeError::new_err("__arrow_c_stream__ gave no capsule"))?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    let wrong = |error: kstore::arrow::error::ArrowError| {
        PyValueError::new_err(format!("the Arrow stream cannot be read: {error}"))
    };
    // SAFETY: a capsule of this name holds a valid stream, by the PyCapsule interface; `from_raw` moves it out and leaves a
    // released one behind, which the capsule's destructor accepts.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr()) }.map_err(wrong)?;
    // the reader may call back into Python, which this thread is attached to
    reader.collect::<Result<_, _>>().map_err(wrong)
}
