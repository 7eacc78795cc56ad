//! Iterations in a journal: what was found after so many steps.

use super::{Cut, Entry, Journal, Persist, restore};
use crate::Result;

/// How an iteration is cut: every step is the work of the whole run.
const STEPS: &str = "steps";
const WHOLE: Cut = Cut { tile: 0, segment: 0, start: 0, end: 0 };

/// An iteration whose state is saved now and then, like that of a pass after some of its segments; without a journal,
/// never.
///
/// The state must be all that the next step depends on, beside what the run computes anew: then a run that is resumed has
/// the bits of one that was never stopped.
///
/// ```
/// use kstore::checkpoint::{Arrays, Persist, Steps, Stored};
/// struct Halving(f64);
/// impl Persist for Halving {
///     fn save<'a>(&'a self, out: &mut Arrays<'a>) { out.one("value", self.0); }
///     fn load(&mut self, from: &mut Stored<'_>) -> kstore::Result<()> { self.0 = from.one("value")?; Ok(()) }
/// }
/// let journal = None;
/// let (mut steps, mut state) = Steps::begin(journal, "halving", || Halving(1.0));
/// while steps.done() < 10 {
///     state.0 /= 2.0;
///     steps.after(&state);
/// }
/// steps.complete(&state);
/// assert_eq!(state.0, 1.0 / 1024.0);
/// ```
#[derive(Debug)]
pub struct Steps<'j> {
    entry: Option<Entry<'j>>,
    done: u64,
}

impl<'j> Steps<'j> {
    /// The iteration `name`, with the state it had when it was last saved, or that of `init`.
    pub fn begin<S: Persist>(journal: Option<&'j Journal<'j>>, name: &str, init: impl Fn() -> S) -> (Self, S) {
        let Some(journal) = journal else { return (Self { entry: None, done: 0 }, init()) };
        let (entry, state) = journal.entry(name, WHOLE, STEPS, &init);
        let done = entry.rows();
        (Self { entry: Some(entry), done }, state.unwrap_or_else(init))
    }

    /// The same for a state that is there, which takes over what was saved.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) where that cannot be read: `state` is then of no use.
    pub fn resume<S: Persist>(journal: Option<&'j Journal<'j>>, name: &str, state: &mut S) -> Result<Self> {
        let Some(journal) = journal else { return Ok(Self { entry: None, done: 0 }) };
        let (mut entry, there) = journal.place(name, WHOLE);
        if there {
            restore(&entry.path, &mut entry.head, state)?;
            journal.found(&entry.head, STEPS);
        }
        let done = entry.rows();
        Ok(Self { entry: Some(entry), done })
    }

    /// True where an earlier run left something of the next iteration: what would only prepare its first step can be left out.
    pub fn is_waiting(journal: Option<&Journal<'_>>) -> bool {
        journal.is_some_and(Journal::is_waiting)
    }

    /// Steps behind the state, those of earlier runs included.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// True where nothing is left to do: the state is the last one.
    pub fn is_complete(&self) -> bool {
        self.entry.as_ref().is_some_and(Entry::is_complete)
    }

    /// One more step was made. Saves the state if that is due.
    pub fn after(&mut self, state: &impl Persist) {
        self.done += 1;
        if let Some(entry) = &mut self.entry {
            entry.merged(self.done, 1, state);
        }
    }

    /// The iteration is over.
    pub fn complete(&mut self, state: &impl Persist) {
        if let Some(entry) = self.entry.as_mut().filter(|entry| !entry.is_complete()) {
            entry.complete(state);
        }
    }

    /// The run ends before the iteration; `state` is that after the last step.
    pub fn keep(&mut self, state: &impl Persist) {
        if let Some(entry) = &mut self.entry {
            entry.keep(state);
        }
    }
}
