//! Finds the objects of an address.

use crate::object::{Object, failed};
use crate::{OPTIONS, wait};
use futures_util::TryStreamExt;
use glob::{MatchOptions, Pattern};
use kstore::source::remote::{Found, redacted};
use kstore::{Error, Result, source, source::foreign};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, path::Path};
use std::{io, sync::Arc};
use url::Url;

/// Maximum length of an address in bytes: servers reject longer requests, and libraries panic far
/// beyond it.
const LONGEST: usize = 8 << 10;

const WILD: [char; 3] = ['*', '?', '['];

/// Returns the objects of an address, sorted by name.
pub(crate) fn find(address: &str) -> Result<Vec<Found>> {
    let syntax = |expected: String| Error::Syntax { what: "the address", text: redacted(address), expected };
    if address.len() > LONGEST {
        let (text, length) = (redacted(address).chars().take(80).collect(), address.len());
        let expected = format!("it has {length} bytes; expected at most {LONGEST}");
        return Err(Error::Syntax { what: "the address", text, expected });
    }
    let web = address.starts_with("http");
    // a pattern is not parsed as part of the URL: its `?` would start a query
    let fixed = if web { address } else { without_pattern(address) };
    let url = Url::parse(fixed)
        .map_err(|error| syntax(format!("expected an address such as s3://bucket/rows.parquet ({error})")))?;
    let (store, path) = store(&url).map_err(|error| syntax(format!("expected the address of a store: {error}")))?;
    let root = &address[..address.len() - tail(address, &path)];
    let io = |error: object_store::Error| Error::io("read", redacted(address))(failed(address, error));
    let has_pattern = fixed.len() < address.len();
    let metas = if !has_pattern && (web || !address.ends_with('/')) {
        let (store, path) = (Arc::clone(&store), path);
        vec![wait(async move { store.head(&path).await }).map_err(Error::io("read", redacted(address)))?.map_err(io)?]
    } else {
        let listed = list(Arc::clone(&store), path).map_err(Error::io("read", redacted(address)))?.map_err(io)?;
        foreign::refuse_logs(address.as_ref(), listed.iter().map(|meta| meta.location.as_ref()))?;
        let wanted = has_pattern.then(|| Pattern::new(&address[root.len()..])).transpose();
        let wanted = wanted.map_err(|error| syntax(format!("expected a valid pattern: {error}")))?;
        listed.into_iter().filter(|meta| takes(wanted.as_ref(), meta)).collect()
    };
    let web_address = |meta: &ObjectMeta| if web { address.to_string() } else { format!("{root}{}", meta.location) };
    let found = |meta: ObjectMeta| {
        let address = web_address(&meta);
        let object = Object::new(Arc::clone(&store), meta, address.clone());
        Found { version: object.version(), object: Arc::new(object), address }
    };
    Ok(metas.into_iter().map(found).collect())
}

/// Opens the store of an address with the options of the environment, and returns it with the path
/// within the store.
fn store(url: &Url) -> object_store::Result<(Arc<dyn ObjectStore>, Path)> {
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let environment = environment.filter(|(_, value)| !value.is_empty());
    let options: Vec<(String, String)> = environment.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    // an http address permits plain http
    let plain = (url.scheme() == "http").then(|| ("allow_http".to_string(), "true".to_string()));
    let own = OPTIONS.get().into_iter().flatten().cloned();
    let (store, path) = object_store::parse_url_opts(url, options.into_iter().chain(plain).chain(own))?;
    Ok((store.into(), path))
}

/// Returns the leading folders of an address that contain no pattern.
fn without_pattern(address: &str) -> &str {
    address.find(WILD).map_or(address, |at| &address[..address[..at].rfind('/').map_or(0, |slash| slash + 1)])
}

/// Returns the length in bytes of the end of an address that is the path within the store,
/// including its pattern.
fn tail(address: &str, path: &Path) -> usize {
    let fixed = without_pattern(address);
    let slash = usize::from(fixed.ends_with('/') && !path.as_ref().is_empty());
    path.as_ref().len() + slash + address.len() - fixed.len()
}

fn list(store: Arc<dyn ObjectStore>, folder: Path) -> io::Result<object_store::Result<Vec<ObjectMeta>>> {
    wait(async move {
        let mut found: Vec<ObjectMeta> = store.list(Some(&folder)).try_collect().await?;
        found.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(found)
    })
}

/// Returns whether the pattern matches the object or, without a pattern, whether the extension of
/// the object belongs to a known format. Hidden objects match only a pattern with a hidden
/// component.
fn takes(pattern: Option<&Pattern>, meta: &ObjectMeta) -> bool {
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
    let name = meta.location.filename().unwrap_or_default();
    match pattern {
        Some(pattern) => {
            let hidden = |path: &str| path.split('/').any(foreign::is_hidden);
            let location = meta.location.as_ref();
            pattern.matches_with(location, options) && (!hidden(location) || hidden(pattern.as_str()))
        }
        None => !foreign::is_hidden(name) && source::by_extension(std::path::Path::new(name)).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_objects_match_only_a_pattern_that_names_such() {
        let takes = |pattern: &str, location: &str| {
            let location = Path::from(location);
            let meta = ObjectMeta { location, last_modified: Default::default(), size: 1, e_tag: None, version: None };
            takes(Some(&Pattern::new(pattern).unwrap()), &meta)
        };
        assert!(takes("a/*.csv", "a/one.csv") && takes("_a/*.csv", "_a/one.csv") && takes("a/_*.csv", "a/_one.csv"));
        assert!(!takes("a/*.csv", "a/_one.csv") && !takes("**/*.csv", "a/_temporary/one.csv"));
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
            assert_eq!(&address[..address.len() - tail(address, &path)], root, "{address}");
        }
    }
}
