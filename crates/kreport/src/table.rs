//! Aligned terminal tables, and readable numbers.

pub use kstore::display::format_count;
use std::{fmt, time::Duration};
use unicode_width::UnicodeWidthChar;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Aligns texts.
    Left,
    /// Aligns numbers.
    Right,
}

/// Maximum width of a column, and of the last column, which may hold a sentence.
const MAX_WIDTHS: [usize; 2] = [60, 1000];

/// Maximum number of characters per column of the terminal: accents and other marks have no width.
const MAX_CHARS_PER_COLUMN: usize = 4;

/// Returns the width of a character in terminal columns.
fn char_width(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

fn text_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn truncate(text: String, max_width: usize) -> String {
    if text.len() <= max_width
        || (text_width(&text) <= max_width && text.chars().count() <= MAX_CHARS_PER_COLUMN * max_width)
    {
        return text;
    }
    let mut used_width = 0;
    let fits = |(_, letter): &(usize, char)| {
        used_width += char_width(*letter);
        used_width < max_width
    };
    let end = text.char_indices().take(MAX_CHARS_PER_COLUMN * max_width - 1).take_while(fits).last();
    format!("{}…", &text[..end.map_or(0, |(index, letter)| index + letter.len_utf8())])
}

/// Maximum width of the cells of a column other than the last.
pub(crate) const MAX_CELL_WIDTH: usize = MAX_WIDTHS[0];

/// Cuts the middle of a text that is wider than `max_width`, so that its beginning and its end
/// stay.
pub(crate) fn shorten_middle(text: String, max_width: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= max_width || max_width < 3 {
        return text;
    }
    let (head, tail) = (max_width / 2, (max_width - 1) / 2);
    let [head, tail] = [&letters[..head], &letters[letters.len() - tail..]].map(|part| part.iter().collect::<String>());
    format!("{head}…{tail}")
}

/// Rows of cells, with columns as wide as their widest cell. Cells above the maximum width are cut.
#[derive(Clone, Debug)]
pub struct AlignedTable {
    /// Headings of the columns.
    pub headings: Vec<String>,
    alignments: Vec<Align>,
    /// Cells of each row.
    pub rows: Vec<Vec<String>>,
}

impl AlignedTable {
    /// Returns a table with these headings; the heading line is omitted if all are empty.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Self {
        let (headings, alignments): (Vec<S>, Vec<Align>) = columns.into_iter().unzip();
        let headings = cells(headings, alignments.len());
        Self { headings, alignments, rows: Vec::new() }
    }

    /// Adds a row. Missing cells stay empty, surplus cells are dropped.
    pub fn push_row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(self::cells(cells, self.alignments.len()));
    }
}

/// Returns the texts of `count` cells of a line, without characters that would break it.
fn cells<S: Into<String>>(texts: impl IntoIterator<Item = S>, count: usize) -> Vec<String> {
    let max_width = |i: usize| MAX_WIDTHS[usize::from(i + 1 == count)];
    let cell = |(i, text): (usize, S)| truncate(kstore::display::escape_line(&text.into()).into_owned(), max_width(i));
    let mut cells: Vec<String> = texts.into_iter().enumerate().map(cell).collect();
    cells.resize(count, String::new());
    cells
}

