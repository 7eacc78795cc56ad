//! Reads ranges of bytes of an object.

use crate::block_on;
use futures_util::future::try_join_all;
use kstore::source::remote::{self, redact};
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, path::Path};
use std::{io, ops::Range, sync::Arc};

/// Largest gap in bytes between ranges that share a request: reading the bytes between them costs
/// less than another request.
const MAX_GAP_BYTES: u64 = 256 << 10;

/// An object of a store, in the version that it had when the table was opened.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    store: Arc<dyn ObjectStore>,
    path: Path,
    meta: ObjectMeta,
    address: String,
}

impl Object {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, meta: ObjectMeta, address: String) -> Self {
        Self { store, path: meta.location.clone(), meta, address }
    }

    /// Returns the ETag or, without one, the time of the last change.
    pub(crate) fn version(&self) -> String {
        self.meta.e_tag.clone().unwrap_or_else(|| self.meta.last_modified.to_string())
    }

    /// Reads the bytes of one range of this version.
    async fn read_range(self, range: Range<u64>) -> object_store::Result<Vec<u8>> {
        let options = GetOptions {
            if_match: self.meta.e_tag.clone(),
            if_unmodified_since: self.meta.e_tag.is_none().then_some(self.meta.last_modified),
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        let response = self.store.get_opts(&self.path, options).await?;
        // checked again, because some servers ignore the conditions of a request
        let (expected, actual) = (&self.meta, &response.meta);
        let change = match (expected.e_tag.is_some() && actual.e_tag.is_some(), expected.e_tag != actual.e_tag) {
            (true, true) => Some("its ETag changed"),
            (false, _) if expected.last_modified != actual.last_modified => Some("its modification time changed"),
            _ if expected.size != actual.size => Some("its length changed"),
            _ => None,
        };
        if let Some(change) = change {
            return Err(object_store::Error::Precondition { path: self.path.to_string(), source: change.into() });
        }
        Ok(response.bytes().await?.into())
    }
}

impl remote::Object for Object {
    fn length(&self) -> u64 {
        self.meta.size
    }

    fn is_versioned(&self) -> bool {
        self.meta.e_tag.is_some()
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
        let requests = merge_ranges(ranges);
        let reads = try_join_all(requests.clone().into_iter().map(|request| self.clone().read_range(request)));
        let responses = block_on(reads)?.map_err(|error| store_error(&self.address, error))?;
        let range_bytes = |range: &Range<u64>| {
            let request_index = requests.partition_point(|request| request.start <= range.start).saturating_sub(1);
            let (request, bytes) = requests.get(request_index).zip(responses.get(request_index))?;
            let (start, end) = (range.start.checked_sub(request.start)?, range.end.checked_sub(request.start)?);
            Some(bytes.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?.to_vec())
        };
        let short_read_error =
            || io::Error::new(io::ErrorKind::UnexpectedEof, "the store returned fewer bytes than requested");
        ranges.iter().map(|range| range_bytes(range).ok_or_else(short_read_error)).collect()
    }
}

/// Merges ranges into requests: ranges at most [`MAX_GAP_BYTES`] apart become one request.
fn merge_ranges(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match merged.last_mut().filter(|merged_range| range.start <= merged_range.end.saturating_add(MAX_GAP_BYTES)) {
            Some(merged_range) => merged_range.end = merged_range.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

/// Converts an error of a store, and adds a remedy.
pub(crate) fn store_error(address: &str, error: object_store::Error) -> io::Error {
    use object_store::Error;
    let (kind, remedy) = match &error {
        Error::NotFound { .. } => (io::ErrorKind::NotFound, "check the address"),
        Error::Precondition { .. } | Error::NotModified { .. } => {
            (io::ErrorKind::Other, "it was replaced while it was read: run again when no other process writes to it")
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => (
            io::ErrorKind::PermissionDenied,
            "check the keys in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY; AWS_SKIP_SIGNATURE=true for a public bucket)",
        ),
        _ => (io::ErrorKind::Other, "check the network, the region (AWS_REGION) and the endpoint (AWS_ENDPOINT_URL)"),
    };
    let message = mask_secrets(innermost_message(&error), address);
    io::Error::new(kind, format!("{}: {message}; {remedy}", redact(address)))
}

/// Minimum length of a query value that may be a secret. Shorter values also occur in ordinary
/// words.
const MIN_SECRET_LENGTH: usize = 6;

/// Removes the secrets of an address, which [`redact`] hides, from the message of a store.
fn mask_secrets(message: String, address: &str) -> String {
    let Some((_, location)) = address.split_once("://") else { return message };
    let (path, query) = location.split_once('?').unwrap_or((location, ""));
    let password = path.split('/').next().and_then(|host| host.rsplit_once('@')).map(|(password, _)| password);
    let values = query
        .split('&')
        .filter_map(|pair| Some(pair.split_once('=')?.1))
        .filter(|value| value.len() >= MIN_SECRET_LENGTH);
    values.chain(password).fold(message, |message, secret| message.replace(secret, "***"))
}

/// Returns the message of the innermost error: the outer ones repeat the address.
fn innermost_message(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string().trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_share_a_request() {
        let far = 10 * MAX_GAP_BYTES;
        assert_eq!(merge_ranges(&[10..20, 0..10, 20..30, far..far + 1]), [0..30, far..far + 1]);
        assert_eq!(
            merge_ranges(&[0..10, far..far + 5, 10 + MAX_GAP_BYTES..12 + MAX_GAP_BYTES]),
            [0..12 + MAX_GAP_BYTES, far..far + 5]
        );
        assert_eq!(merge_ranges(&[5..50, 10..20, far..far + 1]), [5..50, far..far + 1]);
        assert!(merge_ranges(&[]).is_empty());
    }
}
