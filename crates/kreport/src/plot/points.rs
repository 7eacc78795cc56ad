//! The rows that are drawn: a sample of the table, and the ranges of all its rows.

use super::{Plot, largest, legend::shade};
use crate::drawing::{Canvas, Point};
use crate::page::COLOURS;
use ksolve::job::{Run, Stages};
use ksolve::{Card, Error, Result};
use kstore::encoding::{CodedColumn, Encoding};
use kstore::key::{Purpose, Stream};
use kstore::pass::lanes::{self, Lane};
use kstore::{Coded, Kind, Label, Missing, Reading, RowBlock, Selection, Table, Workers, budget::Term};
use std::path::Path;
use std::{collections::BTreeMap, sync::Arc};

/// Maximum number of rows that are drawn; more would hide each other.
pub(super) const DRAWN: usize = 2_000;

/// Fraction of the rows' range that is left free around them.
const MARGIN: f64 = 0.05;

/// Returns the random keys of rows; the rows with the smallest keys are drawn.
pub(super) fn keys() -> Stream {
    Stream::new(0, Purpose::Quality, 0)
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Drawn {
    pub(super) key: u64,
    pub(super) place: [f64; 2],
    /// Value that colours the row, if it is a number.
    pub(super) value: f64,
    label: Option<Label>,
    pub(super) class: Option<usize>,
}

/// The sampled rows, and the ranges of all rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Points {
    pub(super) rows: u64,
    /// Sampled rows in random order, so that no class is always on top.
    pub(super) drawn: Vec<Drawn>,
    pub(super) range: Option<[(f64, f64); 2]>,
    /// True if the second coordinate is the target of a model with one feature. Such a model may
    /// lack a target; both coordinates are then the feature.
    pub(super) truth: bool,
    /// Names of the colours; empty if the rows have no colours, or if the colours are shades.
    pub(super) labels: Vec<String>,
    /// Values of the palest and the strongest colour, if colours represent numbers.
    pub(super) shades: Option<(f64, f64)>,
}

/// The columns that are read.
pub(super) struct Columns<'a> {
    /// Columns of the coordinates, followed by a number that colours the row.
    pub(super) places: Vec<String>,
    /// Column of labels that colours the row.
    pub(super) label: Option<&'a str>,
    pub(super) known: Option<&'a [Label]>,
    pub(super) missing: Missing,
    /// Encoding of columns as features, if the coordinates are features of a model with categories
    /// or times.
    pub(super) encoding: Option<&'a Encoding>,
}

/// Returns the columns of an encoding that produce these features; a name that no column produces
/// is a numeric column.
fn making(encoding: &Encoding, features: &[String]) -> Encoding {
    let names = |column: &CodedColumn| Encoding::new(vec![column.clone()]).names();
    let makes = |column: &&CodedColumn| names(column).iter().any(|name| features.contains(name));
    let mut columns: Vec<CodedColumn> = encoding.columns().iter().filter(makes).cloned().collect();
    let made: Vec<String> = columns.iter().flat_map(names).collect();
    let numbers: Vec<String> = features.iter().filter(|name| !made.contains(name)).cloned().collect();
    columns.extend(Encoding::of_numbers(&numbers).columns().iter().cloned());
    Encoding::new(columns)
}

impl Points {
    /// Reads the rows of a table for a model: their values of two features, or of one feature and
    /// the target if the table has it. `terms` is the memory that the run uses in addition.
    pub(super) fn read(
        card: &Card,
        plot: &Plot,
        output: &Path,
        features: &[String],
        terms: Vec<Term>,
        run: &Run,
    ) -> Result<Self> {
        let table = plot.open(&plot.data, &plot.text, output)?;
        let there = |name: &&String| table.schema().columns.iter().any(|column| column.name == **name);
        let target = card.targets.first().filter(there);
        let label = target.filter(|_| !card.classes.is_empty()).map(String::as_str);
        let truth = target.filter(|_| features.len() == 1 && card.classes.is_empty());
        let missing = match (plot.missing, card.missing()) {
            (Some(missing), _) => missing,
            (None, Missing::Error) => Missing::Error,
            // a row without coordinates is not drawn
            (None, _) => Missing::Drop,
        };
        let places = features.iter().chain(truth).cloned().collect();
        let encoding = card.encoding.as_deref();
        let columns = Columns { places, label, known: label.map(|_| &card.classes[..]), missing, encoding };
        let points = Self::of(&table, plot, columns, terms, run)?;
        // regions have names even if the rows have none
        Ok(Self { truth: truth.is_some(), labels: card.classes.iter().map(ToString::to_string).collect(), ..points })
    }

