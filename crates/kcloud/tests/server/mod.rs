//! A local object store: GET and HEAD of a folder's files, with ranges and conditions; S3 lists.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// State shared by the threads of the server.
#[derive(Debug, Default)]
struct State {
    folder: PathBuf,
    /// First lines of all requests.
    requests: Mutex<Vec<String>>,
    fail: AtomicBool,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) address: String,
    state: Arc<State>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State { folder: folder.path().to_path_buf(), ..State::default() });
        let serving = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&serving);
                std::thread::spawn(move || serve(&stream, &state));
            }
        });
        Self { folder, address, state }
    }

    /// Counts the requests so far whose first line contains a text.
    pub(crate) fn requests(&self, of: &str) -> usize {
        self.state.requests.lock().unwrap().iter().filter(|line| line.contains(of)).count()
    }

    /// Answers the next request with 503.
    pub(crate) fn fail_once(&self) {
        self.state.fail.store(true, Ordering::Relaxed);
    }

    /// Gives the object at a path a new version.
    pub(crate) fn touch(&self, path: &Path) {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(5000)).unwrap();
    }
}

/// Answers the requests of a connection.
fn serve(stream: &TcpStream, state: &State) {
    let (mut reader, mut out) = (BufReader::new(stream), stream);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(more) if more > 0 && !line.trim().is_empty() => lines.push(line.trim().to_string()),
                Ok(more) if more > 0 => break,
                _ => return,
            }
        }
        state.requests.lock().unwrap().push(lines[0].clone());
        let (status, headers, body) = answer(&lines, state);
        let head = lines[0].starts_with("HEAD");
        let length = if head { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let text = format!("HTTP/1.1 {status}\r\n{headers}{length}\r\n");
        if out.write_all(text.as_bytes()).is_err() || (!head && out.write_all(&body).is_err()) {
            return;
        }
    }
}

fn answer(lines: &[String], state: &State) -> (&'static str, String, Vec<u8>) {
    if state.fail.swap(false, Ordering::Relaxed) {
        return ("503 Slow Down", String::new(), Vec::new());
    }
    let target = lines[0].split(' ').nth(1).unwrap_or("/").to_string();
    let header = |name: &str| {
        let found =
            lines.iter().find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)));
        found.map(|(_, value)| value.to_string())
    };
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let path = path.replace("%3D", "=");
    if query.contains("list-type=2") {
        let bucket = state.folder.join(path.trim_matches('/'));
        return ("200 OK", "content-type: application/xml\r\n".to_string(), list(&bucket, query).into_bytes());
    }
    let file = state.folder.join(path.trim_start_matches('/'));
    let Ok(bytes) = std::fs::read(&file) else {
        let body = b"<Error><Code>NoSuchKey</Code><Message>There is no such key.</Message></Error>".to_vec();
        return ("404 Not Found", String::new(), body);
    };
    if path.contains("stalled") {
        // an overloaded server accepts the connection and does not answer
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
    let tag = tag(&file);
    if header("if-match").is_some_and(|wanted| wanted != tag) {
        return ("412 Precondition Failed", String::new(), Vec::new());
    }
    let tag = if path.contains("untagged") { String::new() } else { format!("etag: {tag}\r\n") };
    let headers = format!("{tag}last-modified: Mon, 23 Nov 2026 10:00:00 GMT\r\naccept-ranges: bytes\r\n");
    let range = header("range").and_then(|text| {
        let (start, end) = text.strip_prefix("bytes=")?.split_once('-')?;
        Some((start.parse::<usize>().ok()?, end.parse::<usize>().ok()?.min(bytes.len() - 1)))
    });
    match range {
        None => {
            let length = if lines[0].starts_with("HEAD") {
                format!("content-length: {}\r\n", bytes.len())
            } else {
                String::new()
            };
            ("200 OK", headers + &length, bytes)
        }
        Some((start, end)) => {
            let headers = format!("{headers}content-range: bytes {start}-{end}/{}\r\n", bytes.len());
            ("206 Partial Content", headers, bytes[start..=end].to_vec())
        }
    }
}

/// Returns the entity tag of a version, from length and modification time.
fn tag(file: &Path) -> String {
    let metadata = std::fs::metadata(file).unwrap();
    let since = metadata.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("\"{}-{}\"", metadata.len(), since.as_nanos())
}

/// Lists the objects of a bucket below a prefix.
fn list(bucket: &Path, query: &str) -> String {
    let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).unwrap_or("");
    let prefix = prefix.replace("%2F", "/").replace("%3D", "=");
    let mut folders = vec![bucket.to_path_buf()];
    let mut found = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let key = path.strip_prefix(bucket).unwrap().to_string_lossy().into_owned();
            if key.starts_with(&prefix) {
                let (size, tag) = (entry.metadata().unwrap().len(), tag(&path).replace('"', "&quot;"));
                found += &format!(
                    "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>{tag}</ETag>\
                     <LastModified>2026-11-23T10:00:00.000Z</LastModified></Contents>"
                );
            }
        }
    }
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>")
}
