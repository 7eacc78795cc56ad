//! Problems that are solved together, with common passes over the features.

use super::lagrangian::{Mark, Problem, Rows, Terms};
use super::passes;
use super::space::{Best, Space};
use crate::{Result, features::StoredFeatures};
use kapprox::Real;
use kstore::checkpoint::{Arrays, Journal, Persist, Steps, Stored};
use kstore::pass::Observer;

/// Gaps and number of passes of a group of problems.
#[derive(Default)]
pub(super) struct Outcome {
    /// Largest gap of all problems before every step, and at the end.
    pub(super) gaps: Vec<f64>,
    pub(super) passes: u64,
}

struct Group<'g, T, R> {
    problems: &'g mut [Problem<T, R>],
    outcome: Outcome,
}

impl<T: Real, R> Persist for Group<'_, T, R> {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        for (i, problem) in self.problems.iter().enumerate() {
            out.within(&i.to_string(), |out| problem.save(out));
        }
        out.put("gaps", &self.outcome.gaps);
        out.one("passes", self.outcome.passes);
    }

    fn load(&mut self, from: &mut Stored<'_>) -> kstore::Result<()> {
        for (i, problem) in self.problems.iter_mut().enumerate() {
            from.within(&i.to_string(), |from| problem.load(from))?;
        }
        self.outcome = Outcome { gaps: from.read("gaps")?, passes: from.one("passes")? };
        Ok(())
    }
}

pub(super) const NAME: &str = "newton";

#[derive(Clone, Copy)]
pub(super) struct Watch<'a> {
    pub(super) observer: &'a dyn Observer,
    pub(super) journal: Option<&'a Journal<'a>>,
}

/// Starts the problems at the solutions in `starts`, unless it is empty: one pass.
pub(super) fn begin<T: Real, R: Rows>(
    kept: &StoredFeatures<'_, T>,
    problems: &mut [Problem<T, R>],
    starts: &[Best],
    observer: &dyn Observer,
) -> Result<()> {
    if starts.is_empty() {
        return Ok(());
    }
    problems.iter_mut().zip(starts).for_each(|(problem, start)| problem.point_at(start));
    stand(kept, problems, observer)
}

/// Moves each problem to the point in its field `direction`: one pass.
fn stand<T: Real, R: Rows>(
    kept: &StoredFeatures<'_, T>,
    problems: &mut [Problem<T, R>],
    observer: &dyn Observer,
) -> Result<()> {
    passes::values(kept, &mut problems.iter_mut().collect::<Vec<_>>(), observer)?;
    problems.iter_mut().for_each(Problem::stand);
    Ok(())
}

/// Certifies the best points in f64: values, sums and Newton's equations are recomputed from the
/// features. If a gap is larger than requested, the problem continues from there in f64. The
/// reported gap is therefore the gap of the returned SVM.
pub(super) fn prove<T: Real, R: Rows>(
    kept: &StoredFeatures<'_, T>,
    problems: Vec<Problem<T, R>>,
    terms: Terms,
    most: usize,
    narrow: &mut Space<T>,
    watch: Watch<'_>,
) -> Result<(Vec<Problem<f64, R>>, Outcome)> {
    let (kept, mut all) = (kept.wide(), Outcome::default());
    let mut space = narrow.lend();
    let mut problems: Vec<Problem<f64, R>> =
        problems.into_iter().map(|problem| problem.widen(terms, &mut space)).collect();
    loop {
        let before: usize = problems.iter().map(|problem| problem.steps).sum();
        problems.iter_mut().for_each(Problem::return_to_best);
        // a checkpoint already contains the values at these points
        if !Steps::is_waiting(watch.journal, NAME) {
            stand(&kept, &mut problems, watch.observer)?;
        }
        let Outcome { gaps, passes } = solve_group(&kept, &mut problems, most, &mut space, watch)?;
        all.gaps.extend(gaps);
        all.passes += 1 + passes;
        // steps update the values incrementally, so their result must be certified again
        if problems.iter().map(|problem| problem.steps).sum::<usize>() == before {
            narrow.matrix = space.matrix;
            return Ok((problems, all));
        }
    }
}

/// Solves all problems in common passes over the features, with at most this many steps each. A
/// journal stores the steps; a resumed run continues after the last one, bit-identically.
pub(super) fn solve_group<T: Real, R: Rows>(
    kept: &StoredFeatures<'_, T>,
    problems: &mut [Problem<T, R>],
    most: usize,
    space: &mut Space<T>,
    Watch { observer, journal }: Watch<'_>,
) -> Result<Outcome> {
    let mut group = Group { problems, outcome: Outcome::default() };
    let mut steps = Steps::resume(journal, NAME, &mut group)?;
    while !steps.is_complete() {
        let marks: Vec<Mark> = group.problems.iter().map(Problem::mark).collect();
        match group.step(kept, most, space, observer) {
            Ok(true) => steps.after(&group),
            Ok(false) => {
                steps.complete(&group);
                break;
            }
            Err(error) => {
                // a repeated step recomputes all other state identically
                group.problems.iter_mut().zip(marks).for_each(|(problem, mark)| problem.return_to(mark));
                steps.keep(&group);
                return Err(error);
            }
        }
    }
    Ok(group.outcome)
}

impl<T: Real, R: Rows> Group<'_, T, R> {
    /// Makes a step of all open problems; returns false if none is open.
    fn step(
        &mut self,
        kept: &StoredFeatures<'_, T>,
        most: usize,
        Space { matrix, panels, .. }: &mut Space<T>,
        observer: &dyn Observer,
    ) -> Result<bool> {
        let workers = kept.workers();
        let mut open: Vec<&mut Problem<T, R>> = self.problems.iter_mut().filter(|problem| problem.open).collect();
        workers.each(open.iter_mut().collect(), |problem| problem.balance());
        passes::gather(kept, &mut open, panels, observer)?;
        workers.each(open.iter_mut().collect(), |problem| problem.certify(most));
        let gap = self.problems.iter().map(|problem| problem.best.gap()).fold(0.0, f64::max);
        let mut open: Vec<&mut Problem<T, R>> = self.problems.iter_mut().filter(|problem| problem.open).collect();
        let more = !open.is_empty();
        if more {
            open.iter_mut().for_each(|problem| problem.solve(matrix, panels, workers));
            passes::values(kept, &mut open, observer)?;
            workers.each(open.iter_mut().collect(), |problem| problem.advance());
        }
        self.outcome.gaps.push(gap);
        self.outcome.passes += 1 + u64::from(more);
        Ok(more)
    }
}
