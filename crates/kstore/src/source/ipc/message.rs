//! The metadata of an Arrow IPC file: the positions of the batches in the file, and the positions
//! of the buffers in a batch.
//!
//! Reference: "Arrow columnar format", sections "IPC file format" and "RecordBatch message"
//! (<https://arrow.apache.org/docs/format/Columnar.html>). The Arrow project's crate parses and
//! verifies the tables of the metadata. This module checks their lengths and offsets against the
//! file, before anything is read or allocated.

use super::super::Element;
use super::super::column::list_element;
use super::super::data_type::element_type;
use super::super::load_error::LoadError;
use super::super::shared_file::SharedFile;
use crate::arrow::datatypes::{DataType, Field, Fields};
use crate::arrow::ipc::{self, CompressionType, MetadataVersion, root_as_message};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    at: u64,
    metadata: usize,
    pub(super) body: u64,
}

/// Maximum length of metadata. They have about 50 bytes per column, so that longer metadata are
/// damaged.
const METADATA_LIMIT: usize = 64 << 20;

const CODECS: [CompressionType; 2] = [CompressionType::LZ4_FRAME, CompressionType::ZSTD];

impl Block {
    pub(super) fn new(block: &ipc::Block, file: &SharedFile) -> Result<Self, String> {
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

    pub(super) fn read_metadata(&self, file: &SharedFile) -> Result<Vec<u8>, LoadError> {
        let mut bytes = vec![0; self.metadata];
        read_exact(file, &mut bytes, self.at)?;
        // the length follows a marker, except in files from before Arrow 0.15
        let skip = if bytes.starts_with(&[0xff; 4]) { 8 } else { 4 };
        if bytes.len() < skip {
            return Err("a message is shorter than its length field".to_string().into());
        }
        bytes.drain(..skip);
        Ok(bytes)
    }

    fn body_offset(&self) -> u64 {
        self.at + self.metadata as u64
    }
}

pub(super) fn read_exact(file: &SharedFile, buffer: &mut [u8], at: u64) -> Result<(), LoadError> {
    let got = file.read_at(buffer, at)?;
    if got < buffer.len() {
        let (expected, found) = (at + buffer.len() as u64, at + got as u64);
        return Err(format!("it was cut short: expected {expected} bytes, found {found}").into());
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: u64,
    pub(super) length: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FieldNode {
    pub(super) rows: u64,
    pub(super) nulls: u64,
}

/// A record batch as its metadata describe it. Every buffer lies within the body of the batch, and
/// the body lies within the file.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) rows: u64,
    pub(super) nodes: Vec<FieldNode>,
    pub(super) buffers: Vec<Span>,
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
        let size = |value: i64| u64::try_from(value).map_err(|_| format!("a batch with the invalid length {value}"));
        let mut nodes = Vec::new();
        for node in batch.nodes().iter().flatten() {
            nodes.push(FieldNode { rows: size(node.length())?, nulls: size(node.null_count())? });
        }
        let mut buffers = Vec::new();
        for buffer in batch.buffers().iter().flatten() {
            let (offset, length) = (size(buffer.offset())?, size(buffer.length())?);
            if offset.checked_add(length).is_none_or(|end| end > block.body) {
                return Err(format!("a buffer of {length} bytes at {offset} lies outside a body of {}", block.body));
            }
            buffers.push(Span { at: block.body_offset() + offset, length });
        }
        let mut variadic = Vec::new();
        for count in batch.variadicBufferCounts().iter().flatten() {
            variadic.push(size(count)? as usize);
        }
        let codec = batch.compression().map(|compression| compression.codec());
        if codec.is_some_and(|codec| !CODECS.contains(&codec)) {
            return Err("its compression is unknown; lz4 and zstd are supported".to_string());
        }
        Ok(Self { rows: size(batch.length())?, nodes, buffers, data_buffer_counts: variadic, codec })
    }
}

/// A column of the file, and the positions in a batch at which its nodes, buffers and data buffer
/// counts begin.
#[derive(Clone, Debug)]
pub(super) struct RootColumn {
    pub(super) name: String,
    pub(super) data_type: DataType,
    pub(super) dictionary_id: Option<i64>,
    at: LayoutCounts,
    size: LayoutCounts,
}

impl RootColumn {
    /// Returns a separate column, such as the values of a dictionary.
    pub(super) fn standalone(name: &str, data_type: &DataType) -> Self {
        let (at, size) = (LayoutCounts::default(), LayoutCounts::from_type(data_type, false));
        Self { name: name.to_string(), data_type: data_type.clone(), dictionary_id: None, at, size }
    }

