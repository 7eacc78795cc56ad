//! The registry of formats, and what it opens: files, text that is compressed, standard input, and objects at a distance.

#[cfg(feature = "compressed")]
use super::Extended;
use super::format::{Format, TableFile};
use super::remote::{Distant, Found, Reader};
use super::{Identity, QUERY, STDIN, TextOptions, positioned::copied};
use crate::named::Registry;
use crate::{Error, Result};
use std::io::{Read, Seek};
use std::path::Path;
use std::{fs::File, sync::Arc};

/// The formats of this crate: each is one of its features.
static FORMATS: Registry<Format> = Registry::new(&[
    #[cfg(feature = "parquet")]
    super::parquet::FORMAT,
    #[cfg(feature = "ipc")]
    super::ipc::FORMAT,
    #[cfg(feature = "npy")]
    super::npy::FORMAT,
    #[cfg(feature = "npz")]
    super::npz::FORMAT,
    #[cfg(feature = "csv")]
    super::csv::FORMAT,
    #[cfg(feature = "svmlight")]
    super::svmlight::FORMAT,
    #[cfg(feature = "jsonl")]
    super::json_lines::FORMAT,
    #[cfg(feature = "compressed")]
    COMPRESSED,
]);

/// The formats: those of this crate, then those that were registered.
pub fn formats() -> Vec<&'static Format> {
    FORMATS.all()
}

/// Makes a format of another crate known by its first extension, in this process and from now on.
///
/// # Errors
/// [`Error::Register`] for an extension that is taken or is no word.
pub fn register(format: &'static Format) -> Result<()> {
    FORMATS.register(format)
}

/// The extensions in [`formats`], for messages: `.npy, .csv and .tsv`, with `last` before the last.
pub(crate) fn known(last: &str) -> String {
    listed(FORMATS.all().into_iter().map(|format| format.extensions), last)
}

/// Extensions for messages; where formats are left out of this build, it says so.
pub(crate) fn listed(formats: impl Iterator<Item = &'static [&'static str]>, last: &str) -> String {
    let names: Vec<String> = formats.flatten().map(|extension| format!(".{extension}")).collect();
    let text = match names.split_last() {
        None => "no file at all".to_string(),
        Some((only, [])) => only.clone(),
        Some((end, names)) => format!("{} {last} {end}", names.join(", ")),
    };
    if cfg!(feature = "formats") {
        text
    } else {
        text + " (other formats are features of kstore that this build leaves out)"
    }
}

/// The format a path's extension names.
pub fn by_extension(path: &Path) -> Option<&'static Format> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    FORMATS.all().into_iter().find(|format| format.extensions.contains(&extension.as_str()))
}

/// Opens a file as the format its extension names or, failing that, its first bytes.
pub fn open(path: &Path, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    // opening a pipe without a writer would wait for ever
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(Error::NotAFile { path: path.to_path_buf() });
    }
    let failed = |error| Error::io("read", path)(error);
    let mut file = File::open(path).map_err(failed)?;
    let format = match by_extension(path) {
        Some(format) => format,
        None => {
            let mut start = Vec::new();
            (&mut file).take(8).read_to_end(&mut start).map_err(failed)?;
            file.rewind().map_err(failed)?;
            by_magic(&start).ok_or_else(|| unknown(path))?
        }
    };
    (format.open)(path, file, options)
}

fn unknown(path: &Path) -> Error {
    Error::UnknownFormat { path: path.to_path_buf(), known: known("and") }
}

fn by_magic(start: &[u8]) -> Option<&'static Format> {
    FORMATS.all().into_iter().find(|format| !format.magic.is_empty() && start.starts_with(format.magic))
}

#[cfg(feature = "compressed")]
const COMPRESSED: Format = Format::new(&["gz", "zst"], compressed);

/// Opens text that gzip or zstd compressed: `rows.csv.gz`, `rows.jsonl.zst`.
#[cfg(feature = "compressed")]
fn compressed(path: &Path, file: File, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    let bytes = file.metadata().map_err(Error::io("read", path))?.len();
    let buffered = std::io::BufReader::with_capacity(super::positioned::BLOCK_BYTES, file);
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

/// Bytes of the beginning of standard input that tell its format.
const START: u64 = 4 << 10;

/// True for the beginning of svmlight: the first row has a number, and then entries `index:value`.
fn has_entries(text: &[u8]) -> bool {
    let row = text.split(|byte| *byte == b'\n').find(|line| !line.is_empty() && line[0] != b'#').unwrap_or_default();
    let mut words = row.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let label = words.next().and_then(|word| str::from_utf8(word).ok()?.parse::<f64>().ok());
    let index = words.next().and_then(|word| Some(&word[..word.iter().position(|byte| *byte == b':')?]));
    label.is_some() && index.is_some_and(|index| index == QUERY.as_bytes() || index.iter().all(u8::is_ascii_digit))
}

/// Opens what standard input brings: any format, known by its first bytes; text is taken as JSON lines where it begins with a brace, as svmlight
/// where its first row has entries, else as CSV.
/// Errors of reading and of writing it out; [`Error::UnknownFormat`].
pub(crate) fn standard_input(options: &TextOptions) -> Result<(Arc<dyn TableFile>, Identity)> {
    let path = Path::new(STDIN);
    let mut file = copied(path, None, std::io::stdin().lock())?;
    let mut start = Vec::new();
    (&mut file).take(START).read_to_end(&mut start).map_err(Error::io("read", path))?;
    let identity = Identity::of_content(path, &file)?;
    let text = match start.trim_ascii_start() {
        [b'{', ..] => "rows.jsonl",
        text if has_entries(text) => "rows.svm",
        _ => "rows.csv",
    };
    let format = by_magic(&start).or_else(|| by_extension(Path::new(text))).ok_or_else(|| unknown(path))?;
    Ok(((format.open)(path, file, options)?, identity))
}

/// Opens an object as the format that its name or its first bytes tell.
pub(crate) fn open_distant(found: &Found, options: &TextOptions) -> Result<(Arc<dyn TableFile>, Identity)> {
    let path = Path::new(&found.address);
    let distant = Arc::new(Distant::open(Arc::clone(&found.object)).map_err(Error::io("read", path))?);
    let identity = Identity::told(path, distant.length(), &found.version);
    let name = found.address.split(['?', '#']).next().unwrap_or_default();
    let start = distant.read(0, 8).map_err(Error::io("read", path))?;
    let format = by_extension(Path::new(name)).or_else(|| by_magic(&start)).ok_or_else(|| unknown(path))?;
    let table = match format.distant {
        Some(open) => open(path, distant)?,
        None => (format.open)(path, copied(path, None, Reader::of(&distant))?, options)?,
    };
    Ok((table, identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn svmlight_is_told_by_its_first_row() {
        for text in ["1 3:0.5\n", "# a comment\n\n-1 qid:4 1:2", "2.5\t7:1 8:x"] {
            assert!(has_entries(text.as_bytes()), "{text}");
        }
        for text in ["", "1\n2 1:3", "a,b\n1,2:3", "a 1:2", "1 a:2", "1 2 3:4", "12:30 1:2"] {
            assert!(!has_entries(text.as_bytes()), "{text}");
        }
    }
}
