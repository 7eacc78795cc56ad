//! Tokens of kernel expressions: numbers, names, columns, signs; every error points at a character.

use super::choice::is_bare;
use crate::{Error, Result};
use kpass::shown;

/// Separator of the first and the last column of a range.
pub(super) const RANGE: [char; 2] = ['.', '.'];

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) characters: Vec<char>,
    pub(super) at: usize,
    pub(super) depth: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, characters: text.chars().collect(), at: 0, depth: 0 }
    }

    pub(super) fn column(&mut self) -> Result<String> {
        self.skip_space();
        let start = self.at;
        if self.take_any(&['"']) {
            return self.quoted(start);
        }
        while self.peek().is_some_and(is_bare) && !self.characters[self.at..].starts_with(&RANGE) {
            self.at += 1;
        }
        if self.at == start {
            return self.fail(format!("expected a column, as in x0, x0..x9 or [x0, x3..x5], got {}", self.here()));
        }
        Ok(self.characters[start..self.at].iter().collect())
    }

    /// Reads up to the closing quote; a doubled quote is a quote in the name.
    fn quoted(&mut self, start: usize) -> Result<String> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            if c == '"' && !self.take_any(&['"']) {
                return Ok(name);
            }
            name.push(c);
        }
        self.fail_at(start, "this quote is not closed")
    }

    pub(super) fn number(&mut self) -> Result<f64> {
        let start = self.at;
        self.take_any(&['+', '-']);
        self.digits();
        self.take_any(&['.']);
        self.digits();
        let before_exponent = self.at;
        if self.take_any(&['e', 'E']) {
            self.take_any(&['+', '-']);
            if !self.digits() {
                self.at = before_exponent;
            }
        }
        let text: String = self.characters[start..self.at].iter().collect();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            Ok(_) => self.fail_at(start, "this number is too large"),
            Err(_) => {
                self.at = start;
                self.fail(format!("expected a number, got {}", self.here()))
            }
        }
    }

    pub(super) fn name(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|c| is_name(c) || self.at > start && c.is_ascii_digit()) {
            self.at += 1;
        }
        self.characters[start..self.at].iter().collect()
    }

    pub(super) fn digits(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        self.at > start
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    pub(super) fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    /// Skips white space, and then the given character if it is next; returns whether it was.
    pub(super) fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        self.take_any(&[wanted])
    }

    pub(super) fn take_any(&mut self, wanted: &[char]) -> bool {
        let found = self.peek().is_some_and(|c| wanted.contains(&c));
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, wanted: char, what: &str) -> Result<()> {
        if self.take(wanted) { Ok(()) } else { self.fail(format!("expected {what}, got {}", self.here())) }
    }

    /// Returns the next character in words, for messages.
    pub(super) fn here(&self) -> String {
        self.peek().map_or("the end".into(), |c| format!("'{c}'"))
    }

    pub(super) fn fail<R>(&self, message: impl Into<String>) -> Result<R> {
        self.fail_at(self.at, message)
    }

    pub(super) fn fail_at<R>(&self, at: usize, message: impl Into<String>) -> Result<R> {
        let message = shown::line(&message.into()).into_owned();
        Err(Error::Kernel { text: self.text.into(), at, message })
    }
}

/// Returns whether a name of the language may begin with the character.
pub(super) fn is_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}
