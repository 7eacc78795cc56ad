//! Counts n-grams of words or characters in texts: runs of n consecutive words or characters.
//!
//! ```text
//! word(a,b)    n-grams of a to b words, in lower case; a word has two or more letters with their
//!              marks, digits or _
//! char(a,b)    n-grams of a to b characters, in lower case, white space of any length as one blank
//! spectrum(p)  n-grams of p characters as they are: the features of the p-spectrum kernel
//! value        the text as a whole: a category
//! ```
//!
//! With `hash=N`, the digest of an n-gram selects one of N counters, and the texts of the n-grams
//! are not stored.
//!
//! (Words as in scikit-learn's `TfidfVectorizer`. Spectrum: Leslie, Eskin, Noble, "The spectrum
//! kernel: a string kernel for SVM protein classification", Pacific Symposium on Biocomputing 7,
//! 2002.)

use crate::schema::Kind;
use crate::sparse::MAX_F32_COLUMNS;
use crate::{Digest, Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Maximum number of n-grams counted at the same time. Chosen: the counts of a column then take at
/// most 26 MiB, 104 bytes for each n-gram.
pub(crate) const MAX_COUNTED_NGRAMS: usize = 1 << 18;

/// Default maximum number of n-grams that are features of a column: half of the counted n-grams,
/// because after rare n-grams were dropped, more may not remain.
const DEFAULT_FEATURES: usize = MAX_COUNTED_NGRAMS / 2;

/// Maximum length of an n-gram. Chosen; longer runs hardly ever occur in a second text.
const MAX_NGRAM_LENGTH: usize = 64;

/// What is counted in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NGrams {
    unit: GramUnit,
    min_length: usize,
    max_length: usize,
    /// Maximum number of features, or number of hash buckets.
    pub(crate) max_features: usize,
    is_hashed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GramUnit {
    Word,
    Char,
    Spectrum,
    Value,
}

const UNIT_NAMES: [(&str, GramUnit); 4] =
    [("word", GramUnit::Word), ("char", GramUnit::Char), ("spectrum", GramUnit::Spectrum), ("value", GramUnit::Value)];

impl Default for NGrams {
    fn default() -> Self {
        Self { unit: GramUnit::Word, min_length: 1, max_length: 1, max_features: DEFAULT_FEATURES, is_hashed: false }
    }
}

impl fmt::Display for NGrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, min_length, max_length, max_features, is_hashed } = self;
        let name = UNIT_NAMES.iter().find(|(_, candidate)| candidate == unit).map_or("", |(name, _)| name);
        let mut arguments = match unit {
            GramUnit::Word | GramUnit::Char => vec![min_length.to_string(), max_length.to_string()],
            GramUnit::Spectrum => vec![min_length.to_string()],
            GramUnit::Value => Vec::new(),
        };
        if *is_hashed || *max_features != DEFAULT_FEATURES {
            arguments.push(format!("{}={max_features}", if *is_hashed { "hash" } else { "features" }));
        }
        if arguments.is_empty() { f.write_str(name) } else { write!(f, "{name}({})", arguments.join(",")) }
    }
}

impl From<NGrams> for String {
    fn from(grams: NGrams) -> Self {
        grams.to_string()
    }
}

impl TryFrom<String> for NGrams {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for NGrams {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let expected = format!(
            "choose word, word(A,B), char(A,B), spectrum(P) with numbers up to {MAX_NGRAM_LENGTH}, or value, optionally with features=N or \
             hash=N, such as word(1,2,features=50000)"
        );
        parse_ngrams(text).ok_or(Error::Syntax { what: "`text`", text: text.to_string(), expected })
    }
}

fn parse_ngrams(text: &str) -> Option<NGrams> {
    let (name, argument_list) = text.split_at(text.find('(').unwrap_or(text.len()));
    let (_, unit) = *UNIT_NAMES.iter().find(|(unit_name, _)| *unit_name == name.trim())?;
    let arguments = if argument_list.is_empty() { "" } else { argument_list.strip_prefix('(')?.strip_suffix(')')? };
    let (mut lengths, mut features, mut is_hashed) = (Vec::new(), DEFAULT_FEATURES, false);
    for argument in arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
        match argument.split_once('=') {
            Some((name @ ("features" | "hash"), count)) => {
                is_hashed = name == "hash";
                let max_features = if is_hashed { MAX_F32_COLUMNS } else { MAX_COUNTED_NGRAMS };
                features = count.parse().ok().filter(|count| (1..=max_features).contains(count))?;
            }
            Some(_) => return None,
            None => lengths.push(argument.parse().ok().filter(|length| (1..=MAX_NGRAM_LENGTH).contains(length))?),
        }
    }
    let (min_length, max_length) = match (unit, &lengths[..]) {
        (GramUnit::Word | GramUnit::Value, []) => (1, 1),
        (GramUnit::Value, _) => return None,
        (GramUnit::Word | GramUnit::Char, [a, b]) if a <= b => (*a, *b),
        (_, [length]) => (*length, *length),
        _ => return None,
    };
    Some(NGrams { unit, min_length, max_length, max_features: features, is_hashed })
}

