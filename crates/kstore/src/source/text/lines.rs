//! Rows that are lines.

use super::Scanner;
use memchr::memchr;

/// Finds the lines that are rows. A line with only blanks is not a row; if the format has a comment
/// mark, a line with only a comment is not a row either.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineScanner {
    comment_mark: Option<u8>,
    is_in_comment: bool,
}

impl LineScanner {
    pub(crate) fn new(comment_mark: Option<u8>) -> Self {
        Self { comment_mark, is_in_comment: false }
    }
}

impl Scanner for LineScanner {
    fn find_start(&mut self, bytes: &[u8], line: &mut u64) -> Option<usize> {
        let mut position = 0;
        while let Some(byte) = bytes.get(position) {
            match byte {
                b'\n' => (self.is_in_comment, *line) = (false, *line + 1),
                _ if self.is_in_comment => position += memchr(b'\n', &bytes[position..])? - 1,
                byte if Some(*byte) == self.comment_mark => self.is_in_comment = true,
                byte if byte.is_ascii_whitespace() => {}
                _ => return Some(position),
            }
            position += 1;
        }
        None
    }

    fn find_end(&mut self, bytes: &[u8], _line: &mut u64) -> Option<usize> {
        memchr(b'\n', bytes)
    }

    fn may_end_with_file(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_do_not_depend_on_the_pieces() {
        let text = b"# head\n\n1 1:2 # tail\n  \n\t-1 2:3\r\n#\n# end\n5";
        for piece_len in 1..text.len() {
            let (mut scanner, mut line, mut is_in_row, mut row_starts) =
                (LineScanner::new(Some(b'#')), 1, false, Vec::new());
            for (chunk, mut bytes) in text.chunks(piece_len).enumerate() {
                let mut offset = chunk * piece_len;
                while !bytes.is_empty() {
                    let boundary = if is_in_row {
                        scanner.find_end(bytes, &mut line)
                    } else {
                        scanner.find_start(bytes, &mut line)
                    };
                    if let (Some(at), false) = (boundary, is_in_row) {
                        row_starts.push((offset + at, line));
                    }
                    is_in_row ^= boundary.is_some();
                    let consumed = boundary.unwrap_or(bytes.len());
                    (bytes, offset) = (&bytes[consumed..], offset + consumed);
                }
            }
            assert_eq!(row_starts, [(8, 3), (25, 5), (41, 8)], "{piece_len}");
        }
    }
}
