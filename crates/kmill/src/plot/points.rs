//! The rows that are drawn: a sample of the table, and the ranges of all its rows.

use crate::args::Run;
use crate::plot::PlotArgs;
use crate::{Error, Result, open};
use ksolve::Card;
use kstore::budget::Term;
use kstore::key::{Purpose, Stream};
use kstore::pass::lanes::{self, Lane};
use kstore::{Coded, Fold, Merge, Missing, Reading, RowBlock, Selection, Workers};
use std::sync::Arc;

/// Most rows that are drawn: more would hide each other.
const DRAWN: usize = 2_000;

/// Share of the rows' range that is left free around them.
const MARGIN: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Drawn {
    key: u64,
    pub(super) place: [f64; 2],
    /// Number of its class in the model, where the table has the class column.
    pub(super) class: Option<usize>,
}

/// The sampled rows, and the ranges of all rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Points {
    pub(super) rows: u64,
    /// The sampled rows in random order, so that no class always lies on top.
    pub(super) drawn: Vec<Drawn>,
    range: Option<[(f64, f64); 2]>,
    /// True where the second number of a place is the truth of a model with one feature; such a model may have no truth, and its places then have
    /// the feature twice.
    pub(super) truth: bool,
}

impl Points {
    /// Reads the rows of the table in one pass: their values of two features, or of one and of the target where the table has it. `held` is
    /// the memory that the run holds beside it.
    ///
    /// # Errors
    /// Columns that are not there, bad values, a table without rows.
    pub(super) fn read(card: &Card, args: &PlotArgs, features: &[String], held: Vec<Term>, run: &Run) -> Result<Self> {
        let select = &args.data;
        let (table, _) = open::table(&select.paths, &select.text.options(), &[])?;
        let there = |name: &String| table.schema().columns.iter().any(|column| column.name == *name);
        let known = !card.classes.is_empty() && card.targets.iter().all(there);
        let targets = if known { card.targets.clone() } else { Vec::new() };
        let truth = features.len() == 1 && card.classes.is_empty() && card.targets.first().is_some_and(there);
        let names: Vec<String> = features.iter().chain(card.targets.first().filter(|_| truth)).cloned().collect();
        let selection = open::selection(select, &names, targets);
        let missing = match (select.missing, card.missing()) {
            (Some(_), _) => selection.missing,
            (None, Missing::Error) => Missing::Error,
            // a row without a place is not drawn
            (None, _) => Missing::Drop,
        };
        let selected = table.select(&Selection { class_target: known, missing, ..selection })?;
        let classes = known.then(|| Arc::new(card.classes.clone()));
        let source = selected.rows::<f64>(Reading { classes, ..Reading::default() })?;
        let drawn = (DRAWN + lanes::TILE) * size_of::<Drawn>();
        let lane = Lane { tile: lanes::TILE, name: "rows drawn", bytes: 2 * drawn, shared: held };
        // the picture is the same however many; the pass is short
        lanes::lanes("plot", &source, &lane, run.memory, run.threads)?;
        let (workers, stage) = (Workers::sequential(), run.progress.stage("rows", selected.known_rows()));
        let pass = lanes::scan(1, &workers, &stage);
        let mut points = pass.fold(&source, &Draw(Stream::new(0, Purpose::Quality, 0)))?.0;
        stage.finish();
        points.truth = truth;
        if points.rows == 0 {
            let what = table.files().next().map(|file| file.display().to_string()).unwrap_or_default();
            let why = "no row is left to be drawn; check --rows, --where and --missing".to_string();
            return Err(Error::from(kstore::Error::Empty { what, why }));
        }
        Ok(points)
    }

    /// The ranges of the two axes of the picture, with a margin.
    pub(super) fn bounds(&self) -> [(f64, f64); 2] {
        self.range.unwrap_or([(0.0, 1.0); 2]).map(|(low, high)| {
            let room = if high > low { MARGIN * (high - low) } else { low.abs().max(1.0) / 2.0 };
            (low - room, high + room)
        })
    }

    fn shorten(&mut self) {
        self.drawn.sort_by_key(|drawn| drawn.key);
        self.drawn.truncate(DRAWN);
    }
}

impl Merge for Points {
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        self.drawn.extend_from_slice(&later.drawn);
        self.shorten();
        self.range = match (self.range, later.range) {
            (Some(a), Some(b)) => Some(std::array::from_fn(|i| (a[i].0.min(b[i].0), a[i].1.max(b[i].1)))),
            (a, b) => a.or(b),
        };
    }
}

/// A fold that keeps the rows with the smallest random keys.
struct Draw(Stream);

impl Fold<f64> for Draw {
    type State = Points;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> Points {
        Points::default()
    }
    fn scratch(&self) {}
    fn step(&self, state: &mut Points, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> Result<()> {
        let width = block.x.len() / block.rows.len().max(1);
        for (i, row) in block.rows.iter().enumerate() {
            let row_of = &block.x[i * width..(i + 1) * width];
            let place = [row_of[0], row_of[width - 1]];
            let range = state.range.get_or_insert(place.map(|v| (v, v)));
            range.iter_mut().zip(place).for_each(|(range, v)| *range = (range.0.min(v), range.1.max(v)));
            let code = block.classes.as_ref().map_or(Coded::UNKNOWN, |coded| coded.codes[i]);
            let class = (code != Coded::UNKNOWN).then_some(code as usize);
            state.drawn.push(Drawn { key: self.0.word(*row), place, class });
        }
        state.rows += block.len() as u64;
        state.shorten();
        Ok(())
    }
}
