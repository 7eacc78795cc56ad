//! The command line: options shared by several subcommands, and help that fits one screen. Scripts
//! rely on the command line, so it must stay stable.
//!
//! The types here contain the options as the user typed them. Options of a single subcommand are
//! defined in the file of that subcommand, which also checks options that depend on each other, and
//! turns them into a job ([`ksolve::job::Fit`]).

pub(crate) mod data;
pub(crate) mod foreign_names;
pub(crate) mod learn;
#[doc(hidden)]
pub mod parse;
pub(crate) mod run;
mod solver;

pub(crate) use data::{
    CategoryArgs, ConvertDataArgs, DataArgs, LagArgs, MissingTargetArgs, SelectArgs, TestRowsArgs, TextArgs,
};
pub(crate) use learn::{JobArgs, MapArgs, kernel_help, with_descriptions};
pub(crate) use run::{EngineArgs, PersistenceArgs, RunArgs, RunSettings, ScratchArgs};
pub(crate) use solver::{IMPORTANCE, SolverArgs};

use crate::{Cli, error::with_option_names};
use clap::{Arg, Command, CommandFactory};
use kfit::solver::SolverFamily;
use kfit::solver::parameter::CLUSTERS;
use std::ffi::OsString;

/// Maximum number of arguments that the short help of a subcommand lists. If there are more, it
/// lists only [`MAIN_ARGS`], in a few words each.
const MAX_LISTED_ARGS: usize = 16;

/// IDs of the arguments that most runs need.
const MAIN_ARGS: &str = "solver model paths target features rows condition missing test kernel kernels rank methods time lambda folds \
    components x y colour output report json verbose";

/// Arguments whose help the short help does not cut, because its parentheses must stay.
const SHORT_HELP_ARGS: [&str; 2] = ["solver", "paths"];

/// Most important subcommands, in the order of the help. The help lists all other subcommands below
/// them.
const MAIN_SUBCOMMANDS: [&str; 8] = ["fit", "predict", "evaluate", "tune", "curve", "inspect", "convert", "demo"];

/// Subcommands whose first argument is a solver.
const SOLVER_SUBCOMMANDS: [&str; 2] = ["fit", "plan"];

/// Singular forms of options for which each subcommand accepts both the singular and the plural.
const SINGULAR_NAMES: &str = "candidate cluster component factor feature fold kernel lambda landmark method rank repeat start step target thread";

fn is_among(words: &str, word: &str) -> bool {
    words.split(' ').any(|name| name == word)
}

/// Returns the definition of the command line. Its help suits the command line `words`: it is short
/// if they contain `-h`, and restricted to one solver if they name one.
pub(crate) fn command(words: &[OsString]) -> Command {
    let is_short = words.iter().any(|word| word == "-h");
    let base = group_subcommands(Cli::command()).mut_subcommands(accept_plurals);
    let command = base.mut_subcommands(|verb| if is_short { with_short_help(verb) } else { with_full_help(verb) });
    let Some((verb, family)) = solver_in(words) else { return command };
    command.mut_subcommand(verb, |verb| with_solver_help(verb, family, is_short))
}

/// Lists the subcommands in two sections of the help.
fn group_subcommands(command: Command) -> Command {
    let line = |verb: &Command| {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:<12} {about}\n", verb.get_name())
    };
    let main_lines: String =
        MAIN_SUBCOMMANDS.iter().filter_map(|name| command.find_subcommand(name)).map(line).collect();
    let is_main = |verb: &&Command| MAIN_SUBCOMMANDS.contains(&verb.get_name());
    let other_lines: String = command.get_subcommands().filter(|verb| !is_main(verb)).map(line).collect();
    let style = *command.get_styles().get_header();
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{style}Commands:{style:#}\n{main_lines}\n{style}More:{style:#}\n{other_lines}\n\
         {style}Options:{style:#}\n{{options}}{{after-help}}\n"
    ))
}

/// Makes a subcommand accept `--rank` for `--ranks` and vice versa, unless the subcommand has both
/// options.
fn accept_plurals(subcommand: Command) -> Command {
    let names: Vec<String> = subcommand.get_arguments().filter_map(|arg| arg.get_long().map(String::from)).collect();
    subcommand.mut_args(|arg| {
        let Some(long) = arg.get_long() else { return arg };
        let alias = match long.strip_suffix('s') {
            Some(singular) if is_among(SINGULAR_NAMES, singular) => singular.to_string(),
            _ if is_among(SINGULAR_NAMES, long) => format!("{long}s"),
            _ => return arg,
        };
        if names.contains(&alias) { arg } else { arg.alias(alias) }
    })
}

