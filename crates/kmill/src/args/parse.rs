//! Parsers of option values. A value that cannot be parsed is a usage error: exit code 2. The error
//! of every parser is the text of this usage error, which says what was expected.

use super::foreign_names;
use crate::error::with_option_names;
use clap::builder::TypedValueParser;
use kapprox::{Kernel, landmark::Scheme, map::MapSpec};
use kreport::table::join_with_commas;
use ksolve::{curve::Method, job::LandmarkSource};
use kstore::{ColumnType, Missing, MissingTarget, RowsBack, TestSpec, condition::Condition, encoding::TimeFeatures};
use std::{ffi::OsStr, fmt::Display, ops::Range, path::PathBuf, str::FromStr, time::Duration};

/// Maximum number of threads. Common machines do not have more cores, and 1,024 threads still start
/// quickly.
const MAX_THREADS: usize = 1024;

/// Maximum number of repeats of a comparison. Each repeat is a run of every method. With a thousand
/// repeats, the fraction of results below a quartile has a standard error of about 0.01.
const MAX_REPEATS: u64 = 1_000;

/// Maximum number of permutations: enough for p-values of one in a million.
const MAX_PERMUTATIONS: u64 = 1_000_000;

/// Maximum number of features of a generated table. It equals the maximum number of columns in a
/// text file, `kstore::sparse::MAX_DENSE_COLUMNS`.
const MAX_FEATURES: u64 = 100_000;

/// Word that keeps missing values in a conversion.
const KEEP_WORD: &str = "keep";

/// Landmark schemes and maps to compare, without duplicates. It is a type alias, because clap would
/// treat the literal type `Vec` as a repeated option.
pub type Methods = Vec<Method>;

/// clap's parser for `--landmarks`, which also accepts a file name that is not UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct LandmarksParser;

impl TypedValueParser for LandmarksParser {
    type Value = LandmarkSource;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<LandmarkSource, clap::Error> {
        match value.to_str() {
            Some(_) => word::<LandmarkSource>.parse_ref(command, arg, value),
            None => Ok(LandmarkSource::File(value.into())),
        }
    }
}

/// Parses a comma-separated list, and rejects duplicates. Commas within parentheses and brackets do
/// not separate entries. `parse` parses an entry.
fn distinct_list<V: PartialEq + Display>(
    text: &str,
    parse: impl Fn(&str) -> Result<V, String>,
) -> Result<Vec<V>, String> {
    let mut depth = 0usize;
    let parts = text.split(|letter: char| {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    let mut values = Vec::new();
    for part in parts {
        let value = parse(part.trim())?;
        if values.contains(&value) {
            return Err(format!("{value} is named twice"));
        }
        values.push(value);
    }
    Ok(values)
}

/// Parses `--methods`: a list of names, in which maps may have parameters in parentheses.
pub fn methods(text: &str) -> Result<Methods, String> {
    distinct_list(text, word)
}

/// Kernels to try, without duplicates.
pub type Kernels = Vec<Kernel>;

/// Parses `--kernels`: a list of kernel expressions.
pub fn kernels(text: &str) -> Result<Kernels, String> {
    distinct_list(text, kernel)
}

/// Checks `--factors`, a list or range of numbers, before work starts, and returns its text.
pub fn factors(text: &str) -> Result<String, String> {
    kmodel::grids::parse_factors(text).map(|_| text.to_string()).map_err(expected_by_solver)
}

/// Parses the name of a landmark scheme.
pub fn scheme(text: &str) -> Result<&'static Scheme, String> {
    let names = || join_with_commas(kapprox::landmark::registry().into_iter().map(|scheme| scheme.name));
    kapprox::landmark::by_name(text).ok_or_else(|| format!("expected one of {}", names()))
}

/// Parses a number of repeats, from 1 to `MAX_REPEATS`.
pub fn repeats(text: &str) -> Result<u64, String> {
    in_range(text, 1, MAX_REPEATS)
}

/// Parses a number of permutations, from 0 to `MAX_PERMUTATIONS`.
pub fn permutations(text: &str) -> Result<u64, String> {
    in_range(text, 0, MAX_PERMUTATIONS)
}

/// Parses the number of features of a generated table, from 1 to `MAX_FEATURES`.
pub fn features(text: &str) -> Result<usize, String> {
    in_range(text, 1, MAX_FEATURES).map(|n| n as usize)
}

/// Parses a nonempty column name, or a pattern for several columns.
pub fn name(text: &str) -> Result<String, String> {
    nonempty(text, "the name of a column, such as y; kmill inspect DATA lists them")
}

/// Parses a column with its type, such as `zip=text`.
pub(crate) fn column_type(text: &str) -> Result<(String, ColumnType), String> {
    let (column, type_name) = text.rsplit_once('=').ok_or("expected a column and its type, such as zip=text")?;
    let kind = type_name
        .trim()
        .parse()
        .map_err(|_| format!("expected text, number or date after {column}=, such as {column}=text"))?;
    Ok((name(column)?, kind))
}

/// Parses a column with numbers of earlier rows, such as `count:1,24`.
pub(crate) fn rows_back(text: &str) -> Result<RowsBack, String> {
    RowsBack::parse(text).map_err(expected_by_store)
}

/// Parses the nonempty name of a class.
pub(crate) fn label(text: &str) -> Result<String, String> {
    nonempty(text, "the name of a class, such as yes; kmill inspect MODEL lists them")
}

fn nonempty(text: &str, expected: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err(format!("expected {expected}")) } else { Ok(text.to_string()) }
}

