//! Checkpoints of iterations: a journal saves the state after some of the steps.

use super::entry::{restore, verify};
use super::{Cut, Entry, Journal, Persist};
use crate::Result;

/// Unit and cut of the entry of an iteration. Every step works on all rows, so tiles and segments
/// do not apply.
const STEP_UNIT: &str = "steps";
const NO_CUT: Cut = Cut { tile_rows: 0, segment_rows: 0, start_row: 0, end_row: 0 };

/// An iteration whose state is saved from time to time, like the state of a pass after some of its
/// segments. Without a journal it is never saved.
///
/// The state must contain everything that the next step needs and that the run does not recompute.
/// A resumed run then has the same bits as a run that was never stopped.
///
/// ```
/// use kpass::checkpoint::{Arrays, Persist, Steps, StoredArrays};
/// struct Halving(f64);
/// impl Persist for Halving {
///     fn save<'a>(&'a self, out: &mut Arrays<'a>) { out.put_number("value", self.0); }
///     fn load(&mut self, arrays: &mut StoredArrays<'_>) -> kpass::Result<()> {
///         self.0 = arrays.read_number("value")?;
///         Ok(())
///     }
/// }
/// let journal = None;
/// let (mut steps, mut state) = Steps::begin(journal, "halving", || Halving(1.0));
/// while steps.completed_steps() < 10 {
///     state.0 /= 2.0;
///     steps.record_step(&state);
/// }
/// steps.complete(&state);
/// assert_eq!(state.0, 1.0 / 1024.0);
/// ```
#[derive(Debug)]
pub struct Steps<'j> {
    entry: Option<Entry<'j>>,
    completed_steps: u64,
}

/// Returns the journal if it saves to disk. With an engine, every process makes all steps itself.
fn saving_journal<'j>(journal: Option<&'j Journal<'j>>) -> Option<&'j Journal<'j>> {
    journal.filter(|journal| journal.engine().is_none())
}

impl<'j> Steps<'j> {
    /// Starts the iteration `name`, and returns it with the last saved state, or with the state of
    /// `init` if no state was saved.
    pub fn begin<S: Persist>(journal: Option<&'j Journal<'j>>, name: &str, init: impl Fn() -> S) -> (Self, S) {
        let Some(journal) = saving_journal(journal) else { return (Self { entry: None, completed_steps: 0 }, init()) };
        let (entry, state) = journal.next_entry_and_state(name, NO_CUT, STEP_UNIT, &init);
        let completed_steps = entry.row_count();
        (Self { entry: Some(entry), completed_steps }, state.unwrap_or_else(init))
    }

    /// Starts the iteration `name` with an existing state, into which the saved one is loaded. If
    /// the file is damaged, the iteration starts from the existing state, with a warning.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) if the file is intact but contains another state;
    /// `state` is then unusable.
    pub fn resume<S: Persist>(journal: Option<&'j Journal<'j>>, name: &str, state: &mut S) -> Result<Self> {
        let Some(journal) = saving_journal(journal) else { return Ok(Self { entry: None, completed_steps: 0 }) };
        let (mut entry, is_saved) = journal.next_entry(name, NO_CUT);
        if is_saved {
            match verify(&entry.path, &entry.header) {
                Ok(()) => {
                    restore(&entry.path, &mut entry.header, state)?;
                    journal.report_restored(&entry.header, STEP_UNIT);
                }
                Err(error) => journal.listener.warn(format!("{error}; \"{name}\" is repeated")),
            }
        }
        let completed_steps = entry.row_count();
        Ok(Self { entry: Some(entry), completed_steps })
    }

