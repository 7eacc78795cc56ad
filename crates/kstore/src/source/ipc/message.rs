//! The metadata of an Arrow IPC file: where the batches are, and where in a batch each buffer is.
//!
//! Reference: "Arrow columnar format", sections "IPC file format" and "RecordBatch message"
//! (<https://arrow.apache.org/docs/format/Columnar.html>). The tables are parsed and verified by the Arrow project's
//! crate; lengths and offsets in them are checked here against the file before anything is read or allocated.

use super::super::Element;
use super::super::column::{element, list_element};
use super::super::positioned::Positioned;
use crate::arrow::datatypes::{DataType, Field, UnionMode};
use crate::arrow::ipc::{self, CompressionType, MetadataVersion, root_as_message};

/// How buffers are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Lz4,
    Zstd,
}

/// A message and its body in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    at: u64,
    metadata: usize,
    pub(super) body: u64,
}

/// Metadata longer than this is damage: a column takes about 50 bytes.
const METADATA_LIMIT: usize = 64 << 20;

impl Block {
    /// Checks that the block lies within the file.
    pub(super) fn new(block: &ipc::Block, file: &Positioned) -> Result<Self, String> {
        let outside = || format!("a block at {} lies outside its {} bytes", block.offset(), file.length());
        let at = u64::try_from(block.offset()).map_err(|_| outside())?;
        let metadata = usize::try_from(block.metaDataLength()).map_err(|_| outside())?;
        let body = u64::try_from(block.bodyLength()).map_err(|_| outside())?;
        let end = at.checked_add(metadata as u64).and_then(|end| end.checked_add(body));
        if end.is_none_or(|end| end > file.length()) || metadata > METADATA_LIMIT {
            return Err(outside());
        }
        Ok(Self { at, metadata, body })
    }

    pub(super) fn metadata(&self, file: &Positioned) -> Result<Vec<u8>, IpcError> {
        let mut bytes = vec![0; self.metadata];
        read(file, &mut bytes, self.at)?;
        // the length follows a marker, except in files from before Arrow 0.15
        let skip = if bytes.starts_with(&[0xff; 4]) { 8 } else { 4 };
        if bytes.len() < skip {
            return Err("a message is shorter than its length field".to_string().into());
        }
        bytes.drain(..skip);
        Ok(bytes)
    }

    fn body_at(&self) -> u64 {
        self.at + self.metadata as u64
    }
}

/// An error while metadata or values were read: damage, or an error of the operating system.
#[derive(Debug)]
pub(super) enum IpcError {
    Damage(String),
    Io(std::io::Error),
}

impl From<String> for IpcError {
    fn from(detail: String) -> Self {
        Self::Damage(detail)
    }
}

impl From<std::io::Error> for IpcError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Fills `buffer` from `at` on.
pub(super) fn read(file: &Positioned, buffer: &mut [u8], at: u64) -> Result<(), IpcError> {
    let got = file.read_at(buffer, at)?;
    if got < buffer.len() {
        let (expected, found) = (at + buffer.len() as u64, at + got as u64);
        return Err(format!("it was cut short: expected {expected} bytes, found {found}").into());
    }
    Ok(())
}

/// A range of bytes of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: u64,
    pub(super) length: u64,
}

/// Length and number of nulls of an array in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) rows: u64,
    pub(super) nulls: u64,
}

/// A record batch as its metadata describes it; every buffer lies within the body, and the body within the file.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) rows: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) buffers: Vec<Span>,
    /// Number of data buffers of each view column.
    pub(super) variadic: Vec<usize>,
    pub(super) codec: Option<Codec>,
}

impl Batch {
    pub(super) fn read(file: &Positioned, block: &Block) -> Result<Self, IpcError> {
        let bytes = block.metadata(file)?;
        let message = root_as_message(&bytes).map_err(|_| "a message is damaged".to_string())?;
        let batch = message.header_as_record_batch().ok_or_else(|| "a block holds no record batch".to_string())?;
        Ok(Self::new(batch, block)?)
    }

    /// Reads the metadata of a dictionary: its number, its values, and whether they continue earlier ones.
    pub(super) fn dictionary(file: &Positioned, block: &Block) -> Result<(i64, bool, Self), IpcError> {
        let bytes = block.metadata(file)?;
        let message = root_as_message(&bytes).map_err(|_| "a message is damaged".to_string())?;
        let header = message.header_as_dictionary_batch().ok_or_else(|| "a block holds no dictionary".to_string())?;
        let batch = header.data().ok_or_else(|| "a dictionary holds no values".to_string())?;
        Ok((header.id(), header.isDelta(), Self::new(batch, block)?))
    }

    pub(super) fn rows(file: &Positioned, block: &Block) -> Result<u64, IpcError> {
        Ok(Self::read(file, block)?.rows)
    }

