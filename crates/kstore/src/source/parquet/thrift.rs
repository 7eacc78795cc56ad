//! Checks two properties of a file before the decoder allocates memory or recurses: the depth of
//! the schema, and the size of a page.
//!
//! Both properties are stored in structures of Thrift's compact protocol
//! (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>). The
//! second field of a footer lists the nodes of the schema, parents before children, each with the
//! number of its children. The decoder descends in this tree by recursion, and a file may nest
//! columns deeper than the stack allows.

use crate::Result;
use crate::source::shared_file::SharedFile;

/// Maximum depth of a schema, in nodes. For comparison: a list of lists of numbers has five.
const MAX_DEPTH: usize = 50;

/// Rejects a schema whose columns are nested too deeply. The decoder reports all other faults of
/// the footer.
pub(super) fn check_depth(file: &SharedFile) -> Result<()> {
    let mut end = [0; 8];
    let end_offset = file.length().saturating_sub(end.len() as u64);
    file.read_at(&mut end, end_offset).map_err(|error| file.read_error(error))?;
    let [a, b, c, d, ..] = end;
    let length = u32::from_le_bytes([a, b, c, d]);
    let Some(start) = end_offset.checked_sub(length.into()) else { return Ok(()) };
    let footer = file.read_vec(length as usize, start).map_err(|error| file.read_error(error))?;
    match schema_depth(&footer).filter(|depth| *depth > MAX_DEPTH) {
        None => Ok(()),
        Some(depth) => {
            let remedy = "write the values of nested columns as separate columns";
            Err(file.malformed_error(format!(
                "its columns are nested {depth} levels deep, and at most {MAX_DEPTH} are supported; {remedy}"
            )))
        }
    }
}

/// Returns the number of nodes on the deepest path of the schema; `None` if the footer has no list
/// of nodes.
fn schema_depth(mut footer: &[u8]) -> Option<usize> {
    let mut deepest = None;
    visit_fields(&mut footer, &mut |input, field, kind| {
        if (field, kind) != (2, LIST) {
            return skip_value(input, kind, 0);
        }
        let mut remaining_children = Vec::<u64>::new();
        for _ in 0..read_list_header(input)?.0 {
            let mut child_count = 0;
            visit_fields(input, &mut |input, field, kind| match (field, kind) {
                (5, INT32) => read_varint(input).map(|number| child_count = number >> 1),
                _ => skip_value(input, kind, 0),
            })?;
            remaining_children.push(child_count);
            deepest = deepest.max(Some(remaining_children.len()));
            while remaining_children.last() == Some(&0) {
                remaining_children.pop();
            }
            remaining_children.last_mut().into_iter().for_each(|siblings| *siblings -= 1);
        }
        Some(())
    });
    deepest
}

/// Returns the size of a page after decompression, in bytes, from the first bytes of its header;
/// `None` if these are not a page header.
pub(super) fn uncompressed_page_size(mut header: &[u8]) -> Option<usize> {
    let mut size = None;
    visit_fields(&mut header, &mut |input, field, kind| match (field, kind) {
        (2, INT32) => {
            // zigzag encoding: the lowest bit is the sign; a negative size is rejected
            size = read_varint(input)
                .filter(|zigzag| zigzag & 1 == 0)
                .and_then(|zigzag| usize::try_from(zigzag >> 1).ok());
            None
        }
        _ => skip_value(input, kind, 0),
    });
    size
}

/// Type codes of the protocol for a list and for a 32-bit integer.
const LIST: u8 = 9;
const INT32: u8 = 5;

fn read_byte(input: &mut &[u8]) -> Option<u8> {
    input.split_off_first().copied()
}

pub(super) fn read_varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = read_byte(input)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Returns the number and type of the elements of a list.
fn read_list_header(input: &mut &[u8]) -> Option<(u64, u8)> {
    let byte = read_byte(input)?;
    let count = if byte >> 4 == 15 { read_varint(input)? } else { u64::from(byte >> 4) };
    Some((count, byte & 0x0f))
}

/// A function that is called at the value of each field, as `visitor(input, field, kind)` with the
/// number and the type code of the field. It must consume the value, and returns `None` to stop
/// reading.
type FieldVisitor<'v> = dyn FnMut(&mut &[u8], u64, u8) -> Option<()> + 'v;

fn visit_fields(input: &mut &[u8], visitor: &mut FieldVisitor<'_>) -> Option<()> {
    let mut field = 0;
    loop {
        let byte = read_byte(input)?;
        field = match (byte, byte >> 4) {
            (0, _) => return Some(()),
            (_, 0) => read_varint(input)? >> 1,
            (_, increment) => field + u64::from(increment),
        };
        visitor(input, field, byte & 0x0f)?;
    }
}

fn skip_value(input: &mut &[u8], kind: u8, depth: usize) -> Option<()> {
    // type codes: 1 and 2 booleans, 3 byte, 4 to 6 integers, 7 double, 8 binary, 9 list, 10 set, 12
    // struct
    match kind {
        // the type states the value of a boolean, except in a list
        1 | 2 => Some(()),
        3 => read_byte(input).map(drop),
        4..=6 => read_varint(input).map(drop),
        7 => input.split_off(..8).map(drop),
        8 => {
            let length = usize::try_from(read_varint(input)?).ok()?;
            input.split_off(..length).map(drop)
        }
        9 | 10 if depth < MAX_DEPTH => {
            let (count, kind) = read_list_header(input)?;
            (0..count).try_for_each(|_| skip_value(input, if kind < 3 { 3 } else { kind }, depth + 1))
        }
        12 if depth < MAX_DEPTH => visit_fields(input, &mut |input, _, kind| skip_value(input, kind, depth + 1)),
        _ => None,
    }
}
