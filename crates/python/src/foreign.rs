//! Memory that belongs to Python: arrays of numpy that are read where they lie, and Arrow streams.
//!
//! This is the only file of the package with unsafe code: both interfaces are pointers by their nature.

#![allow(unsafe_code, reason = "numpy and the Arrow C stream interface hand out pointers")]

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use kstore::Real;
use kstore::arrow::array::RecordBatch;
use numpy::ndarray::Dimension;
use numpy::{Element, PyArray, PyArray1, PyArray2, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyWeakrefReference};

/// Numbers of a C-ordered array of numpy, and references that keep the array alive and its memory in place.
pub(crate) struct Borrowed<T> {
    start: *const T,
    length: usize,
    _owner: Py<PyAny>,
    _pins: Vec<Py<PyWeakrefReference>>,
}

/// Weak references to an array and to the arrays whose memory it shows. numpy does not resize an array that has one, not even with
/// `refcheck=False`, so that no thread frees the memory while it is read.
fn pins(array: &Bound<'_, PyAny>) -> PyResult<Vec<Py<PyWeakrefReference>>> {
    let (mut pins, mut next) = (Vec::new(), array.clone());
    while next.cast::<PyUntypedArray>().is_ok() {
        pins.push(PyWeakrefReference::new(&next)?.unbind());
        next = next.getattr("base")?;
    }
    Ok(pins)
}

// SAFETY: the numbers are only read, and the reference to their owner may be dropped on any thread.
unsafe impl<T: Sync> Send for Borrowed<T> {}
// SAFETY: as above; nothing here changes after it is made.
unsafe impl<T: Sync> Sync for Borrowed<T> {}

impl<T> std::fmt::Debug for Borrowed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} borrowed numbers", self.length)
    }
}

impl<T> Borrowed<T> {
    /// The memory of an array as numbers of T, whose size divides that of `E`. The caller must not change the array while it is in use, as no
    /// numpy function allows either.
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
            _pins: pins(array.as_any())?,
            _owner: array.clone().into_any().unbind(),
        })
    }

    pub(crate) fn numbers(&self) -> &[T] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: numpy allocated `length` numbers from `start`, `_owner` keeps them, and `_pins` keep them where they are.
        // `new` has checked that it is aligned for the array's own type. Only the functions below make one: of bytes, of the array's own type, and of u32 for i32, which has
        // the same size and alignment, and every pattern of whose bits is a number.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl Borrowed<u8> {
    /// The bytes of an array, row after row.
    pub(crate) fn bytes<E: Element>(array: &Bound<'_, PyArray2<E>>) -> PyResult<Self> {
        Self::new(array)
    }
}

impl<T: Element + Real> Borrowed<T> {
    pub(crate) fn values<D: Dimension>(array: &Bound<'_, PyArray<T, D>>) -> PyResult<Self> {
        Self::new(array)
    }
}

impl Borrowed<u32> {
    /// Whole numbers; those below 0 become numbers above `i32::MAX`.
    pub(crate) fn places(array: &Bound<'_, PyArray1<i32>>) -> PyResult<Self> {
        Self::new(array)
    }
}

/// Bytes that a batch, or a column of it, takes beside its values.
const BESIDE: usize = 512;

/// The record batches of an object with the Arrow PyCapsule interface (`__arrow_c_stream__`); nothing is copied.
/// Errors: `TypeError` for an object without it; `ValueError` for a stream that breaks off; `MemoryError` for a stream that holds
/// more than `memory`, or more than the free memory.
pub(crate) fn batches(object: &Bound<'_, PyAny>, memory: Option<usize>) -> PyResult<Vec<RecordBatch>> {
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
    let free = kstore::budget::available().unwrap_or(usize::MAX);
    let (most, name) = match memory.filter(|&memory| memory < free) {
        Some(memory) => (memory, "`memory`"),
        None => (free, "the free memory"),
    };
    let (mut batches, mut held) = (Vec::new(), 0usize);
    // the reader may call back into Python, which this thread is attached to
    for batch in reader {
        let batch = batch.map_err(wrong)?;
        // what a batch and its columns take beside their values: a stream of empty batches may not end either
        let beside = BESIDE.saturating_mul(1 + batch.num_columns());
        held = held.saturating_add(batch.get_array_memory_size()).saturating_add(beside);
        if held > most {
            let most = kstore::shown::bytes(most);
            let text = format!("the Arrow stream holds more than {most}, {name}; write it to files and fit those");
            return Err(PyMemoryError::new_err(text));
        }
        batches.push(batch);
    }
    Ok(batches)
}
