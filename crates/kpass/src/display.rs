//! Formatting of names and numbers for messages and tables, and of paths for JSON.

use serde::Serializer;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Maximum length of a number in plain notation; longer numbers are shown in scientific notation.
const MAX_PLAIN_LENGTH: usize = 20;

/// Returns the text as one line: control characters, which could move the cursor of a terminal or
/// imitate a new line, are escaped.
///
/// ```
/// assert_eq!(kpass::display::escape_line("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
/// assert_eq!(kpass::display::escape_line("größe"), "größe");
/// ```
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape_controls(text, |_| false, |letter| letter.escape_default().to_string())
}

/// Returns an integer with commas: `284,217` for 284217.
pub fn format_count(n: u64) -> String {
    let digits = n.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Returns a number of bytes in binary units: `1536` as `1.5 KiB`.
pub fn format_bytes(n: usize) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (n as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if unit == 0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// Returns the number of bytes rounded up to whole MiB, in the form that
/// [`parse_bytes`](crate::budget::parse_bytes) reads.
#[doc(hidden)]
pub fn format_bytes_up(n: usize) -> String {
    format!("{}MiB", n.div_ceil(1 << 20))
}

/// Returns the words of a text separated by single spaces, for messages of decoders that have
/// several lines.
pub fn collapse_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Describes an error in JSON that kmill wrote. Users did not write it, so its line and column and
/// the Rust types would not help them.
pub fn json_error(error: &serde_json::Error) -> &'static str {
    use serde_json::error::Category;
    match error.classify() {
        Category::Io => "it cannot be read",
        Category::Syntax => "it is not valid JSON",
        Category::Eof => "its JSON ends too early",
        Category::Data => "its JSON has a missing field, or a field of the wrong type",
    }
}

/// Returns the path as one line of text, see [`escape_line`].
pub fn escape_path(path: &Path) -> String {
    escape_line(&path.to_string_lossy()).into_owned()
}

/// Serialises a path as text: bytes that are not UTF-8 become the replacement character. The text
/// is for display only and is never opened as a path.
///
/// ```
/// #[derive(serde::Serialize)]
/// struct Report {
///     #[serde(serialize_with = "kpass::display::lossy_path")]
///     model: std::path::PathBuf,
/// }
/// ```
///
/// # Errors
/// The errors of the serialiser.
pub fn lossy_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Serialises a list of paths as [`lossy_path`] does.
///
/// # Errors
/// The errors of the serialiser.
pub fn lossy_paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// Returns the text with escaped control characters, as [`escape_line`] does, except for line ends.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape_controls(text, |letter| letter == '\n', |letter| letter.escape_default().to_string())
}

/// Returns a JSON text in which the control characters of strings are JSON escapes.
///
/// ```
/// assert_eq!(kpass::display::escape_json("{\"a\u{202e}\": 1}"), "{\"a\\u202e\": 1}");
/// ```
pub fn escape_json(json: &str) -> Cow<'_, str> {
    escape_controls(json, |_| false, |letter| format!("\\u{:04x}", u32::from(letter)))
}

/// Replaces the control characters of a text by their escapes, except for the characters for which
/// `is_exempt` is true.
fn escape_controls(text: &str, is_exempt: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    let needs_escape = |letter: char| is_control(letter) && !is_exempt(letter);
    if !text.chars().any(needs_escape) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|letter| if needs_escape(letter) { escape(letter) } else { letter.to_string() }).collect()
}

/// Returns true for control characters, and for marks that change the direction of displayed text.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

const MAX_TRUNCATED_CHARS: usize = 60;

/// Returns the text, or, if it has more than 60 characters, the first 60 with an ellipsis.
///
/// ```
/// assert_eq!(kpass::display::truncate("ten"), "ten");
/// assert!(kpass::display::truncate(&"9".repeat(300)).ends_with("99…"));
/// ```
pub fn truncate(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_TRUNCATED_CHARS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// Returns a number with the fewest digits that restore it exactly, in scientific notation if plain
/// notation has more than 20 characters.
///
/// ```
/// assert_eq!(kpass::display::format_number(0.5), "0.5");
/// assert_eq!(kpass::display::format_number(-1e300), "-1e300");
/// ```
pub fn format_number(value: f64) -> String {
    let plain_notation = value.to_string();
    if plain_notation.len() <= MAX_PLAIN_LENGTH { plain_notation } else { format!("{value:e}") }
}
