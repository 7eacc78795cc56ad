//! Tables in object stores and on web servers: `s3://bucket/rows/*.parquet`, `gs://…`, `az://…`,
//! `https://host/rows.parquet`.
//!
//! [`register`] registers the stores with [`kstore`]; afterwards the path of a table may be an
//! address.
//!
//! ```no_run
//! kcloud::register()?;
//! let table = kstore::Table::open(&["s3://bucket/rows/*.parquet"])?;
//! println!("{} rows", table.stored_rows());
//! # Ok::<(), kstore::Error>(())
//! ```
//!
//! - **Parquet** is read by byte ranges: the last 64 KiB, then the required column chunks of a row
//!   group, with one request for neighbouring chunks. The chunks stay in memory in their encoded
//!   form, and count towards the memory plan. **Other formats** are first copied into a temporary
//!   file (`TMPDIR`).
//! - **Which objects**: an address names one object, a folder (with `/` at the end), or a pattern
//!   of names (`*`, `?`, `[…]`). Web servers have neither folders nor patterns. Objects are read in
//!   the order of their names.
//! - **Credentials**: keys, regions and endpoints come from the environment variables that the
//!   stores' own tools use: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`,
//!   `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME`,
//!   `AZURE_STORAGE_ACCOUNT_KEY` and the others of [`object_store`]. Public S3 buckets need
//!   `AWS_SKIP_SIGNATURE=true`.
//! - **Changes**: every request names the version (ETag) that the object had when the table was
//!   opened. A replaced object is an error. An object without an ETag is first copied, like other
//!   formats.
//! - **Secrets**: messages and reports show addresses without passwords and query values.
//!
//! Failed requests are repeated up to ten times within three minutes, the default of
//! [`object_store`].

mod address;
mod object;

use kstore::source::remote::{Store, is_stop_requested, register_store};
use std::sync::mpsc::RecvTimeoutError;
use std::{future::Future, io, sync::OnceLock, time::Duration};
use tokio::runtime::{Builder, Runtime};

/// All kinds of stores that this crate supports.
static STORE: Store =
    Store { schemes: &["s3", "s3a", "gs", "az", "abfs", "abfss", "https", "http"], find: address::find_objects };

/// Options of the caller; they override the environment.
static OPTIONS: OnceLock<Vec<(String, String)>> = OnceLock::new();

/// Registers the stores in this process. A second call changes nothing.
///
/// # Errors
/// [`kstore::Error::Register`] if another crate has registered the scheme `s3`.
pub fn register() -> kstore::Result<()> {
    register_with_options(Vec::new())
}

/// Like [`register`], with options that override the environment, under the names of
/// [`object_store`]: `aws_region`, `aws_endpoint`, `allow_http`.
///
/// # Errors
/// The errors of [`register`].
pub fn register_with_options(options: Vec<(String, String)>) -> kstore::Result<()> {
    if OPTIONS.set(options).is_err() {
        return Ok(());
    }
    // fails if the process has installed another provider, which serves as well
    drop(rustls::crypto::ring::default_provider().install_default());
    register_store(&STORE)
}

/// Interval between two checks for a stop request.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a future on the network thread, and blocks until the future has finished or the process was
/// asked to stop.
fn block_on<F>(future: F) -> io::Result<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(1).enable_all().build());
    let runtime = runtime.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    let (sender, receiver) = std::sync::mpsc::channel();
    // on the runtime's own thread: the caller may run in another runtime, in which blocking panics
    let task = runtime.spawn(async move { drop(sender.send(future.await)) });
    loop {
        match receiver.recv_timeout(STOP_POLL_INTERVAL) {
            Ok(output) => return Ok(output),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the network thread has ended"));
            }
            Err(RecvTimeoutError::Timeout) if is_stop_requested() => {
                task.abort();
                return Err(io::Error::other("the program was asked to stop"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
