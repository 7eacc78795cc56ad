//! Numbers in informal notation: with a currency, a unit or `%`, in parentheses, with a trailing
//! minus or a Unicode minus, in hexadecimal, or with apostrophes or spaces between thousands.

use super::{NumberSeparators, parse_number};
use std::borrow::Cow;

impl NumberSeparators {
    pub(crate) const ALL: [Self; 3] = [Self::Point, Self::PointWithThousands, Self::Comma];

    /// Rewrites a field with a decimal point and without thousands separators. Returns `None` if
    /// the field does not have this format.
    pub(crate) fn normalise(self, field: &[u8]) -> Option<Cow<'_, [u8]>> {
        let (thousands_mark, decimal_mark) = match self {
            Self::Point => return Some(Cow::Borrowed(field)),
            Self::PointWithThousands => (b',', b'.'),
            Self::Comma => (b'.', b','),
        };
        let (integer_part, fraction_part) =
            field.split_at(field.iter().position(|byte| *byte == decimal_mark).unwrap_or(field.len()));
        let digits = integer_part.strip_prefix(b"-").or(integer_part.strip_prefix(b"+")).unwrap_or(integer_part);
        let mut groups = digits.split(|byte| *byte == thousands_mark);
        let first_group = groups.next().unwrap_or_default();
        let is_first_group_valid = (1..=3).contains(&first_group.len())
            && first_group[0] != b'0'
            && first_group.iter().all(u8::is_ascii_digit);
        let are_groups_valid =
            groups.all(|group| is_first_group_valid && group.len() == 3 && group.iter().all(u8::is_ascii_digit));
        let fraction = fraction_part.strip_prefix(&[decimal_mark]).map_or(Vec::new(), |rest| [b".", rest].concat());
        let has_single_mark = !fraction.iter().skip(1).any(|byte| [b'.', b','].contains(byte));
        (are_groups_valid && has_single_mark)
            .then(|| integer_part.iter().copied().filter(|byte| *byte != thousands_mark).chain(fraction).collect())
    }
}

/// Maximum length of a field that may be a number with an affix, and of a unit. Chosen: longer
/// fields are texts.
const MAX_NUMBER_BYTES: usize = 64;

const MAX_UNIT_CHARS: usize = 8;

/// A field that was separated into a number and the text around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumberWithAffix<'a> {
    /// Sign, digits, decimal mark and exponent. A space or an apostrophe between thousands is
    /// stored as an apostrophe.
    number: String,
    /// Currency before the number and unit after it.
    pub(crate) affix: Cow<'a, str>,
}

impl NumberWithAffix<'_> {
    /// Returns the number with a decimal point and without thousands separators. Returns `None` if
    /// it has other marks than `marks`.
    pub(crate) fn normalise(&self, marks: NumberSeparators) -> Option<Vec<u8>> {
        let (marks, thousands_mark) = match marks {
            NumberSeparators::Point if self.number.contains('\'') => (NumberSeparators::PointWithThousands, ","),
            NumberSeparators::Comma => (NumberSeparators::Comma, "."),
            other => (other, ","),
        };
        marks.normalise(self.number.replace('\'', thousands_mark).as_bytes()).map(Cow::into_owned)
    }
}

/// Returns whether a character is a currency symbol; one currency symbol may precede a number.
fn is_currency(letter: char) -> bool {
    matches!(letter, '$' | '£' | '¥' | '€' | '\u{20a0}'..='\u{20cf}')
}

fn is_unit(text: &str) -> bool {
    let is_unit_char = |c: char| c.is_alphabetic() || is_currency(c) || "%‰°/²³".contains(c);
    text.chars().count() <= MAX_UNIT_CHARS && text.chars().all(is_unit_char)
}

/// Separates a number from the text around it. Returns `None` if the field is not a single number.
/// The digits of the number are not checked.
pub(crate) fn split_affix(field: &[u8]) -> Option<NumberWithAffix<'_>> {
    let text = std::str::from_utf8(field).ok().filter(|text| text.len() <= MAX_NUMBER_BYTES)?.trim();
    if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        let digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(digits)?;
        let number = u64::from_str_radix(digits, 16).ok()?.to_string();
        return Some(NumberWithAffix { number, affix: "0x".into() });
    }
    let parenthesised = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let text = parenthesised.unwrap_or(text);
    let first = text.find(|c: char| c.is_ascii_digit())?;
    let first = first - usize::from(text[..first].ends_with(['.', ',']));
    let last = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    // a minus may be before the currency, after the currency, or after the digits
    let is_minus = |c: char| c == '-' || c == '\u{2212}';
    let (prefix, suffix) = (text[..first].trim(), text[last..].trim());
    let after_sign = prefix.strip_prefix(is_minus).unwrap_or(prefix);
    let currency = after_sign.strip_suffix(is_minus).unwrap_or(after_sign).trim();
    let unit = suffix.strip_prefix(is_minus).unwrap_or(suffix).trim();
    let signs =
        [parenthesised.is_some(), after_sign != prefix, after_sign.ends_with(is_minus), suffix.starts_with(is_minus)];
    let sign_count = signs.into_iter().filter(|sign| *sign).count();
    let is_valid =
        sign_count <= 1 && currency.chars().all(is_currency) && currency.chars().count() <= 1 && is_unit(unit);
    let is_separator = |c: char| matches!(c, ' ' | '\'' | '\u{2019}' | '\u{a0}' | '\u{2009}' | '\u{202f}');
    let number = format!("{}{}", if sign_count == 1 { "-" } else { "" }, text[first..last].replace(is_separator, "'"));
    let affix = if currency.is_empty() { unit.into() } else { format!("{currency}{unit}").into() };
    is_valid.then_some(NumberWithAffix { number, affix })
}

/// Returns whether the text is a number with an affix, or with marks other than a decimal point.
pub(crate) fn is_marked_number(text: &str) -> bool {
    marked_number(text).is_some()
}

fn marked_number(text: &str) -> Option<f64> {
    let number_with_affix = split_affix(text.as_bytes())?;
    let number =
        NumberSeparators::ALL.into_iter().find_map(|marks| parse_number::<f64>(&number_with_affix.normalise(marks)?));
    number.filter(|_| text.trim().parse::<f64>().is_err())
}