    /// Reads rows of a table that are coloured by a column: text and Boolean values by value;
    /// numbers by size, or by value if they are a few distinct integers.
    pub(super) fn coloured(
        table: &Table,
        plot: &Plot,
        axes: &[String],
        colour: Option<&str>,
        terms: Vec<Term>,
        run: &Run,
    ) -> Result<Self> {
        let kind =
            |name: &str| table.schema().columns.iter().find(|column| column.name == name).map(|column| &column.kind);
        let is_label = colour.and_then(kind).is_some_and(|kind| matches!(kind, Kind::Text | Kind::Bool));
        let numbers = axes.iter().map(String::as_str).chain(colour.filter(|_| !is_label));
        for (name, option) in numbers.zip(if axes.is_empty() { &["colour"][..] } else { &["x", "y", "colour"] }) {
            if kind(name).is_some_and(|kind| !kind.is_feature()) {
                return Err(Error::option(option, name, "this column is not numeric; choose a numeric column"));
            }
        }
        let number = colour.filter(|_| !is_label).map(String::from);
        let places = axes.iter().cloned().chain(number.clone()).collect();
        let label = colour.filter(|_| is_label);
        let missing = plot.missing.unwrap_or(Missing::Drop);
        let mut points =
            Self::of(table, plot, Columns { places, label, known: None, missing, encoding: None }, terms, run)?;
        if number.is_some() {
            points.colour_by_number();
        }
        Ok(points)
    }

    /// Draws a row in the colour of its class or value, with a tooltip of its class, if known, and
    /// `says`.
    pub(super) fn circle(&self, canvas: &mut dyn Canvas, drawn: &Drawn, place: Point, says: &str) {
        let class = match (drawn.class, self.shades) {
            (Some(class), _) => format!("row c{}", class % COLOURS),
            (None, Some(ends)) => format!("row v{}", shade(drawn.value, ends)),
            (None, None) => "row".to_string(),
        };
        let name = drawn.class.and_then(|class| self.labels.get(class));
        let name = name.map_or(String::new(), |name| format!("{name}: "));
        canvas.circle(&class, place, 2.2, Some(&format!("{name}{says}")));
    }

    fn colour_by_number(&mut self) {
        let mut values: Vec<f64> = self.drawn.iter().map(|drawn| drawn.value).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        if values.len() > COLOURS || values.iter().any(|value| value.fract() != 0.0) {
            self.shades = values.first().copied().zip(values.last().copied());
            return;
        }
        self.labels = values.iter().map(ToString::to_string).collect();
        let class = |value: f64| values.iter().position(|other| *other == value);
        self.drawn.iter_mut().for_each(|drawn| drawn.class = class(drawn.value));
    }

