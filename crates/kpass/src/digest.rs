//! A 64-bit digest of bytes, to notice damage and change. It is no protection against forgery.
//!
//! Words of 8 little-endian bytes are chained through the finaliser of [`crate::key`]; the length goes in last, so that
//! trailing zeros count. About 3 GB/s on one thread.

use crate::key::mix;

/// A digest being computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Digest {
    state: u64,
    length: u64,
}

impl Digest {
    /// The digest of some bytes, as 16 hexadecimal digits.
    pub fn of(bytes: &[u8]) -> String {
        format!("{:016x}", Self::word_of(bytes))
    }

    /// What follows the digest with which a text begins; `None` where it begins with none.
    pub(crate) fn behind(text: &str) -> Option<&str> {
        let (digest, rest) = text.split_at_checked(16)?;
        digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(rest)
    }

    /// The digest of some bytes.
    pub fn word_of(bytes: &[u8]) -> u64 {
        let mut digest = Self::default();
        digest.update(bytes);
        digest.last()
    }

    /// Adds more bytes. Parts that are no multiple of 8 bytes are padded: cut the same bytes in the same way.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(word));
        }
        self.length += bytes.len() as u64;
    }

    fn word(&mut self, word: u64) {
        // the constant keeps a state of 0 from swallowing words of 0
        self.state = mix((self.state ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15));
    }

    pub(crate) fn finish(self) -> String {
        format!("{:016x}", self.last())
    }

    fn last(mut self) -> u64 {
        self.word(self.length);
        self.state
    }
}
