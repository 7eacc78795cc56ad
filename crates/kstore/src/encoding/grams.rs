//! Counts words in texts, runs of consecutive words, or runs of consecutive characters.
//!
//! ```text
//! word(a,b)    runs of a to b words, in lower case; a word has two or more letters with their
//!              marks, digits or _
//! char(a,b)    runs of a to b characters, in lower case, white space of any length as one blank
//! spectrum(p)  runs of p characters as they are: the features of the p-spectrum kernel
//! value        the text as a whole: a category
//! ```
//!
//! With `hash=N`, the digest of a run selects one of N counters, and the texts of the runs are not
//! stored.
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

/// Maximum number of runs counted at the same time.
pub(crate) const MAX_COUNTED_RUNS: usize = 1 << 18;

/// Default maximum number of runs that are features of a column.
const DEFAULT_FEATURES: usize = MAX_COUNTED_RUNS / 2;

const MAX_RUN_LENGTH: usize = 64;

/// What is counted in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Grams {
    unit: Unit,
    shortest: usize,
    longest: usize,
    /// Maximum number of features, or number of hash buckets.
    pub(crate) features: usize,
    hashed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Word,
    Char,
    Spectrum,
    Value,
}

const UNIT_NAMES: [(&str, Unit); 4] =
    [("word", Unit::Word), ("char", Unit::Char), ("spectrum", Unit::Spectrum), ("value", Unit::Value)];

impl Default for Grams {
    fn default() -> Self {
        Self { unit: Unit::Word, shortest: 1, longest: 1, features: DEFAULT_FEATURES, hashed: false }
    }
}

impl fmt::Display for Grams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, shortest, longest, features, hashed } = self;
        let name = UNIT_NAMES.iter().find(|(_, candidate)| candidate == unit).map_or("", |(name, _)| name);
        let mut arguments = match unit {
            Unit::Word | Unit::Char => vec![shortest.to_string(), longest.to_string()],
            Unit::Spectrum => vec![shortest.to_string()],
            Unit::Value => Vec::new(),
        };
        if *hashed || *features != DEFAULT_FEATURES {
            arguments.push(format!("{}={features}", if *hashed { "hash" } else { "features" }));
        }
        if arguments.is_empty() { f.write_str(name) } else { write!(f, "{name}({})", arguments.join(",")) }
    }
}

impl From<Grams> for String {
    fn from(grams: Grams) -> Self {
        grams.to_string()
    }
}

impl TryFrom<String> for Grams {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for Grams {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let expected = format!(
            "choose word, word(A,B), char(A,B), spectrum(P) with numbers up to {MAX_RUN_LENGTH}, or value, optionally with features=N or \
             hash=N, such as word(1,2,features=50000)"
        );
        parse_grams(text).ok_or(Error::Syntax { what: "`text`", text: text.to_string(), expected })
    }
}

fn parse_grams(text: &str) -> Option<Grams> {
    let (name, rest) = text.split_at(text.find('(').unwrap_or(text.len()));
    let (_, unit) = *UNIT_NAMES.iter().find(|(unit_name, _)| *unit_name == name.trim())?;
    let arguments = if rest.is_empty() { "" } else { rest.strip_prefix('(')?.strip_suffix(')')? };
    let (mut lengths, mut features, mut hashed) = (Vec::new(), DEFAULT_FEATURES, false);
    for argument in arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
        match argument.split_once('=') {
            Some((name @ ("features" | "hash"), count)) => {
                hashed = name == "hash";
                let max_features = if hashed { MAX_F32_COLUMNS } else { MAX_COUNTED_RUNS };
                features = count.parse().ok().filter(|count| (1..=max_features).contains(count))?;
            }
            Some(_) => return None,
            None => lengths.push(argument.parse().ok().filter(|length| (1..=MAX_RUN_LENGTH).contains(length))?),
        }
    }
    let (shortest, longest) = match (unit, &lengths[..]) {
        (Unit::Word | Unit::Value, []) => (1, 1),
        (Unit::Value, _) => return None,
        (Unit::Word | Unit::Char, [a, b]) if a <= b => (*a, *b),
        (_, [only]) => (*only, *only),
        _ => return None,
    };
    Some(Grams { unit, shortest, longest, features, hashed })
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TextUnits {
    text: String,
    ranges: Vec<(usize, usize)>,
}

