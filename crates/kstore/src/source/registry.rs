//! The registry of formats, and the functions that open files, compressed text, standard input and
//! remote objects.

#[cfg(feature = "compressed")]
use super::ExtendedFile;
use super::format::{Format, TableFile};
use super::remote::{self, RemoteFile, RemoteObject, RemoteReader};
use super::{Identity, QUERY_COLUMN, STDIN, TextOptions, shared_file::copy_to_temporary, unsupported};
use crate::registry::Registry;
use crate::{Error, Result};
use std::io::{Read, Seek};
use std::path::Path;
use std::{fs::File, sync::Arc};

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

/// Returns the formats of this crate, then the registered formats.
pub fn formats() -> Vec<&'static Format> {
    FORMATS.entries()
}

/// Registers a format of another crate in this process, under the first extension of the format.
///
/// # Errors
/// [`Error::Register`] for an extension that is already registered or is not a word.
pub fn register(format: &'static Format) -> Result<()> {
    FORMATS.register(format)
}

/// Returns the extensions of all [`formats`] for messages, with the word `conjunction` before the
/// last extension: `.npy, .csv and .tsv`.
pub(crate) fn list_known_extensions(conjunction: &str) -> String {
    list_extensions(FORMATS.entries().into_iter().map(|format| format.extensions), conjunction)
}

/// Joins extensions for messages, and mentions the formats that this build does not include.
pub(crate) fn list_extensions(formats: impl Iterator<Item = &'static [&'static str]>, conjunction: &str) -> String {
    let names: Vec<String> = formats.flatten().map(|extension| format!(".{extension}")).collect();
    let text = match names.split_last() {
        None => "no file at all".to_string(),
        Some((name, [])) => name.clone(),
        Some((last_name, names)) => format!("{} {conjunction} {last_name}", names.join(", ")),
    };
    if cfg!(feature = "formats") {
        text
    } else {
        text + " (other formats are features of kstore that this build does not include)"
    }
}

/// Returns the format of a path's extension.
pub fn format_by_extension(path: &Path) -> Option<&'static Format> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    FORMATS.entries().into_iter().find(|format| format.extensions.contains(&extension.as_str()))
}

/// Opens a file in the format of its extension. If the extension is unknown, the format follows
/// from the magic bytes.
///
/// # Errors
/// [`Error::NotFound`] and [`Error::NotAFile`]; the file cannot be read; its format is unknown; the
/// errors of the format.
pub fn open(path: &Path, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    super::regular_metadata(path)?;
    open_by_content(path, path, File::open(path).map_err(Error::io("read", path))?, options)
}

/// Opens a file in the format of its content. `name` has the extension, and `path` is for messages.
fn open_by_content(path: &Path, name: &Path, mut file: File, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    let start = read_first_bytes(path, &mut file)?;
    #[cfg(feature = "compressed")]
    if let Some(compression) = detect_compression(&start)
        && format_by_extension(name).is_none_or(|format| format.is_text)
    {
        return open_compressed(path, name, file, compression, options);
    }
    (detect_format(path, name, &start)?.open)(path, file, options)
}

/// Number of first bytes of a file from which its format is recognised.
const DETECTION_BYTES: u64 = 4 << 10;

fn read_first_bytes(path: &Path, file: &mut File) -> Result<Vec<u8>> {
    let (read_error, mut start) = (|error| Error::io("read", path)(error), Vec::new());
    file.take(DETECTION_BYTES).read_to_end(&mut start).map_err(read_error)?;
    file.rewind().map_err(read_error)?;
    Ok(start)
}

/// Returns the format of a file: by the extension of its name, or by its magic bytes, or because it
/// begins like JSON. A stream has no extension: its text is svmlight if its first row has entries,
/// and CSV otherwise.
fn detect_format(path: &Path, name: &Path, start: &[u8]) -> Result<&'static Format> {
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    let is_json_array = text.starts_with(b"[") && text[1..].trim_ascii_start().starts_with(b"{");
    let is_stream = name == Path::new(STDIN);
    let text_file_name = || match () {
        () if text.starts_with(b"{") || is_json_array => Some("rows.jsonl"),
        () if !is_stream || unsupported::describe_unsupported(name, start).is_some() => None,
        () if starts_like_svmlight(text) => Some("rows.svm"),
        () => Some("rows.csv"),
    };
    let format = format_by_extension(name)
        .or_else(|| format_by_magic(start))
        .or_else(|| format_by_extension(Path::new(text_file_name()?)));
    format.ok_or_else(|| match unsupported::describe_unsupported(name, start) {
        Some(detail) => Error::malformed(path, "a table", detail),
        None => {
            let formats =
                format!("{}, and text files with other names from standard input, -", list_known_extensions("and"));
            Error::UnknownFormat { path: path.to_path_buf(), known: formats }
        }
    })
}

