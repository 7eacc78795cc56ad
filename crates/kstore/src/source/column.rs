//! Converts Arrow columns to columns of a table, for the file formats that store Arrow columns.
//!
//! | Arrow | table |
//! |---|---|
//! | floats of 16, 32, 64 bits, integers, booleans, text and bytes of every layout | unchanged |
//! | decimals | the nearest float64 |
//! | dates, times, timestamps, durations | integers in the unit of the file |
//! | dictionaries | their values |
//! | lists of numbers, all of the same length w | w columns called `name[0]` … `name[w-1]` |
//! | lists of (index, value), maps from index to value | sparse rows (`sparse_entries`) |
//! | anything else | a column that cannot be read |

use super::arrow_values::list_items;
use super::data_type::{column_kind, element_type};
use super::load_error::LoadError;
use super::{ColumnView, Element, StridedColumn, Values, sparse_entries};
use crate::Error;
use crate::arrow::array::{Array, ArrayRef, RecordBatch};
use crate::arrow::buffer::{Buffer, MutableBuffer, NullBuffer};
use crate::arrow::datatypes::{DataType, Fields};
use crate::schema::{Column, Kind, Schema};
use crate::sparse::{SparseColumn, SparseShape};
use std::collections::HashMap;
use std::path::Path;

/// The location of a column of the table: the index of an Arrow column, and the position in its
/// lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnLocation {
    pub(super) root: usize,
    pub(super) item: usize,
}

pub(super) const PANDAS_KEY: &str = "pandas";

#[derive(serde::Deserialize)]
struct PandasMetadata {
    index_columns: Vec<serde_json::Value>,
}

/// Maximum length of lists whose positions become columns. Because of this limit, a damaged length
/// does not produce a billion names.
const MAX_LIST_LENGTH: usize = 1 << 16;

/// The columns of the table, and where each is stored in the columns of the file (the roots).
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) schema: Schema,
    locations: Vec<ColumnLocation>,
    /// For each root, the length of its lists if each position in the lists is a column.
    pub(super) list_widths: Vec<Option<usize>>,
    /// For each root, the shape of its sparse rows if it has sparse rows.
    pub(super) sparse_shapes: Vec<Option<SparseShape>>,
}

impl Layout {
    /// Returns the layout of these fields. If a column's type does not state the length of its
    /// lists, `list_length_of` returns the length; it returns `None` for a column that cannot be
    /// read.
    pub(super) fn new<E>(
        fields: &Fields,
        list_length_of: impl Fn(usize) -> Result<Option<usize>, E>,
    ) -> Result<Self, E> {
        let mut layout = Self {
            schema: Schema::default(),
            locations: Vec::new(),
            list_widths: Vec::new(),
            sparse_shapes: vec![None; fields.len()],
        };
        for (root, field) in fields.iter().enumerate() {
            let width = match field.data_type() {
                list @ DataType::FixedSizeList(_, size) if list_element_type(list).is_some() => {
                    usize::try_from(*size).ok().filter(|size| *size > 0)
                }
                other if list_element_type(other).is_some() => list_length_of(root)?,
                _ => None,
            };
            let width = width.filter(|width| *width <= MAX_LIST_LENGTH);
            layout.push(root, field.name(), field.data_type(), width);
            layout.list_widths.push(width);
        }
        Ok(layout)
    }

    /// Sets the shapes of the fields that hold sparse rows. The shapes come from the metadata of
    /// the file. If the metadata lack the shape of a field, `measure_shape` is called with the
    /// index of the field.
    pub(super) fn with_sparse_shapes<E>(
        mut self,
        fields: &Fields,
        metadata: Option<&str>,
        measure_shape: impl Fn(usize) -> Result<SparseShape, E>,
    ) -> Result<Self, E> {
        let shapes_by_name: Option<HashMap<String, SparseShape>> =
            metadata.and_then(|text| serde_json::from_str(text).ok());
        let shapes_by_name = shapes_by_name.unwrap_or_default();
        for (root, field) in
            fields.iter().enumerate().filter(|(_, field)| sparse_entries::entry_fields(field.data_type()).is_some())
        {
            let shape = shapes_by_name.get(field.name()).copied().filter(|shape| shape.is_valid());
            let shape = shape.map_or_else(|| measure_shape(root), Ok)?;
            if let Some(column) =
                self.locations.iter().position(|location| location.root == root).filter(|_| shape.is_valid())
            {
                self.schema.columns[column].kind = Kind::Sparse(shape);
                self.sparse_shapes[root] = Some(shape);
            }
        }
        Ok(self)
    }

