//! The bytes of one buffer of a batch, in the file or unpacked in memory.

use super::super::load_error::LoadError;
use super::super::shared_file::SharedFile;
use super::message::{ByteSpan, read_exact};
use crate::arrow::buffer::{Buffer, MutableBuffer};
use crate::arrow::ipc::CompressionType;
use std::io::{BufReader, Read};

/// A buffer whose bytes can be read from any position.
#[derive(Debug)]
pub(super) enum StoredBuffer {
    InFile(SharedFile, ByteSpan),
    InMemory(Vec<u8>),
}

impl StoredBuffer {
    /// Prepares a buffer. A compressed buffer is read and unpacked; an uncompressed buffer stays in
    /// the file.
    pub(super) fn prepare(
        file: &SharedFile,
        span: ByteSpan,
        codec: Option<CompressionType>,
    ) -> Result<Self, LoadError> {
        let Some(codec) = codec.filter(|_| span.length > 0) else { return Ok(Self::InFile(file.clone(), span)) };
        let (unpacked_len, packed_span) = split_length_prefix(file, span)?;
        let Some(unpacked_len) = unpacked_len else { return Ok(Self::InFile(file.clone(), packed_span)) };
        let mut bytes = vec![0; packed_span.length as usize];
        read_exact(file, &mut bytes, packed_span.offset)?;
        Ok(Self::InMemory(unpack(codec, &bytes, unpacked_len)?))
    }

    fn length(&self) -> u64 {
        match self {
            Self::InFile(_, span) => span.length,
            Self::InMemory(bytes) => bytes.len() as u64,
        }
    }

    /// Returns an error if the buffer has fewer than `length` bytes from `start` on. Without this
    /// check, a damaged length could cause a huge allocation.
    fn check_range(&self, start: u64, length: u64) -> Result<(), LoadError> {
        match start.checked_add(length).filter(|end| *end <= self.length()) {
            Some(_) => Ok(()),
            None => Err(too_short_error(start.saturating_add(length), self.length())),
        }
    }

    pub(super) fn copy_to(&self, start: u64, out: &mut [u8]) -> Result<(), LoadError> {
        self.check_range(start, out.len() as u64)?;
        match self {
            Self::InFile(file, span) => read_exact(file, out, span.offset + start)?,
            Self::InMemory(bytes) => out.copy_from_slice(&bytes[start as usize..][..out.len()]),
        }
        Ok(())
    }

    pub(super) fn read(&self, start: u64, length: u64) -> Result<Buffer, LoadError> {
        self.read_into(start, length, MutableBuffer::new(0))
    }

    /// Returns `length` bytes from `start` on, in the memory of `out`, which is reused.
    pub(super) fn read_into(&self, start: u64, length: u64, mut out: MutableBuffer) -> Result<Buffer, LoadError> {
        self.check_range(start, length)?;
        out.resize(length as usize, 0);
        self.copy_to(start, &mut out)?;
        Ok(out.into())
    }

    pub(super) fn append_to(&self, start: u64, length: usize, out: &mut Vec<u8>) -> Result<(), LoadError> {
        self.check_range(start, length as u64)?;
        let previous_len = out.len();
        out.resize(previous_len + length, 0);
        self.copy_to(start, &mut out[previous_len..])
    }
}

fn too_short_error(needed: u64, length: u64) -> LoadError {
    format!("a buffer has {length} bytes, but its rows need {needed}").into()
}

/// Memory of a compressed buffer (0 for an uncompressed buffer), or memory of a column in addition
/// to the numbers or views of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemoryCost {
    /// Unpacked bytes, which are held as long as the batch is current.
    pub(super) unpacked_bytes: u64,
    /// Additional bytes while a buffer is unpacked: the compressed bytes, and the memory of the
    /// decoder.
    pub(super) transient_bytes: u64,
}

impl MemoryCost {
    /// Returns the cost of buffers that are unpacked one after the other and then held at the same
    /// time.
    pub(super) fn followed_by(self, next: Self) -> Self {
        Self {
            unpacked_bytes: self.unpacked_bytes.saturating_add(next.unpacked_bytes),
            transient_bytes: self.transient_bytes.max(next.transient_bytes),
        }
    }
}

