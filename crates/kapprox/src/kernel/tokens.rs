//! Tokens of kernel expressions: numbers, names, columns, signs; every error points at a character.

use super::column_choice::is_bare_name_char;
use crate::{Error, Result};
use kpass::display;

/// Separator of the first and the last column of a range.
pub(super) const RANGE_SEPARATOR: [char; 2] = ['.', '.'];

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) characters: Vec<char>,
    pub(super) position: usize,
    pub(super) depth: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, characters: text.chars().collect(), position: 0, depth: 0 }
    }

    pub(super) fn parse_column(&mut self) -> Result<String> {
        self.skip_space();
        let start = self.position;
        if self.accept_any(&['"']) {
            return self.parse_quoted(start);
        }
        while self.peek().is_some_and(is_bare_name_char)
            && !self.characters[self.position..].starts_with(&RANGE_SEPARATOR)
        {
            self.position += 1;
        }
        if self.position == start {
            return self
                .fail(format!("expected a column, as in x0, x0..x9 or [x0, x3..x5], got {}", self.describe_next()));
        }
        Ok(self.characters[start..self.position].iter().collect())
    }

    /// Reads up to the closing quote; a doubled quote is a quote in the name.
    fn parse_quoted(&mut self, start: usize) -> Result<String> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            self.position += 1;
            if c == '"' && !self.accept_any(&['"']) {
                return Ok(name);
            }
            name.push(c);
        }
        self.fail_at(start, "this quote is not closed")
    }

    pub(super) fn parse_number(&mut self) -> Result<f64> {
        let start = self.position;
        self.accept_any(&['+', '-']);
        self.skip_digits();
        self.accept_any(&['.']);
        self.skip_digits();
        let before_exponent = self.position;
        if self.accept_any(&['e', 'E']) {
            self.accept_any(&['+', '-']);
            if !self.skip_digits() {
                self.position = before_exponent;
            }
        }
        let text: String = self.characters[start..self.position].iter().collect();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            Ok(_) => self.fail_at(start, "this number is too large"),
            Err(_) => {
                self.position = start;
                self.fail(format!("expected a number, got {}", self.describe_next()))
            }
        }
    }

    pub(super) fn parse_name(&mut self) -> String {
        let start = self.position;
        while self.peek().is_some_and(|c| is_name_start(c) || self.position > start && c.is_ascii_digit()) {
            self.position += 1;
        }
        self.characters[start..self.position].iter().collect()
    }

    pub(super) fn skip_digits(&mut self) -> bool {
        let start = self.position;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.position += 1;
        }
        self.position > start
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.characters.get(self.position).copied()
    }

    pub(super) fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.position += 1;
        }
    }

    /// Skips white space, and then the given character if it is the next one. Returns whether it
    /// was.
    pub(super) fn accept(&mut self, expected: char) -> bool {
        self.skip_space();
        self.accept_any(&[expected])
    }

    pub(super) fn accept_any(&mut self, expected: &[char]) -> bool {
        let is_match = self.peek().is_some_and(|c| expected.contains(&c));
        self.position += usize::from(is_match);
        is_match
    }

    pub(super) fn expect(&mut self, expected: char, what: &str) -> Result<()> {
        if self.accept(expected) { Ok(()) } else { self.fail(format!("expected {what}, got {}", self.describe_next())) }
    }

    /// Returns the next character in words, for messages.
    pub(super) fn describe_next(&self) -> String {
        self.peek().map_or("the end".into(), |c| format!("'{c}'"))
    }

    pub(super) fn fail<R>(&self, message: impl Into<String>) -> Result<R> {
        self.fail_at(self.position, message)
    }

    pub(super) fn fail_at<R>(&self, at: usize, message: impl Into<String>) -> Result<R> {
        let message = display::escape_line(&message.into()).into_owned();
        Err(Error::Kernel { text: self.text.into(), position: at, message })
    }
}

/// Returns whether a name of the language may begin with the character.
pub(super) fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}
