//! The parameters of solvers, each described once.
//!
//! A [`Parameter`] has a name, a kind, a default and a line of help. The command makes its options from this, the model
//! file records what a solver read by these names, and every message about a wrong value comes from here.
//!
//! ```
//! use ksolve::solver::{Options, by_name};
//! let svr = by_name("svr").unwrap();
//! let settings = svr.settings(&Options::new().set("epsilon", 0.2).set("C", 10))?;
//! assert_eq!(settings.to_json()["epsilon"], 0.2);
//! let wrong = svr.settings(&Options::new().set("nu", 0.2)).unwrap_err().to_string();
//! assert!(wrong.contains("svr does not read"), "{wrong}");
//! # Ok::<(), ksolve::Error>(())
//! ```

use super::{Family, Penalty};
use crate::{Error, FoldSpec, Intercept, Result, grid};
use std::collections::BTreeMap;

/// The description of a parameter: a number, a word or a list that a solver reads.
#[derive(Debug)]
pub struct Parameter {
    /// The name, with underscores: `class_weight`. Texts for people put it between backquotes.
    pub name: &'static str,
    /// The values that it accepts.
    pub kind: Kind,
    /// The default value, as it would be typed; `None` where there is none.
    pub default: Option<&'static str>,
    /// One line of help.
    pub about: &'static str,
}

/// The kind of values that a parameter accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Yes or no; no unless it is given.
    Flag,
    /// A whole number from 1 to `most`.
    Count {
        /// The largest value.
        most: usize,
        /// Why it cannot be larger.
        reason: &'static str,
    },
    /// A number of an interval.
    Number(Interval),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Positive penalties: one, or where the solver compares `several` a list or range.
    Penalties {
        /// True where the solver compares several penalties.
        several: bool,
    },
    /// Ranks to compare: a list or range.
    Ranks,
    /// Folds of cross-validation: `5`, `blocks:6`, `column:subject` or `none`.
    Folds,
    /// The name of a column.
    Column,
}

/// An interval of numbers that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interval {
    /// Above 0.
    Positive,
    /// 0 or above.
    NotNegative,
    /// Above 0 and at most 1.
    Share,
    /// Above 0 and below 1.
    Fraction,
}

impl Interval {
    fn contains(self, number: f64) -> bool {
        number.is_finite()
            && match self {
                Self::Positive => number > 0.0,
                Self::NotNegative => number >= 0.0,
                Self::Share => number > 0.0 && number <= 1.0,
                Self::Fraction => number > 0.0 && number < 1.0,
            }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Positive => "expected a number above 0, such as 1e-3",
            Self::NotNegative => "expected 0 or a number above, such as 0.1",
            Self::Share => "expected a number above 0 and at most 1, such as 0.1",
            Self::Fraction => "expected a number between 0 and 1, such as 1e-6",
        }
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// The value of a [`Kind::Flag`].
    Flag(bool),
    /// The value of a [`Kind::Count`].
    Count(usize),
    /// The value of a [`Kind::Number`].
    Number(f64),
    /// The value of a [`Kind::Word`].
    Word(&'static str),
    /// The values of [`Kind::Penalties`], ascending.
    Penalties(Vec<f64>),
    /// The values of [`Kind::Ranks`], ascending.
    Ranks(Vec<usize>),
    /// The value of [`Kind::Folds`].
    Folds(FoldSpec),
    /// The value of a [`Kind::Column`], a name.
    Column(String),
}

impl Parameter {
    /// Parses a value of this parameter.
    ///
    /// # Errors
    /// [`Error::Option`] with the values that are expected.
    pub fn parse(&self, text: &str) -> Result<Value> {
        let wrong = |expected: String| Error::option(self.name, kstore::shown::short(text), expected);
        let number = || text.trim().parse::<f64>().ok();
        match self.kind {
            Kind::Flag => match text.trim() {
                "true" => Ok(Value::Flag(true)),
                "false" => Ok(Value::Flag(false)),
                _ => Err(wrong("expected true or false".to_string())),
            },
            Kind::Count { most, reason } => match number().filter(|n| n.fract() == 0.0 && *n >= 1.0) {
                None => Err(wrong("expected a whole number of at least 1".to_string())),
                Some(n) if n > most as f64 => Err(wrong(format!("expected at most {most}: {reason}"))),
                Some(n) => Ok(Value::Count(n as usize)),
            },
            Kind::Number(interval) => match number().filter(|n| interval.contains(*n)) {
                None => Err(wrong(interval.expected().to_string())),
                Some(n) => Ok(Value::Number(n)),
            },
            Kind::Word(words) => match words.iter().find(|word| **word == text.trim()) {
                None => Err(wrong(format!("expected {}", words.join(" or ")))),
                Some(word) => Ok(Value::Word(word)),
            },
            Kind::Penalties { several } => {
                let values = grid::penalties(self.name, text)?;
                match several || values.len() == 1 {
                    true => Ok(Value::Penalties(values)),
                    false => Err(wrong("this solver compares no penalties; give one number".to_string())),
                }
            }
            Kind::Ranks => grid::ranks(text).map(Value::Ranks),
            Kind::Folds => FoldSpec::parse(text).map(Value::Folds),
            Kind::Column if text.is_empty() => Err(wrong("expected the name of a column".to_string())),
            Kind::Column => Ok(Value::Column(text.to_string())),
        }
    }
}

/// The parameters given to a solver: names and values as they would be typed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// No parameters: all have their defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a parameter to a value: `set("C", 10)`, `set("pairs", true)`, `set("folds", "blocks:6")`.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.0.insert(name.to_string(), value.to_string());
        self
    }

    /// The text that was given for a parameter; `None` where nothing was.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// The values of all parameters of a solver.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the solver.
    pub solver: &'static str,
    values: BTreeMap<&'static str, Value>,
}

