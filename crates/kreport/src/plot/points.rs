//! The rows that a plot draws, a sample of the table, and the ranges of all rows.

use super::{Plot, argmax, legend::shade_index};
use crate::drawing::{Canvas, Point};
use crate::page::PALETTE_SIZE;
use ksolve::job::{Run, StageObserver};
use ksolve::{Error, ModelMetadata, Result};
use kstore::encoding::{EncodedColumn, Encoding};
use kstore::key::{Purpose, Stream};
use kstore::pass::lanes::{self, LaneMemory};
use kstore::{Kind, Label, LabelCodes, Missing, ReadSettings, RowBlock, Selection, Table, Workers, budget::MemoryTerm};
use std::path::Path;
use std::{collections::BTreeMap, sync::Arc};

/// Maximum number of rows that are drawn; more would hide each other.
pub(super) const MAX_DRAWN_ROWS: usize = 2_000;

/// Margin around the rows, as a fraction of their range.
const POINT_MARGIN: f64 = 0.05;

/// Returns the random keys of rows; the rows with the smallest keys are drawn.
pub(super) fn row_keys() -> Stream {
    Stream::new(0, Purpose::Quality, 0)
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct DrawnRow {
    pub(super) key: u64,
    pub(super) coordinates: [f64; 2],
    /// Value that colours the row, if a numeric column colours the rows; otherwise the last
    /// coordinate, unused.
    pub(super) colour_value: f64,
    label: Option<Label>,
    pub(super) class: Option<usize>,
}

/// The rows that a plot draws, a sample of the table, and the ranges of all rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Points {
    pub(super) row_count: u64,
    /// Sampled rows in random order, so that no class is always on top.
    pub(super) drawn_rows: Vec<DrawnRow>,
    pub(super) ranges: Option<[(f64, f64); 2]>,
    /// True if the plot shows one feature of a model without classes, and the table has the target,
    /// which is then the second coordinate. If the table lacks the target, both coordinates are the
    /// feature.
    pub(super) has_target: bool,
    /// Legend text of each colour; empty if the rows are not coloured, or are shaded by a number.
    pub(super) colour_names: Vec<String>,
    /// Values of the palest and the strongest colour; `None` if the rows are not shaded by a
    /// number.
    pub(super) shade_range: Option<(f64, f64)>,
}

/// The columns that are read.
pub(super) struct PointColumns<'a> {
    /// Columns of the coordinates, followed by the numeric column (if any) that colours the rows.
    pub(super) coordinates: Vec<String>,
    /// Text or Boolean column (if any) that colours the rows by its labels.
    pub(super) label_column: Option<&'a str>,
    pub(super) classes: Option<&'a [Label]>,
    pub(super) missing: Missing,
    /// The model's encoding of categories and times as features; `None` if all columns are numeric.
    pub(super) encoding: Option<&'a Encoding>,
}

/// Restricts an encoding to the columns that produce `features`. A feature that no column of the
/// encoding produces is read as a numeric column.
fn restrict_encoding(encoding: &Encoding, features: &[String]) -> Encoding {
    let names = |column: &EncodedColumn| Encoding::new(vec![column.clone()]).feature_names();
    let is_source = |column: &&EncodedColumn| names(column).iter().any(|name| features.contains(name));
    let mut columns: Vec<EncodedColumn> = encoding.columns().iter().filter(is_source).cloned().collect();
    let encoded_names: Vec<String> = columns.iter().flat_map(names).collect();
    let numeric_names: Vec<String> = features.iter().filter(|name| !encoded_names.contains(name)).cloned().collect();
    columns.extend(Encoding::numeric(&numeric_names).columns().iter().cloned());
    Encoding::new(columns)
}

impl Points {
    /// Reads the rows that are drawn with a model: two features, or one feature and, if the table
    /// has it, the target. `shared_memory` is the memory of the rest of the run, such as the model.
    pub(super) fn read_for_model(
        metadata: &ModelMetadata,
        plot: &Plot,
        output: &Path,
        features: &[String],
        shared_memory: Vec<MemoryTerm>,
        run: &Run,
    ) -> Result<Self> {
        let table = plot.open_table(&plot.data, &plot.text, output)?;
        let is_in_table = |name: &&String| table.schema().columns.iter().any(|column| column.name == **name);
        let target = metadata.targets.first().filter(is_in_table);
        let label = target.filter(|_| !metadata.classes.is_empty()).map(String::as_str);
        let target_axis = target.filter(|_| features.len() == 1 && metadata.classes.is_empty());
        let missing = match (plot.missing, metadata.missing()) {
            (Some(missing), _) => missing,
            (None, Missing::Error) => Missing::Error,
            // a row without coordinates is not drawn
            (None, _) => Missing::Drop,
        };
        let coordinates = features.iter().chain(target_axis).cloned().collect();
        let encoding = metadata.encoding.as_deref();
        let columns = PointColumns {
            coordinates,
            label_column: label,
            classes: label.map(|_| &metadata.classes[..]),
            missing,
            encoding,
        };
        let points = Self::read_rows(&table, plot, columns, shared_memory, run)?;
        // the legend names the regions that the model predicts, even if the table has no class
        // column
        Ok(Self {
            has_target: target_axis.is_some(),
            colour_names: metadata.classes.iter().map(ToString::to_string).collect(),
            ..points
        })
    }