    /// Marks the index columns of a pandas table, as stated in its metadata.
    pub(super) fn with_pandas_index(mut self, metadata: Option<&str>) -> Self {
        let metadata: Option<PandasMetadata> = metadata.and_then(|text| serde_json::from_str(text).ok());
        let names = metadata.into_iter().flat_map(|pandas| pandas.index_columns);
        // if a pandas index only counts the rows, the metadata describe it, and the file has no
        // column for it
        let row_labels = names.filter_map(|name| self.schema.position(name.as_str()?));
        self.schema.row_id_columns = row_labels.collect();
        self
    }

    fn push(&mut self, root: usize, name: &str, data_type: &DataType, width: Option<usize>) {
        let (kind, names) = match (width, list_item_type(data_type)) {
            (Some(width), Some(item)) => (column_kind(item), (0..width).map(|i| Schema::item_name(name, i)).collect()),
            _ => (column_kind(data_type), vec![name.to_string()]),
        };
        for (item, name) in names.into_iter().enumerate() {
            self.schema.columns.push(Column { name, kind: kind.clone() });
            self.locations.push(ColumnLocation { root, item });
        }
    }

    /// Returns the column of the file that a column of the table is stored in. Returns `None` if
    /// the column is a position in lists.
    pub(super) fn scalar_root(&self, column: usize) -> Option<usize> {
        let root = self.locations[column].root;
        self.list_widths[root].is_none().then_some(root)
    }

    /// Returns the columns of the file that some columns of the table need, in ascending order.
    pub(super) fn roots(&self, columns: &[usize]) -> Vec<usize> {
        let mut roots: Vec<usize> = columns.iter().map(|column| self.locations[*column].root).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// Returns the locations of some columns of the table, where each `root` is an index into
    /// `roots`.
    pub(super) fn locations(&self, columns: &[usize], roots: &[usize]) -> Vec<ColumnLocation> {
        let relocate = |column: &usize| {
            let ColumnLocation { root, item } = self.locations[*column];
            ColumnLocation { root: roots.partition_point(|r| *r < root), item }
        };
        columns.iter().map(relocate).collect()
    }
}

fn list_item_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => Some(item.data_type()),
        _ => None,
    }
}

/// Returns the element type of a list of numbers; `None` for every other type.
pub(super) fn list_element_type(data_type: &DataType) -> Option<Element> {
    list_item_type(data_type).and_then(element_type)
}

/// The values of one root in the rows of a batch.
#[derive(Debug)]
pub(super) enum LoadedColumn {
    /// An array of a type that [`view`] supports.
    Array(ArrayRef),
    /// The numbers of lists of equal length, row by row. A column of single numbers is stored as
    /// lists of length 1.
    Lists {
        element: Element,
        width: usize,
        bytes: Buffer,
        nulls: Vec<Option<NullBuffer>>,
    },
    Sparse(SparseColumn),
}

impl LoadedColumn {
    pub(super) fn new(array: &ArrayRef, layout: &Layout, root: usize) -> Result<Self, LoadError> {
        if let Some(shape) = layout.sparse_shapes[root] {
            return Ok(Self::Sparse(sparse_entries::load_sparse(array.as_ref(), shape)?));
        }
        match (layout.list_widths[root], list_element_type(array.data_type())) {
            (Some(width), Some(element)) => load_number_lists(array.as_ref(), element, width),
            _ => Ok(Self::Array(super::arrow_values::to_viewable(array)?)),
        }
    }

    /// Returns the column at position `item` of its lists; `None` for an unsupported type.
    pub(super) fn view(&self, item: usize) -> Option<ColumnView<'_>> {
        match self {
            Self::Array(array) => super::arrow_values::array_view(array),
            Self::Sparse(rows) => Some(ColumnView { values: Values::Sparse(rows.rows()), nulls: None }),
            Self::Lists { element, width, bytes, nulls } => {
                let (offset, stride) = (item * element.bytes_per_value(), width * element.bytes_per_value());
                let values = Values::Strided(StridedColumn { bytes, element: *element, offset, stride });
                Some(ColumnView { values, nulls: nulls.get(item).and_then(Option::as_ref) })
            }
        }
    }

    /// Returns the buffer of the column's numbers for reuse, unless the buffer is shared.
    #[cfg(feature = "ipc")]
    pub(super) fn into_buffer(self) -> Option<MutableBuffer> {
        let bytes = match self {
            Self::Lists { bytes, .. } => bytes,
            Self::Array(array) if array.data_type().is_primitive() => {
                let data = array.to_data();
                drop(array);
                let (.., buffers, _) = data.into_parts();
                buffers.into_iter().next()?
            }
            Self::Array(_) | Self::Sparse(_) => return None,
        };
        bytes.into_mutable().ok()
    }
}

