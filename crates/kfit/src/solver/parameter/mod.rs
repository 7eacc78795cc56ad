//! Describes each solver parameter in one place.
//!
//! A [`Parameter`] has a name, a kind, a default and a line of help. The command line derives an
//! option from each parameter, the model file stores the values of a fit under the parameters'
//! names, and this module writes the messages about invalid values.
//!
//! ```
//! use kfit::solver::{Options, by_name};
//! let svr = by_name("svr").unwrap();
//! let settings = svr.settings(&Options::new().set("epsilon", 0.2).set("C", 10))?;
//! assert_eq!(settings.to_json()["epsilon"], 0.2);
//! let wrong = svr.settings(&Options::new().set("nu", 0.2)).unwrap_err().to_string();
//! assert!(wrong.contains("svr does not read"), "{wrong}");
//! # Ok::<(), ksolve::Error>(())
//! ```

mod settings;
mod shared;

pub use settings::{Options, Settings};
pub use shared::{
    C, C_GRID, CLASS_WEIGHT, CLUSTERS, COMPONENTS, EMBEDDING_COMPONENTS, FOLDS, GAP, GROUP, INTERCEPT, LAMBDA,
    LAMBDA_GRID, NEIGHBOURS, NODES, NOVELTY, NU, PROBABILITIES, RANKS, Regularisation, STARTS, STEPS, TASK, TOLERANCE,
    UNCENTRED, WEIGHTS,
};
#[doc(hidden)]
pub use shared::{DEFAULT_LAMBDA_GRID, EXPOSURE, INTERVAL, ONLINE_INTERCEPT, SECOND_KERNEL, SECOND_VIEW, STD};

use crate::{Error, FoldSpec, Result, grids, solver::ClassWeight};
use kapprox::Kernel;

/// A parameter of a solver: its name, accepted values, default and help.
#[derive(Debug)]
pub struct Parameter {
    /// The name, with underscores: `class_weight`. Messages put it between backquotes.
    pub name: &'static str,
    /// The accepted values.
    pub kind: ParameterKind,
    /// The default value, as users would type it; `None` without a default.
    pub default: Option<&'static str>,
    /// One line of help.
    pub help: &'static str,
}

/// The kind of values that a parameter accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterKind {
    /// A Boolean; false unless it is set.
    Flag,
    /// An integer from 1 to a maximum.
    Count {
        /// The largest value.
        max: usize,
        /// Why the value cannot be larger.
        reason: &'static str,
    },
    /// An integer from 1 to a maximum, or a list or range of integers from 2 that the solver
    /// compares.
    Counts {
        /// The largest value.
        max: usize,
        /// Why a value cannot be larger.
        reason: &'static str,
    },
    /// A number in an interval.
    Number(Interval),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A positive regularisation parameter or, if `accepts_grid` is true, a list or range of
    /// parameters that the solver compares.
    Regularisations {
        /// True if the solver compares several regularisation parameters.
        accepts_grid: bool,
        /// True if 0 is also accepted, as a single value.
        accepts_zero: bool,
    },
    /// Ranks to compare: a list or range.
    Ranks,
    /// Levels between 0 and 1: a list.
    Levels,
    /// Folds of cross-validation: `5`, `blocks:6`, `column:subject` or `none`.
    Folds,
    /// The name of a column.
    Column,
    /// Names and patterns of columns, comma-separated.
    Columns,
    /// A kernel expression.
    Kernel,
    /// Weights of classes: `balanced` or `spam=5,ham=1`.
    ClassWeights,
}

/// An interval of accepted numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interval {
    /// Above 0.
    Positive,
    /// 0 or above.
    NonNegative,
    /// Above 0 and at most 1.
    PositiveUpToOne,
    /// Above 0 and below 1.
    PositiveBelowOne,
}

impl Interval {
    fn contains(self, number: f64) -> bool {
        number.is_finite()
            && match self {
                Self::Positive => number > 0.0,
                Self::NonNegative => number >= 0.0,
                Self::PositiveUpToOne => number > 0.0 && number <= 1.0,
                Self::PositiveBelowOne => number > 0.0 && number < 1.0,
            }
    }

