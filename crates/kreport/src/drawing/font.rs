//! Glyph outlines for raster images, independent of the installed fonts.
//!
//! The outlines of Latin and Greek letters, digits and symbols come from DejaVu Sans
//! (`letters.LICENSE`); any other character is drawn as an empty box.

use std::collections::HashMap;
use std::sync::LazyLock;
use tiny_skia::PathBuilder;

/// One line per glyph: code point in hexadecimal, advance, and path with the commands M, L, Q and
/// Z. The first glyph is the empty box.
const GLYPHS: &str = include_str!("letters.txt");

/// Units of the outlines per font size; y points upwards.
const UNITS_PER_EM: f32 = 1000.0;

/// A glyph: an outline, its position and its size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Glyph {
    advance: f32,
    outline: &'static str,
    /// Size relative to the font size.
    relative_size: f32,
    /// Height above the baseline.
    height: f32,
}

#[derive(Debug)]
pub(super) struct Font {
    glyphs: HashMap<char, Glyph>,
}

/// Returns the font, which is parsed once.
pub(super) fn shared() -> &'static Font {
    static FONT: LazyLock<Font> = LazyLock::new(Font::new);
    &FONT
}

impl Font {
    fn new() -> Self {
        let parse_glyph = |line: &'static str| {
            let (code, rest) = line.split_once(' ')?;
            let (advance, outline) = rest.split_once(' ').unwrap_or((rest, ""));
            let letter = char::from_u32(u32::from_str_radix(code, 16).ok()?)?;
            Some((letter, Glyph { advance: advance.parse().ok()?, outline, relative_size: 1.0, height: 0.0 }))
        };
        Self { glyphs: GLYPHS.lines().filter_map(parse_glyph).collect() }
    }

    /// Returns the glyph of a character; exponents are small and raised.
    fn glyph(&self, letter: char) -> Glyph {
        let (letter, relative_size, height) = match superscript_digit(letter) {
            Some(digit) => (digit, EXPONENT_SIZE, EXPONENT_HEIGHT),
            None => (letter, 1.0, 0.0),
        };
        let glyph = self.glyphs.get(&letter).or_else(|| self.glyphs.get(&'\0')).copied().unwrap_or_default();
        Glyph { advance: glyph.advance * relative_size, relative_size, height, ..glyph }
    }

    pub(super) fn text_width(&self, word: &str, size: f32) -> f32 {
        word.chars().map(|letter| self.glyph(letter).advance).sum::<f32>() * size / UNITS_PER_EM
    }

    /// Returns the outline of a word at a font size, from the origin to the right, y downwards.
    pub(super) fn outline(&self, word: &str, size: f32) -> PathBuilder {
        let (mut path, mut start) = (PathBuilder::new(), 0.0);
        for Glyph { advance, outline, relative_size, height } in word.chars().map(|letter| self.glyph(letter)) {
            append_outline(outline, &mut path, |x, y| {
                ((start + relative_size * x) * size / UNITS_PER_EM, -(relative_size * y + height) * size / UNITS_PER_EM)
            });
            start += advance;
        }
        path
    }
}

/// Relative size of exponent digits, and their height above the baseline.
const EXPONENT_SIZE: f32 = 0.66;
const EXPONENT_HEIGHT: f32 = 340.0;

/// Returns the digit or sign for a superscript character, such as 4 for ⁴.
fn superscript_digit(letter: char) -> Option<char> {
    match letter {
        '¹' => Some('1'),
        '²' => Some('2'),
        '³' => Some('3'),
        '⁻' => Some('−'),
        '⁰'..='⁹' => char::from_digit(letter as u32 - '⁰' as u32, 10),
        _ => None,
    }
}

/// Appends an outline to a path, with its points transformed by `transform`.
fn append_outline(outline: &str, path: &mut PathBuilder, transform: impl Fn(f32, f32) -> (f32, f32)) {
    let mut tokens = outline.split(' ');
    while let Some(command) = tokens.next() {
        let mut point = || {
            let mut coordinate = || tokens.next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
            transform(coordinate(), coordinate())
        };
        match command {
            "M" => {
                let (x, y) = point();
                path.move_to(x, y);
            }
            "L" => {
                let (x, y) = point();
                path.line_to(x, y);
            }
            "Q" => {
                let ((x1, y1), (x, y)) = (point(), point());
                path.quad_to(x1, y1, x, y);
            }
            _ => path.close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_letter() {
        let letters = Font::new();
        assert_eq!(letters.glyphs.len(), GLYPHS.lines().count());
        let numbers = |path: &str| path.split(' ').filter(|word| word.parse::<i32>().is_ok()).count();
        let count = |path: &str, command: &str| path.split(' ').filter(|word| *word == command).count();
        for (letter, Glyph { advance, outline: path, .. }) in &letters.glyphs {
            let expected = 2 * (count(path, "M") + count(path, "L")) + 4 * count(path, "Q");
            assert!(numbers(path) == expected && *advance > 0.0, "{letter:?} {path}");
            assert_eq!(count(path, "M"), count(path, "Z"), "{letter:?}");
        }
        assert!("0123456789.-eazÀÿαω−_".chars().all(|letter| letters.glyph(letter).outline.starts_with("M ")));
        assert_eq!((letters.glyph(' ').outline, letters.glyph('漢')), ("", letters.glyph('\0')));
        // exponents are digits, small and raised
        assert!("⁻⁰¹²³⁴⁹".chars().all(|letter| letters.glyph(letter).relative_size == EXPONENT_SIZE
            && letters.glyph(letter) != letters.glyph('\0')));
        let bounds = letters.outline("⁴", 10.0).finish().unwrap().bounds();
        assert!(bounds.bottom() < -3.0 && letters.text_width("⁴", 10.0) < letters.text_width("4", 10.0), "{bounds:?}");
    }

    #[test]
    fn words_are_as_wide_as_their_letters() {
        let letters = Font::new();
        assert_eq!(
            letters.text_width("11", 10.0),
            2.0 * letters.text_width("8", 10.0),
            "digits are all as wide as each other"
        );
        let bounds = letters.outline("H8", 10.0).finish().unwrap().bounds();
        assert!(bounds.left() > 0.0 && bounds.right() < letters.text_width("H8", 10.0), "{bounds:?}");
        // The letters stand on the baseline; their height is about three quarters of the size.
        assert!(bounds.bottom().abs() < 0.3 && (-8.0..-6.5).contains(&bounds.top()), "{bounds:?}");
        assert!(letters.outline(" ", 10.0).finish().is_none());
    }
}