impl fmt::Display for AlignedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_headings = self.headings.iter().any(|name| !name.is_empty());
        let lines = has_headings.then_some(&self.headings).into_iter().chain(&self.rows);
        let max_width_of = |column: usize| {
            let cells = self.rows.iter().map(|row| &row[column]).chain([&self.headings[column]]);
            cells.map(|cell| text_width(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.alignments.len()).map(max_width_of).collect();
        for cells in lines {
            let mut line = String::new();
            for ((cell, align), column_width) in cells.iter().zip(&self.alignments).zip(&widths) {
                // `format!` pads by characters, at most 65,535, and not by terminal columns
                let space = " ".repeat(column_width.saturating_sub(text_width(cell)));
                let (left_pad, right_pad) = if *align == Align::Left { ("", &space[..]) } else { (&space[..], "") };
                line.extend(["  ", left_pad, cell, right_pad]);
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A grid of numbers over two axes, with one cell marked: a surface, or a confusion matrix.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Label of the corner, such as `lambda \ rank`.
    pub corner: String,
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// Heading and cells of each row.
    pub rows: Vec<(String, Vec<String>)>,
    /// Row and column of the cell marked with `*`.
    pub marked_cell: Option<(usize, usize)>,
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headings = std::iter::once(&self.corner).chain(&self.columns);
        // a space instead of the mark keeps the digits of a column aligned
        let pad = |text: &str, is_marked: bool| match (self.marked_cell, is_marked) {
            (None, _) => text.to_string(),
            (Some(_), true) => format!("{text}*"),
            (Some(_), false) => format!("{text} "),
        };
        let mut table = AlignedTable::new(
            headings.enumerate().map(|(i, head)| (if i == 0 { head.clone() } else { pad(head, false) }, Align::Right)),
        );
        for (i, (name, cells)) in self.rows.iter().enumerate() {
            let cells = cells.iter().enumerate().map(|(j, cell)| pad(cell, self.marked_cell == Some((i, j))));
            table.push_row(std::iter::once(name.clone()).chain(cells));
        }
        write!(f, "{table}")
    }
}

/// Placeholder for a missing number.
pub const MISSING_VALUE: &str = "–";

/// Formats `value` with `digits` significant digits. Uses scientific notation if plain digits would
/// be long, and `–` for NaN.
///
/// ```
/// use kreport::table::number;
/// assert_eq!(number(1433.27, 4), "1433");
/// assert_eq!(number(0.130_651, 4), "0.1307");
/// assert_eq!(number(2.4e-7, 3), "2.40e-7");
/// ```
pub fn number(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return MISSING_VALUE.to_string();
    }
    if value == 0.0 || value.is_infinite() {
        return value.to_string();
    }
    let digits = digits.max(1);
    // scientific notation rounds first: 9.9996 with four digits becomes 10.00, not 9.9996
    let scientific = format!("{value:.*e}", digits - 1);
    let exponent: i32 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    if (-4..7).contains(&exponent) {
        let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
        format!("{value:.decimals$}")
    } else {
        scientific
    }
}

/// Formats a number with four digits; a missing number is a dash.
pub fn optional_number(value: Option<f64>) -> String {
    number(value.unwrap_or(f64::NAN), 4)
}

/// Formats a number typed by the user as the shortest text that parses to it: `1e-6` instead of
/// `0.000001`.
pub fn shortest_number(value: f64) -> String {
    let decimal = value.to_string();
    let exponential = format!("{value:e}");
    if exponential.len() < decimal.len() { exponential } else { decimal }
}

/// Formats a lambda in a table: its shortest digits, or three digits for a half decade such as
/// 3.16e-7.
pub fn short_lambda(lambda: f64) -> String {
    let text = shortest_number(lambda);
    if text.len() <= 8 { text } else { format!("{lambda:.2e}") }
}

/// Maximum number of values of a list that are shown.
pub(crate) const MAX_LISTED: usize = 8;

/// Formats the first values of a list, separated by commas. If all values are counts, they have no
/// decimal points.
pub fn format_list(values: &[f64]) -> String {
    // from 0 to 2^53, integers are represented exactly
    let are_counts = values.iter().all(|value| value.fract() == 0.0 && (0.0..9e15).contains(value));
    let format_value = |value: &f64| if are_counts { format_count(*value as u64) } else { number(*value, 4) };
    let ellipsis = if values.len() > MAX_LISTED { ", …" } else { "" };
    format!("{}{ellipsis}", join_with_commas(values.iter().take(MAX_LISTED).map(format_value)))
}

/// Rounds long numbers in a kernel expression to four significant digits: `gaussian(sigma=5.806)`
/// for `gaussian(sigma=5.80593116055527)`. Numbers of up to six characters stay unchanged.
pub fn rounded_kernel(expression: &str) -> String {
    let expression = without_quantiles(expression);
    let mut out = String::with_capacity(expression.len());
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    // the digits of a name such as x12 belong to it
    let is_word = |letter: char| is_number(letter) || letter.is_alphabetic() || letter == '_';
    let mut rest = &expression[..];
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()).max(first.len_utf8());
        let (word, after) = rest.split_at(end);
        let is_long = word.len() > 6 && word.contains('.') && word.chars().all(is_number);
        match word.parse::<f64>().ok().filter(|_| is_long) {
            Some(value) => out.push_str(&number(value, 4)),
            None => out.push_str(word),
        }
        rest = after;
    }
    out
}

