//! The metadata of an Arrow IPC file: the positions of the batches in the file, and the positions
//! of the buffers in a batch.
//!
//! Reference: "Arrow columnar format", sections "IPC file format" and "RecordBatch message"
//! (<https://arrow.apache.org/docs/format/Columnar.html>). The Arrow project's crate parses and
//! verifies the tables of the metadata. This module checks their lengths and offsets against the
//! file, before anything is read or allocated.

use super::super::Element;
use super::super::column::list_element_type;
use super::super::data_type::element_type;
use super::super::load_error::LoadError;
use super::super::shared_file::SharedFile;
use crate::arrow::datatypes::{DataType, Field, Fields};
use crate::arrow::ipc::{self, CompressionType, MetadataVersion, root_as_message};
use std::sync::Arc;

/// The position of a message in the file: its metadata, followed by its body, which has the
/// buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    offset: u64,
    metadata_bytes: usize,
    pub(super) body_bytes: u64,
}

/// Maximum length of metadata. Metadata have about 50 bytes per column, so longer metadata are
/// damaged.
const MAX_METADATA_BYTES: usize = 64 << 20;

const CODECS: [CompressionType; 2] = [CompressionType::LZ4_FRAME, CompressionType::ZSTD];

impl Block {
    pub(super) fn new(block: &ipc::Block, file: &SharedFile) -> Result<Self, String> {
        let range_error = || format!("a block at {} lies outside its {} bytes", block.offset(), file.length());
        let offset = u64::try_from(block.offset()).map_err(|_| range_error())?;
        let metadata_bytes = usize::try_from(block.metaDataLength()).map_err(|_| range_error())?;
        let body_bytes = u64::try_from(block.bodyLength()).map_err(|_| range_error())?;
        let end = offset.checked_add(metadata_bytes as u64).and_then(|end| end.checked_add(body_bytes));
        if end.is_none_or(|end| end > file.length()) || metadata_bytes > MAX_METADATA_BYTES {
            return Err(range_error());
        }
        Ok(Self { offset, metadata_bytes, body_bytes })
    }

    pub(super) fn read_metadata(&self, file: &SharedFile) -> Result<Vec<u8>, LoadError> {
        let mut bytes = vec![0; self.metadata_bytes];
        read_exact(file, &mut bytes, self.offset)?;
        // the length follows a marker, except in files from before Arrow 0.15
        let skip = if bytes.starts_with(&[0xff; 4]) { 8 } else { 4 };
        if bytes.len() < skip {
            return Err("a message is shorter than its length field".to_string().into());
        }
        bytes.drain(..skip);
        Ok(bytes)
    }

    fn body_offset(&self) -> u64 {
        self.offset + self.metadata_bytes as u64
    }
}

pub(super) fn read_exact(file: &SharedFile, buffer: &mut [u8], offset: u64) -> Result<(), LoadError> {
    let read_len = file.read_at(buffer, offset)?;
    if read_len < buffer.len() {
        let (expected, found) = (offset + buffer.len() as u64, offset + read_len as u64);
        return Err(format!("it was cut short: expected {expected} bytes, found {found}").into());
    }
    Ok(())
}

/// A range of bytes of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ByteSpan {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The counts of a column, or of a nested part of a column, in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldNode {
    pub(super) row_count: u64,
    pub(super) null_count: u64,
}

/// A record batch as its metadata describe it. Every buffer lies within the body of the batch, and
/// the body lies within the file.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) row_count: u64,
    pub(super) nodes: Vec<FieldNode>,
    pub(super) buffers: Vec<ByteSpan>,
    /// Number of data buffers of each view column.
    pub(super) data_buffer_counts: Vec<usize>,
    pub(super) codec: Option<CompressionType>,
}

impl Batch {
    pub(super) fn read(file: &SharedFile, block: &Block) -> Result<Self, LoadError> {
        let bytes = block.read_metadata(file)?;
        let message = root_as_message(&bytes).map_err(|_| "a message is damaged".to_string())?;
        let batch = message.header_as_record_batch().ok_or_else(|| "a block holds no record batch".to_string())?;
        Ok(Self::new(batch, block)?)
    }

    /// Reads the metadata of a dictionary: its ID, whether its values are appended to earlier
    /// values, and the values.
    pub(super) fn read_dictionary(file: &SharedFile, block: &Block) -> Result<(i64, bool, Self), LoadError> {
        let bytes = block.read_metadata(file)?;
        let message = root_as_message(&bytes).map_err(|_| "a message is damaged".to_string())?;
        let header = message.header_as_dictionary_batch().ok_or_else(|| "a block holds no dictionary".to_string())?;
        let batch = header.data().ok_or_else(|| "a dictionary holds no values".to_string())?;
        Ok((header.id(), header.isDelta(), Self::new(batch, block)?))
    }