    /// Returns the type of the numbers and the count of numbers per row, if the numbers are
    /// contiguous in the last buffer of the column. This holds for numbers of a fixed width, and
    /// for lists of such numbers if the type states the length of the lists.
    pub(super) fn numbers(&self) -> Option<(Element, usize)> {
        match &self.data_type {
            DataType::FixedSizeList(_, size) if *size > 0 => Some((list_element(&self.data_type)?, *size as usize)),
            other => Some((element_type(other)?, 1)),
        }
    }

    pub(super) fn nodes<'b>(&self, batch: &'b Batch) -> Result<&'b [FieldNode], String> {
        let nodes = batch.nodes.get(self.at.nodes..self.at.nodes + self.size.nodes);
        nodes.ok_or_else(|| format!("a batch without column {:?}", self.name))
    }

    pub(super) fn spans<'b>(&self, batch: &'b Batch) -> Result<&'b [Span], String> {
        let data = |skip: usize, count: usize| batch.data_buffer_counts.iter().skip(skip).take(count).sum::<usize>();
        // the number of data buffers of the view columns, up to and including this column
        let start = self.at.buffers + data(0, self.at.view_columns);
        let end = start.checked_add(self.size.buffers + data(self.at.view_columns, self.size.view_columns));
        let spans = end.and_then(|end| batch.buffers.get(start..end));
        spans.ok_or_else(|| format!("a batch without all buffers of column {:?}", self.name))
    }
}

/// Returns the columns in the order in which they are stored. `dictionary` returns the ID of a
/// column's dictionary.
pub(super) fn roots(
    fields: &Fields,
    version: MetadataVersion,
    dictionary: impl Fn(usize) -> Option<i64>,
) -> Vec<RootColumn> {
    // files from before Arrow 1.0 have a validity bitmap for unions
    let old_unions = version < MetadataVersion::V5;
    let mut at = LayoutCounts::default();
    let root = |(index, field): (usize, &Arc<Field>)| {
        let (start, size) = (at, LayoutCounts::from_type(field.data_type(), old_unions));
        at.add_tree(field.data_type(), old_unions);
        let (name, data_type) = (field.name().clone(), field.data_type().clone());
        RootColumn { name, data_type, dictionary_id: dictionary(index), at: start, size }
    };
    fields.iter().enumerate().map(root).collect()
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LayoutCounts {
    pub(super) nodes: usize,
    pub(super) buffers: usize,
    view_columns: usize,
}

impl LayoutCounts {
    fn from_type(data_type: &DataType, old_unions: bool) -> Self {
        let mut counts = Self::default();
        counts.add_tree(data_type, old_unions);
        counts
    }

    /// Counts a node of this type with its own buffers. The data buffers of views are not counted.
    pub(super) fn add_node(&mut self, data_type: &DataType) {
        let layout = arrow_data::layout(data_type);
        self.nodes += 1;
        self.buffers += layout.buffers.len() + usize::from(layout.can_contain_null_mask);
        self.view_columns += usize::from(layout.variadic);
    }

    fn add_tree(&mut self, data_type: &DataType, old_unions: bool) {
        self.add_node(data_type);
        match data_type {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _) => self.add_tree(item.data_type(), old_unions),
            DataType::Struct(fields) => fields.iter().for_each(|field| self.add_tree(field.data_type(), old_unions)),
            DataType::Union(fields, _) => {
                self.buffers += usize::from(old_unions);
                fields.iter().for_each(|(_, field)| self.add_tree(field.data_type(), old_unions));
            }
            DataType::RunEndEncoded(ends, values) => {
                self.add_tree(ends.data_type(), old_unions);
                self.add_tree(values.data_type(), old_unions);
            }
            _ => {}
        }
    }
}
