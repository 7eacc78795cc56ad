//! The whole command line as clap knows it: short help of one screen, and the help of one solver with its options only.

use super::{Cli, solver};
use crate::error::flags;
use clap::{Arg, Command, CommandFactory};
use ksolve::solver::Family;
use std::ffi::OsString;

/// Verbs with more options than a screen has lines: their short help has those of [`FIRST`].
const CROWDED: usize = 20;

/// The options that most runs need, which short help has. Longer help has them all.
const FIRST: [&str; 22] = [
    "solver",
    "model",
    "paths",
    "target",
    "features",
    "rows",
    "condition",
    "missing",
    "kernel",
    "kernels",
    "rank",
    "ranks",
    "methods",
    "time",
    "lambda",
    "folds",
    "task",
    "components",
    "output",
    "report",
    "json",
    "verbose",
];

/// The verbs whose first word is a solver.
const LEARNING: [&str; 2] = ["fit", "plan"];

/// The command line, with the help that belongs to what was typed.
pub fn command(words: &[OsString]) -> Command {
    let shortened = |verb: Command| match verb.get_arguments().count() > CROWDED {
        true => verb.mut_args(|arg| if is_first(&arg) { arg } else { arg.hide_short_help(true) }),
        false => verb,
    };
    let command = Cli::command().mut_subcommands(shortened);
    let Some((verb, family)) = learning(words) else { return command };
    command.mut_subcommand(verb, |verb| for_solver(verb, family))
}

fn is_first(arg: &Arg) -> bool {
    FIRST.contains(&arg.get_id().as_str())
}

/// The verb and the solver that a line names, in this order and before any option.
fn learning(words: &[OsString]) -> Option<(&'static str, &'static Family)> {
    let verb = LEARNING.into_iter().find(|verb| words.get(1).is_some_and(|word| word == verb))?;
    let named = words.get(2)?.to_str()?;
    let family = ksolve::solver::registry().into_iter().find(|family| family.name == named)?;
    Some((verb, family))
}

/// A verb whose help has the parameters of one solver, and none of the others'.
fn for_solver(verb: Command, family: &'static Family) -> Command {
    let (name, about) = (family.name, flags(family.about));
    let told = verb.mut_args(|arg| {
        let id = arg.get_id().as_str().to_string();
        match family.parameters.iter().find(|parameter| parameter.name == id) {
            Some(own) => arg.hide_short_help(false).help(solver::own_help(own)),
            None if solver::is_parameter(&id) => arg.hide(true),
            None if id == "solver" => arg.help(about.clone()).long_help(about.clone()),
            None if id == "target" && !family.task.has_target() => arg.hide(true),
            None => arg,
        }
    });
    let target = if family.task.has_target() { " --target y" } else { "" };
    let needed = if family.parameters.iter().any(|own| own.name == "clusters") { " --clusters 5" } else { "" };
    let example = format!(
        "Example:\n  kmill fit {name} train.parquet{target}{needed} -o model.safetensors\n\n\
         kmill help which chooses a solver; kmill fit --help has the options of all."
    );
    told.after_help(example.clone()).after_long_help(example)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of the help that a line asks for.
    fn help(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        command(&words).term_width(100).try_get_matches_from(&words).unwrap_err().to_string()
    }

    #[test]
    fn short_help_is_one_screen() {
        for verb in ["", " fit", " predict", " evaluate", " tune", " curve", " plan", " plot", " convert"] {
            let text = help(&format!("kmill{verb} -h"));
            assert!(text.lines().count() <= 45, "{} lines: {text}", text.lines().count());
        }
    }

    #[test]
    fn the_help_of_a_solver_has_its_options_only() {
        let every = help("kmill fit --help");
        assert!(every.contains("--epsilon") && every.contains("--nu") && every.contains("--zero-based"));
        let svr = help("kmill fit svr --help");
        assert!(svr.contains("--epsilon") && svr.contains("--lambda") && svr.contains("--kernel"), "{svr}");
        assert!(!svr.contains("--nu") && !svr.contains("--clusters") && svr.lines().count() < every.lines().count());
        assert!(svr.contains("kmill fit svr train.parquet --target y -o"), "{svr}");
        // what other solvers take by default says nothing here
        assert!(!svr.contains("for ridge"), "{svr}");
        let groups = help("kmill plan kmeans --help");
        assert!(groups.contains("--clusters 5") && !groups.contains("--target <"), "{groups}");
    }
}
