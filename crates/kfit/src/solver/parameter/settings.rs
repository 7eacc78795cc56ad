//! Options of a solver as users type them, and the settings parsed from them, with every default
//! filled in.

use super::{C, CLASS_WEIGHT, FOLDS, GROUP, INTERCEPT, LAMBDA, Parameter, ParameterKind, ParameterValue};
use crate::solver::{ClassWeight, Regularisation, SolverFamily, reject_if};
use crate::{Error, FoldSpec, Intercept, Result};
use kapprox::Kernel;
use std::collections::BTreeMap;

/// The requested parameters of a solver: names and values as users type them.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// Returns empty options: all parameters have their defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a parameter, as in `set("C", 10)`, `set("loo", true)`, `set("folds", "blocks:6")`.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.0.insert(name.to_string(), value.to_string());
        self
    }

    /// Removes a parameter.
    #[must_use]
    #[doc(hidden)]
    pub fn without(mut self, name: &str) -> Self {
        self.0.remove(name);
        self
    }

    /// Returns the text of a parameter; `None` if it is not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// Writes the names and values: `C 10, loss hinge`.
impl std::fmt::Display for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs: Vec<String> = self.0.iter().map(|(name, value)| format!("{name} {value}")).collect();
        f.write_str(&if pairs.is_empty() { "the defaults".to_string() } else { pairs.join(", ") })
    }
}

/// The values of all parameters of a solver.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Name of the solver.
    pub solver: &'static str,
    values: BTreeMap<&'static str, ParameterValue>,
}

impl SolverFamily {
    /// Returns the values of all parameters: parsed options, and defaults for parameters that are
    /// not set.
    ///
    /// # Errors
    /// [`Error::Option`] for a parameter that the solver does not read, and for a value that it
    /// does not accept.
    pub fn settings(&self, options: &Options) -> Result<Settings> {
        let find_parameter = |name: &str| self.parameters.iter().find(|parameter| parameter.name == name);
        if let Some((name, value)) = options.0.iter().find(|(name, _)| find_parameter(name).is_none()) {
            let names: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name).collect();
            let expected = format!("{} does not read it (it reads {}); leave it out", self.name, names.join(", "));
            // `Error::option` takes a `&'static str`, so a name that no solver knows is reported as
            // the value of `option`
            return match crate::solver::parameters().find(|parameter| parameter.name == *name) {
                Some(parameter) => {
                    let value_text = if parameter.kind == ParameterKind::Flag { "" } else { value };
                    Err(Error::option(parameter.name, value_text, expected))
                }
                None => Err(Error::option("option", name, expected)),
            };
        }
        if let (Some(c), Some(lambda)) = (options.get(C.name), options.get(LAMBDA.name)) {
            let expected =
                format!("it is the regularisation parameter `lambda` {lambda} in another unit; give one of them");
            return Err(Error::option(C.name, c, expected));
        }
        let mut values = BTreeMap::new();
        for parameter in self.parameters {
            let is_replaced_by_c = parameter.name == LAMBDA.name && options.get(C.name).is_some();
            let text = options.get(parameter.name).or(parameter.default.filter(|_| !is_replaced_by_c));
            if let Some(text) = text {
                values.insert(parameter.name, parameter.parse(text)?);
            }
        }
        Ok(Settings { solver: self.name, values })
    }
}

macro_rules! typed_getters {
    ($($what:literal $name:ident: $variant:ident($type:ty);)+) => {$(
        #[doc = concat!("The ", $what, " of a parameter; `None` if the parameter has no value.")]
        pub fn $name(&self, parameter: &Parameter) -> Option<$type> {
            match self.values.get(parameter.name) {
                Some(ParameterValue::$variant(value)) => Some(value.clone()),
                _ => None,
            }
        }
    )+};
}

