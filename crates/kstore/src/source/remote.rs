//! Remote tables: objects of stores and files of web servers, with addresses such as
//! `s3://bucket/rows.parquet`.
//!
//! This crate does not contain any store. A caller registers the stores that it supports
//! ([`register_store`]); the crate `kcloud` provides S3, Google, Azure and HTTP. Parquet is read by
//! byte ranges: first the footer, then the required column chunks of one row group after the other.
//! If an object has another format, or if its store has no versions, it is first copied into a
//! temporary file, like standard input.

use crate::registry::{Registry, RegistryEntry};
use crate::{Error, Result};
use std::sync::{Arc, OnceLock};
use std::{fmt::Debug, io, ops::Range, path::Path};

/// The bytes of a remote object. They must not change: if a store finds another version of the
/// object, it returns an error.
pub trait Object: Debug + Send + Sync {
    /// Returns the length in bytes.
    fn length(&self) -> u64;
    /// Returns the bytes of each of `ranges`, in this order. All ranges lie within the object.
    ///
    /// # Errors
    /// Errors of the network and the store, after retries.
    fn read_ranges(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>>;
    /// Returns false if the store cannot identify versions of the object. In this case the object
    /// is copied before it is read, so that all passes read the same bytes.
    fn is_versioned(&self) -> bool {
        true
    }
}

/// An object that an address refers to.
#[derive(Clone, Debug)]
pub struct RemoteObject {
    /// Address of this single object, which names it in messages and determines the order of
    /// objects.
    pub address: String,
    /// Version of the object: an ETag, or a time.
    pub version: String,
    /// Bytes of the object.
    pub object: Arc<dyn Object>,
}

/// A kind of store.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Schemes of the addresses, without `://`.
    pub schemes: &'static [&'static str],
    /// Returns the objects of an address: a single object, all objects of a folder (if the address
    /// ends with `/`), or all objects that match a pattern.
    pub find: fn(&str) -> Result<Vec<RemoteObject>>,
}

impl RegistryEntry for Store {
    const KIND: &'static str = "store";
    fn name(&self) -> &'static str {
        self.schemes[0]
    }
}

static STORES: Registry<Store> = Registry::new(&[]);

/// Registers a kind of store in this process, under its first scheme.
///
/// # Errors
/// [`Error::Register`] for a scheme that is already registered or is not a word.
pub fn register_store(store: &'static Store) -> Result<()> {
    STORES.register(store)
}

static SHOULD_STOP: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the function that returns whether the process was asked to stop. Stores call it while they
/// wait for a response. Only the first call of `stop_when` has an effect.
#[doc(hidden)]
pub fn stop_when(should_stop: fn() -> bool) {
    SHOULD_STOP.get_or_init(|| should_stop);
}

/// Returns whether the process was asked to stop.
#[doc(hidden)]
pub fn is_stop_requested() -> bool {
    SHOULD_STOP.get().is_some_and(|should_stop| should_stop())
}

/// Replaces an error of reading by [`Error::Interrupted`] if the process was asked to stop.
pub(crate) fn or_interrupted(error: Error) -> Error {
    if is_stop_requested() { Error::Interrupted } else { error }
}

/// Replacement for a password, a signature or another secret value.
const REDACTED: &str = "***";

/// Returns an address for messages and reports. Passwords are replaced, and so are the values in
/// the query of a web address, which may be signatures.
///
/// ```
/// use kstore::source::remote::redact;
/// assert_eq!(
///     redact("https://me:pass@host/rows.csv?sig=a1b2&v=3"),
///     "https://***@host/rows.csv?sig=***&v=***"
/// );
/// ```
#[doc(hidden)]
pub fn redact(address: &str) -> String {
    let Some((scheme, location)) = address.split_once("://") else { return address.to_string() };
    // in an address of another scheme, `?` is part of a pattern
    let query = location.find(['?', '#']).filter(|_| scheme.starts_with("http"));
    let (path, query) = location.split_at(query.unwrap_or(location.len()));
    let (host, path) = path.split_at(path.find('/').unwrap_or(path.len()));
    let host = host.rsplit_once('@').map_or(host.to_string(), |(_, host)| format!("{REDACTED}@{host}"));
    let redact_pair = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={REDACTED}"),
        None if pair.len() > 1 => format!("{}{REDACTED}", &pair[..usize::from(pair.starts_with(['?', '#']))]),
        None => pair.to_string(),
    };
    let query: Vec<String> = query.split('&').map(redact_pair).collect();
    format!("{scheme}://{host}{path}{}", query.join("&"))
}