/// Shortens the help of a subcommand. If the subcommand has many arguments, lists only
/// [`MAIN_ARGS`], in a few words each.
fn with_short_help(subcommand: Command) -> Command {
    let has_many_args = subcommand.get_arguments().count() > MAX_LISTED_ARGS;
    let shorten_arg = |arg: Arg| match arg.get_id().as_str() {
        _ if !has_many_args => arg,
        id if !is_among(MAIN_ARGS, id) => arg.hide(true),
        "kernel" => arg.help(learn::KERNEL_HELP),
        id if SHORT_HELP_ARGS.contains(&id) => arg,
        _ => {
            let text = arg.get_help().map(ToString::to_string).unwrap_or_default();
            arg.help(first_phrase(&text))
        }
    };
    // clap switches to a longer layout for --help if any argument has a long help
    let verb = subcommand.mut_args(|arg| shorten_arg(arg).long_help(None));
    let name = verb.get_name().to_string();
    let after_help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
    // keep only the examples; the explanations below them are for --help
    let after_help =
        if has_many_args { after_help.split("\n\n").next().unwrap_or_default().to_string() } else { after_help };
    let footer = if has_many_args {
        format!("{after_help}\n\nkmill {name} --help lists all options; kmill help which helps to choose a solver.")
    } else {
        after_help
    };
    verb.after_help(footer.trim_start().to_string()).after_long_help(None)
}

/// Replaces the short help of each argument by its long help, but keeps clap's compact layout.
fn with_full_help(subcommand: Command) -> Command {
    let examples = subcommand.get_after_long_help().or(subcommand.get_after_help()).cloned().unwrap_or_default();
    let verb = subcommand.mut_args(|arg| match arg.get_long_help().cloned() {
        Some(long) => arg.help(long).long_help(None),
        None => arg,
    });
    verb.after_help(examples).after_long_help(None)
}

/// Returns a help text up to its first semicolon, bracket or parenthesis. A parenthesis of a
/// formula, such as (1/n), does not count.
fn first_phrase(text: &str) -> String {
    let starts_formula =
        |start: usize| text[start + 2..].starts_with(|c: char| c.is_ascii_digit() || "=!<>".contains(c));
    let ends = [text.find(';'), text.find(" ["), text.find(" (").filter(|at| !starts_formula(*at))];
    text[..ends.into_iter().flatten().min().unwrap_or(text.len())].to_string()
}

/// Returns the subcommand and the solver of a command line. Returns `None` unless they are its
/// first two arguments.
fn solver_in(words: &[OsString]) -> Option<(&'static str, &'static SolverFamily)> {
    let verb = SOLVER_SUBCOMMANDS.into_iter().find(|verb| words.get(1).is_some_and(|word| word == verb))?;
    let solver_name = words.get(2)?.to_str()?;
    let family = kfit::solver::registry().into_iter().find(|family| family.name == solver_name)?;
    Some((verb, family))
}

/// IDs of options that every solver has. `kmill fit --help` lists them; the help of one solver
/// (`kmill fit svr --help`) omits them, because few runs need them.
const HIDDEN_IN_SOLVER_HELP: &str = "missing_target difference text categories hash times no_clip candidates precision combine \
    resume fresh checkpoint_every scratch scratch_limit states patience json quiet";

/// Heading of the options for text files, which the help of one solver also omits.
const TEXT_FILES: &str = "Text files";