/// The words or characters of a text: the normalised text, and the byte range of each unit in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextUnits {
    text: String,
    ranges: Vec<(usize, usize)>,
}

impl NGrams {
    /// Limits the number of features to `max_features`, unless the request sets a number.
    pub(crate) fn limit_to(self, max_features: usize) -> Self {
        let features =
            if self.max_features == DEFAULT_FEATURES && !self.is_hashed { max_features } else { self.max_features };
        Self { max_features: features, ..self }
    }

    /// Returns whether the whole text is counted, so that each row has one value.
    pub(crate) fn is_value(&self) -> bool {
        self.unit == GramUnit::Value
    }

    /// Returns whether a column of this type can be counted: a text column, or an integer column
    /// whose values are counted as a whole.
    pub(crate) fn accepts(&self, kind: &Kind) -> bool {
        *kind == Kind::Text || self.is_value() && matches!(kind, Kind::Int { .. })
    }

    pub(crate) fn bucket_count(&self) -> Option<usize> {
        self.is_hashed.then_some(self.max_features)
    }

    pub(crate) fn bucket_of(&self, ngram: &str) -> Option<u32> {
        let buckets = self.bucket_count()? as u64;
        u32::try_from(Digest::u64_of(ngram.as_bytes()) % buckets.max(1)).ok()
    }

    /// Calls `visitor` with each n-gram of a text, as often as it occurs.
    pub(crate) fn for_each_ngram(&self, text: &str, units: &mut TextUnits, mut visitor: impl FnMut(&str)) {
        if self.is_value() {
            return visitor(text);
        }
        units.split(self.unit, text);
        let TextUnits { text, ranges } = units;
        for length in self.min_length..=self.max_length {
            for window in ranges.windows(length) {
                visitor(&text[window[0].0..window[length - 1].1]);
            }
        }
    }
}

impl TextUnits {
    fn split(&mut self, unit: GramUnit, source: &str) {
        let Self { text, ranges } = self;
        text.clear();
        ranges.clear();
        let lowercase = source.chars().flat_map(char::to_lowercase);
        match unit {
            GramUnit::Word => {
                // words are concatenated with blanks between them, so that each n-gram is a slice
                // of the text
                let (mut word_start, mut letter_count) = (0, 0);
                for letter in lowercase.chain([' ']) {
                    if is_word_char(letter) {
                        text.push(letter);
                        letter_count += 1;
                        continue;
                    }
                    if letter_count > 1 {
                        ranges.push((word_start, text.len()));
                        text.push(' ');
                        word_start = text.len();
                    }
                    text.truncate(word_start);
                    letter_count = 0;
                }
                return;
            }
            GramUnit::Char => {
                for letter in lowercase {
                    let is_blank = letter.is_whitespace();
                    if !(is_blank && text.ends_with(' ')) {
                        text.push(if is_blank { ' ' } else { letter });
                    }
                }
            }
            GramUnit::Spectrum | GramUnit::Value => text.push_str(source),
        }
        ranges.extend(text.char_indices().map(|(start, letter)| (start, start + letter.len_utf8())));
    }
}

/// Returns whether a character belongs to a word: letters, digits, `_` and the marks of letters.
/// Marks are the vowels, viramas and tones of the scripts of India and South East Asia, accents
/// that are separate characters, and the joiners within words of these scripts and of Persian.
fn is_word_char(letter: char) -> bool {
    // a middle dot is part of identifiers, but not of words
    let is_middle_dot = matches!(letter, '\u{b7}' | '\u{387}' | '\u{30fb}' | '\u{ff65}');
    let is_mark = || unicode_ident::is_xid_continue(letter) || matches!(letter, '\u{200c}' | '\u{200d}');
    letter.is_alphanumeric() || !letter.is_ascii() && !is_middle_dot && is_mark() || letter == '_'
}

/// Splits `comment` or `comment:char(3,5)` into the name of a text column and what is counted.
pub(crate) fn parse_text_column(text: &str) -> Result<(&str, NGrams)> {
    match text.rsplit_once(':') {
        // a colon may be part of the column's name
        Some((column, grams)) if UNIT_NAMES.iter().any(|(name, _)| grams.starts_with(name)) => {
            Ok((column, grams.parse()?))
        }
        _ => Ok((text, NGrams::default())),
    }
}
