//! A journal of the results of a search, from which an interrupted search resumes.

use crate::{Error, Result};
use kstore::checkpoint::{Arrays, Journal, Persist, Steps, StoredArrays};
use serde::{Serialize, de::DeserializeOwned};

/// The results of the steps so far, in order; without a journal they are not saved.
#[derive(Debug)]
pub struct SearchJournal<'j> {
    steps: Steps<'j>,
    results: Results,
    next_index: usize,
}

/// Results as lines of JSON, whose numbers are restored exactly.
#[derive(Debug, Default)]
struct Results(Vec<String>);

impl Persist for Results {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put_owned("results", self.0.join("\n").into_bytes());
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kstore::Result<()> {
        let text = String::from_utf8(from.read("results")?).map_err(|error| from.damaged_error(error.to_string()))?;
        self.0 = text.lines().map(str::to_string).collect();
        Ok(())
    }
}

impl<'j> SearchJournal<'j> {
    /// Reads the results of an interrupted search from the journal. Without a journal, there are no
    /// results.
    ///
    /// # Errors
    /// [`kstore::Error::Damaged`] for an intact file with other contents.
    pub fn open(journal: Option<&'j Journal<'j>>) -> Result<Self> {
        let mut results = Results::default();
        let steps = Steps::resume(journal, "search", &mut results)?;
        Ok(Self { steps, results, next_index: 0 })
    }

    /// Returns the result of the next step. If the result is not stored, calls `compute` and stores
    /// the result.
    pub(crate) fn get_or_compute<R: Serialize + DeserializeOwned>(
        &mut self,
        compute: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let unreadable_error = |error: serde_json::Error| {
            let why = kstore::display::json_error(&error);
            let why = format!("a result in the checkpoint cannot be read ({why}); start again with `fresh`");
            Error::option("fresh", "", why)
        };
        if let Some(line) = self.results.0.get(self.next_index) {
            self.next_index += 1;
            return serde_json::from_str(line).map_err(unreadable_error);
        }
        let result = compute()?;
        self.results.0.push(serde_json::to_string(&result).map_err(unreadable_error)?);
        self.next_index += 1;
        self.steps.record_step(&self.results);
        Ok(result)
    }

    /// Saves the results, if there are any. Called when the run stops, and before work that may be
    /// interrupted.
    pub fn save(&mut self) {
        if self.next_index > 0 {
            self.steps.save_before_stop(&self.results);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::history::SearchLog;
    use crate::tune::{SearchListener, SearchPart};
    use std::time::Duration;

    struct Clock(bool);

    impl SearchListener for Clock {
        fn is_late(&self, _: SearchPart, _: Duration) -> bool {
            self.0
        }
    }

    #[test]
    fn a_decision_of_the_clock_is_recalled_from_the_journal() {
        let mut memory = SearchJournal::open(None).unwrap();
        let (late, early) = (Clock(true), Clock(false));
        assert!(SearchLog::new(&late, None).is_late(&mut memory).unwrap());
        assert!(!SearchLog::new(&early, None).is_fit_late(Duration::ZERO, &mut memory).unwrap());
        memory.next_index = 0;
        assert!(SearchLog::new(&early, None).is_late(&mut memory).unwrap());
        assert!(!SearchLog::new(&late, None).is_fit_late(Duration::ZERO, &mut memory).unwrap());
        assert!(!SearchLog::new(&early, None).is_late(&mut memory).unwrap(), "not stored yet");
    }
}
