//! Parsers for lists and ranges of regularisation parameters, ranks and factors.

use crate::{Error, Result};
use kstore::display::format_number;
use std::cmp::Ordering;

const REGULARISATION_HELP: &str =
    "a positive number (1e-6), a list (1e-8,1e-6), or a range (1e-9..1e-3) with two per decade";
const RANK_HELP: &str = "a list of positive whole numbers (250,500,1000), or a range (50..2000) that doubles";

/// Maximum ratio of the ends of a range of factors of a length scale. With a larger ratio, the
/// kernel matrix is nearly constant at one end or nearly the identity at the other.
const MAX_FACTOR_RATIO: f64 = 1e6;

/// Maximum number of values in a range of lambdas. The positive numbers of f64 span 1,264 half
/// decades, so a longer range is a typing error.
const MAX_LAMBDAS: usize = 2_000;

/// Parses regularisation parameters: `lambda` of (1/n)Σ(y−f)² + lambda‖w‖², or `C`. Returns them in
/// ascending order and without duplicates.
///
/// A range has two values per decade and contains both ends. Whole and half decades are 1 or
/// 3.1622776601683795 (the f64 nearest to √10) times a power of ten, correctly rounded. So they do
/// not depend on the start of the range, and equal the numbers that a user would type.
///
/// ```
/// let grid = kmodel::grids::parse_regularisation("lambda", "1e-9..1e-3").unwrap();
/// assert_eq!((grid.len(), grid[1]), (13, 3.1622776601683795e-9));
/// assert_eq!(kmodel::grids::parse_regularisation("C", "10,0.1").unwrap(), [0.1, 10.0]);
/// assert!(kmodel::grids::parse_regularisation("lambda", "0").is_err());
/// ```
///
/// # Errors
/// [`Error::Option`] with the parameter's `name`, unless `text` is a list or range of positive
/// finite numbers.
pub fn parse_regularisation(name: &'static str, text: &str) -> Result<Vec<f64>> {
    let parse = |part: &str| {
        let invalid = |_| Error::option(name, part.trim(), format!("not a number; give {REGULARISATION_HELP}"));
        part.trim().parse().map_err(invalid).and_then(|value| require_positive(name, value))
    };
    parse_values(text, parse, |first, last| half_decades(name, first, last), f64::total_cmp)
}

/// Returns the values of a list or range, in ascending order and without duplicates. `parse` parses
/// a value, and `expand_range(first, last)` must return all values of a range.
fn parse_values<V>(
    text: &str,
    parse: impl Fn(&str) -> Result<V>,
    expand_range: impl Fn(V, V) -> Result<Vec<V>>,
    compare: fn(&V, &V) -> Ordering,
) -> Result<Vec<V>> {
    let mut values = match text.split_once("..") {
        Some((first, last)) => expand_range(parse(first)?, parse(last)?)?,
        None => text.split(',').map(parse).collect::<Result<_>>()?,
    };
    values.sort_by(compare);
    values.dedup_by(|a, b| compare(a, b).is_eq());
    Ok(values)
}

fn require_positive(name: &'static str, value: f64) -> Result<f64> {
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err(Error::option(
            name,
            format_number(value),
            format!("it must be positive and finite; give {REGULARISATION_HELP}"),
        )),
    }
}

/// Returns `lambda` if it is positive and finite.
///
/// # Errors
/// [`Error::Option`] if `lambda` is not positive and finite.
pub fn require_lambda(lambda: f64) -> Result<f64> {
    require_positive("lambda", lambda)
}

fn half_decades(name: &'static str, first: f64, last: f64) -> Result<Vec<f64>> {
    let range_text = || format!("{first:e}..{last:e}");
    if first > last {
        return Err(Error::option(name, range_text(), "the range must start at its smaller end"));
    }
    let mut values = Vec::new();
    let mut value = first;
    // the relative tolerance 5e-4 is smaller than a step and larger than the rounding error of
    // thousands of steps
    while value < last * 0.9995 {
        values.push(value);
        if values.len() > MAX_LAMBDAS {
            return Err(Error::option(name, range_text(), "too many values; narrow the range"));
        }
        value = half_decades_from(first, values.len());
    }
    values.push(last);
    Ok(values)
}

/// Returns `first`·10^(k/2), correctly rounded if `first` is a whole or half decade.
fn half_decades_from(first: f64, k: usize) -> f64 {
    let exponent = (2.0 * first.log10()).round();
    let base = half_decade(exponent as i64);
    if base == first { half_decade(exponent as i64 + k as i64) } else { first * half_decade(k as i64) }
}

/// Returns 10^(k/2), correctly rounded. It is parsed from decimal text, because a product of powers
/// would not be correctly rounded.
pub fn half_decade(k: i64) -> f64 {
    let mantissa = if k.rem_euclid(2) == 0 { "1" } else { "3.1622776601683795" };
    format!("{mantissa}e{}", k.div_euclid(2)).parse().unwrap_or(f64::NAN)
}

/// Parses factors of length scales. Returns them in ascending order and without duplicates.
///
/// A range doubles from its start and ends with its end.
///
/// ```
/// assert_eq!(kmodel::grids::parse_factors("0.25..3").unwrap(), [0.25, 0.5, 1.0, 2.0, 3.0]);
/// ```
///
/// # Errors
/// [`Error::Option`] unless `text` is a list or range of positive finite numbers.
pub fn parse_factors(text: &str) -> Result<Vec<f64>> {
    let invalid = |part: &str, why: &str| Error::option("factors", format!("{part:?}"), why);
    let help = "give positive numbers (0.5,1,2), or a range (0.25..4) that doubles";
    let parse = |part: &str| {
        let number = part.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        number.ok_or_else(|| invalid(part.trim(), help))
    };
    let expand_range = |first: f64, last: f64| {
        if first > last || last / first > MAX_FACTOR_RATIO {
            return Err(invalid(text, "the range must start at its smaller end, and span at most a millionfold"));
        }
        let steps = std::iter::successors(Some(first), |value| Some(2.0 * value));
        Ok(steps.take_while(|value| *value < last).chain([last]).collect())
    };
    parse_values(text, parse, expand_range, f64::total_cmp)
}

