//! Memory that files are read into, again and again.

/// Reusable bytes, aligned for every number.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    words: Vec<u64>,
    length: usize,
}

impl Aligned {
    /// Room for `length` bytes, with anything in them.
    pub(crate) fn room(&mut self, length: usize) -> &mut [u8] {
        self.length = length;
        self.words.resize(length.div_ceil(8), 0);
        &mut bytemuck::cast_slice_mut(&mut self.words)[..length]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }
}
