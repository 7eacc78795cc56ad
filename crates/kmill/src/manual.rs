//! `kmill completions` and `kmill man`: what shells and `man` want to know, made from the definition of the command line.

use crate::args::{self, CompletionsArgs, ManArgs};
use crate::{Result, output};

/// Prints the script that completes verbs and options in a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(&[]), "kmill", &mut script);
    // the script is ours and ASCII but for the help texts
    output::raw(&script)
}

/// Writes the manual pages: `kmill.1`, and `kmill-fit.1` for each verb.
pub(crate) fn pages(args: &ManArgs) -> Result<()> {
    let write = kstore::Error::io("write manual pages to", &args.folder);
    Ok(clap_mangen::generate_to(args::command(&[]), &args.folder).map_err(write)?)
}