/// Restricts the help of a subcommand to the parameters of one solver, and to the most common
/// options of every fit.
fn with_solver_help(subcommand: Command, family: &'static SolverFamily, is_short: bool) -> Command {
    let shorten = |text: String| if is_short { first_phrase(&text) } else { text };
    let (name, about) = (family.name, with_option_names(family.about));
    let restricted = subcommand.mut_args(|arg| {
        let id = arg.get_id().as_str().to_string();
        match family.parameters.iter().find(|parameter| parameter.name == id) {
            Some(parameter) => arg.hide(false).help(shorten(solver::solver_help(parameter))),
            None if id == IMPORTANCE && family.task.has_target() => {
                arg.hide(false).help(shorten(solver::IMPORTANCE_ON_TEST_ROWS.to_string()))
            }
            None if solver::is_parameter(&id) => arg.hide(true),
            None if id == "solver" => arg.help(about.clone()),
            None if id == "target" && !family.task.has_target() => arg.hide(true),
            None if is_among(HIDDEN_IN_SOLVER_HELP, &id) || arg.get_help_heading() == Some(TEXT_FILES) => {
                arg.hide(true)
            }
            None => arg,
        }
    });
    let target = if family.task.has_target() { " --target y" } else { "" };
    let clusters_option = if family.reads(&CLUSTERS) { " --clusters 5" } else { "" };
    let example = format!(
        "Example:\n  kmill fit {name} train.parquet{target}{clusters_option} -o model.safetensors\n\n\
         kmill fit --help lists the options of all solvers, and those for text columns and files, checkpoints,\n\
         processes and scripts; kmill help which helps to choose a solver."
    );
    restricted.after_help(example)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        command(&words).term_width(100).try_get_matches_from(&words).unwrap_err().to_string()
    }

    #[test]
    fn short_help_is_one_screen() {
        for verb in ["", " fit", " predict", " evaluate", " tune", " curve", " plan", " plot", " convert"] {
            let text = help(&format!("kmill{verb} -h"));
            assert!(text.lines().count() <= 48, "{} lines: {text}", text.lines().count());
        }
    }

    #[test]
    fn the_first_verbs_stand_apart_and_none_is_missing() {
        let text = help("kmill --help");
        let (first, more) = text.split_once("More:").unwrap();
        for verb in Cli::command().get_subcommands() {
            let (name, is_first) = (verb.get_name(), MAIN_SUBCOMMANDS.contains(&verb.get_name()));
            let listed = |part: &str| part.lines().any(|line| line.split_whitespace().next() == Some(name));
            assert!(listed(first) == is_first && listed(more) != is_first, "{name}: {text}");
        }
    }

    #[test]
    fn the_singular_and_the_plural_are_one_option() {
        let read = |line: &str, id: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let (_, verb) = command(&words).try_get_matches_from(&words).unwrap().remove_subcommand().unwrap();
            verb.get_raw(id).unwrap().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        for (line, id, value) in [
            ("kmill curve t -o o.html --rank 50,100", "ranks", "50,100"),
            ("kmill curve t -o o.html --method uniform", "methods", "uniform"),
            ("kmill herd t --count 5 -o o.csv --ranks 20", "rank", "20"),
            ("kmill fit ridge t --target y -o m --kernels linear()", "kernel", "linear()"),
            ("kmill fit ridge t --targets y -o m", "target", "y"),
            ("kmill fit ridge t --target y -o m --fold 5 --lambdas 1e-6", "lambda", "1e-6"),
            // a subcommand with both options
            ("kmill fit ridge t --target y -o m --rank 10 --ranks 5,10", "rank", "10"),
            ("kmill tune any t --target y -o m --kernels linear()", "kernels", "linear()"),
        ] {
            assert_eq!(read(line, id), [value], "{line}");
        }
        // the aliases do not appear in the help
        assert!(!help("kmill curve --help").contains("--method "), "hidden");
    }

    #[test]
    fn the_help_of_a_solver_has_its_options_only() {
        let every = help("kmill fit --help");
        assert!(every.contains("--epsilon") && every.contains("--nu") && every.contains("--zero-based"));
        let svr = help("kmill fit svr --help");
        assert!(svr.contains("--epsilon") && svr.contains("--lambda") && svr.contains("--kernel"), "{svr}");
        assert!(!svr.contains("--nu") && !svr.contains("--clusters") && svr.lines().count() < every.lines().count());
        assert!(svr.contains("kmill fit svr train.parquet --target y -o"), "{svr}");
        // options that few runs need are left to the help of all solvers
        let options = svr.lines().filter(|line| line.trim_start().starts_with('-')).count();
        assert!(options <= 36 && !svr.contains("--zero-based") && svr.contains("kmill fit --help lists"), "{options}");
        // defaults of other solvers are not shown
        assert!(!svr.contains("for ridge"), "{svr}");
        let groups = help("kmill plan kmeans --help");
        assert!(groups.contains("--clusters 5") && !groups.contains("--target <"), "{groups}");
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
