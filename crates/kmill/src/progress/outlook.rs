//! How far a whole run is, and what time is left of it, from the forecast of its stages.

use std::time::Duration;

/// Letters by which a stage at work is known among those of the forecast: `landmarks (uniform)` is `landmark selection`.
const KNOWN_BY: usize = 8;

/// The stages of a run with their expected seconds, and where it is.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    stages: Vec<(String, f64)>,
    /// How many stages of the forecast have begun.
    begun: usize,
}

/// A stage at work, as a part of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Expected seconds of the stages before, of this one, and of those behind it.
    before: f64,
    this: f64,
    behind: f64,
}

impl Outlook {
    pub(super) fn new(stages: Vec<(String, f64)>) -> Self {
        Self { stages, begun: 0 }
    }

    /// Where the stage that begins stands. One that the forecast does not name costs nothing, between the stages that it names.
    pub(super) fn begin(&mut self, name: &str) -> Option<Place> {
        let letters = |name: &str| name.chars().take(KNOWN_BY).collect::<String>();
        // a round of the stage before, or a stage that is still to come
        let first = self.begun.saturating_sub(1);
        let found = self.stages.iter().skip(first).position(|(known, _)| letters(known) == letters(name));
        self.begun = found.map_or(self.begun, |found| first + found + 1);
        let sum = |stages: &[(String, f64)]| stages.iter().map(|(_, seconds)| seconds).sum();
        let (begun, behind) = self.stages.split_at_checked(self.begun)?;
        let (before, this) = match (found, begun.split_last()) {
            (Some(_), Some(((_, this), before))) => (sum(before), *this),
            _ => (sum(begun), 0.0),
        };
        (!self.stages.is_empty()).then(|| Place { before, this, behind: sum(behind) })
    }
}

impl Place {
    /// The share of the run that is done and the time that is left, after so many of the rows of the stage. The rate of the rows
    /// corrects the forecast of the stage, and with it that of the stages behind.
    pub(super) fn after(&self, elapsed: Duration, rows: u64, expected: Option<u64>) -> (f64, Duration) {
        let elapsed = elapsed.as_secs_f64();
        let share = expected.filter(|all| *all > 0).map(|all| (rows as f64 / all as f64).min(1.0));
        let this = match share {
            // half a second tells a rate
            Some(share) if share > 0.0 && elapsed > 0.5 => elapsed / share,
            _ => self.this.max(elapsed),
        };
        let slower = if self.this > 0.0 { (this / self.this).clamp(0.25, 4.0) } else { 1.0 };
        let left = (this - elapsed).max(0.0) + slower * self.behind;
        let done = self.before * slower + elapsed;
        let all = done + left;
        (if all > 0.0 { done / all } else { 0.0 }, Duration::from_secs_f64(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlook() -> Outlook {
        let stages = [("scaling statistics", 1.0), ("landmark selection", 2.0), ("Gram matrix", 6.0), ("solve", 1.0)];
        Outlook::new(stages.map(|(name, seconds)| (name.to_string(), seconds)).to_vec())
    }

    #[test]
    fn the_time_left_is_that_of_the_stages_that_are_left() {
        let mut outlook = outlook();
        let left = |place: Option<Place>, elapsed: f64, rows: u64| {
            let (share, left) = place.unwrap().after(Duration::from_secs_f64(elapsed), rows, Some(100));
            (share, left.as_secs_f64())
        };
        assert_eq!(left(outlook.begin("scaling statistics"), 0.0, 0), (0.0, 10.0));
        assert_eq!(left(outlook.begin("landmarks (uniform)"), 1.0, 50), (0.2, 8.0));
        let gram = outlook.begin("Gram matrix");
        assert_eq!(left(gram, 3.0, 50), (0.6, 4.0));
        // twice as slow as expected: so are the stages behind it
        assert_eq!(left(gram, 6.0, 50).1, 8.0);
        // a stage that the forecast does not know adds nothing
        assert_eq!(left(outlook.begin("write model"), 0.0, 0), (0.9, 1.0));
    }

    #[test]
    fn without_a_forecast_nothing_is_known() {
        assert!(Outlook::default().begin("Gram matrix").is_none());
    }
}