    fn expected_text(self) -> &'static str {
        match self {
            Self::Positive => "expected a number above 0, such as 1e-3",
            Self::NonNegative => "expected 0 or a positive number, such as 0.1",
            Self::PositiveUpToOne => "expected a number above 0 and at most 1, such as 0.1",
            Self::PositiveBelowOne => "expected a number between 0 and 1, such as 1e-6",
        }
    }
}

fn serialize_as_string<S: serde::Serializer>(value: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

/// The value of a parameter. Each variant holds the value of the [`ParameterKind`] of the same
/// name; a `Word` is the value of a [`ParameterKind::Choice`], and a single one of several counts
/// is a `Count`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ParameterValue {
    /// A flag.
    Flag(bool),
    /// A count.
    Count(usize),
    /// Counts to compare, ascending.
    Counts(Vec<usize>),
    /// A number.
    Number(f64),
    /// One of the words of the choice.
    Word(&'static str),
    /// Regularisation parameters, ascending.
    Regularisations(Vec<f64>),
    /// Ranks, ascending.
    Ranks(Vec<usize>),
    /// Levels, ascending.
    Levels(Vec<f64>),
    /// Folds.
    #[serde(serialize_with = "serialize_as_string")]
    Folds(FoldSpec),
    /// The name of a column.
    Column(String),
    /// Names and patterns of columns.
    Columns(Vec<String>),
    /// A kernel.
    #[serde(serialize_with = "serialize_as_string")]
    Kernel(Kernel),
    /// Class weights.
    #[serde(serialize_with = "serialize_as_string")]
    ClassWeights(ClassWeight),
}

impl Parameter {
    /// Returns a parameter of kind [`ParameterKind::Flag`].
    pub const fn flag(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: ParameterKind::Flag, default: None, help }
    }

    /// Parses a value of this parameter.
    ///
    /// # Errors
    /// [`Error::Option`] with the expected values.
    pub fn parse(&self, text: &str) -> Result<ParameterValue> {
        let invalid_value = |expected: String| Error::option(self.name, kstore::display::truncate(text), expected);
        let parse_number = || text.trim().parse::<f64>().ok();
        match self.kind {
            ParameterKind::Flag => match text.trim() {
                "true" => Ok(ParameterValue::Flag(true)),
                "false" => Ok(ParameterValue::Flag(false)),
                _ => Err(invalid_value("expected true or false".to_string())),
            },
            ParameterKind::Counts { max, reason } if text.contains("..") || text.contains(',') => {
                let counts = grids::parse_counts(self.name, text)?;
                match &counts[..] {
                    [count] => Ok(ParameterValue::Count(*count)),
                    [.., last] if *last > max => Err(invalid_value(format!("expected at most {max}: {reason}"))),
                    _ => Ok(ParameterValue::Counts(counts)),
                }
            }
            ParameterKind::Count { max, reason } | ParameterKind::Counts { max, reason } => {
                match parse_number().filter(|n| n.fract() == 0.0 && *n >= 1.0) {
                    None => Err(invalid_value("expected a whole number of at least 1".to_string())),
                    Some(n) if n > max as f64 => Err(invalid_value(format!("expected at most {max}: {reason}"))),
                    Some(n) => Ok(ParameterValue::Count(n as usize)),
                }
            }
            ParameterKind::Number(interval) => match parse_number().filter(|n| interval.contains(*n)) {
                None => Err(invalid_value(interval.expected_text().to_string())),
                Some(n) => Ok(ParameterValue::Number(n)),
            },
            ParameterKind::Choice(words) => match words.iter().find(|word| **word == text.trim()) {
                None => Err(invalid_value(format!("expected {}", words.join(" or ")))),
                Some(word) => Ok(ParameterValue::Word(word)),
            },
            ParameterKind::Regularisations { accepts_zero: true, .. } if parse_number() == Some(0.0) => {
                Ok(ParameterValue::Regularisations(vec![0.0]))
            }
            ParameterKind::Regularisations { accepts_grid, .. } => {
                let values = grids::parse_regularisation(self.name, text)?;
                match accepts_grid || values.len() == 1 {
                    true => Ok(ParameterValue::Regularisations(values)),
                    false => Err(invalid_value(
                        "this solver does not compare regularisation parameters; give one number".to_string(),
                    )),
                }
            }
            ParameterKind::Ranks => grids::parse_ranks(text).map(ParameterValue::Ranks),
            ParameterKind::Levels => parse_levels(text).map(ParameterValue::Levels).ok_or_else(|| {
                let expected = "expected different numbers between 0 and 1, separated by commas, such as 0.1,0.5,0.9";
                invalid_value(expected.to_string())
            }),
            ParameterKind::Folds => FoldSpec::parse(text).map(ParameterValue::Folds),
            ParameterKind::Column if text.is_empty() => Err(invalid_value("expected the name of a column".to_string())),
            ParameterKind::Column => Ok(ParameterValue::Column(text.to_string())),
            ParameterKind::ClassWeights => {
                ClassWeight::parse(text).map(ParameterValue::ClassWeights).map_err(invalid_value)
            }
            ParameterKind::Columns if text.split(',').any(|name| name.trim().is_empty()) => {
                Err(invalid_value("expected column names, separated by commas".to_string()))
            }
            ParameterKind::Columns => {
                Ok(ParameterValue::Columns(text.split(',').map(|name| name.trim().to_string()).collect()))
            }
            ParameterKind::Kernel => {
                Kernel::parse(text).map(ParameterValue::Kernel).map_err(|error| invalid_value(error.to_string()))
            }
        }
    }
}

