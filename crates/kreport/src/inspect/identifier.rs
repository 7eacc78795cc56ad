//! Columns that identify rows: counters, keys and names, and numbers of folds.

use crate::table::format_count;
use std::collections::HashSet;
use std::fmt;

/// Minimum number of values: with fewer, all values of a measurement may differ by chance.
const MIN_VALUES: usize = 50;

/// Common names of columns that contain fold or split numbers.
const SPLIT_NAMES: [&str; 6] = ["fold", "folds", "split", "partition", "cv", "cv_fold"];

/// What a column with a value for nearly every row, or a number of a fold, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identifier {
    /// The numbers of folds or splits, by the name of the column.
    Folds,
    /// Numbers that count the rows.
    RowCounter,
    /// This many values, and nearly all of them differ.
    Key(usize),
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folds => f.write_str("looks like fold numbers"),
            Self::RowCounter => f.write_str("looks like a row counter"),
            Self::Key(count) => {
                let count = format_count(*count as u64);
                write!(f, "looks like an identifier: its first {count} values are all different")
            }
        }
    }
}

/// Collects the values of a column of integers or texts, to find whether they identify the rows.
///
/// Integers must all differ; of texts, such as names, at least 9 of 10. A column of measurements
/// very likely repeats a value in some thousands of rows.
#[derive(Clone, Debug)]
pub struct IdentifierProbe {
    /// The values so far; emptied as soon as too many repeat.
    distinct_values: HashSet<u64>,
    value_count: usize,
    repeated_count: usize,
    /// Largest number of repeated values that an identifier may have.
    max_repeats: usize,
    /// Difference of value and row number, as long as all rows have the same one.
    offset: Option<f64>,
    is_counter: bool,
}

impl IdentifierProbe {
    /// Returns a probe of a column with at most this many rows.
    pub fn new(is_text: bool, rows: usize) -> Self {
        Self {
            distinct_values: HashSet::new(),
            value_count: 0,
            repeated_count: 0,
            max_repeats: if is_text { rows / 10 } else { 0 },
            offset: None,
            is_counter: !is_text,
        }
    }

    /// Adds the value of a row; NaN is a missing value.
    pub fn add(&mut self, row: u64, value: f64) {
        if value.is_nan() {
            return;
        }
        let offset = value - row as f64;
        self.is_counter &= self.offset.is_none_or(|first| first == offset);
        self.offset = Some(offset);
        self.value_count += 1;
        if self.can_identify() && !self.distinct_values.insert(value.to_bits()) {
            self.repeated_count += 1;
            if !self.can_identify() {
                self.distinct_values = HashSet::new();
            }
        }
    }

    /// Returns true until too many values have repeated.
    pub fn can_identify(&self) -> bool {
        self.repeated_count <= self.max_repeats
    }

    /// Returns what a column of this name is; `None` for an ordinary column.
    pub fn identifier(&self, name: &str) -> Option<Identifier> {
        if SPLIT_NAMES.contains(&name.to_ascii_lowercase().as_str()) {
            return Some(Identifier::Folds);
        }
        // the number of rows may have been smaller than announced
        let is_key = self.can_identify() && 10 * self.repeated_count < self.value_count.max(1);
        if self.value_count < MIN_VALUES || !is_key {
            return None;
        }
        Some(if self.is_counter { Identifier::RowCounter } else { Identifier::Key(self.value_count) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_of_rows_are_odd_and_measurements_are_not() {
        let look = |name: &str, is_text: bool, value: &dyn Fn(u64) -> f64| {
            let mut probe = IdentifierProbe::new(is_text, 1000);
            (0..1000).for_each(|i| probe.add(i, value(i)));
            probe.identifier(name).map(|identifier| identifier.to_string())
        };
        assert_eq!(look("a", false, &|i| i as f64 + 7.0).unwrap(), "looks like a row counter");
        let key = look("a", false, &|i| (i * 7919 % 100_003) as f64).unwrap();
        assert!(key.contains("first 1,000 values are all different"), "{key}");
        assert_eq!(look("a", false, &|i| (i % 999) as f64), None);
        assert!(look("a", true, &|i| (i % 950) as f64).is_some(), "names may repeat");
        assert_eq!(look("a", true, &|i| (i % 800) as f64), None);
        assert_eq!(look("Fold", false, &|i| (i % 10) as f64).unwrap(), "looks like fold numbers");
        assert_eq!(look("a", false, &|_| f64::NAN), None);
    }

    #[test]
    fn a_counter_is_recognised_in_blocks_of_rows() {
        let mut probe = IdentifierProbe::new(false, 200);
        (0..100).chain(5000..5100).for_each(|row| probe.add(row, row as f64 + 3.0));
        assert_eq!(probe.identifier("a"), Some(Identifier::RowCounter));
        probe.add(5100, 77_777.0);
        assert_eq!(probe.identifier("a"), Some(Identifier::Key(201)));
    }
}