    /// Reads rows of a table that are coloured by a column. Each distinct text or Boolean value has
    /// a colour. If the numbers of a column are a few distinct integers, each integer has a colour,
    /// too. Other numbers are shaded by their size.
    pub(super) fn read_coloured_by(
        table: &Table,
        plot: &Plot,
        axes: &[String],
        colour: Option<&str>,
        shared_memory: Vec<MemoryTerm>,
        run: &Run,
    ) -> Result<Self> {
        let kind =
            |name: &str| table.schema().columns.iter().find(|column| column.name == name).map(|column| &column.kind);
        let is_label = colour.and_then(kind).is_some_and(|kind| matches!(kind, Kind::Text | Kind::Bool));
        let numeric_columns = axes.iter().map(String::as_str).chain(colour.filter(|_| !is_label));
        for (name, option) in numeric_columns.zip(if axes.is_empty() { &["colour"][..] } else { &["x", "y", "colour"] })
        {
            if kind(name).is_some_and(|kind| !kind.is_direct_feature()) {
                return Err(Error::option(option, name, "this column is not numeric; choose a numeric column"));
            }
        }
        let numeric_colour = colour.filter(|_| !is_label).map(String::from);
        let coordinates = axes.iter().cloned().chain(numeric_colour.clone()).collect();
        let label = colour.filter(|_| is_label);
        let missing = plot.missing.unwrap_or(Missing::Drop);
        let mut points = Self::read_rows(
            table,
            plot,
            PointColumns { coordinates, label_column: label, classes: None, missing, encoding: None },
            shared_memory,
            run,
        )?;
        if numeric_colour.is_some() {
            points.colour_by_number();
        }
        Ok(points)
    }

    /// Draws a row in the colour of its class or value. The tooltip has the class (if known) and
    /// the text `tooltip`.
    pub(super) fn draw_row(&self, canvas: &mut dyn Canvas, drawn: &DrawnRow, position: Point, tooltip: &str) {
        let css_class = match (drawn.class, self.shade_range) {
            (Some(class), _) => format!("row c{}", class % PALETTE_SIZE),
            (None, Some(range)) => format!("row v{}", shade_index(drawn.colour_value, range)),
            (None, None) => "row".to_string(),
        };
        let name = drawn.class.and_then(|class| self.colour_names.get(class));
        let name = name.map_or(String::new(), |name| format!("{name}: "));
        canvas.circle(&css_class, position, 2.2, Some(&format!("{name}{tooltip}")));
    }

    fn colour_by_number(&mut self) {
        let mut values: Vec<f64> = self.drawn_rows.iter().map(|drawn| drawn.colour_value).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        if values.len() > PALETTE_SIZE || values.iter().any(|value| value.fract() != 0.0) {
            self.shade_range = values.first().copied().zip(values.last().copied());
            return;
        }
        self.colour_names = values.iter().map(ToString::to_string).collect();
        let class = |value: f64| values.iter().position(|other| *other == value);
        self.drawn_rows.iter_mut().for_each(|drawn| drawn.class = class(drawn.colour_value));
    }