/// Parses two costs, such as `1:20`.
pub(crate) fn costs(text: &str) -> Result<[f64; 2], String> {
    let cost = |text: &str| text.trim().parse::<f64>().ok().filter(|cost| cost.is_finite() && *cost >= 0.0);
    let parsed = text.split_once(':').and_then(|(alarm, miss)| Some([cost(alarm)?, cost(miss)?]));
    parsed.ok_or_else(|| "expected the costs of a false positive and of a false negative, such as 1:20".to_string())
}

/// Parses any number. The subcommand checks its range.
pub fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| "expected a number, such as 0.1 or 1e-3".to_string())
}

/// Parses a feature map, such as `nystrom` or `fourier`.
pub fn map(text: &str) -> Result<MapSpec, String> {
    text.parse().map_err(|error: kapprox::Error| with_option_names(&error.to_string()))
}

/// Parses an integer, written as `100000`, `100_000` or `1e5`.
pub fn parse_integer(text: &str) -> Result<u64, String> {
    let digits = text.replace('_', "");
    if let Ok(n) = digits.parse() {
        return Ok(n);
    }
    // above 2^53, a floating-point number no longer identifies one integer
    match digits.parse::<f64>() {
        Ok(n) if n >= 0.0 && n.fract() == 0.0 && n <= 9e15 => Ok(n as u64),
        _ => Err("expected a whole number, such as 100000 or 1e5".to_string()),
    }
}

fn in_range(text: &str, min: u64, max: u64) -> Result<u64, String> {
    match parse_integer(text)? {
        n if (min..=max).contains(&n) => Ok(n),
        _ => Err(format!("expected a whole number from {min} to {max}")),
    }
}

/// Parses any positive integer, such as a rank, a number of rows or a number of clusters.
pub fn positive_integer(text: &str) -> Result<usize, String> {
    match parse_integer(text)? {
        0 => Err("expected at least 1".to_string()),
        n => usize::try_from(n).map_err(|_| "expected a smaller number".to_string()),
    }
}

/// Parses a number of threads, from 1 to `MAX_THREADS`.
pub fn threads(text: &str) -> Result<usize, String> {
    match positive_integer(text)? {
        n if n <= MAX_THREADS => Ok(n),
        _ => Err(format!("expected at most {MAX_THREADS}")),
    }
}

/// Parses `--memory`, a size with a unit, and returns it in bytes.
pub fn bytes(text: &str) -> Result<usize, String> {
    kstore::budget::parse_bytes(text).map_err(|_| "expected a number and a unit, such as 512MiB or 2GiB".to_string())
}