/// Writes `scale=quantile` instead of the quantiles of a kernel's inputs, 65 numbers for each
/// input.
fn without_quantiles(expression: &str) -> String {
    const QUANTILES: &str = "scale=[";
    let mut parts = expression.split(QUANTILES);
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| match part.split_once(']') {
        Some((_, rest)) => text + "scale=quantile" + rest,
        None => text + QUANTILES + part,
    })
}

/// Formats a time: `4.2 s`, `3 min 20 s`, `2 h 05 min`.
pub fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let whole_seconds = seconds.round() as u64;
    match seconds {
        s if s < 0.9995 => format!("{:.0} ms", s * 1e3),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 119.5 => format!("{whole_seconds} s"),
        s if s < 7170.0 => format!("{} min {:02} s", whole_seconds / 60, whole_seconds % 60),
        _ => format!("{} h {:02} min", whole_seconds / 3600, whole_seconds / 60 % 60),
    }
}

/// Formats a time in seconds.
pub fn format_seconds(seconds: f64) -> String {
    format_duration(Duration::from_secs_f64(seconds.max(0.0)))
}

/// Returns a table of names and values, without headings.
pub fn facts<'n>(pairs: impl IntoIterator<Item = (&'n str, String)>) -> AlignedTable {
    let mut facts = AlignedTable::new([("", Align::Left), ("", Align::Left)]);
    pairs.into_iter().for_each(|(name, value)| facts.push_row([name.to_string(), value]));
    facts
}

/// Joins values with commas.
pub fn join_with_commas(values: impl IntoIterator<Item = impl ToString>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(", ")
}