/// The values of the requested columns in the rows of a batch.
#[derive(Debug)]
pub(super) struct LoadedColumns {
    /// Columns of the file, ascending.
    pub(super) roots: Vec<usize>,
    /// For each requested table column, its index in `roots` and its position in the lists.
    pub(super) locations: Vec<ColumnLocation>,
    pub(super) columns: Vec<Option<LoadedColumn>>,
}

impl LoadedColumns {
    pub(super) fn new(layout: &Layout, columns: &[usize]) -> Self {
        let roots = layout.roots(columns);
        Self { locations: layout.locations(columns, &roots), columns: roots.iter().map(|_| None).collect(), roots }
    }

    /// Loads the rows of a batch. The batch has the columns `roots`, and its first row is row
    /// `first_row` of the file at `path`.
    pub(super) fn load_batch(
        &mut self,
        layout: &Layout,
        batch: &RecordBatch,
        first_row: u64,
        path: &Path,
        format: &'static str,
    ) -> Result<(), Error> {
        let columns = batch.columns().iter().zip(batch.schema_ref().fields()).zip(&self.roots);
        for (loaded, ((array, field), root)) in self.columns.iter_mut().zip(columns) {
            let column = LoadedColumn::new(array, layout, *root);
            *loaded = Some(column.map_err(|error| error.into_column_error(path, format, first_row, field.name()))?);
        }
        Ok(())
    }

    /// Returns requested column `index`; `None` if it was not read or has an unsupported type.
    pub(super) fn view(&self, index: usize) -> Option<ColumnView<'_>> {
        let ColumnLocation { root, item } = self.locations[index];
        self.columns[root].as_ref()?.view(item)
    }
}

/// Converts lists to one block of numbers; all lists must have the length `width`. A missing list
/// becomes `width` missing numbers.
fn load_number_lists(array: &dyn Array, element: Element, width: usize) -> Result<LoadedColumn, LoadError> {
    let row_count = array.len();
    let (items, starts) =
        list_items(array).ok_or_else(|| format!("a column of {} instead of lists", column_kind(array.data_type())))?;
    let list_validity = array.nulls().filter(|nulls| nulls.null_count() > 0);
    check_list_lengths(starts.windows(2).map(|pair| pair[1] - pair[0]), list_validity, width)?;
    let (data, element_bytes) = (items.to_data(), element.bytes_per_value());
    let item_bytes = data.buffers()[0].slice(data.offset() * element_bytes);
    let bytes = if starts.iter().enumerate().all(|(row, start)| *start == starts[0] + row * width) {
        item_bytes.slice_with_length(starts[0] * element_bytes, row_count * width * element_bytes)
    } else {
        let mut bytes = MutableBuffer::new(row_count * width * element_bytes);
        for (row, start) in starts[..row_count].iter().enumerate() {
            match array.is_valid(row) {
                true => bytes.extend_from_slice(&item_bytes[start * element_bytes..][..width * element_bytes]),
                false => bytes.resize(bytes.len() + width * element_bytes, 0),
            }
        }
        bytes.into()
    };
    let item_nulls = items.nulls().filter(|nulls| nulls.null_count() > 0);
    let is_present = |row: usize, item: usize| {
        array.is_valid(row) && item_nulls.is_none_or(|nulls| nulls.is_valid(starts[row] + item))
    };
    let item_validity = |item: usize| Some((0..row_count).map(|row| is_present(row, item)).collect());
    let nulls = if item_nulls.is_some() || list_validity.is_some() {
        (0..width).map(item_validity).collect()
    } else {
        Vec::new()
    };
    Ok(LoadedColumn::Lists { element, width, bytes, nulls })
}

/// Returns the length of the list in a row; `None` if the list is missing, or if the column holds
/// no lists.
pub(super) fn list_length(array: &dyn Array, row: usize) -> Option<usize> {
    let row = array.slice(row, 1);
    let (_, starts) = list_items(&row).filter(|_| row.is_valid(0))?;
    Some(starts[1] - starts[0])
}

/// Returns an error for the first list whose length is not `width`.
pub(super) fn check_list_lengths(
    lengths: impl Iterator<Item = usize>,
    list_validity: Option<&NullBuffer>,
    width: usize,
) -> Result<(), LoadError> {
    let mut present_lengths =
        lengths.enumerate().filter(|(row, _)| list_validity.is_none_or(|lists| lists.is_valid(*row)));
    match present_lengths.find(|(_, length)| *length != width) {
        Some((row, got)) => Err(LoadError::ListLength { row, expected: width, got }),
        None => Ok(()),
    }
}