/// Parses `--checkpoint-every`, a time with a unit: `30s`, `10min`, `1h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let unit_start = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let unit = match text[unit_start..].trim() {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let seconds = text[..unit_start].parse::<f64>().unwrap_or(f64::NAN) * unit;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "expected a number and a unit, such as 30s, 10min or 1h".to_string())
}

/// Parses `--rows`, a range of row numbers: `0..1000`, `..1000`, `1000..`.
pub fn rows(text: &str) -> Result<Range<u64>, String> {
    kstore::condition::parse_rows(text).map_err(expected_by_store)
}

/// Parses `--part`: the part, counted from 1, and the number of parts.
pub fn part(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('/').and_then(|(i, k)| Some((i.parse().ok()?, k.parse().ok()?)));
    parts
        .filter(|(i, k)| (1..=*k).contains(i))
        .ok_or_else(|| "expected I/K with I from 1 to K, such as 1/8".to_string())
}

/// Parses `--delimiter`, one ASCII character or `tab`, and returns its byte.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text == "tab" || text == "\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("expected one ASCII character, such as ; or tab".to_string()),
    }
}

/// Parses `--decimal`, a point or a comma.
pub fn decimal(text: &str) -> Result<u8, String> {
    match text {
        "." | "," => Ok(text.as_bytes()[0]),
        _ => Err("expected . or ,".to_string()),
    }
}

/// Parses `--infer-rows`, the number of rows that determine the types of columns, or `all`.
pub fn infer_rows(text: &str) -> Result<u64, String> {
    if text == "all" { Ok(u64::MAX) } else { positive_integer(text).map(|rows| rows as u64) }
}

/// Parses `--times`, the features that are computed from dates and times.
pub fn times(text: &str) -> Result<TimeFeatures, String> {
    TimeFeatures::try_from(text.to_string()).map_err(|error| with_option_names(&error.to_string()))
}

/// Parses `--where`, a condition on one column such as `fold != 3`.
pub fn condition(text: &str) -> Result<Condition, String> {
    Condition::parse(text).map_err(expected_by_store)
}

pub fn test_spec(text: &str) -> Result<TestSpec, String> {
    TestSpec::parse(text).map_err(expected_by_store)
}

/// Parses the test rows of `evaluate`, which can only be the test rows of the fit.
pub fn same_test_rows(text: &str) -> Result<(), String> {
    match text {
        "same" => Ok(()),
        _ => Err("expected same: the test rows of the fit; other rows are selected by --rows and --where".to_string()),
    }
}

/// Parses the names of two different files, separated by a comma.
pub fn two_files(text: &str) -> Result<[PathBuf; 2], String> {
    match text.split_once(',').map(|(first, second)| [first.trim(), second.trim()]) {
        Some([first, second]) if !first.is_empty() && !second.is_empty() && !second.contains(',') => {
            Ok([first.into(), second.into()])
        }
        _ => Err("expected two files, such as train.parquet,test.parquet".to_string()),
    }
}

/// Parses `--missing` of a fit, the treatment of missing features.
pub fn missing(text: &str) -> Result<Missing, String> {
    let choices = "choose error, drop, mean or indicator";
    Missing::from_name(text).ok_or_else(|| match text {
        KEEP_WORD => format!("only a conversion can leave values missing; {choices}"),
        _ => choices.to_string(),
    })
}

/// Parses `--missing` of a conversion. The word `keep`, which leaves missing values missing, is
/// represented by [`Missing::Mean`], because a conversion never fills in means.
pub fn missing_of_conversion(text: &str) -> Result<Missing, String> {
    match Missing::from_name(text) {
        Some(Missing::Mean | Missing::Indicator) => Err(format!(
            "a conversion does not compute means; use --missing drop or --missing {KEEP_WORD} here, or --missing {text} with fit"
        )),
        Some(missing) => Ok(missing),
        None if text == KEEP_WORD => Ok(Missing::Mean),
        None => Err(format!("choose error, drop or {KEEP_WORD}")),
    }
}