/// Formats a fraction as a percentage: `3.12 %` for 0.0312. If the fraction is above one half, its
/// complement has three significant digits. An accuracy of `99.9667 %` then matches an error rate
/// of `0.0333 %`, and only the fraction 1 is `100 %`.
pub fn percent(fraction: f64) -> String {
    let complement = 1.0 - fraction;
    if fraction.is_nan() {
        return MISSING_VALUE.to_string();
    }
    if !(0.5..1.0).contains(&fraction) {
        let is_one = fraction == 1.0;
        return if is_one { "100 %".to_string() } else { format!("{} %", number(100.0 * fraction, 3)) };
    }
    // decimal digits of the complement; more than six are meaningless
    let exponent = format!("{:.2e}", 100.0 * complement).rsplit('e').next().and_then(|e| e.parse().ok()).unwrap_or(0);
    let decimals = (2i32 - exponent).clamp(1, 6) as usize;
    format!("{:.decimals$} %", 100.0 * fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_hold_no_control_characters() {
        let mut table = AlignedTable::new([("a\n", Align::Left), ("b", Align::Left)]);
        table.push_row(["\u{1b}[2J", "größe\t"]);
        assert_eq!(table.to_string(), "  a\\n        b\n  \\u{1b}[2J  größe\\t\n");
    }

    #[test]
    fn cells_are_cut_at_the_width_of_their_column() {
        for letter in ["x", "ö", "漢", "e\u{301}", "\u{301}", "👩\u{200d}🔬"] {
            let long = letter.repeat(70_000);
            let mut table = AlignedTable::new([("name", Align::Left), (&long, Align::Right), ("value", Align::Left)]);
            table.push_row([&long[..], "1", &long]);
            table.push_row(["short", "2", "漢"]);
            let text = table.to_string();
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines[1].contains('…') && lines[1].len() < 8 * 1100, "{letter}");
            // the last column begins at the same position in all lines
            let start = |line: &str, value: &str| text_width(&line[..line.rfind(value).unwrap()]);
            assert_eq!(start(lines[0], "value"), start(lines[2], "漢"), "{letter}");
            assert!(start(lines[2], "漢") <= 2 * MAX_WIDTHS[0] + 6, "{letter}");
        }
        assert_eq!(truncate("x".repeat(61), 60), "x".repeat(59) + "…");
        assert_eq!(truncate("漢".repeat(31), 60), "漢".repeat(29) + "…");
        assert_eq!(truncate("漢".repeat(30), 60), "漢".repeat(30));
        assert_eq!(shorten_middle("abcdefghij".to_string(), 7), "abc…hij");
        assert_eq!(shorten_middle("abcdefg".to_string(), 7), "abcdefg");
    }

    #[test]
    fn numbers_keep_their_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1.000"),
            (9.99996, "10.00"),
            (-0.000_123_45, "-0.0001234"),
            (0.000_012_345, "1.234e-5"),
            (123_456.7, "123457"),
            (12_345_678.0, "1.235e7"),
            (f64::NAN, "–"),
            (f64::INFINITY, "inf"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value, 4), text, "{value:?}");
        }
        assert_eq!([0.0312, 0.5, 0.9, 0.9875].map(percent), ["3.12 %", "50.0 %", "90.0 %", "98.75 %"]);
        // an accuracy is 100 % only if no row is wrong
        assert_eq!([1.0 - 1.0 / 3000.0, 1.0 / 3000.0].map(percent), ["99.9667 %", "0.0333 %"]);
        assert_eq!([0.0, 1.0, f64::NAN].map(percent), ["0 %", "100 %", "–"]);
    }

    #[test]
    fn counts_have_no_points() {
        assert_eq!([format_list(&[11.0]), format_list(&[9790.0, 0.0])], ["11", "9,790, 0"]);
        assert_eq!(format_list(&[11.0, 0.5]), "11.00, 0.5000");
    }

    #[test]
    fn long_numbers_of_an_expression_are_rounded() {
        for (typed, expected) in [
            ("gaussian(sigma=5.80593116055527)", "gaussian(sigma=5.806)"),
            ("0.3079123*gaussian(sigma=1) + 1", "0.3079*gaussian(sigma=1) + 1"),
            ("matern(nu=2.5, sigma=0.1234)", "matern(nu=2.5, sigma=0.1234)"),
            ("delta(on=x1.2345678)", "delta(on=x1.2345678)"),
            ("gaussian(sigma=1.2345678e-7)", "gaussian(sigma=1.2345678e-7)"),
            ("größe", "größe"),
        ] {
            assert_eq!(rounded_kernel(typed), expected);
        }
    }

    #[test]
    fn counts_and_exact_values() {
        assert_eq!([0, 999, 1000, 284_217, 1_234_567].map(format_count), ["0", "999", "1,000", "284,217", "1,234,567"]);
        assert_eq!([1e-6, 0.5, 1000.0, 3e-9, 0.0].map(shortest_number), ["1e-6", "0.5", "1e3", "3e-9", "0"]);
    }

    #[test]
    fn durations_have_the_unit_that_matters() {
        let texts = [0.0123, 4.2, 61.4, 200.0, 7500.0].map(|s| format_duration(Duration::from_secs_f64(s)));
        assert_eq!(texts, ["12 ms", "4.2 s", "61 s", "3 min 20 s", "2 h 05 min"]);
    }

    #[test]
    fn the_marked_cell_does_not_shift_its_column() {
        let grid = Grid {
            corner: "lambda \\ rank".to_string(),
            columns: vec!["250".to_string(), "1000".to_string()],
            rows: vec![
                ("1e-8".to_string(), vec!["0.301".to_string(), "0.250".to_string()]),
                ("1e-6".to_string(), vec!["0.300".to_string(), "0.199".to_string()]),
            ],
            marked_cell: Some((1, 1)),
        };
        let expected = concat!(
            "  lambda \\ rank    250    1000\n",
            "           1e-8  0.301   0.250\n",
            "           1e-6  0.300   0.199*\n",
        );
        assert_eq!(grid.to_string(), expected);
    }
}