    fn read_rows(
        table: &Table,
        plot: &Plot,
        columns: PointColumns<'_>,
        shared_memory: Vec<MemoryTerm>,
        run: &Run,
    ) -> Result<Self> {
        let targets: Vec<String> = columns.label_column.map(String::from).into_iter().collect();
        let (class_target, without_features) = (!targets.is_empty(), columns.coordinates.is_empty());
        let selection = plot.selection(&columns.coordinates, targets);
        let encoding = columns.encoding.map(|encoding| Arc::new(restrict_encoding(encoding, &columns.coordinates)));
        let selection = Selection { class_target, without_features, missing: columns.missing, encoding, ..selection };
        let selected = table.select(&selection)?;
        let names = selected.feature_names();
        let column_index = |column: &String| names.iter().position(|name| name == column);
        let column_indices: Vec<usize> = columns.coordinates.iter().filter_map(column_index).collect();
        let classes = columns.classes.map(|labels| Arc::new(labels.to_vec()));
        let source = selected.rows::<f64>(ReadSettings { class_labels: classes, ..ReadSettings::default() })?;
        let sample_bytes = (MAX_DRAWN_ROWS + lanes::TILE_ROWS) * size_of::<DrawnRow>();
        let lane_memory = LaneMemory {
            tile_rows: lanes::TILE_ROWS,
            name: "rows drawn",
            bytes: 2 * sample_bytes,
            shared_terms: shared_memory,
        };
        // called only to check the memory budget; one lane suffices because the pass is short
        lanes::fitting_lanes("plot", &source, &lane_memory, run.memory_budget(), run.workers().threads())?;
        let (workers, stage_recorder) = (Workers::sequential(), run.stage_recorder());
        let stage = stage_recorder.start_stage("rows", selected.row_count_if_known());
        let mut points = Self::default();
        lanes::default_pass(1, &workers, &*stage).visit(&source, |block| {
            points.add_block(block, &column_indices);
            Ok::<_, Error>(())
        })?;
        drop(stage);
        if points.row_count == 0 {
            let what = table.files().next().map(|file| file.display().to_string()).unwrap_or_default();
            let why = "no row is selected; check --rows, --where and --missing".to_string();
            return Err(Error::from(kstore::Error::Empty { what, why }));
        }
        let drawn_labels = || {
            let mut labels: Vec<Label> = points.drawn_rows.iter().filter_map(|drawn| drawn.label.clone()).collect();
            labels.sort_unstable();
            labels.dedup();
            labels
        };
        let labels = columns.classes.map_or_else(drawn_labels, <[Label]>::to_vec);
        for drawn in &mut points.drawn_rows {
            drawn.class = drawn.label.as_ref().and_then(|row_label| labels.iter().position(|label| label == row_label));
        }
        points.colour_names = labels.iter().map(ToString::to_string).collect();
        Ok(points)
    }

    /// Returns the ranges of the two axes of the picture, with a margin.
    pub(super) fn padded_ranges(&self) -> [(f64, f64); 2] {
        self.ranges.unwrap_or([(0.0, 1.0); 2]).map(|(low, high)| {
            let margin = if high > low { POINT_MARGIN * (high - low) } else { low.abs().max(1.0) / 2.0 };
            (low - margin, high + margin)
        })
    }

    /// Colours the rows by cluster; `scores` has the cluster scores by row key.
    pub(super) fn colour_by_cluster(&mut self, scores: &BTreeMap<u64, Vec<f64>>, cluster_count: usize) {
        self.drawn_rows.iter_mut().for_each(|drawn| drawn.class = scores.get(&drawn.key).map(|scores| argmax(scores)));
        self.colour_names = (0..cluster_count).map(|cluster| format!("cluster {cluster}")).collect();
    }

    /// Sets the ranges to the ranges of the drawn rows.
    pub(super) fn set_ranges_from_drawn_rows(&mut self) {
        self.ranges = self.drawn_rows.iter().map(|drawn| drawn.coordinates.map(|v| (v, v))).reduce(union_ranges);
    }

    /// Adds the rows of a block and keeps the rows with the smallest random keys. `column_indices`
    /// are the features that become coordinates; the last one is also the value that may colour the
    /// row.
    fn add_block(&mut self, block: &RowBlock<'_, f64>, column_indices: &[usize]) {
        let (width, keys) = (block.x.len() / block.row_numbers.len().max(1), row_keys());
        for (i, row) in block.row_numbers.iter().enumerate() {
            let coordinates: Vec<f64> = column_indices.iter().map(|j| block.x[i * width + j]).collect();
            let value = coordinates.last().copied().unwrap_or(f64::NAN);
            let position = match coordinates[..] {
                [x, y, ..] => [x, y],
                _ => [value; 2],
            };
            let range = position.map(|v| (v, v));
            self.ranges = Some(self.ranges.map_or(range, |ranges| union_ranges(ranges, range)));
            let label = block.classes.as_ref().filter(|class_codes| class_codes.codes[i] != LabelCodes::UNKNOWN);
            let label = label.map(|coded| coded.labels[coded.codes[i] as usize].clone());
            self.drawn_rows.push(DrawnRow {
                key: keys.word(*row),
                coordinates: position,
                colour_value: value,
                label,
                class: None,
            });
        }
        self.row_count += block.len() as u64;
        self.drawn_rows.sort_by_key(|drawn| drawn.key);
        self.drawn_rows.truncate(MAX_DRAWN_ROWS);
    }
}

/// Returns the union of two pairs of ranges.
fn union_ranges(a: [(f64, f64); 2], b: [(f64, f64); 2]) -> [(f64, f64); 2] {
    std::array::from_fn(|i| (a[i].0.min(b[i].0), a[i].1.max(b[i].1)))
}