impl Family {
    /// The values of all parameters: those given, and the defaults of the others.
    ///
    /// # Errors
    /// [`Error::Option`] for a parameter that the solver does not read, and for a value that it does not accept.
    pub fn settings(&self, given: &Options) -> Result<Settings> {
        let known = |name: &str| self.parameters.iter().find(|parameter| parameter.name == name);
        if let Some((name, value)) = given.0.iter().find(|(name, _)| known(name).is_none()) {
            let reads: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name).collect();
            let expected = format!("{} does not read it (it reads {}); leave it out", self.name, reads.join(", "));
            // names of parameters are static; one that no solver has is told by its text
            return match super::parameters().find(|parameter| parameter.name == *name) {
                Some(parameter) => Err(Error::option(parameter.name, value, expected)),
                None => Err(Error::option("option", name, expected)),
            };
        }
        if let (Some(c), Some(lambda)) = (given.get(C_NAME), given.get(LAMBDA_NAME)) {
            let expected = format!("it is the same penalty as `lambda` {lambda} in another unit; give one of them");
            return Err(Error::option(C_NAME, c, expected));
        }
        let mut values = BTreeMap::new();
        for parameter in self.parameters {
            let by_c = parameter.name == LAMBDA_NAME && given.get(C_NAME).is_some();
            let text = given.get(parameter.name).or(parameter.default.filter(|_| !by_c));
            if let Some(text) = text {
                values.insert(parameter.name, parameter.parse(text)?);
            }
        }
        Ok(Settings { solver: self.name, values })
    }
}

const LAMBDA_NAME: &str = "lambda";
const C_NAME: &str = "C";