    fn new(batch: ipc::RecordBatch<'_>, block: &Block) -> Result<Self, String> {
        let size = |value: i64| u64::try_from(value).map_err(|_| format!("a batch with a length of {value}"));
        let mut nodes = Vec::new();
        for node in batch.nodes().iter().flatten() {
            nodes.push(Node { rows: size(node.length())?, nulls: size(node.null_count())? });
        }
        let mut buffers = Vec::new();
        for buffer in batch.buffers().iter().flatten() {
            let (offset, length) = (size(buffer.offset())?, size(buffer.length())?);
            if offset.checked_add(length).is_none_or(|end| end > block.body) {
                return Err(format!("a buffer of {length} bytes at {offset} lies outside a body of {}", block.body));
            }
            buffers.push(Span { at: block.body_at() + offset, length });
        }
        let mut variadic = Vec::new();
        for count in batch.variadicBufferCounts().iter().flatten() {
            variadic.push(size(count)? as usize);
        }
        let codec = match batch.compression().map(|compression| compression.codec()) {
            None => None,
            Some(CompressionType::LZ4_FRAME) => Some(Codec::Lz4),
            Some(CompressionType::ZSTD) => Some(Codec::Zstd),
            Some(other) => return Err(format!("compression {other:?} is not read; lz4 and zstd are")),
        };
        Ok(Self { rows: size(batch.length())?, nodes, buffers, variadic, codec })
    }
}

/// How the values of a column are stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// Numbers of a fixed width, in lists of a fixed length or not in lists.
    Numbers { element: Element, width: Option<usize> },
    /// Lists of numbers with offsets, which are of 8 bytes if `large`.
    Lists { element: Element, large: bool },
    /// Truth values, text and decimals.
    Values,
    /// Keys into the dictionary with this number.
    Dictionary { id: i64, keys: DataType },
    /// Values of a type that is not read.
    Unread,
}

/// A column of the file and the place of its first node, buffer and count of data buffers in a batch.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) name: String,
    pub(super) data_type: DataType,
    pub(super) form: Form,
    pub(super) node: usize,
    pub(super) buffer: usize,
    pub(super) variadic: usize,
}

impl Root {
    /// A column on its own, as the values of a dictionary are.
    pub(super) fn alone(name: &str, data_type: &DataType) -> Self {
        let form = form(data_type, None);
        Self { name: name.to_string(), data_type: data_type.clone(), form, node: 0, buffer: 0, variadic: 0 }
    }
}

/// Walks through the columns as batches store them: `dictionary` gives the number of a column's dictionary.
pub(super) fn roots<'a>(
    fields: impl Iterator<Item = &'a Field>,
    version: MetadataVersion,
    dictionary: impl Fn(usize) -> Option<i64>,
) -> Vec<Root> {
    // files from before Arrow 1.0 give unions a validity bitmap
    let old_unions = version < MetadataVersion::V5;
    let mut next = Counts::default();
    let mut roots = Vec::new();
    for (index, field) in fields.enumerate() {
        let Counts { nodes: node, buffers: buffer, variadic } = next;
        let form = form(field.data_type(), dictionary(index));
        let (name, data_type) = (field.name().clone(), field.data_type().clone());
        roots.push(Root { name, data_type, form, node, buffer, variadic });
        next.add(field.data_type(), old_unions);
    }
    roots
}

fn form(data_type: &DataType, dictionary: Option<i64>) -> Form {
    match (data_type, dictionary, list_element(data_type), element(data_type)) {
        (DataType::Dictionary(keys, _), Some(id), ..) => Form::Dictionary { id, keys: (**keys).clone() },
        (DataType::FixedSizeList(_, size), _, Some(element), _) if *size > 0 => {
            Form::Numbers { element, width: Some(*size as usize) }
        }
        (DataType::List(_), _, Some(element), _) => Form::Lists { element, large: false },
        (DataType::LargeList(_), _, Some(element), _) => Form::Lists { element, large: true },
        (_, _, _, Some(element)) => Form::Numbers { element, width: None },
        (
            DataType::Boolean
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..),
            ..,
        ) => Form::Values,
        _ => Form::Unread,
    }
}

/// The numbers of nodes and buffers that the columns so far take up in a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    nodes: usize,
    buffers: usize,
    variadic: usize,
}

impl Counts {
    fn add(&mut self, data_type: &DataType, old_unions: bool) {
        self.nodes += 1;
        self.buffers += match data_type {
            DataType::Null | DataType::RunEndEncoded(..) => 0,
            DataType::FixedSizeList(..) | DataType::Struct(_) => 1,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
            DataType::ListView(_) | DataType::LargeListView(_) => 3,
            DataType::Union(_, UnionMode::Sparse) => 1 + usize::from(old_unions),
            DataType::Union(_, UnionMode::Dense) => 2 + usize::from(old_unions),
            // validity and values, keys or offsets; the data buffers of views are counted apart
            _ => 2,
        };
        self.variadic += usize::from(matches!(data_type, DataType::Utf8View | DataType::BinaryView));
        match data_type {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _) => self.add(item.data_type(), old_unions),
            DataType::Struct(fields) => fields.iter().for_each(|field| self.add(field.data_type(), old_unions)),
            DataType::Union(fields, _) => fields.iter().for_each(|(_, field)| self.add(field.data_type(), old_unions)),
            DataType::RunEndEncoded(ends, values) => {
                self.add(ends.data_type(), old_unions);
                self.add(values.data_type(), old_unions);
            }
            _ => {}
        }
    }
}