pub(super) fn memory_cost(
    file: &SharedFile,
    span: ByteSpan,
    codec: Option<CompressionType>,
) -> Result<MemoryCost, LoadError> {
    let Some(codec) = codec.filter(|_| span.length > 0) else { return Ok(MemoryCost::default()) };
    let (unpacked_len, packed_span) = split_length_prefix(file, span)?;
    let Some(unpacked_len) = unpacked_len else { return Ok(MemoryCost::default()) };
    let decoder_bytes = match codec {
        CompressionType::LZ4_FRAME => lz4_decoder_bytes(file, packed_span)?,
        // zstd's window has the length of the unpacked data if this length is stored, and it is
        // never filled beyond it
        _ => ZSTD_DECODER_BYTES + unpacked_len,
    };
    Ok(MemoryCost { unpacked_bytes: unpacked_len, transient_bytes: packed_span.length.saturating_add(decoder_bytes) })
}

/// Bytes of zstd's context (95,992 by `ZSTD_estimateDCtxSize` of 1.5.7), of an input block and an
/// output block of 128 KiB, and of the reader's buffer.
const ZSTD_DECODER_BYTES: u64 = (96 + 3 * 128) << 10;

/// Returns the bytes that the decoder of lz4 allocates: a compressed block and an unpacked block.
/// If blocks refer to earlier blocks, it also allocates two more unpacked blocks and the window of
/// 64 KiB. The sizes follow from the first bytes of the frame (LZ4 Frame Format Description 1.6.4):
/// the magic number, then the flags, then a code for the size of a block.
fn lz4_decoder_bytes(file: &SharedFile, packed: ByteSpan) -> Result<u64, LoadError> {
    const INDEPENDENT: u8 = 0x20;
    let mut frame = [0; 6];
    if packed.length < frame.len() as u64 {
        return Ok(0);
    }
    read_exact(file, &mut frame, packed.offset)?;
    let (flags, block_size_code) = (frame[4], frame[5] >> 4 & 7);
    // the code 4 means 64 KiB, 5 means 256 KiB, 6 means 1 MiB, and 7 means 4 MiB
    let block_bytes = 1 << (8 + 2 * u64::from(block_size_code));
    Ok(block_bytes + if flags & INDEPENDENT == 0 { 2 * block_bytes + (64 << 10) } else { block_bytes })
}

/// Returns a reader of a buffer. A compressed buffer is unpacked while it is read, and is never in
/// memory as a whole.
pub(super) fn open_stream(
    file: &SharedFile,
    span: ByteSpan,
    codec: Option<CompressionType>,
) -> Result<Box<dyn Read + '_>, LoadError> {
    let (mut unpacked_len, mut stored_span) = (None, span);
    if codec.is_some() && span.length > 0 {
        (unpacked_len, stored_span) = split_length_prefix(file, span)?;
    }
    let bytes = BufReader::with_capacity(STREAM_BYTES, RangeReader { file, remaining_span: stored_span });
    Ok(match (unpacked_len, codec) {
        (Some(length), Some(CompressionType::LZ4_FRAME)) => {
            Box::new(lz4_flex::frame::FrameDecoder::new(bytes).take(length))
        }
        (Some(length), Some(_)) => Box::new(zstd::Decoder::with_buffer(bytes)?.take(length)),
        _ => Box::new(bytes),
    })
}

/// Bytes that are read at once from the buffer of a stream.
const STREAM_BYTES: usize = 64 << 10;

struct RangeReader<'a> {
    file: &'a SharedFile,
    remaining_span: ByteSpan,
}

impl Read for RangeReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let max_bytes = usize::try_from(self.remaining_span.length).unwrap_or(usize::MAX).min(buffer.len());
        let read_len = self.file.read_at(&mut buffer[..max_bytes], self.remaining_span.offset)?;
        self.remaining_span = ByteSpan {
            offset: self.remaining_span.offset + read_len as u64,
            length: self.remaining_span.length - read_len as u64,
        };
        Ok(read_len)
    }
}