    /// Returns true if an earlier run saved a state of the next iteration, `name`, that
    /// [`resume`](Self::resume) will load: the caller can then skip work that only prepares the
    /// first step.
    pub fn has_saved_state<'a>(journal: Option<&'a Journal<'a>>, name: &str) -> bool {
        saving_journal(journal).is_some_and(|journal| journal.has_saved_entry(name, NO_CUT))
    }

    /// Returns the number of completed steps, including the steps of earlier runs.
    pub fn completed_steps(&self) -> u64 {
        self.completed_steps
    }

    /// Returns true if the iteration has ended: the state is then the final state.
    pub fn is_complete(&self) -> bool {
        self.entry.as_ref().is_some_and(Entry::is_complete)
    }

    /// Counts one more step, and saves the state if a save is due.
    pub fn record_step(&mut self, state: &impl Persist) {
        self.completed_steps += 1;
        if let Some(entry) = &mut self.entry {
            entry.record_segment(self.completed_steps, 1, state);
        }
    }

    /// Marks the iteration as complete, and saves its state if the save is worth its cost.
    pub fn complete(&mut self, state: &impl Persist) {
        if let Some(entry) = self.entry.as_mut().filter(|entry| !entry.is_complete()) {
            entry.complete(state);
        }
    }

    /// Saves the state when the run stops before the iteration ends; `state` must be the state
    /// after the last completed step.
    pub fn save_before_stop(&mut self, state: &impl Persist) {
        if let Some(entry) = &mut self.entry {
            entry.save_before_stop(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{Listener, Manifest, ResumeMode};
    use std::path::Path;
    use std::sync::Mutex;
    use std::time::Duration;

    #[derive(Default)]
    struct Warnings(Mutex<Vec<String>>);

    impl Listener for Warnings {
        fn note(&self, _: String) {}
        fn warn(&self, text: String) {
            self.0.lock().unwrap().push(text);
        }
    }

    #[derive(Debug, PartialEq)]
    struct Numbers(Vec<f64>);

    crate::persist!(Numbers { fill "numbers": 0 });

    fn journal<'a>(folder: &Path, resume: bool, warnings: &'a Warnings) -> Journal<'a> {
        let manifest = Manifest {
            version: String::new(),
            instruction_set: String::new(),
            options: Default::default(),
            files: Vec::new(),
        };
        Journal::open(
            folder.join("checkpoint"),
            &manifest,
            Duration::ZERO,
            if resume { ResumeMode::Required } else { ResumeMode::Never },
            warnings,
        )
        .unwrap()
    }

    #[test]
    fn saved_states_are_restored_and_damaged_ones_are_not() {
        let (folder, warnings) = (tempfile::tempdir().unwrap(), Warnings::default());
        let first_run = journal(folder.path(), false, &warnings);
        let mut state = Numbers(vec![0.0; 3]);
        assert!(!Steps::has_saved_state(Some(&first_run), "sums"));
        let mut steps = Steps::resume(Some(&first_run), "sums", &mut state).unwrap();
        for _ in 0..4 {
            state.0[1] += 1.5;
            steps.record_step(&state);
        }
        drop(steps);
        let second_run = journal(folder.path(), true, &warnings);
        assert!(
            Steps::has_saved_state(Some(&second_run), "sums") && !Steps::has_saved_state(Some(&second_run), "products")
        );
        let mut restored = Numbers(vec![0.0; 3]);
        let mut steps = Steps::resume(Some(&second_run), "sums", &mut restored).unwrap();
        assert_eq!((steps.completed_steps(), steps.is_complete(), &restored), (4, false, &state));
        steps.complete(&restored);
        drop(steps);
        let completed_run = journal(folder.path(), true, &warnings);
        let (steps, restored) = Steps::begin(Some(&completed_run), "sums", || Numbers(vec![0.0; 3]));
        assert!(steps.is_complete() && restored == state && warnings.0.lock().unwrap().is_empty());
        // the last byte belongs to the numbers
        let entries = std::fs::read_dir(folder.path().join("checkpoint")).unwrap().map(|entry| entry.unwrap().path());
        let path = entries.into_iter().find(|path| path.to_string_lossy().ends_with("-0001.safetensors")).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let damaged_run = journal(folder.path(), true, &warnings);
        assert!(!Steps::has_saved_state(Some(&damaged_run), "sums"));
        let mut unsaved_state = Numbers(vec![7.0; 3]);
        let steps = Steps::resume(Some(&damaged_run), "sums", &mut unsaved_state).unwrap();
        assert_eq!((steps.completed_steps(), unsaved_state), (0, Numbers(vec![7.0; 3])));
        assert!(warnings.0.lock().unwrap().iter().any(|text| text.contains("\"sums\" is repeated")));
    }
}
