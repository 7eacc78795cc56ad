//! Tables that cannot be read from the middle, or only once: compressed text, and standard input.
//!
//! They are written out once, into a file without a name in the folder for temporary files (`TMPDIR`), and read from there like any other file. The
//! operating system removes that file when the table is dropped or the process ends. *Bytes on disk*: those of the plain text.

#[cfg(feature = "compressed")]
use super::{Extended, Format};
use super::{Identity, STDIN, TableFile, TextOptions, by_extension, by_magic, known};
use crate::{Error, Result};
use std::io::{Read, Seek, Write};
use std::{fs::File, path::Path, sync::Arc};

/// Bytes read and written at a time.
const BUFFER: usize = 256 << 10;

#[cfg(feature = "compressed")]
pub(super) const FORMAT: Format = Format::new(&["gz", "zst"], compressed);

/// Opens text that gzip or zstd compressed: `rows.csv.gz`, `rows.jsonl.zst`.
#[cfg(feature = "compressed")]
fn compressed(path: &Path, file: File, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    let bytes = file.metadata().map_err(Error::io("read", path))?.len();
    let buffered = std::io::BufReader::with_capacity(BUFFER, file);
    let gzip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let (packing, reader): (_, Box<dyn Read>) = match gzip {
        true => ("gzip", Box::new(flate2::read::MultiGzDecoder::new(buffered))),
        false => ("zstd", Box::new(zstd::Decoder::with_buffer(buffered).map_err(Error::io("read", path))?)),
    };
    let plain = copied(path, Some(packing), reader)?;
    let name = path.with_extension("");
    let inner = by_extension(&name).filter(|format| format.is_text);
    let Some(format) = inner else {
        let known = "text within .gz and .zst, such as rows.csv.gz and rows.jsonl.zst".to_string();
        return Err(Error::UnknownFormat { path: path.to_path_buf(), known });
    };
    let inner = (format.open)(path, plain, options)?;
    Ok(Arc::new(Extended::unpacked(inner, bytes)))
}

/// Opens what standard input brings: any format, known by its first bytes; text is taken as JSON lines where it begins with a brace, else as CSV.
/// Errors of reading and of writing it out; [`Error::UnknownFormat`].
pub(crate) fn standard_input(options: &TextOptions) -> Result<(Arc<dyn TableFile>, Identity)> {
    let path = Path::new(STDIN);
    let mut file = copied(path, None, std::io::stdin().lock())?;
    let mut start = Vec::new();
    (&mut file).take(8).read_to_end(&mut start).map_err(Error::io("read", path))?;
    let identity = Identity::of_content(path, &file)?;
    let text = if start.trim_ascii_start().starts_with(b"{") { "rows.jsonl" } else { "rows.csv" };
    let format = by_magic(&start).or_else(|| by_extension(Path::new(text)));
    let format = format.ok_or_else(|| Error::UnknownFormat { path: path.to_path_buf(), known: known("and") })?;
    Ok(((format.open)(path, file, options)?, identity))
}

/// A copy of what a reader brings, in a file without a name; the path is for messages. Of what is unpacked, the name of the packing tells that
/// it is damaged where reading fails and the operating system does not say why.
pub(super) fn copied(path: &Path, packing: Option<&'static str>, reader: impl Read) -> Result<File> {
    written(reader).map_err(|fault| match (fault, packing) {
        (CopyError::Write(error), _) => error,
        (CopyError::Read(error), Some(format)) if error.raw_os_error().is_none() => {
            Error::Malformed { path: path.to_path_buf(), format, detail: error.to_string() }
        }
        (CopyError::Read(error), _) => Error::io("read", path)(error),
    })
}

/// A failure of the input, or of the disk that it is written to.
enum CopyError {
    Read(std::io::Error),
    Write(Error),
}

/// Everything that a reader brings, in a file without a name.
fn written(mut reader: impl Read) -> Result<File, CopyError> {
    let folder = std::env::temp_dir();
    let failed = |error| CopyError::Write(Error::io("write", folder.join("a temporary file"))(error));
    let mut out =
        tempfile::tempfile_in(&folder).map_err(|error| CopyError::Write(Error::io("write", &folder)(error)))?;
    let mut buffer = vec![0; BUFFER];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(more) => out.write_all(&buffer[..more]).map_err(failed)?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CopyError::Read(error)),
        }
    }
    out.rewind().map_err(failed)?;
    Ok(out)
}