/// Parses the treatment of rows without a target.
pub fn missing_target(text: &str) -> Result<MissingTarget, String> {
    text.parse().map_err(|_: kstore::Error| "choose drop or error".to_string())
}

/// Parses a value with the parser of its type, such as one of the words of an enum. The error says
/// what the type expects.
pub fn word<W: FromStr<Err = ksolve::Error>>(text: &str) -> Result<W, String> {
    text.parse().map_err(expected_by_solver)
}

/// Returns the part of a kstore error that describes valid values. clap already shows the invalid
/// value.
fn expected_by_store(error: kstore::Error) -> String {
    with_option_names(&match error {
        kstore::Error::Syntax { expected, .. } => expected,
        other => other.to_string(),
    })
}

/// Returns the part of a ksolve error that describes valid values. clap already shows the invalid
/// value.
pub(super) fn expected_by_solver(error: ksolve::Error) -> String {
    with_option_names(&match error {
        ksolve::Error::Option { expected, .. } => expected,
        other => other.to_string(),
    })
}

/// Checks `--lambda` of a curve and returns its text. A single number outside the valid range is
/// accepted here and fails later, in the run (exit code 1); every other invalid text is a usage
/// error.
pub fn lambda(text: &str) -> Result<String, String> {
    match kmodel::grids::parse_regularisation("lambda", text) {
        Err(error) if text.trim().parse::<f64>().is_err() => Err(expected_by_solver(error)),
        _ => Ok(text.to_string()),
    }
}

/// Checks that `--ranks` is a list or range of ranks, and returns its text.
pub fn ranks(text: &str) -> Result<String, String> {
    kmodel::grids::parse_ranks(text).map(|_| text.to_string()).map_err(expected_by_solver)
}

/// Parses `--kernel`, a kernel expression. The message points at the invalid character.
pub fn kernel(text: &str) -> Result<Kernel, String> {
    Kernel::parse(text)
        .map_err(|error| foreign_names::kernel_reply(text).unwrap_or_else(|| with_option_names(&error.to_string())))
}

/// Parses the width and height of a picture: `800x500`.
pub fn picture_size(text: &str) -> Result<(f64, f64), String> {
    let parts = text.split_once(['x', 'X', '×']).map(|(width, height)| (width.trim().parse(), height.trim().parse()));
    match parts {
        Some((Ok(width), Ok(height))) => Ok((width, height)),
        _ => Err("expected width and height, such as 800x500".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ksolve::job::Candidates;

    #[test]
    fn whole_numbers() {
        assert_eq!(["7", "1e6", "1_000", "2.5e3"].map(|text| parse_integer(text).unwrap()), [7, 1_000_000, 1000, 2500]);
        assert!(["-1", "1.5", "many", "1e30", ""].iter().all(|text| parse_integer(text).is_err()));
    }

    #[test]
    fn methods_are_separated_outside_of_parentheses() {
        let names = |text: &str| methods(text).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            names("uniform, additive(steps=3,interval=0.5),greedy"),
            ["uniform", "additive(steps=3, interval=0.5)", "greedy"]
        );
        for (wrong, why) in [
            ("uniform,unifrom", "unknown landmark scheme or map"),
            ("greedy,greedy", "greedy is named twice"),
            ("", "unknown landmark scheme"),
            ("uniform,", "unknown landmark scheme"),
            ("ensemble(parts=4", "expected a closing parenthesis"),
        ] {
            let error = methods(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(["0s", "1.5min", "2 h"].map(|text| duration(text).unwrap().as_secs()), [0, 90, 7200]);
        assert!(["30", "s", "-1s", "1 day", "1e99h", ""].iter().all(|text| duration(text).is_err()));
    }

    #[test]
    fn candidates_print_as_plain_integers_or_all() {
        assert_eq!(["all", "1e5"].map(|text| word::<Candidates>(text).unwrap().to_string()), ["all", "100000"]);
        assert!(word::<Candidates>("0").is_err());
    }
}
