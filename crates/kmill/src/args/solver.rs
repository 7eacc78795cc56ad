//! Options of the solvers, generated from their parameters ([`Parameter`]), which the files of the
//! solvers describe.

use super::parse::expected_by_solver;
use crate::error::with_option_names;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use kfit::solver::parameter::{Parameter, ParameterKind};
use kfit::solver::{self, Options};
use std::collections::HashSet;

/// Name of a parameter of `ridge` that `fit` accepts for every solver if the fit has test rows.
pub(crate) const IMPORTANCE: &str = "importance";

/// Help of `--importance` for every solver with a target.
pub(super) const IMPORTANCE_ON_TEST_ROWS: &str = "With --test, report the importance of each column: the increase of the loss \
    on the test rows if the values of the column are exchanged between rows";

/// Former flags, which scripts may still use, each with the parameter and the value that it sets.
const FORMER_FLAGS: [(&str, &str, &str); 1] = [("pairs", "multiclass", "one-vs-one")];

/// The requested values of solver parameters, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct SolverArgs {
    pub(crate) options: Options,
}

/// Returns the option name of a parameter, without leading dashes: `class-weight` for
/// `class_weight`.
fn option_name(parameter: &Parameter) -> String {
    parameter.name.replace('_', "-")
}

fn distinct_parameters() -> Vec<&'static Parameter> {
    let mut seen = HashSet::new();
    solver::parameters().filter(|parameter| seen.insert(parameter.name)).collect()
}

/// Returns the help text of a parameter: the distinct descriptions by the solvers that read it.
fn parameter_help(parameter: &Parameter) -> String {
    let mut seen = HashSet::new();
    let same_named =
        solver::parameters().filter(|candidate| candidate.name == parameter.name && seen.insert(candidate.help));
    let mut texts: Vec<String> =
        same_named.map(|candidate| describe_parameter(candidate.name, candidate.help)).collect();
    texts.extend((parameter.name == IMPORTANCE).then(|| IMPORTANCE_ON_TEST_ROWS.to_string()));
    texts.join("; ")
}

/// Formats a description of a parameter, with the solvers that give it and their defaults.
fn describe_parameter(name: &str, about: &str) -> String {
    let mut solvers_by_default: Vec<(Option<&str>, Vec<&str>)> = Vec::new();
    for family in solver::registry() {
        for parameter in family.parameters.iter().filter(|candidate| (candidate.name, candidate.help) == (name, about))
        {
            match solvers_by_default.iter_mut().find(|(default, _)| *default == parameter.default) {
                Some((_, names)) => names.push(family.name),
                None => solvers_by_default.push((parameter.default, vec![family.name])),
            }
        }
    }
    let solvers: Vec<&str> = solvers_by_default.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let defaults = match &solvers_by_default[..] {
        [(Some(default), _)] => format!(" [default: {default}]"),
        [(None, _)] => String::new(),
        groups => {
            let solver_defaults =
                groups.iter().filter_map(|(default, names)| Some(format!("{} for {}", (*default)?, names.join(", "))));
            format!(" [default: {}]", solver_defaults.collect::<Vec<_>>().join("; "))
        }
    };
    format!("{} ({}){defaults}", with_option_names(about), solvers.join(", "))
}

pub(super) fn solver_help(parameter: &Parameter) -> String {
    let default = parameter.default.map_or(String::new(), |default| format!(" [default: {default}]"));
    format!("{}{default}", with_option_names(parameter.help))
}

pub(super) fn is_parameter(name: &str) -> bool {
    solver::parameters().into_iter().any(|parameter| parameter.name == name)
}

fn parameter_arg(parameter: &'static Parameter) -> Arg {
    let arg =
        Arg::new(parameter.name).long(option_name(parameter)).help(parameter_help(parameter)).help_heading("Solver");
    let value_name = match parameter.kind {
        ParameterKind::Flag => return arg.action(ArgAction::SetTrue),
        ParameterKind::Count { .. } | ParameterKind::Counts { .. } => "N",
        ParameterKind::Number(_) => "NUMBER",
        ParameterKind::Choice(_) => "WORD",
        ParameterKind::ClassWeights => "WEIGHTS",
        ParameterKind::Regularisations { .. } | ParameterKind::Ranks | ParameterKind::Levels => "LIST",
        ParameterKind::Folds => "FOLDS",
        ParameterKind::Column => "COLUMN",
        ParameterKind::Columns => "GLOBS",
        ParameterKind::Kernel => "EXPR",
    };
    arg.value_name(value_name).allow_hyphen_values(true).value_parser(move |text: &str| check_value(parameter, text))
}

/// Checks that at least one solver accepts a value of the parameter, and returns its text. Numbers
/// outside the valid range of a regularisation parameter pass here and fail later, in the run.
fn check_value(parameter: &Parameter, text: &str) -> Result<String, String> {
    let are_numbers =
        || text.split("..").flat_map(|part| part.split(',')).all(|part| part.trim().parse::<f64>().is_ok());
    let is_accepted =
        solver::parameters().any(|candidate| candidate.name == parameter.name && candidate.parse(text).is_ok());
    match parameter.parse(text) {
        Err(_) if matches!(parameter.kind, ParameterKind::Regularisations { .. }) && are_numbers() => {
            Ok(text.to_string())
        }
        Err(error) if !is_accepted => Err(expected_by_solver(error)),
        _ => Ok(text.to_string()),
    }
}

impl Args for SolverArgs {
    fn augment_args(command: Command) -> Command {
        let former_flag_args =
            FORMER_FLAGS.into_iter().map(|(flag, ..)| Arg::new(flag).long(flag).action(ArgAction::SetTrue).hide(true));
        command.args(distinct_parameters().into_iter().map(parameter_arg)).args(former_flag_args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SolverArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let add_value = |options: Options, &Parameter { name, kind, .. }: &Parameter| match kind {
            ParameterKind::Flag if !matches.get_flag(name) => options,
            ParameterKind::Flag => options.set(name, true),
            _ => match matches.get_one::<String>(name) {
                Some(text) => options.set(name, text),
                None => options,
            },
        };
        let used_flags = FORMER_FLAGS.into_iter().filter(|(flag, ..)| matches.get_flag(flag));
        let options = used_flags.fold(Options::new(), |options, (_, name, value)| options.set(name, value));
        Ok(Self { options: distinct_parameters().into_iter().fold(options, add_value) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_the_readers_and_their_defaults() {
        let text = |name: &str| {
            parameter_help(distinct_parameters().into_iter().find(|parameter| parameter.name == name).unwrap())
        };
        assert!(text("epsilon").ends_with("(svr) [default: 0.1]"), "{}", text("epsilon"));
        assert!(text("lambda").contains("1e-9..1e-3 for ridge; 1e-6 for fisher"), "{}", text("lambda"));
        assert!(text("class_weight").ends_with("(logistic, svm)"), "{}", text("class_weight"));
    }
}
