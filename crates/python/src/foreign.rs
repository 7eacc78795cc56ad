//! Memory owned by Python: numpy arrays, read in place, and Arrow streams.
//!
//! This is the only file of the package with unsafe code, because both interfaces are based on
//! pointers.

#![allow(unsafe_code, reason = "numpy and the Arrow C stream interface hand out pointers")]

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use kstore::Float;
use kstore::arrow::array::RecordBatch;
use numpy::ndarray::Dimension;
use numpy::{Element, PyArray, PyArray1, PyArray2, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyWeakrefReference};

/// The values of a C-ordered numpy array, and references that keep the array alive and its memory
/// in place.
pub(crate) struct BorrowedArray<T> {
    start: *const T,
    length: usize,
    _owner: Py<PyAny>,
    _pins: Vec<Py<PyWeakrefReference>>,
}

/// Returns weak references to an array and to its base arrays. numpy does not resize an array that
/// has a weak reference, not even with `refcheck=False`, so no thread can free the memory while it
/// is read.
fn pin_array(array: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PyWeakrefReference>>> {
    let (mut pins, mut base) = (Vec::new(), array.clone());
    while base.cast::<PyUntypedArray>().is_ok() {
        pins.push(PyWeakrefReference::new(&base)?.unbind());
        base = base.getattr("base")?;
    }
    Ok(pins)
}

// SAFETY: the values are only read, and the reference to their owner may be dropped on any thread.
unsafe impl<T: Sync> Send for BorrowedArray<T> {}
// SAFETY: as above; a value never changes after its construction.
unsafe impl<T: Sync> Sync for BorrowedArray<T> {}

impl<T> std::fmt::Debug for BorrowedArray<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} borrowed numbers", self.length)
    }
}

impl<T> BorrowedArray<T> {
    /// Borrows the memory of an array of `E` as numbers of `T`, whose size divides the size of `E`.
    /// The caller must not change the array while it is in use; numpy functions have the same
    /// requirement.
    fn new<E: Element, D: Dimension>(array: &Bound<'_, PyArray<E, D>>) -> PyResult<Self> {
        if !array.is_c_contiguous() {
            return Err(PyValueError::new_err("the array must be in C order: pass numpy.ascontiguousarray of it"));
        }
        if !array.data().is_aligned() {
            return Err(PyValueError::new_err(
                "the array must be aligned: pass numpy.require(array, requirements='A')",
            ));
        }
        Ok(Self {
            start: array.data().cast::<T>().cast_const(),
            length: array.len() * (size_of::<E>() / size_of::<T>()),
            _pins: pin_array(array.as_any())?,
            _owner: array.clone().into_any().unbind(),
        })
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: numpy allocated `length` numbers from `start`; `_owner` keeps them alive and
        // `_pins` keep them in place. `new` has checked the alignment for the array's own type.
        // Only the functions below create a `BorrowedArray`: of bytes, of the array's own type, and
        // of u32 for i32, which has the same size and alignment and for which every bit pattern is
        // valid.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl BorrowedArray<u8> {
    /// Borrows the bytes of an array, row by row.
    pub(crate) fn bytes<E: Element>(array: &Bound<'_, PyArray2<E>>) -> PyResult<Self> {
        Self::new(array)
    }
}

impl<T: Element + Float> BorrowedArray<T> {
    pub(crate) fn values<D: Dimension>(array: &Bound<'_, PyArray<T, D>>) -> PyResult<Self> {
        Self::new(array)
    }
}

impl BorrowedArray<u32> {
    /// Borrows integers; negative integers become numbers above `i32::MAX`.
    pub(crate) fn indices(array: &Bound<'_, PyArray1<i32>>) -> PyResult<Self> {
        Self::new(array)
    }
}

/// Overhead of a batch, or of one of its columns, in bytes.
const BATCH_OVERHEAD: usize = 512;

/// Reads the record batches of an object with the Arrow PyCapsule interface (`__arrow_c_stream__`)
/// without copying. Raises `TypeError` for an object without this interface, `ValueError` for a
/// stream that fails, and `MemoryError` for a stream that exceeds `memory` or the free memory.
pub(crate) fn read_batches(object: &Bound<'_, PyAny>, memory: Option<usize>) -> PyResult<Vec<RecordBatch>> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err("__arrow_c_stream__ did not return a PyCapsule; pass a pyarrow Table or RecordBatchReader")
    })?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    let unreadable = |error: kstore::arrow::error::ArrowError| {
        PyValueError::new_err(format!("the Arrow stream cannot be read: {error}"))
    };
    // SAFETY: a capsule with this name holds a valid stream, by the PyCapsule interface; `from_raw`
    // moves it out and leaves a released stream behind, which the capsule's destructor accepts.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr()) }.map_err(unreadable)?;
    let free_bytes = kstore::budget::available_memory().unwrap_or(usize::MAX);
    let (limit, name) = match memory.filter(|&memory| memory < free_bytes) {
        Some(memory) => (memory, "`memory`"),
        None => (free_bytes, "the free memory"),
    };
    let (mut batches, mut total_bytes) = (Vec::new(), 0usize);
    // the reader may call back into Python, and this thread is attached to it
    for batch in reader {
        let batch = batch.map_err(unreadable)?;
        // the overhead counts too, because a stream of empty batches may be endless
        let overhead = BATCH_OVERHEAD.saturating_mul(1 + batch.num_columns());
        total_bytes = total_bytes.saturating_add(batch.get_array_memory_size()).saturating_add(overhead);
        if total_bytes > limit {
            let limit = kstore::display::format_bytes(limit);
            let text =
                format!("the Arrow stream holds more than {limit}, {name}; write it to files, and use fit_files");
            return Err(PyMemoryError::new_err(text));
        }
        batches.push(batch);
    }
    Ok(batches)
}