impl Settings {
    typed_getters! {
        "whole number" count: Count(usize);
        "several whole numbers" counts: Counts(Vec<usize>);
        "number" number: Number(f64);
        "word" word: Word(&'static str);
        "ranks" ranks: Ranks(Vec<usize>);
        "levels" levels: Levels(Vec<f64>);
        "folds" folds: Folds(FoldSpec);
        "column" column: Column(String);
        "names and patterns of the columns" columns: Columns(Vec<String>);
        "kernel" kernel: Kernel(Kernel);
    }

    /// Returns the class weights; equal by default.
    pub fn class_weight(&self) -> ClassWeight {
        match self.values.get(CLASS_WEIGHT.name) {
            Some(ParameterValue::ClassWeights(weight)) => weight.clone(),
            _ => ClassWeight::Equal,
        }
    }

    /// Returns true if the flag is set.
    pub fn flag(&self, parameter: &Parameter) -> bool {
        self.values.get(parameter.name) == Some(&ParameterValue::Flag(true))
    }

    /// Returns the regularisation parameters, strongest first; empty for a solver without a
    /// regularisation parameter.
    pub fn regularisations(&self) -> Vec<Regularisation> {
        match (self.values.get(C.name), self.values.get(LAMBDA.name)) {
            (Some(ParameterValue::Regularisations(c)), _) => c.iter().copied().map(Regularisation::C).collect(),
            (_, Some(ParameterValue::Regularisations(lambdas))) => {
                lambdas.iter().rev().copied().map(Regularisation::Lambda).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the grid of regularisation parameters, strongest first.
    ///
    /// # Errors
    /// [`Error::Option`] for several values without folds, because the choice among them needs
    /// validation rows.
    pub(crate) fn regularisation_grid(&self) -> Result<Vec<Regularisation>> {
        let regularisations = self.regularisations();
        let expected =
            "without folds no rows are held out to compare regularisation parameters; give folds, or one value";
        reject_if(
            regularisations.len() > 1 && self.folds(&FOLDS) == Some(FoldSpec::None),
            FOLDS.name,
            "none",
            expected,
        )?;
        Ok(regularisations)
    }

    /// Returns `folds`. If the `group` parameter is set, random folds become group folds, so that
    /// no group is split.
    ///
    /// # Errors
    /// [`Error::Option`] if `group` is set and the folds may still split a group.
    pub fn folds_of_whole_groups(&self, folds: FoldSpec) -> Result<FoldSpec> {
        match (self.column(&GROUP), folds) {
            (Some(group), FoldSpec::Random(k)) => Ok(FoldSpec::Groups(k, group)),
            (Some(group), folds) if folds != FoldSpec::None && folds.column() != Some(&group) => {
                Err(Error::option(FOLDS.name, folds, "rows of a group are held out together; give a number of folds"))
            }
            (_, folds) => Ok(folds),
        }
    }

    /// Returns the strongest regularisation parameter; a lambda of 0 for a solver without one.
    #[doc(hidden)]
    pub fn strongest_regularisation(&self) -> Regularisation {
        self.regularisations().first().copied().unwrap_or(Regularisation::Lambda(0.0))
    }

    /// Returns how the intercept is fitted. If the solver lacks the parameter, the intercept is
    /// unpenalised (`Free`).
    pub fn intercept(&self) -> Intercept {
        self.enum_value(&INTERCEPT)
    }

    /// Returns the value of a parameter that has a default or is mandatory. `getter` is the method
    /// of this type that reads values of the parameter's kind: `settings.required(&STEPS,
    /// Settings::count)`.
    ///
    /// # Panics
    /// The parameter has no value: the solver does not declare it, or declares it with another
    /// type.
    pub fn required<V>(&self, parameter: &Parameter, getter: impl Fn(&Self, &Parameter) -> Option<V>) -> V {
        let solver = self.solver;
        getter(self, parameter)
            .unwrap_or_else(|| panic!("{solver} reads `{}` but does not declare it with this type", parameter.name))
    }

    /// Returns the enum value that the parameter's word names. If the solver does not have the
    /// parameter, returns the default of the enum.
    pub(crate) fn enum_value<E: std::str::FromStr + Default>(&self, parameter: &Parameter) -> E {
        let parse = |word: &str| {
            word.parse().unwrap_or_else(|_| panic!("`{}` does not accept the word {word}", parameter.name))
        };
        self.word(parameter).map_or_else(E::default, parse)
    }

    /// Returns the settings as the model file stores them: an object from names to values, without
    /// the flags that are not set.
    pub fn to_json(&self) -> serde_json::Value {
        let set_values = self.values.iter().filter(|(_, value)| **value != ParameterValue::Flag(false));
        serde_json::json!(set_values.collect::<BTreeMap<_, _>>())
    }
}
