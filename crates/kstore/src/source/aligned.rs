//! Reusable memory that files are read into.

/// Reusable bytes, aligned for every number.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    words: Vec<u64>,
    length: usize,
}

impl Aligned {
    /// Returns `length` bytes with arbitrary content.
    pub(crate) fn room(&mut self, length: usize) -> &mut [u8] {
        self.length = length;
        self.words.resize(length.div_ceil(8), 0);
        &mut bytemuck::cast_slice_mut(&mut self.words)[..length]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }
}
