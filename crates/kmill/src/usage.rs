//! The answers to a request for help, and to a command line that cannot be understood.

use crate::args::Cli;
use crate::{output, progress};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory};
use kstore::shown;
use std::io::Write;
use std::process::ExitCode;

/// Prints the answer, and returns the exit code: 0 for help that was asked for, 2 for wrong usage.
pub(crate) fn answer(answer: &clap::Error) -> ExitCode {
    if answer.use_stderr() {
        let mut command = Cli::command();
        // names of arguments are shown as they are in the sentence only then
        command.build();
        let _ = write!(std::io::stderr(), "{}", shown::lines(&complaint(answer, &command)));
        return ExitCode::from(2);
    }
    match answer.print().and_then(|()| std::io::stdout().flush()).map_err(output::closed) {
        Ok(()) | Err(crate::Error::BrokenPipe) => ExitCode::SUCCESS,
        Err(error) => {
            progress::say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The text of an error of usage; where clap does not say what the option is for, this adds it.
fn complaint(error: &clap::Error, command: &Command) -> String {
    let mut text = error.render().to_string();
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
        text = text.replace(value.as_str(), &shown::short(value));
    }
    let empty = matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    let listed =
        matches!(error.get(ContextKind::ValidValue), Some(ContextValue::Strings(values)) if !values.is_empty());
    let unsaid = match error.kind() {
        ErrorKind::InvalidValue => empty || !listed,
        ErrorKind::ValueValidation => empty,
        ErrorKind::NoEquals | ErrorKind::WrongNumberOfValues => true,
        ErrorKind::InvalidUtf8 => {
            return text.replacen('\n', "; name files so that all of their letters can be typed\n", 1);
        }
        _ => false,
    };
    let Some(purpose) = purpose(error, command).filter(|_| unsaid) else { return text };
    // after the sentence and before the reference to --help
    text.replacen('\n', &format!("\n  expected: {purpose}\n"), 1)
}

/// The help text of the argument that an error is about.
fn purpose(error: &clap::Error, command: &Command) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidArg) else { return None };
    let of_verb = command.get_subcommands().filter(|verb| std::env::args_os().any(|word| word == verb.get_name()));
    let mut arguments = of_verb.flat_map(Command::get_arguments);
    arguments.find(|argument| argument.to_string() == *name).and_then(Arg::get_help).map(ToString::to_string)
}