    fn new(batch: ipc::RecordBatch<'_>, block: &Block) -> Result<Self, String> {
        let parse_length =
            |value: i64| u64::try_from(value).map_err(|_| format!("a batch with the invalid length {value}"));
        let mut nodes = Vec::new();
        for node in batch.nodes().iter().flatten() {
            nodes.push(FieldNode {
                row_count: parse_length(node.length())?,
                null_count: parse_length(node.null_count())?,
            });
        }
        let mut buffers = Vec::new();
        for buffer in batch.buffers().iter().flatten() {
            let (offset, length) = (parse_length(buffer.offset())?, parse_length(buffer.length())?);
            if offset.checked_add(length).is_none_or(|end| end > block.body_bytes) {
                return Err(format!(
                    "a buffer of {length} bytes at {offset} lies outside a body of {}",
                    block.body_bytes
                ));
            }
            buffers.push(ByteSpan { offset: block.body_offset() + offset, length });
        }
        let mut data_buffer_counts = Vec::new();
        for count in batch.variadicBufferCounts().iter().flatten() {
            data_buffer_counts.push(parse_length(count)? as usize);
        }
        let codec = batch.compression().map(|compression| compression.codec());
        if codec.is_some_and(|codec| !CODECS.contains(&codec)) {
            return Err("its compression is unknown; lz4 and zstd are supported".to_string());
        }
        Ok(Self { row_count: parse_length(batch.length())?, nodes, buffers, data_buffer_counts, codec })
    }
}

/// A column of the file, and the positions in a batch at which its nodes, buffers and data buffer
/// counts begin.
#[derive(Clone, Debug)]
pub(super) struct RootColumn {
    pub(super) name: String,
    pub(super) data_type: DataType,
    pub(super) dictionary_id: Option<i64>,
    start: LayoutCounts,
    counts: LayoutCounts,
}

impl RootColumn {
    /// Returns a separate column, such as the values of a dictionary.
    pub(super) fn standalone(name: &str, data_type: &DataType) -> Self {
        let (start, counts) = (LayoutCounts::default(), LayoutCounts::from_type(data_type, false));
        Self { name: name.to_string(), data_type: data_type.clone(), dictionary_id: None, start, counts }
    }

    /// Returns the type of the numbers and the count of numbers per row, if the numbers are
    /// contiguous in the last buffer of the column. This holds for numbers of a fixed width, and
    /// for lists of such numbers if the type states the length of the lists.
    pub(super) fn contiguous_numbers(&self) -> Option<(Element, usize)> {
        match &self.data_type {
            DataType::FixedSizeList(_, size) if *size > 0 => {
                Some((list_element_type(&self.data_type)?, *size as usize))
            }
            other => Some((element_type(other)?, 1)),
        }
    }

    pub(super) fn nodes<'b>(&self, batch: &'b Batch) -> Result<&'b [FieldNode], String> {
        let nodes = batch.nodes.get(self.start.nodes..self.start.nodes + self.counts.nodes);
        nodes.ok_or_else(|| format!("a batch without column {:?}", self.name))
    }

    pub(super) fn spans<'b>(&self, batch: &'b Batch) -> Result<&'b [ByteSpan], String> {
        let sum_data_buffers =
            |skip: usize, count: usize| batch.data_buffer_counts.iter().skip(skip).take(count).sum::<usize>();
        // the batch states the numbers of data buffers of views: of the columns before this column,
        // and of this column
        let start = self.start.buffers + sum_data_buffers(0, self.start.view_columns);
        let end = start
            .checked_add(self.counts.buffers + sum_data_buffers(self.start.view_columns, self.counts.view_columns));
        let spans = end.and_then(|end| batch.buffers.get(start..end));
        spans.ok_or_else(|| format!("a batch without all buffers of column {:?}", self.name))
    }
}

/// Returns the columns in the order in which they are stored. `dictionary` is called with the index
/// of a column, and returns the ID of its dictionary, if it has one.
pub(super) fn root_columns(
    fields: &Fields,
    version: MetadataVersion,
    dictionary: impl Fn(usize) -> Option<i64>,
) -> Vec<RootColumn> {
    // files from before Arrow 1.0 have a validity bitmap for unions
    let has_union_validity = version < MetadataVersion::V5;
    let mut next = LayoutCounts::default();
    let root_column = |(index, field): (usize, &Arc<Field>)| {
        let (start, counts) = (next, LayoutCounts::from_type(field.data_type(), has_union_validity));
        next.add_tree(field.data_type(), has_union_validity);
        let (name, data_type) = (field.name().clone(), field.data_type().clone());
        RootColumn { name, data_type, dictionary_id: dictionary(index), start, counts }
    };
    fields.iter().enumerate().map(root_column).collect()
}

/// Numbers of nodes, buffers and view columns in a batch, without the data buffers of views.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LayoutCounts {
    pub(super) nodes: usize,
    pub(super) buffers: usize,
    view_columns: usize,
}

impl LayoutCounts {
    fn from_type(data_type: &DataType, has_union_validity: bool) -> Self {
        let mut counts = Self::default();
        counts.add_tree(data_type, has_union_validity);
        counts
    }

    /// Counts a node of this type with its own buffers. The data buffers of views are not counted.
    pub(super) fn add_node(&mut self, data_type: &DataType) {
        let layout = arrow_data::layout(data_type);
        self.nodes += 1;
        self.buffers += layout.buffers.len() + usize::from(layout.can_contain_null_mask);
        self.view_columns += usize::from(layout.variadic);
    }

    fn add_tree(&mut self, data_type: &DataType, has_union_validity: bool) {
        self.add_node(data_type);
        match data_type {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _) => self.add_tree(item.data_type(), has_union_validity),
            DataType::Struct(fields) => {
                fields.iter().for_each(|field| self.add_tree(field.data_type(), has_union_validity))
            }
            DataType::Union(fields, _) => {
                self.buffers += usize::from(has_union_validity);
                fields.iter().for_each(|(_, field)| self.add_tree(field.data_type(), has_union_validity));
            }
            DataType::RunEndEncoded(ends, values) => {
                self.add_tree(ends.data_type(), has_union_validity);
                self.add_tree(values.data_type(), has_union_validity);
            }
            _ => {}
        }
    }
}