/// Parses ranks. Returns them in ascending order and without duplicates.
///
/// A range doubles from its start and ends with its end.
///
/// ```
/// assert_eq!(kmodel::grids::parse_ranks("50..300").unwrap(), [50, 100, 200, 300]);
/// ```
///
/// # Errors
/// [`Error::Option`] unless `text` is a list or range of positive integers.
pub fn parse_ranks(text: &str) -> Result<Vec<usize>> {
    let parse = |part: &str| match part.trim().parse::<usize>() {
        Ok(rank) if rank > 0 => Ok(rank),
        _ => Err(Error::option("ranks", format!("{:?}", part.trim()), format!("not a rank; give {RANK_HELP}"))),
    };
    parse_values(text, parse, doubling_range, Ord::cmp)
}

/// Maximum number of counts in a list or range.
const MAX_COUNTS: usize = 100;

/// Parses a list of integers from 2, or a range of all integers from its start to its end. Returns
/// them in ascending order and without duplicates.
///
/// ```
/// assert_eq!(kmodel::grids::parse_counts("clusters", "2..5").unwrap(), [2, 3, 4, 5]);
/// ```
///
/// # Errors
/// [`Error::Option`] with the parameter's `name`, unless `text` is such a list or range of at most
/// 100 integers.
pub fn parse_counts(name: &'static str, text: &str) -> Result<Vec<usize>> {
    let help = "give a list of whole numbers from 2 (2,4,8), or a range (2..8) of at most 100 numbers";
    let invalid = |part: &str| Error::option(name, part.trim(), help);
    let parse = |part: &str| part.trim().parse().ok().filter(|count| *count >= 2).ok_or_else(|| invalid(part));
    let expand_range = |first: usize, last: usize| match first <= last && last - first < MAX_COUNTS {
        true => Ok((first..=last).collect()),
        false => Err(invalid(text)),
    };
    let counts = parse_values(text, parse, expand_range, Ord::cmp)?;
    if counts.len() > MAX_COUNTS { Err(invalid(text)) } else { Ok(counts) }
}

fn doubling_range(first: usize, last: usize) -> Result<Vec<usize>> {
    if first > last {
        let range_text = format!("{first}..{last}");
        return Err(Error::option("ranks", range_text, "the range must start at its smaller end"));
    }
    let doublings = std::iter::successors(Some(first), |rank| rank.checked_mul(2));
    Ok(doublings.take_while(|rank| *rank < last).chain([last]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lambda_lists_and_ranges() {
        assert_eq!(parse_regularisation("lambda", "1e-6").unwrap(), [1e-6]);
        assert_eq!(parse_regularisation("lambda", " 1e-6, 1e-8,1e-6").unwrap(), [1e-8, 1e-6]);
        let grid = parse_regularisation("lambda", "1e-9..1e-3").unwrap();
        assert_eq!(grid.len(), 13);
        for (k, lambda) in grid.iter().enumerate() {
            let mantissa = if k % 2 == 0 { "1" } else { "3.1622776601683795" };
            assert_eq!(*lambda, format!("{mantissa}e-{}", 9 - k / 2).parse::<f64>().unwrap());
        }
        assert_eq!(format!("{:e} {:e} {:e}", grid[0], grid[1], grid[12]), "1e-9 3.1622776601683795e-9 1e-3");
        assert_eq!(parse_regularisation("lambda", "2e-3..1e-2").unwrap(), [2e-3, 2e-3 * 3.1622776601683795, 1e-2]);
        assert_eq!(parse_regularisation("lambda", "1e-3..1e-3").unwrap(), [1e-3]);
    }

    #[test]
    fn counts_are_every_integer_of_a_range() {
        assert_eq!(parse_counts("clusters", "8,2, 4,2").unwrap(), [2, 4, 8]);
        assert_eq!(parse_counts("clusters", "2..2").unwrap(), [2]);
        for wrong in ["1..8", "8..2", "2..8.5", "2,,4", "2..1000", "0,3", "a"] {
            let message = parse_counts("clusters", wrong).unwrap_err().to_string();
            assert!(message.contains("a range (2..8)"), "{wrong}: {message}");
        }
    }

    #[test]
    fn invalid_lambdas_are_rejected() {
        for wrong in ["0", "-1e-3", "nan", "inf", "x", "", "1e-3..1e-9", "1e-3,", "0..1", "1e-3..inf"] {
            let message = parse_regularisation("lambda", wrong).unwrap_err().to_string();
            assert!(message.starts_with("`lambda`"), "{wrong}: {message}");
        }
        assert!(parse_regularisation("lambda", "-1").unwrap_err().to_string().contains("positive"));
    }

    #[test]
    fn rank_lists_and_ranges() {
        assert_eq!(parse_ranks("1000,250,500,250").unwrap(), [250, 500, 1000]);
        assert_eq!(parse_ranks("50..2000").unwrap(), [50, 100, 200, 400, 800, 1600, 2000]);
        assert_eq!(parse_ranks("50..200").unwrap(), [50, 100, 200]);
        for wrong in ["0", "-5", "1.5", "", "200..50", "a..b"] {
            assert!(parse_ranks(wrong).is_err(), "{wrong}");
        }
    }
}
