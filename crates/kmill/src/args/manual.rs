//! The options of `kmill completions` and `kmill man`.

use clap::Args;
use std::path::PathBuf;

/// Options of `kmill completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill completions bash > ~/.local/share/bash-completion/completions/kmill\n  \
    kmill completions zsh > ~/.zfunc/_kmill\n  \
    kmill completions fish > ~/.config/fish/completions/kmill.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: clap_complete::Shell,
}

/// Options of `kmill man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kmill man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// The folder that the pages go to; it has to be there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
