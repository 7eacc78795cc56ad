//! Runs a job on a separate thread while the calling thread handles signals and shows progress.

use crate::error::{KmillError, to_py_err};
use ksolve::job::StageObserver;
use ksolve::job::{CancelToken, Run};
use kstore::pass::Observer;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// Time between two checks for signals: Ctrl-C takes effect without noticeable delay, at negligible
/// cost.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The current stage of a job, its progress, and its cancellation token.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    cancel_token: CancelToken,
    stage: Mutex<(String, Option<u64>)>,
    row_count: AtomicU64,
    warnings: Mutex<Vec<String>>,
}

impl Progress {
    /// Returns the warnings of the job so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns `run` with this value as its observer, and with the cancellation token of this
    /// value.
    pub(crate) fn attach_to<'a>(&'a self, run: &Run<'a>) -> Run<'a> {
        run.clone().cancel_token(self.cancel_token.clone()).observer(self)
    }
}

struct Stage<'a>(&'a Progress);

impl Observer for Stage<'_> {
    fn advance(&self, rows: u64) {
        self.0.row_count.fetch_add(rows, Ordering::Relaxed);
    }

    fn should_stop(&self) -> bool {
        self.0.cancel_token.is_cancelled()
    }
}

impl StageObserver for Progress {
    fn start_stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a> {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = (name.to_string(), rows);
        self.row_count.store(0, Ordering::Relaxed);
        Box::new(Stage(self))
    }

    fn warn(&self, text: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

/// Runs `work` without the GIL on another thread, and raises its error. Every 50 ms this thread
/// calls `show(stage, rows done, rows or None)` and checks for signals; the exception of a signal
/// cancels the work, and is raised when the work has ended. If the system cannot start a thread,
/// the work runs on the calling thread, and signals are handled afterwards.
pub(crate) fn run_watched<T: Send>(
    py: Python<'_>,
    show: Option<Py<PyAny>>,
    work: impl FnOnce(&Progress) -> ksolve::Result<T> + Send,
) -> PyResult<T> {
    let progress = Progress::default();
    let (progress, show) = (&progress, show.as_ref());
    py.detach(|| {
        let (result_sender, result_receiver) = channel();
        let work = Mutex::new(Some((work, result_sender)));
        let run_work = || {
            let task = work.lock().unwrap_or_else(PoisonError::into_inner).take();
            task.into_iter().for_each(|(work, sender)| drop(sender.send(work(progress))));
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, run_work);
            if thread.is_err() {
                run_work();
            }
            let mut signal_error = None;
            loop {
                match result_receiver.recv_timeout(POLL_INTERVAL) {
                    Ok(result) => return signal_error.map_or_else(|| result.map_err(to_py_err), Err),
                    Err(RecvTimeoutError::Timeout) if signal_error.is_none() => {
                        if let Err(error) = Python::attach(|py| poll(py, progress, show)) {
                            progress.cancel_token.cancel();
                            signal_error = Some(error);
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        // the thread ended without a result: propagate its panic
                        if let Ok(Err(panic)) = thread.map(ScopedJoinHandle::join) {
                            std::panic::resume_unwind(panic);
                        }
                        return Err(KmillError::new_err(
                            "the job ended without a result; this is a bug of kmill, please report it",
                        ));
                    }
                }
            }
        })
    })
}

/// Checks for signals, and shows the progress.
fn poll(py: Python<'_>, progress: &Progress, show: Option<&Py<PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    let Some(show) = show else { return Ok(()) };
    let (stage, rows) = progress.stage.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if !stage.is_empty() {
        show.call1(py, (stage, progress.row_count.load(Ordering::Relaxed), rows))?;
    }
    Ok(())
}
