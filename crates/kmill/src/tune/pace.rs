//! The time that `--time` allows, and the rank of the fit that is likely to end in it.

use crate::args::run::Run;
use crate::fit::FitOptions;
use crate::{Result, pipeline};
use ksolve::tune::Chosen;
use kstore::Selected;
use std::time::{Duration, Instant};

/// Ranks that `--time` chooses among.
const RANKS: [usize; 6] = [500, 1_000, 2_000, 4_000, 8_000, 16_000];

/// Power of the rank by which the time of a fit grows that has no estimate of its own: between that of features, which grow with
/// the rank, and that of products of features, which grow with its square.
const GROWTH: f64 = 1.5;

/// The clock of a search.
#[derive(Debug)]
pub(super) struct Pace {
    started: Instant,
    time: Option<Duration>,
}

impl Pace {
    pub(super) fn new(time: Option<Duration>) -> Self {
        Self { started: Instant::now(), time }
    }

    /// True once a share of the time is over: the rest belongs to what follows.
    pub(super) fn is_over(&self, share: f64) -> bool {
        self.time.is_some_and(|time| self.started.elapsed() > time.mul_f64(share))
    }

    /// The fit at the largest rank that is likely to end in time and fits the memory, with all smaller ones in its surface. Which that
    /// is depends on the machine; the options that are returned with it give the same bits on any.
    pub(super) fn in_time(
        &self,
        options: FitOptions,
        search: &Chosen,
        selected: &Selected,
        run: &Run,
    ) -> Result<(FitOptions, Option<String>)> {
        let Some(time) = self.time else { return Ok((options, None)) };
        let left = time.saturating_sub(self.started.elapsed()).as_secs_f64();
        let rows = usize::try_from(selected.known_rows().unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let mut found: Option<(FitOptions, Vec<usize>)> = None;
        for rank in RANKS.into_iter().filter(|rank| *rank <= rows.max(RANKS[0])) {
            let mut ranks = found.as_ref().map_or(Vec::new(), |(_, ranks)| ranks.clone());
            ranks.push(rank);
            let fit = match options.fit.family().name {
                "ridge" => options.fit.clone().set("ranks", listed(&ranks)),
                _ => options.fit.clone().rank(rank),
            };
            let tried = FitOptions { fit, ..options.clone() };
            let forecast = pipeline::with_files(&tried, selected)?.plan(selected, &pipeline::job(run))?;
            let seconds = forecast.seconds().or_else(|| likely(search, rank, rows as f64));
            let late = seconds.is_some_and(|seconds| seconds > left);
            if found.is_some() && (late || !forecast.fits()) {
                break;
            }
            found = Some((tried, ranks));
        }
        let Some((fit, ranks)) = found else { return Ok((options, None)) };
        let told = match options.fit.family().name {
            "ridge" => format!("--ranks {}", listed(&ranks)),
            _ => format!("--rank {}", ranks[ranks.len() - 1]),
        };
        Ok((fit, Some(search.work.map_or(told.clone(), |work| format!("--work {work} {told}")))))
    }
}

/// Ranks as they are typed: `500,1000`.
fn listed(ranks: &[usize]) -> String {
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Seconds of a fit that has no estimate, from those of the fit that was tested.
fn likely(search: &Chosen, rank: usize, rows: f64) -> Option<f64> {
    let (apart, seconds) = search.test.as_ref()?;
    let by_rank = (rank as f64 / search.rank as f64).powf(GROWTH);
    Some(seconds * rows / apart.learned_from.max(1) as f64 * by_rank)
}
