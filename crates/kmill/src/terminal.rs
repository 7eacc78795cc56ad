//! Lines on stderr, and terminal colours for errors, warnings and the marked cell of a table.

use kstore::display;
use std::borrow::Cow;
use std::io::{IsTerminal, Write};

const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[1;31m";
const YELLOW: &str = "\u{1b}[1;33m";
const RESET: &str = "\u{1b}[0m";

/// Returns the text with colours if the stream is a terminal that supports them and `NO_COLOR`
/// (<https://no-color.org>) is not set.
pub(crate) fn colourise<'t>(text: &'t str, stream: &impl IsTerminal) -> Cow<'t, str> {
    let env_value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let is_dumb = env_value("TERM").is_some_and(|term| term == "dumb");
    if !stream.is_terminal() || is_dumb || env_value("NO_COLOR").is_some() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.split_inclusive('\n').map(colour_line).collect())
}

fn colour_line(line: &str) -> String {
    for (start, colour) in [("error:", RED), ("warning:", YELLOW)] {
        if let Some(rest) = line.strip_prefix(start) {
            return format!("{colour}{start}{RESET}{rest}");
        }
    }
    // the * that marks a cell of a table follows a number; the * of an expression does not
    let is_marked =
        |word: &str| word.len() > 1 && word.ends_with('*') && word.starts_with(|c: char| c.is_ascii_digit());
    line.split_inclusive([' ', '\n'])
        .map(|part| {
            let word = part.trim_end();
            if is_marked(word) { format!("{BOLD}{word}{RESET}{}", &part[word.len()..]) } else { part.to_string() }
        })
        .collect()
}

/// Writes a line to stderr. Ignores errors, such as a closed stderr.
pub(crate) fn print_line(text: &str) {
    let text = display::escape_line(text);
    let _ = writeln!(std::io::stderr(), "{}", colourise(&text, &std::io::stderr()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_warnings_have_colours_and_the_rest_has_none() {
        assert_eq!(colour_line("warning: x\n"), format!("{YELLOW}warning:{RESET} x\n"));
        assert_eq!(colour_line("  1e-7  0.1379*\n"), format!("  1e-7  {BOLD}0.1379*{RESET}\n"));
        assert_eq!(colour_line("  (* chosen) 2 * gaussian()\n"), "  (* chosen) 2 * gaussian()\n");
    }

    #[test]
    fn what_is_no_terminal_stays_plain() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(colourise("error: x", &file), "error: x");
    }
}
