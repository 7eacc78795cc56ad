//! Tables in object stores and on web servers: `s3://bucket/rows/*.parquet`, `gs://…`, `az://…`, `https://host/rows.parquet`.
//!
//! [`register`] makes the addresses known to [`kstore`]; from then on every table may be named by one.
//!
//! ```no_run
//! kcloud::register()?;
//! let table = kstore::Table::open(&["s3://bucket/rows/*.parquet"])?;
//! println!("{} rows", table.stored_rows());
//! # Ok::<(), kstore::Error>(())
//! ```
//!
//! - **Parquet** is read by ranges: the last 64 KiB, then the column chunks that are wanted of a row group, in as few requests as they lie
//!   together. They are held as they are stored, and counted in the plan of memory. **Other formats** are copied into a temporary
//!   file first (`TMPDIR`).
//! - **Which objects**: an address of one; of a folder, with `/` at the end; or a pattern of names (`*`, `?`, `[…]`). Web servers have no folders
//!   and patterns. Objects are read in the order of their names.
//! - **Who asks**: keys, regions and endpoints come from the environment, by the names that the stores' own tools use: `AWS_ACCESS_KEY_ID`,
//!   `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY` and
//!   the others of [`object_store`]. Public buckets of S3 want `AWS_SKIP_SIGNATURE=true`.
//! - **Changes**: every request names the version (ETag) that was seen when the table was opened. An object that was replaced is an error.
//!   One without an ETag is copied first, as other formats are.
//! - **Secrets**: messages and reports show addresses without passwords and without the values of a query.
//!
//! Requests that fail are tried again, up to ten times within three minutes, as [`object_store`] does.

mod address;
mod object;

use kstore::source::remote::{Store, is_stopped, register_store};
use std::sync::mpsc::RecvTimeoutError;
use std::{future::Future, io, sync::OnceLock, time::Duration};
use tokio::runtime::{Builder, Runtime};

/// Every kind of store that this crate reaches.
static STORE: Store =
    Store { schemes: &["s3", "s3a", "gs", "az", "abfs", "abfss", "https", "http"], find: address::find };

/// What a program says of its stores, beside the environment.
static OPTIONS: OnceLock<Vec<(String, String)>> = OnceLock::new();

/// Makes the addresses of stores known in this process. A second call changes nothing.
///
/// # Errors
/// [`kstore::Error::Register`] where another crate has taken the scheme `s3`.
pub fn register() -> kstore::Result<()> {
    register_with(Vec::new())
}

/// [`register`], with options that count before those of the environment, by the names of [`object_store`]: `aws_region`,
/// `aws_endpoint`, `allow_http`.
///
/// # Errors
/// Those of [`register`].
pub fn register_with(options: Vec<(String, String)>) -> kstore::Result<()> {
    if OPTIONS.set(options).is_err() {
        return Ok(());
    }
    // fails where the program has installed another one, which will do
    drop(rustls::crypto::ring::default_provider().install_default());
    register_store(&STORE)
}

/// Time between two looks whether the program was asked to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Waits for what the network brings, on a thread of this crate.
fn wait<F>(work: F) -> io::Result<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(1).enable_all().build());
    let runtime = runtime.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    let (done, result) = std::sync::mpsc::channel();
    // on the runtime's own thread: the caller may be in a runtime of its own, where waiting is refused
    let task = runtime.spawn(async move { drop(done.send(work.await)) });
    loop {
        match result.recv_timeout(LOOK) {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the thread of the network has ended"));
            }
            Err(RecvTimeoutError::Timeout) if is_stopped() => {
                task.abort();
                return Err(io::Error::other("the program was asked to stop"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
