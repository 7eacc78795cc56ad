//! Replies to requests for help, and to invalid command lines.

use crate::args::{self, foreign_names};
use crate::{Cli, output, terminal, topics, which};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Args, Command, CommandFactory};
use kstore::{display, sink::STDOUT};
use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

/// Replaces subcommand names of other programs by kmill's names, and `help fit ridge` by
/// `fit ridge --help`, because `fit ridge` has its own help text.
pub(crate) fn normalise(mut words: Vec<OsString>) -> Vec<OsString> {
    let position = usize::from(words.get(1).is_some_and(|word| word == "help")) + 1;
    if let Some(word) = words.get_mut(position) {
        *word = foreign_names::own_subcommand(word);
    }
    if words.len() > 3 && words[1] == "help" {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// Parses the options of a subcommand. The first word is the name of the subcommand.
pub(crate) fn parse_args<A: Args>(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<A, clap::Error> {
    let subcommand = A::augment_args(Command::new("kmill"));
    subcommand.try_get_matches_from(words).and_then(|matches| A::from_arg_matches(&matches))
}

/// Rejects `-o -` with `--json`, because standard output can contain only one of the table and the
/// JSON object.
pub(crate) fn check_stdout(matches: ArgMatches) -> Result<ArgMatches, clap::Error> {
    let is_conflict = matches.subcommand().is_some_and(|(_, subcommand)| {
        let prints_json = subcommand.try_get_one::<bool>("json").is_ok_and(|json| json == Some(&true));
        let outputs = subcommand.try_get_many::<PathBuf>("output").ok().flatten();
        prints_json && outputs.into_iter().flatten().any(|path| path.as_os_str() == STDOUT)
    });
    if is_conflict {
        let text = "-o - and --json both write to standard output; name a file with -o, or omit one of them";
        return Err(Cli::command().error(ErrorKind::ArgumentConflict, text));
    }
    Ok(matches)
}

/// Prints the reply to a command line that clap did not parse, and returns the exit code. A usage
/// error goes to standard error, with exit code 2; help goes to standard output. `kmill help which`
/// starts the questions that lead to a solver, and `kmill help memory` prints a topic.
pub(crate) fn reply(clap_error: &clap::Error, words: &[OsString]) -> ExitCode {
    let help_word = match words {
        [_, help, word] if help == "help" => word.to_str(),
        _ => None,
    };
    let topic = help_word.and_then(topics::by_name);
    let is_which = help_word == Some("which");
    if clap_error.use_stderr() && !is_which && topic.is_none() {
        let mut command = args::command(words);
        // `argument_help` finds the argument by its text in the help, such as `--rank <M>`; only a
        // built command has this text
        command.build();
        let text = display::escape_lines(&usage_message(clap_error, &command, words)).into_owned();
        let _ = write!(std::io::stderr(), "{}", terminal::colourise(&text, &std::io::stderr()));
        return ExitCode::from(2);
    }
    let outcome = match topic {
        Some(topic) => topic.print(),
        None if is_which => which::ask(),
        None => clap_error.print(),
    };
    match outcome.and_then(|()| std::io::stdout().flush()).map_err(output::stdout_error) {
        Ok(()) | Err(crate::Error::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::print_line(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Returns the text of a usage error. Adds the purpose of the option if clap does not explain what
/// is expected.
fn usage_message(error: &clap::Error, command: &Command, words: &[OsString]) -> String {
    let mut text = error.render().to_string();
    if let ([_, help, word], ErrorKind::InvalidSubcommand) = (words, error.kind())
        && help == "help"
    {
        let names = command.get_subcommands().map(Command::get_name);
        return format!("error: {}\n", topics::suggest(&word.to_string_lossy(), names));
    }
    let subcommand = words.get(1).and_then(|word| word.to_str()).filter(|word| !word.starts_with('-'));
    if let Some(answer) = foreign_names::reply_to(error, command, subcommand) {
        return format!("error: {answer}\n\nFor more information, try '--help'.\n");
    }
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
        text = text.replace(value.as_str(), &display::truncate(value));
    }
    let is_value_empty =
        matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    let has_choices =
        matches!(error.get(ContextKind::ValidValue), Some(ContextValue::Strings(values)) if !values.is_empty());
    let is_unexplained = match error.kind() {
        ErrorKind::InvalidValue => is_value_empty || !has_choices,
        ErrorKind::ValueValidation => is_value_empty,
        ErrorKind::NoEquals | ErrorKind::WrongNumberOfValues => true,
        ErrorKind::InvalidUtf8 => {
            return text.replacen('\n', "; rename the file with valid UTF-8 characters\n", 1);
        }
        _ => false,
    };
    let Some(purpose) = argument_help(error, command).filter(|_| is_unexplained) else { return text };
    // insert it after the error message and before the reference to --help
    text.replacen('\n', &format!("\n  expected: {purpose}\n"), 1)
}

/// Returns the help text of the argument that an error refers to.
fn argument_help(error: &clap::Error, command: &Command) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidArg) else { return None };
    let subcommands = command.get_subcommands().filter(|verb| std::env::args_os().any(|word| word == verb.get_name()));
    let mut arguments = subcommands.flat_map(Command::get_arguments);
    arguments.find(|argument| argument.to_string() == *name).and_then(Arg::get_help).map(ToString::to_string)
}
