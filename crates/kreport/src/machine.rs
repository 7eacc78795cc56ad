//! The command line and the machine, as shown in reports.

use crate::table::join_with_commas;

/// Returns the command line, quoted for a shell.
pub fn command_line() -> String {
    let mut arguments = std::env::args_os();
    // the path of the program has no influence on the result
    arguments.next();
    std::iter::once("kmill".to_string())
        .chain(arguments.map(|argument| quote_for_shell(&argument.to_string_lossy())))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Puts an argument in quotes if a shell would change it.
pub fn quote_for_shell(argument: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_string();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

/// Describes processor, cores, memory and operating system, as far as they are known.
pub fn describe_machine() -> String {
    let model_name = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_string())
    });
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = kstore::budget::available_memory().map(kstore::budget::format_bytes);
    let processor = [model_name.unwrap_or_else(|| std::env::consts::ARCH.to_string()), format!("{cores} cores")];
    join_with_commas(processor.into_iter().chain(memory).chain([std::env::consts::OS.to_string()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_split_or_read_are_quoted() {
        let texts = ["a.parquet", "fold == 0", "it's", "", "50..2000", "$(x)"].map(quote_for_shell);
        assert_eq!(texts, ["a.parquet", "'fold == 0'", r"'it'\''s'", "''", "50..2000", "'$(x)'"]);
    }
}
