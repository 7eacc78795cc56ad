//! Lengths of texts and of lists, by a look at the offsets of a batch.

use super::message::{Batch, Block, Form, Root, Trouble};
use super::reader::{ColumnReader, VIEW, needs, offset_bytes, offsets, spans, value_bytes};
use super::stored::Stored;
use crate::source::positioned::Positioned;

/// Texts of a batch up to this many bytes are not looked at one by one: they may as well be one.
const SMALL: u64 = 64 << 10;
/// Rows whose offsets are looked at together.
const LOOK_ROWS: u64 = 64 << 10;

/// Bytes of the longest text of a column in a batch, or more; 0 for other columns. Offsets tell it, which are a few bytes
/// for each row.
pub(super) fn longest_text(file: &Positioned, root: &Root, batch: &Batch) -> Result<u64, Trouble> {
    if !matches!(root.form, Form::Values)
        || value_bytes(&root.data_type) != VIEW && offset_bytes(&root.data_type).is_none()
    {
        return Ok(0);
    }
    let spans = spans(root, batch)?;
    let texts: u64 = spans.iter().skip(2).map(|span| span.length).sum();
    if texts <= SMALL && batch.codec.is_none() {
        return Ok(texts.max(1));
    }
    let missing = || format!("a batch without column {:?}", root.name);
    let own = *batch.nodes.get(root.node).ok_or_else(missing)?;
    let mut column = ColumnReader::new(root, None);
    for (span, need) in spans.into_iter().zip(needs(root, batch, [own; 2])).take(2) {
        column.stored.push(Stored::prepare(file, span, batch.codec, need)?);
    }
    let (mut longest, mut start) = (1, 0);
    while start < batch.rows {
        let end = batch.rows.min(start + LOOK_ROWS);
        let lengths = column.text_lengths(file, start..end)?;
        longest = lengths.into_iter().fold(longest, u64::max);
        start = end;
    }
    Ok(longest)
}

/// Length of the list in the first row of a batch; `None` where there is no list or an empty one.
pub(super) fn first_length(file: &Positioned, root: &Root, block: &Block) -> Result<Option<usize>, Trouble> {
    let Form::Lists { large, .. } = root.form else { return Ok(None) };
    let batch = Batch::read(file, block)?;
    let mut column = ColumnReader::new(root, None);
    column.enter(file, &batch)?;
    let missing = column.validity(file, 0, column.nulls[0], 0..1)?.is_some();
    let offsets = offsets(&column.stored[1], file, large, 0..1)?;
    let length = (offsets[1] - offsets[0]) as usize;
    Ok((length > 0 && !missing).then_some(length))
}