impl Grams {
    /// Limits the number of features to `max_features`, unless the request sets a number.
    pub(crate) fn limited_to(self, max_features: usize) -> Self {
        let features = if self.features == DEFAULT_FEATURES && !self.hashed { max_features } else { self.features };
        Self { features, ..self }
    }

    /// Returns whether the whole text is counted, so that each row has one value.
    pub(crate) fn is_value(&self) -> bool {
        self.unit == Unit::Value
    }

    /// Returns whether a column of this type can be counted: a text column, or an integer column
    /// whose values are counted as a whole.
    pub(crate) fn accepts(&self, kind: &Kind) -> bool {
        *kind == Kind::Text || self.is_value() && matches!(kind, Kind::Int { .. })
    }

    pub(crate) fn buckets(&self) -> Option<usize> {
        self.hashed.then_some(self.features)
    }

    pub(crate) fn bucket(&self, run: &str) -> Option<u32> {
        let buckets = self.buckets()? as u64;
        u32::try_from(Digest::u64_of(run.as_bytes()) % buckets.max(1)).ok()
    }

    /// Calls `run` with each run of a text, as often as it occurs.
    pub(crate) fn for_each_run(&self, text: &str, units: &mut TextUnits, mut run: impl FnMut(&str)) {
        if self.is_value() {
            return run(text);
        }
        units.split(self.unit, text);
        let TextUnits { text, ranges: ends } = units;
        for length in self.shortest..=self.longest {
            for some in ends.windows(length) {
                run(&text[some[0].0..some[length - 1].1]);
            }
        }
    }
}

impl TextUnits {
    fn split(&mut self, unit: Unit, from: &str) {
        let Self { text, ranges: ends } = self;
        text.clear();
        ends.clear();
        let lower = from.chars().flat_map(char::to_lowercase);
        match unit {
            Unit::Word => {
                // words are concatenated with blanks between them, so that each run of words is a
                // slice of the text
                let (mut start, mut letters) = (0, 0);
                for letter in lower.chain([' ']) {
                    if is_word_char(letter) {
                        text.push(letter);
                        letters += 1;
                        continue;
                    }
                    if letters > 1 {
                        ends.push((start, text.len()));
                        text.push(' ');
                        start = text.len();
                    }
                    text.truncate(start);
                    letters = 0;
                }
                return;
            }
            Unit::Char => {
                for letter in lower {
                    let blank = letter.is_whitespace();
                    if !(blank && text.ends_with(' ')) {
                        text.push(if blank { ' ' } else { letter });
                    }
                }
            }
            Unit::Spectrum | Unit::Value => text.push_str(from),
        }
        ends.extend(text.char_indices().map(|(at, letter)| (at, at + letter.len_utf8())));
    }
}

/// Returns whether a character belongs to a word: letters, digits, `_` and the marks of letters.
/// Marks are the vowels, viramas and tones of the scripts of India and South East Asia, accents
/// that are separate characters, and the joiners within words of these scripts and of Persian.
fn is_word_char(letter: char) -> bool {
    // a middle dot is part of identifiers, but not of words
    let dot = matches!(letter, '\u{b7}' | '\u{387}' | '\u{30fb}' | '\u{ff65}');
    let mark = || unicode_ident::is_xid_continue(letter) || matches!(letter, '\u{200c}' | '\u{200d}');
    letter.is_alphanumeric() || !letter.is_ascii() && !dot && mark() || letter == '_'
}

/// Splits `comment` or `comment:char(3,5)` into the name of a text column and what is counted.
pub(crate) fn parse_column(text: &str) -> Result<(&str, Grams)> {
    match text.rsplit_once(':') {
        // a colon may be part of the column's name
        Some((column, grams)) if UNIT_NAMES.iter().any(|(name, _)| grams.starts_with(name)) => {
            Ok((column, grams.parse()?))
        }
        _ => Ok((text, Grams::default())),
    }
}