pub(super) fn format_by_magic(start: &[u8]) -> Option<&'static Format> {
    FORMATS.entries().into_iter().find(|format| !format.magic.is_empty() && start.starts_with(format.magic))
}

/// Returns the program that compressed these bytes. The caller unpacks them, unless the name of the
/// file belongs to a binary format.
#[cfg(feature = "compressed")]
fn detect_compression(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        _ => None,
    }
}

#[cfg(feature = "compressed")]
const COMPRESSED: Format = Format::new(&["gz", "zst"], |path, _, _| {
    Err(Error::malformed(
        path,
        "gzip or zstd",
        "it starts like neither; compress it again, or remove .gz or .zst from its name",
    ))
})
.text();

/// Opens data that gzip or zstd compressed, such as `rows.csv.gz`, `rows.jsonl.zst` or a stream.
#[cfg(feature = "compressed")]
fn open_compressed(
    path: &Path,
    name: &Path,
    file: File,
    compression: &'static str,
    options: &TextOptions,
) -> Result<Arc<dyn TableFile>> {
    let compressed_bytes = file.metadata().map_err(Error::io("read", path))?.len();
    let buffered = std::io::BufReader::with_capacity(super::shared_file::BLOCK_BYTES, file);
    let reader: Box<dyn Read> = match compression {
        "gzip" => Box::new(flate2::read::MultiGzDecoder::new(buffered)),
        _ => Box::new(zstd::Decoder::with_buffer(buffered).map_err(Error::io("read", path))?),
    };
    let mut decompressed = copy_to_temporary(path, Some(compression), reader)?;
    let start = read_first_bytes(path, &mut decompressed)?;
    let is_compressed_name = format_by_extension(name).is_some_and(|format| format.extensions == COMPRESSED.extensions);
    let name = if is_compressed_name { name.with_extension("") } else { name.to_path_buf() };
    // the format of the content of rows.gz is recognised by its bytes, like the format of a stream
    let name = if is_compressed_name && name.extension().is_none() { Path::new(STDIN) } else { &name };
    let decompressed_file = (detect_format(path, name, &start)?.open)(path, decompressed, options)?;
    Ok(Arc::new(ExtendedFile::decompressed(path, decompressed_file, compressed_bytes)))
}

/// Returns whether text begins like svmlight: whether the first row has a number, followed by
/// entries `index:value`.
fn starts_like_svmlight(text: &[u8]) -> bool {
    let first_row =
        text.split(|byte| *byte == b'\n').find(|line| !line.is_empty() && line[0] != b'#').unwrap_or_default();
    let mut words = first_row.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let label = words.next().and_then(|word| str::from_utf8(word).ok()?.parse::<f64>().ok());
    let index = words.next().and_then(|word| Some(&word[..word.iter().position(|byte| *byte == b':')?]));
    label.is_some()
        && index.is_some_and(|index| index == QUERY_COLUMN.as_bytes() || index.iter().all(u8::is_ascii_digit))
}

/// Opens standard input, in any format.
///
/// # Errors
/// Errors of reading standard input and of writing the temporary file; [`Error::UnknownFormat`].
pub(crate) fn open_standard_input(options: &TextOptions) -> Result<(Arc<dyn TableFile>, Identity)> {
    super::check_stdin()?;
    let path = Path::new(STDIN);
    let file = copy_to_temporary(path, None, std::io::stdin().lock())?;
    let identity = Identity::of_content(path, &file)?;
    Ok((open_by_content(path, path, file, options)?, identity))
}

/// Opens a remote object in the format of its name or its magic bytes.
pub(crate) fn open_remote(
    remote_object: &RemoteObject,
    options: &TextOptions,
) -> Result<(Arc<dyn TableFile>, Identity)> {
    let address = remote::redact(&remote_object.address);
    let path = Path::new(&address);
    let file = Arc::new(RemoteFile::open(Arc::clone(&remote_object.object)).map_err(Error::io("read", path))?);
    let identity = Identity::of_object(path, file.length(), &remote_object.version);
    let name = remote_object.address.split(['?', '#']).next().unwrap_or_default();
    let start = file.read(0, 8).map_err(Error::io("read", path))?;
    let format = format_by_extension(Path::new(name)).or_else(|| format_by_magic(&start));
    let table = match format.and_then(|format| format.open_remote).filter(|_| file.is_versioned()) {
        Some(open) => open(path, file)?,
        None => open_by_content(
            path,
            Path::new(name),
            copy_to_temporary(path, None, RemoteReader::buffered(&file))?,
            options,
        )?,
    };
    Ok((table, identity))
}
