//! The marks in numbers.

use std::borrow::Cow;

/// How the numbers of a column are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Marks {
    /// `1234.5`
    #[default]
    Point,
    /// `1,234.5`
    Grouped,
    /// `1234,5` and `1.234,5`
    Comma,
}

impl Marks {
    pub(super) const ALL: [Self; 3] = [Self::Point, Self::Grouped, Self::Comma];

    /// The field as it would be written with a point and without marks between thousands; `None` for what is not written in this way.
    pub(super) fn plain(self, field: &[u8]) -> Option<Cow<'_, [u8]>> {
        let (between, decimal) = match self {
            Self::Point => return Some(Cow::Borrowed(field)),
            Self::Grouped => (b',', b'.'),
            Self::Comma => (b'.', b','),
        };
        let (whole, rest) = field.split_at(field.iter().position(|byte| *byte == decimal).unwrap_or(field.len()));
        let digits = whole.strip_prefix(b"-").or(whole.strip_prefix(b"+")).unwrap_or(whole);
        let mut groups = digits.split(|byte| *byte == between);
        let first = groups.next().unwrap_or_default();
        let grouped = (1..=3).contains(&first.len()) && first[0] != b'0' && first.iter().all(u8::is_ascii_digit);
        let sound = groups.all(|group| grouped && group.len() == 3 && group.iter().all(u8::is_ascii_digit));
        let rest = rest.strip_prefix(&[decimal]).map_or(Vec::new(), |rest| [b".", rest].concat());
        let once = !rest.iter().skip(1).any(|byte| [b'.', b','].contains(byte));
        (sound && once).then(|| whole.iter().copied().filter(|byte| *byte != between).chain(rest).collect())
    }
}
