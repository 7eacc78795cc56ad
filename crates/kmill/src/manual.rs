//! `kmill completions` and `kmill man`: shell completions and manual pages, generated from the
//! definition of the command line.

use crate::{Result, args, output};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill completions bash > ~/.local/share/bash-completion/completions/kmill\n  \
    kmill completions zsh > ~/.zfunc/_kmill\n  \
    kmill completions fish > ~/.config/fish/completions/kmill.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kmill man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Existing folder for the manual pages
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(&[]), "kmill", &mut script);
    output::print_bytes(&script)
}

/// Writes the manual pages: `kmill.1`, and one per subcommand, such as `kmill-fit.1`.
pub(crate) fn pages(args: &ManArgs) -> Result<()> {
    let write = kstore::Error::io("write manual pages to", &args.folder);
    Ok(clap_mangen::generate_to(args::command(&[]), &args.folder).map_err(write)?)
}
