//! Problems that are solved together, with common passes over the features.

use super::lagrangian::{Problem, RowFn, Snapshot};
use super::passes;
use super::workspace::{CertifiedPoint, Workspace};
use crate::{Result, features::StoredFeatures};
use kapprox::Real;
use kstore::checkpoint::{Arrays, Journal, Persist, Steps, StoredArrays};
use kstore::{Workers, pass::Observer};

/// Gaps and number of passes of a group of problems.
#[derive(Default)]
pub(super) struct GroupOutcome {
    /// Largest gap of all problems before every step, and at the end.
    pub(super) gaps: Vec<f64>,
    pub(super) passes: u64,
}

struct ProblemGroup<'g, T, R> {
    problems: &'g mut [Problem<T, R>],
    outcome: GroupOutcome,
}

impl<T: Real, R> Persist for ProblemGroup<'_, T, R> {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        for (i, problem) in self.problems.iter().enumerate() {
            out.put_part(&i.to_string(), |out| problem.save(out));
        }
        out.put("gaps", &self.outcome.gaps);
        out.put_number("passes", self.outcome.passes);
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kstore::Result<()> {
        for (i, problem) in self.problems.iter_mut().enumerate() {
            from.read_part(&i.to_string(), |from| problem.load(from))?;
        }
        self.outcome = GroupOutcome { gaps: from.read("gaps")?, passes: from.read_number("passes")? };
        Ok(())
    }
}

pub(super) const JOURNAL_NAME: &str = "newton";

#[derive(Clone, Copy)]
pub(super) struct SolveContext<'a> {
    pub(super) observer: &'a dyn Observer,
    pub(super) journal: Option<&'a Journal<'a>>,
}

/// Moves the problems to `start_points`, in one pass. Does nothing if `start_points` is empty.
pub(super) fn start_at<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    problems: &mut [Problem<T, R>],
    start_points: &[CertifiedPoint],
    observer: &dyn Observer,
) -> Result<()> {
    if start_points.is_empty() {
        return Ok(());
    }
    problems.iter_mut().zip(start_points).for_each(|(problem, start)| problem.set_start(start));
    move_to_starts(features, problems, observer)
}

/// Moves each problem to the point in its field `direction`: one pass.
fn move_to_starts<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    problems: &mut [Problem<T, R>],
    observer: &dyn Observer,
) -> Result<()> {
    passes::direction_values(features, &mut problems.iter_mut().collect::<Vec<_>>(), observer)?;
    problems.iter_mut().for_each(Problem::move_to_start);
    Ok(())
}

/// Certifies the best points in f64: recomputes values, sums and Newton's equations from the
/// features. A problem whose gap is larger than requested continues in f64 from its best point. So
/// the reported gap is the gap of the returned SVM.
pub(super) fn certify_in_f64<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    problems: Vec<Problem<T, R>>,
    max_steps: usize,
    typed_workspace: &mut Workspace<T>,
    context: SolveContext<'_>,
) -> Result<(Vec<Problem<f64, R>>, GroupOutcome)> {
    let (f64_features, mut total_outcome) = (features.as_f64(), GroupOutcome::default());
    let mut workspace = typed_workspace.move_row_buffers_to();
    let mut problems: Vec<Problem<f64, R>> =
        problems.into_iter().map(|problem| problem.into_f64(&mut workspace)).collect();
    loop {
        let steps_before: usize = problems.iter().map(|problem| problem.step_count).sum();
        problems.iter_mut().for_each(Problem::return_to_best);
        // a checkpoint already contains the values at these points
        if !Steps::has_saved_state(context.journal, JOURNAL_NAME) {
            move_to_starts(&f64_features, &mut problems, context.observer)?;
        }
        let GroupOutcome { gaps, passes } =
            solve_group(&f64_features, &mut problems, max_steps, &mut workspace, context)?;
        total_outcome.gaps.extend(gaps);
        total_outcome.passes += 1 + passes;
        // steps update the values incrementally; if there were steps, their result must be
        // certified again
        if problems.iter().map(|problem| problem.step_count).sum::<usize>() == steps_before {
            return Ok((problems, total_outcome));
        }
    }
}

/// Solves all problems in common passes over the features, with at most `max_steps` steps for each
/// problem. If there is a journal, it stores the state after steps; a resumed run continues after
/// the last stored step, and its result is bit-identical.
pub(super) fn solve_group<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    problems: &mut [Problem<T, R>],
    max_steps: usize,
    workspace: &mut Workspace<T>,
    SolveContext { observer, journal }: SolveContext<'_>,
) -> Result<GroupOutcome> {
    let mut group = ProblemGroup { problems, outcome: GroupOutcome::default() };
    let mut steps = Steps::resume(journal, JOURNAL_NAME, &mut group)?;
    while !steps.is_complete() {
        let snapshots: Vec<Snapshot> = group.problems.iter().map(Problem::snapshot).collect();
        match group.step(features, max_steps, workspace, observer) {
            Ok(true) => steps.record_step(&group),
            Ok(false) => {
                steps.complete(&group);
                break;
            }
            Err(error) => {
                // restore what a repeated step would not recompute identically
                group.problems.iter_mut().zip(snapshots).for_each(|(problem, snapshot)| problem.restore(snapshot));
                steps.save_before_stop(&group);
                return Err(error);
            }
        }
    }
    Ok(group.outcome)
}

impl<T: Real, R: RowFn> ProblemGroup<'_, T, R> {
    /// Makes a step of all open problems. Returns false if no problem is open after their
    /// certificates are computed.
    fn step(
        &mut self,
        features: &StoredFeatures<'_, T>,
        max_steps: usize,
        Workspace { panels, row_buffers, .. }: &mut Workspace<T>,
        observer: &dyn Observer,
    ) -> Result<bool> {
        let workers = features.workers();
        let mut open: Vec<&mut Problem<T, R>> = self.problems.iter_mut().filter(|problem| problem.is_open).collect();
        workers.for_each(open.iter_mut().collect(), |problem| {
            row_buffers.with_buffer(Vec::new, |rows| problem.minimise_intercept(rows));
        });
        passes::gather_sums(features, &mut open, panels, observer)?;
        workers.for_each(open.iter_mut().collect(), |problem| {
            row_buffers.with_buffer(Vec::new, |rows| problem.certify(max_steps, rows));
        });
        let gap = self.problems.iter().map(|problem| problem.best.gap()).fold(0.0, f64::max);
        let mut open: Vec<&mut Problem<T, R>> = self.problems.iter_mut().filter(|problem| problem.is_open).collect();
        let has_open_problems = !open.is_empty();
        if has_open_problems {
            passes::gather_equations(features, &mut open, panels, observer)?;
            // if there are many problems, each thread factors one matrix and waits for no other
            let sequential = Workers::sequential();
            match open.len() >= workers.threads() {
                true => workers.for_each(open.iter_mut().collect(), |problem| {
                    problem.solve_direction(panels, &sequential);
                }),
                false => open.iter_mut().for_each(|problem| problem.solve_direction(panels, workers)),
            }
            passes::direction_values(features, &mut open, observer)?;
            workers.for_each(open.iter_mut().collect(), |problem| {
                row_buffers.with_buffer(Vec::new, |rows| problem.advance(rows));
            });
        }
        self.outcome.gaps.push(gap);
        self.outcome.passes += 1 + u64::from(has_open_problems);
        Ok(has_open_problems)
    }
}