/// Reads the length that precedes a compressed buffer, and returns the length and the bytes after
/// it. The length -1 means that the bytes are not compressed, and is returned as `None`.
fn split_length_prefix(file: &SharedFile, span: ByteSpan) -> Result<(Option<u64>, ByteSpan), LoadError> {
    let mut prefix = [0; 8];
    if span.length < 8 {
        return Err("a compressed buffer is shorter than its length field".to_string().into());
    }
    read_exact(file, &mut prefix, span.offset)?;
    let data_span = ByteSpan { offset: span.offset + 8, length: span.length - 8 };
    match i64::from_le_bytes(prefix) {
        -1 => Ok((None, data_span)),
        length => {
            let length = u64::try_from(length).map_err(|_| format!("a buffer with the invalid length {length}"))?;
            Ok((Some(length), data_span))
        }
    }
}

/// Unpacks the first `unpacked_len` bytes. The memory grows with the data that are really unpacked:
/// a damaged length does not allocate anything.
fn unpack(codec: CompressionType, packed: &[u8], unpacked_len: u64) -> Result<Vec<u8>, LoadError> {
    // the maximum ratio of lz4; if zstd exceeds it, the vector grows
    const RATIO: u64 = 255;
    let mut bytes = Vec::new();
    let reserved_bytes = unpacked_len.min((packed.len() as u64).saturating_mul(RATIO)) as usize;
    bytes.try_reserve_exact(reserved_bytes).map_err(|_| format!("a buffer claims {unpacked_len} bytes"))?;
    let damaged_error = |error: std::io::Error| LoadError::Damaged(format!("a compressed buffer is damaged: {error}"));
    match codec {
        CompressionType::LZ4_FRAME => {
            lz4_flex::frame::FrameDecoder::new(packed).take(unpacked_len).read_to_end(&mut bytes)
        }
        _ => zstd::Decoder::new(packed).map_err(damaged_error)?.take(unpacked_len).read_to_end(&mut bytes),
    }
    .map_err(damaged_error)?;
    if (bytes.len() as u64) < unpacked_len { Err(too_short_error(unpacked_len, bytes.len() as u64)) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_damaged_length_allocates_nothing() {
        let packed = zstd::encode_all(&[7u8; 1000][..], 0).unwrap();
        assert_eq!(unpack(CompressionType::ZSTD, &packed, 1000).unwrap(), [7; 1000]);
        assert_eq!(unpack(CompressionType::ZSTD, &packed, 10).unwrap(), [7; 10]);
        for claimed_len in [1001, 1 << 40, u64::MAX] {
            assert!(matches!(unpack(CompressionType::ZSTD, &packed, claimed_len), Err(LoadError::Damaged(_))));
        }
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(&[7; 1000]).unwrap();
        let packed = lz4.finish().unwrap();
        assert_eq!(unpack(CompressionType::LZ4_FRAME, &packed, 1000).unwrap(), [7; 1000]);
        assert!(unpack(CompressionType::LZ4_FRAME, &packed, u64::MAX).is_err());
    }

    #[test]
    fn the_cost_of_unpacking_follows_from_the_frame() {
        use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packed");
        let cost_of = |packed: &[u8], codec| {
            std::fs::write(&path, [&1000u64.to_le_bytes()[..], packed].concat()).unwrap();
            let span = ByteSpan { offset: 0, length: 8 + packed.len() as u64 };
            let cost = memory_cost(
                &SharedFile::local(&path, "test", std::fs::File::open(&path).unwrap()).unwrap(),
                span,
                Some(codec),
            )
            .unwrap();
            (cost.unpacked_bytes, cost.transient_bytes - packed.len() as u64)
        };
        for (mode, bytes) in [(BlockMode::Independent, 2 << 20), (BlockMode::Linked, (3 << 20) + (64 << 10))] {
            let frame = FrameInfo::new().block_mode(mode).block_size(BlockSize::Max1MB);
            let mut lz4 = FrameEncoder::with_frame_info(frame, Vec::new());
            lz4.write_all(&[7; 1000]).unwrap();
            assert_eq!(cost_of(&lz4.finish().unwrap(), CompressionType::LZ4_FRAME), (1000, bytes));
        }
        let packed = zstd::encode_all(&[7u8; 1000][..], 0).unwrap();
        assert_eq!(cost_of(&packed, CompressionType::ZSTD), (1000, 1000 + (480 << 10)));
    }
}
