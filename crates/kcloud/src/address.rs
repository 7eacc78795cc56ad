//! Finds the objects of an address.

use crate::object::{Object, store_error};
use crate::{OPTIONS, block_on};
use futures_util::TryStreamExt;
use glob::{MatchOptions, Pattern};
use kstore::source::remote::{RemoteObject, redact};
use kstore::{Error, Result, source, source::unsupported};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, path::Path};
use std::{io, sync::Arc};
use url::Url;

/// Maximum length of an address in bytes: servers reject longer requests, and libraries panic far
/// beyond it.
const MAX_ADDRESS_BYTES: usize = 8 << 10;

const WILDCARDS: [char; 3] = ['*', '?', '['];

/// Returns the objects of an address, sorted by name.
pub(crate) fn find_objects(address: &str) -> Result<Vec<RemoteObject>> {
    let syntax_error = |expected: String| Error::Syntax { what: "the address", text: redact(address), expected };
    if address.len() > MAX_ADDRESS_BYTES {
        let (text, length) = (redact(address).chars().take(80).collect(), address.len());
        let expected = format!("it has {length} bytes; expected at most {MAX_ADDRESS_BYTES}");
        return Err(Error::Syntax { what: "the address", text, expected });
    }
    let is_web = address.starts_with("http");
    // a pattern is not parsed as part of the URL: its `?` would start a query
    let prefix = if is_web { address } else { literal_prefix(address) };
    let url = Url::parse(prefix)
        .map_err(|error| syntax_error(format!("expected an address such as s3://bucket/rows.parquet ({error})")))?;
    let (store, path) =
        open_store(&url).map_err(|error| syntax_error(format!("expected the address of a store: {error}")))?;
    let root = &address[..address.len() - path_length(address, &path)];
    let io_error = |error: object_store::Error| Error::io("read", redact(address))(store_error(address, error));
    let has_pattern = prefix.len() < address.len();
    let object_metas = if !has_pattern && (is_web || !address.ends_with('/')) {
        let (store, path) = (Arc::clone(&store), path);
        vec![
            block_on(async move { store.head(&path).await })
                .map_err(Error::io("read", redact(address)))?
                .map_err(io_error)?,
        ]
    } else {
        let objects =
            list_objects(Arc::clone(&store), path).map_err(Error::io("read", redact(address)))?.map_err(io_error)?;
        unsupported::reject_lakehouse_paths(address.as_ref(), objects.iter().map(|meta| meta.location.as_ref()))?;
        let pattern = has_pattern.then(|| Pattern::new(&address[root.len()..])).transpose();
        let pattern = pattern.map_err(|error| syntax_error(format!("expected a valid pattern: {error}")))?;
        objects.into_iter().filter(|meta| is_selected(pattern.as_ref(), meta)).collect()
    };
    let object_address =
        |meta: &ObjectMeta| if is_web { address.to_string() } else { format!("{root}{}", meta.location) };
    let to_object = |meta: ObjectMeta| {
        let address = object_address(&meta);
        let object = Object::new(Arc::clone(&store), meta, address.clone());
        RemoteObject { version: object.version(), object: Arc::new(object), address }
    };
    Ok(object_metas.into_iter().map(to_object).collect())
}

/// Opens the store of an address with the options of the environment, and returns it with the path
/// within the store.
fn open_store(url: &Url) -> object_store::Result<(Arc<dyn ObjectStore>, Path)> {
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = environment.filter(|(_, value)| !value.is_empty());
    let options: Vec<(String, String)> = environment.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    // an http address permits plain http
    let allow_http = (url.scheme() == "http").then(|| ("allow_http".to_string(), "true".to_string()));
    let overrides = OPTIONS.get().into_iter().flatten().cloned();
    let (store, path) = object_store::parse_url_opts(url, options.into_iter().chain(allow_http).chain(overrides))?;
    Ok((store.into(), path))
}

/// Returns the leading folders of an address that contain no pattern.
fn literal_prefix(address: &str) -> &str {
    address
        .find(WILDCARDS)
        .map_or(address, |wildcard| &address[..address[..wildcard].rfind('/').map_or(0, |slash| slash + 1)])
}

/// Returns the length in bytes of the end of an address that is the path within the store,
/// including its pattern.
fn path_length(address: &str, path: &Path) -> usize {
    let prefix = literal_prefix(address);
    let slash_len = usize::from(prefix.ends_with('/') && !path.as_ref().is_empty());
    path.as_ref().len() + slash_len + address.len() - prefix.len()
}

fn list_objects(store: Arc<dyn ObjectStore>, folder: Path) -> io::Result<object_store::Result<Vec<ObjectMeta>>> {
    block_on(async move {
        let mut objects: Vec<ObjectMeta> = store.list(Some(&folder)).try_collect().await?;
        objects.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(objects)
    })
}

/// Returns whether the pattern matches the object or, without a pattern, whether the extension of
/// the object belongs to a known format. Hidden objects match only a pattern with a hidden
/// component.
fn is_selected(pattern: Option<&Pattern>, meta: &ObjectMeta) -> bool {
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
    let name = meta.location.filename().unwrap_or_default();
    match pattern {
        Some(pattern) => {
            let has_hidden_part = |path: &str| path.split('/').any(unsupported::is_hidden);
            let location = meta.location.as_ref();
            pattern.matches_with(location, options) && (!has_hidden_part(location) || has_hidden_part(pattern.as_str()))
        }
        None => !unsupported::is_hidden(name) && source::format_by_extension(std::path::Path::new(name)).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_objects_match_only_a_pattern_that_names_such() {
        let matches = |pattern: &str, location: &str| {
            let location = Path::from(location);
            let meta = ObjectMeta { location, last_modified: Default::default(), size: 1, e_tag: None, version: None };
            is_selected(Some(&Pattern::new(pattern).unwrap()), &meta)
        };
        assert!(
            matches("a/*.csv", "a/one.csv") && matches("_a/*.csv", "_a/one.csv") && matches("a/_*.csv", "a/_one.csv")
        );
        assert!(!matches("a/*.csv", "a/_one.csv") && !matches("**/*.csv", "a/_temporary/one.csv"));
    }

    #[test]
    fn the_path_within_the_store_is_the_end_of_the_address() {
        for (address, path, root) in [
            ("s3://bucket/a/b.parquet", "a/b.parquet", "s3://bucket/"),
            ("s3://bucket/a/", "a", "s3://bucket/"),
            ("s3://bucket/a/year=*/x?.csv", "a", "s3://bucket/"),
            ("s3://bucket/*.csv", "", "s3://bucket/"),
        ] {
            let path = Path::from(path);
            assert_eq!(&address[..address.len() - path_length(address, &path)], root, "{address}");
        }
    }
}
