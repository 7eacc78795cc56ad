//! Tables that cannot be read from the middle, or only once: compressed text, and standard input.
//!
//! They are written out once, into a file without a name in the folder for temporary files (`TMPDIR`), and read from there like any other file. The
//! operating system removes that file when the table is dropped or the process ends. *Bytes on disk*: those of the plain text.

use crate::{Error, Result};
use std::io::{Read, Seek, Write};
use std::{fs::File, path::Path};

/// Bytes read and written at a time.
pub(super) const BUFFER: usize = 256 << 10;

/// A copy of what a reader brings, in a file without a name; the path is for messages. Of what is unpacked, the name of the packing tells that
/// it is damaged where reading fails and the operating system does not say why.
pub(super) fn copied(path: &Path, packing: Option<&'static str>, mut reader: impl Read) -> Result<File> {
    let folder = std::env::temp_dir();
    let failed = |error| Error::io("write", folder.join("a temporary file"))(error);
    let mut out = tempfile::tempfile_in(&folder).map_err(Error::io("write", &folder))?;
    let mut buffer = vec![0; BUFFER];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(more) => out.write_all(&buffer[..more]).map_err(failed)?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => match packing.filter(|_| error.raw_os_error().is_none()) {
                None => return Err(Error::io("read", path)(error)),
                Some(format) => {
                    return Err(Error::Malformed { path: path.to_path_buf(), format, detail: error.to_string() });
                }
            },
        }
    }
    out.rewind().map_err(failed)?;
    Ok(out)
}