macro_rules! read {
    ($(#[$doc:meta])* $name:ident, $variant:ident, $type:ty) => {
        $(#[$doc])*
        pub fn $name(&self, parameter: &Parameter) -> Option<$type> {
            match self.values.get(parameter.name) {
                Some(Value::$variant(value)) => Some(value.clone()),
                _ => None,
            }
        }
    };
}

impl Settings {
    read!(
        /// The whole number of a parameter; `None` where it has none.
        count, Count, usize);
    read!(
        /// The number of a parameter; `None` where it has none.
        number, Number, f64);
    read!(
        /// The word of a parameter; `None` where it has none.
        word, Word, &'static str);
    read!(
        /// The ranks of a parameter; `None` where it has none.
        ranks, Ranks, Vec<usize>);
    read!(
        /// The folds of a parameter; `None` where it has none.
        folds, Folds, FoldSpec);
    read!(
        /// The column of a parameter; `None` where it has none.
        column, Column, String);

    /// True where the flag was given.
    pub fn flag(&self, parameter: &Parameter) -> bool {
        self.values.get(parameter.name) == Some(&Value::Flag(true))
    }

    /// The penalties, strongest first; empty for solvers without.
    pub fn penalties(&self) -> Vec<Penalty> {
        match (self.values.get(C_NAME), self.values.get(LAMBDA_NAME)) {
            (Some(Value::Penalties(c)), _) => c.iter().copied().map(Penalty::C).collect(),
            (_, Some(Value::Penalties(lambdas))) => lambdas.iter().rev().copied().map(Penalty::Lambda).collect(),
            _ => Vec::new(),
        }
    }

    /// The penalty of a solver that takes one.
    pub(crate) fn penalty(&self) -> Penalty {
        self.penalties().first().copied().unwrap_or(Penalty::Lambda(0.0))
    }

    /// The treatment of the constant; free for solvers without this parameter.
    pub fn intercept(&self) -> Intercept {
        self.word(&INTERCEPT).and_then(|word| word.parse().ok()).unwrap_or_default()
    }

    /// The values that define the result, for the model file: flags that were not given are left out.
    pub fn to_json(&self) -> serde_json::Value {
        let value = |value: &Value| match value {
            Value::Flag(given) => serde_json::json!(given),
            Value::Count(n) => serde_json::json!(n),
            Value::Number(x) => serde_json::json!(x),
            Value::Word(word) => serde_json::json!(word),
            Value::Penalties(values) => serde_json::json!(values),
            Value::Ranks(ranks) => serde_json::json!(ranks),
            Value::Folds(folds) => serde_json::json!(folds.to_string()),
            Value::Column(name) => serde_json::json!(name),
        };
        let given = self.values.iter().filter(|(_, value)| **value != Value::Flag(false));
        given.map(|(name, found)| (name.to_string(), value(found))).collect::<serde_json::Map<_, _>>().into()
    }
}

/// The parameter `lambda` of a solver that takes one penalty.
pub const LAMBDA: Parameter = Parameter {
    name: LAMBDA_NAME,
    kind: Kind::Penalties { several: false },
    default: Some("1e-6"),
    about: "Penalty per row of (1/n) sum loss + lambda |w|^2: 1e-6; where several are compared a list 1e-8,1e-6 or a range 1e-9..1e-3, two per decade",
};

/// The parameter `lambda` of a solver that compares several penalties.
pub const LAMBDAS: Parameter = Parameter { kind: Kind::Penalties { several: true }, ..LAMBDA };

/// The parameter `C`, the penalty as LIBSVM writes it.
pub const C: Parameter = Parameter {
    name: C_NAME,
    kind: Kind::Penalties { several: false },
    default: None,
    about: "The penalty as LIBSVM writes it, in the place of lambda: C = 1/(2 n lambda); where several are compared 0.1,1,10 or 0.01..100",
};

/// The parameter `C` of a solver that compares several penalties.
pub const COSTS: Parameter = Parameter { kind: Kind::Penalties { several: true }, ..C };

/// The parameter `intercept`: treatment of the constant.
pub const INTERCEPT: Parameter = Parameter {
    name: "intercept",
    kind: Kind::Word(&["free", "penalised", "none"]),
    default: Some("free"),
    about: "Constant term: free, penalised or none",
};

/// The parameter `folds`: which rows are held out together.
pub const FOLDS: Parameter = Parameter {
    name: "folds",
    kind: Kind::Folds,
    default: None,
    about: "Cross-validation: 5 (rows at random), blocks:6 (contiguous rows), column:NAME or none [default: 5 where there is something to choose]",
};

/// The parameter `steps`: the most iterations of a solver.
pub const STEPS: Parameter = Parameter {
    name: "steps",
    kind: Kind::Count { most: 1_000_000, reason: "a solver that needs more will not get there" },
    default: Some("200"),
    about: "Most steps, or sweeps over the rows",
};

/// The parameter `gap`: the relative duality gap at which a machine stops.
pub const GAP: Parameter = Parameter {
    name: "gap",
    kind: Kind::Number(Interval::Positive),
    default: Some("1e-3"),
    about: "Relative duality gap at which the solver stops",
};

/// The parameter `nu`: the share of the rows that may lie outside.
pub const NU: Parameter = Parameter {
    name: "nu",
    kind: Kind::Number(Interval::Share),
    default: Some("0.5"),
    about: "Share of the rows that may lie outside, above 0 and up to 1: of oneclass at most, of mean those farthest from the mean, whose score is negative",
};

/// The parameter `class_weight`: weights of the classes.
pub const CLASS_WEIGHT: Parameter = Parameter {
    name: "class_weight",
    kind: Kind::Word(&["balanced"]),
    default: None,
    about: "Weigh the rows by the inverse size of their class: balanced",
};

/// The parameter `components`: number of components of a decomposition.
pub const COMPONENTS: Parameter = Parameter {
    name: "components",
    kind: Kind::Count { most: 1_000_000, reason: "there are never more components than features" },
    default: Some("10"),
    about: "Number of components",
};

/// The parameter `uncentred`: the mean of the features is not subtracted.
pub const UNCENTRED: Parameter = Parameter {
    name: "uncentred",
    kind: Kind::Flag,
    default: None,
    about: "Components of the features as they are, their mean not taken off",
};

/// The parameter `novelty`: the model keeps what gives the distance of a row from the components.
pub const NOVELTY: Parameter = Parameter {
    name: "novelty",
    kind: Kind::Flag,
    default: None,
    about: "Keep in the model what predict `novelty` and `preimage` need: 16 bytes for each pair of landmarks",
};

/// The parameter `clusters`: number of groups of a clustering.
pub const CLUSTERS: Parameter = Parameter {
    name: "clusters",
    kind: Kind::Count { most: 1_000_000, reason: "a group needs rows" },
    default: None,
    about: "Number of groups; has to be given",
};

/// The parameter `starts`: number of starts of a search.
pub const STARTS: Parameter = Parameter {
    name: "starts",
    // each is a k-means of its own on a sample of 2,000 rows or more: a thousand take minutes
    kind: Kind::Count {
        most: 1000,
        reason: "what so many starts have not found, a larger sample or other clusters will",
    },
    default: Some("10"),
    about: "Starts on a sample of the rows; the best goes on",
};

/// The value of the parameter `clusters`, the number of groups.
///
/// # Errors
/// [`Error::Option`] where it was not given.
pub(super) fn clusters(settings: &Settings) -> Result<usize> {
    settings.count(&CLUSTERS).ok_or_else(|| {
        Error::option(CLUSTERS.name, "", format!("{} needs the number of groups, such as 8", settings.solver))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{parameters, registry};
    use super::*;

    #[test]
    fn every_default_is_a_value_and_names_mean_one_thing() {
        for family in registry() {
            for parameter in family.parameters {
                if let Some(default) = parameter.default {
                    parameter.parse(default).unwrap();
                }
                let same = parameters().filter(|other| other.name == parameter.name);
                for other in same {
                    let kinds = (std::mem::discriminant(&other.kind), other.about);
                    assert_eq!(kinds, (std::mem::discriminant(&parameter.kind), parameter.about), "{}", parameter.name);
                }
            }
        }
    }

    #[test]
    fn wrong_values_say_what_is_right() {
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
    fn both_conventions_of_a_penalty_are_refused() {
        let svm = super::super::by_name("svm").unwrap();
        let both = Options::new().set("C", 1).set("lambda", 1e-3);
        assert!(svm.settings(&both).unwrap_err().to_string().contains("another unit"));
        let settings = svm.settings(&Options::new().set("C", "0.1..10")).unwrap();
        let expected = [0.1, 0.31622776601683795, 1.0, 3.1622776601683795, 10.0];
        assert_eq!(settings.penalties(), expected.map(Penalty::C));
        assert!(settings.to_json().get("lambda").is_none());
    }
}