/// Returns the levels of a list in ascending order; `None` if a level is not between 0 and 1, or
/// occurs twice.
fn parse_levels(text: &str) -> Option<Vec<f64>> {
    let levels: Option<Vec<f64>> = text.split(',').map(|level| level.trim().parse().ok()).collect();
    let mut levels = levels.filter(|levels| levels.iter().all(|level| Interval::PositiveBelowOne.contains(*level)))?;
    levels.sort_unstable_by(f64::total_cmp);
    levels.is_sorted_by(|a, b| a < b).then_some(levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::{Regularisation, by_name, parameters, registry};

    #[test]
    fn defaults_parse_and_equal_names_have_equal_kinds() {
        for family in registry() {
            for parameter in family.parameters {
                if let Some(default) = parameter.default {
                    parameter.parse(default).unwrap();
                }
                let parameters_with_same_name = parameters().filter(|other| other.name == parameter.name);
                for other in parameters_with_same_name {
                    let kind_and_help = (std::mem::discriminant(&other.kind), other.help);
                    assert_eq!(
                        kind_and_help,
                        (std::mem::discriminant(&parameter.kind), parameter.help),
                        "{}",
                        parameter.name
                    );
                }
            }
        }
    }

    #[test]
    fn error_messages_name_the_expected_values() {
        let cases = [
            (&GAP, "0", "above 0"),
            (&NU, "2", "at most 1"),
            (&STARTS, "1e9", "at most 1000"),
            (&STEPS, "0.5", "whole number"),
            (&INTERCEPT, "maybe", "free or penalised or none"),
            (&LAMBDA, "1e-3,1e-4", "give one number"),
            (&LAMBDA, "-1", "positive"),
            (&UNCENTRED, "perhaps", "true or false"),
        ];
        for (parameter, text, expected) in cases {
            let message = parameter.parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    #[should_panic(expected = "svm reads `nu` but does not declare it with this type")]
    fn a_parameter_that_a_solver_does_not_declare_is_never_0() {
        let settings = by_name("svm").unwrap().settings(&Options::new()).unwrap();
        settings.required(&NU, Settings::number);
    }

    #[test]
    fn c_and_lambda_together_are_rejected() {
        let svm = by_name("svm").unwrap();
        let both = Options::new().set("C", 1).set("lambda", 1e-3);
        assert!(svm.settings(&both).unwrap_err().to_string().contains("another unit"));
        let settings = svm.settings(&Options::new().set("C", "0.1..10")).unwrap();
        let expected = [0.1, 0.31622776601683795, 1.0, 3.1622776601683795, 10.0];
        assert_eq!(settings.regularisations(), expected.map(Regularisation::C));
        assert!(settings.to_json().get("lambda").is_none());
    }
}