/// Returns the objects of an address.
///
/// # Errors
/// A scheme that no store supports; an address without any object; the errors of the store.
pub(crate) fn find_objects(scheme: &str, path: &Path) -> Result<Vec<RemoteObject>> {
    let address = redact(&path.to_string_lossy());
    let not_found_error = |hint: &str| Error::NotFound { path: address.into(), hint: hint.to_string() };
    let Some(store) = STORES.entries().into_iter().find(|store| store.schemes.contains(&scheme)) else {
        let hint = "; this build does not support such a store: build kmill with the feature `cloud`, or in Rust call kcloud::register()";
        return Err(not_found_error(hint));
    };
    match (store.find)(&path.to_string_lossy()).map_err(or_interrupted)? {
        objects if objects.is_empty() => Err(not_found_error("; no object has this address: check it and its folder")),
        objects => Ok(objects),
    }
}

/// Number of bytes at the end of an object that are read and stored on opening. They usually
/// contain the footer of a Parquet file.
const OBJECT_TAIL_BYTES: u64 = 64 << 10;

/// Bytes per read while an object is copied.
const COPY_BYTES: usize = 8 << 20;

/// A remote object, with its last bytes in memory.
#[derive(Debug)]
pub(crate) struct RemoteFile {
    object: Arc<dyn Object>,
    /// Offset of the stored bytes at the end of the object.
    tail_start: u64,
    tail: Vec<u8>,
}

impl RemoteFile {
    pub(super) fn open(object: Arc<dyn Object>) -> io::Result<Self> {
        let length = object.length();
        let tail_start = length.saturating_sub(OBJECT_TAIL_BYTES);
        let tail = if length == 0 { Vec::new() } else { read_range(&*object, tail_start..length)? };
        Ok(Self { object, tail_start, tail })
    }

    pub(crate) fn length(&self) -> u64 {
        self.object.length()
    }

    pub(super) fn is_versioned(&self) -> bool {
        self.object.is_versioned()
    }

    /// Reads up to `length` bytes from `offset` on; fewer at the end of the object.
    pub(crate) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let end = offset.saturating_add(length as u64).min(self.length());
        match (offset < end, offset.checked_sub(self.tail_start)) {
            (false, _) => Ok(Vec::new()),
            (true, Some(tail_offset)) => Ok(self.tail[tail_offset as usize..][..(end - offset) as usize].to_vec()),
            (true, None) => read_range(&*self.object, offset..end),
        }
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn read_ranges(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
        if ranges.iter().all(|range| range.start >= self.tail_start && range.end <= self.length()) {
            return ranges.iter().map(|range| self.read(range.start, (range.end - range.start) as usize)).collect();
        }
        let parts = self.object.read_ranges(ranges)?;
        let is_complete = parts.len() == ranges.len()
            && parts.iter().zip(ranges).all(|(bytes, range)| bytes.len() as u64 == range.end - range.start);
        if is_complete { Ok(parts) } else { Err(too_few_bytes_error()) }
    }
}

fn too_few_bytes_error() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the store returned fewer bytes than requested")
}

fn read_range(object: &dyn Object, range: Range<u64>) -> io::Result<Vec<u8>> {
    let length = range.end - range.start;
    let bytes = object.read_ranges(&[range])?.pop().unwrap_or_default();
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(too_few_bytes_error()) }
}

pub(super) struct RemoteReader<'a> {
    object: &'a RemoteFile,
    position: u64,
}

impl io::Read for RemoteReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.object.read(self.position, buffer.len())?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl<'a> RemoteReader<'a> {
    /// Returns a reader of an object, with requests of 8 MiB.
    pub(super) fn buffered(object: &'a RemoteFile) -> io::BufReader<Self> {
        io::BufReader::with_capacity(COPY_BYTES, Self { object, position: 0 })
    }
}