    fn of(table: &Table, plot: &Plot, columns: Columns<'_>, terms: Vec<Term>, run: &Run) -> Result<Self> {
        let targets: Vec<String> = columns.label.map(String::from).into_iter().collect();
        let (class_target, without_features) = (!targets.is_empty(), columns.places.is_empty());
        let selection = plot.selection(&columns.places, targets);
        let encoding = columns.encoding.map(|encoding| Arc::new(making(encoding, &columns.places)));
        let selection = Selection { class_target, without_features, missing: columns.missing, encoding, ..selection };
        let selected = table.select(&selection)?;
        let names = selected.feature_names();
        let at = |place: &String| names.iter().position(|name| name == place);
        let at: Vec<usize> = columns.places.iter().filter_map(at).collect();
        let classes = columns.known.map(|labels| Arc::new(labels.to_vec()));
        let source = selected.rows::<f64>(Reading { classes, ..Reading::default() })?;
        let drawn = (DRAWN + lanes::TILE) * size_of::<Drawn>();
        let lane = Lane { tile: lanes::TILE, name: "rows drawn", bytes: 2 * drawn, shared: terms };
        // the picture does not depend on the number of lanes, and the pass is short
        lanes::lanes("plot", &source, &lane, run.bytes(), run.workers().threads())?;
        let (workers, watch) = (Workers::sequential(), run.watched());
        let stage = watch.stage("rows", selected.known_rows());
        let mut points = Self::default();
        lanes::scan(1, &workers, &*stage).visit(&source, |block| {
            points.add(block, &at);
            Ok::<_, Error>(())
        })?;
        drop(stage);
        if points.rows == 0 {
            let what = table.files().next().map(|file| file.display().to_string()).unwrap_or_default();
            let why = "no row is selected; check --rows, --where and --missing".to_string();
            return Err(Error::from(kstore::Error::Empty { what, why }));
        }
        let found = || {
            let mut labels: Vec<Label> = points.drawn.iter().filter_map(|drawn| drawn.label.clone()).collect();
            labels.sort_unstable();
            labels.dedup();
            labels
        };
        let labels = columns.known.map_or_else(found, <[Label]>::to_vec);
        for drawn in &mut points.drawn {
            drawn.class = drawn.label.as_ref().and_then(|own| labels.iter().position(|label| label == own));
        }
        points.labels = labels.iter().map(ToString::to_string).collect();
        Ok(points)
    }

    /// Returns the ranges of the two axes of the picture, with a margin.
    pub(super) fn bounds(&self) -> [(f64, f64); 2] {
        self.range.unwrap_or([(0.0, 1.0); 2]).map(|(low, high)| {
            let room = if high > low { MARGIN * (high - low) } else { low.abs().max(1.0) / 2.0 };
            (low - room, high + room)
        })
    }

    /// Colours the rows by cluster; `scores` has the cluster scores by row key.
    pub(super) fn group(&mut self, scores: &BTreeMap<u64, Vec<f64>>, groups: usize) {
        self.drawn.iter_mut().for_each(|drawn| drawn.class = scores.get(&drawn.key).map(|scores| largest(scores)));
        self.labels = (0..groups).map(|group| format!("cluster {group}")).collect();
    }

    /// Sets the ranges to those of the rows that are drawn.
    pub(super) fn measure(&mut self) {
        self.range = self.drawn.iter().map(|drawn| drawn.place.map(|v| (v, v))).reduce(wider);
    }

    /// Adds the rows of a block, whose coordinates are the features `at`, and keeps those with the
    /// smallest random keys.
    fn add(&mut self, block: &RowBlock<'_, f64>, at: &[usize]) {
        let (width, keys) = (block.x.len() / block.rows.len().max(1), keys());
        for (i, row) in block.rows.iter().enumerate() {
            let row_of: Vec<f64> = at.iter().map(|j| block.x[i * width + j]).collect();
            let value = row_of.last().copied().unwrap_or(f64::NAN);
            let place = match row_of[..] {
                [x, y, ..] => [x, y],
                _ => [value; 2],
            };
            let range = place.map(|v| (v, v));
            self.range = Some(self.range.map_or(range, |held| wider(held, range)));
            let label = block.classes.as_ref().filter(|coded| coded.codes[i] != Coded::UNKNOWN);
            let label = label.map(|coded| coded.labels[coded.codes[i] as usize].clone());
            self.drawn.push(Drawn { key: keys.word(*row), place, value, label, class: None });
        }
        self.rows += block.len() as u64;
        self.drawn.sort_by_key(|drawn| drawn.key);
        self.drawn.truncate(DRAWN);
    }
}

/// Returns the union of two pairs of ranges.
fn wider(a: [(f64, f64); 2], b: [(f64, f64); 2]) -> [(f64, f64); 2] {
    std::array::from_fn(|i| (a[i].0.min(b[i].0), a[i].1.max(b[i].1)))
}
