//! Counts of targets, folds and labels before a plan, and the check of the plan.

use crate::request::{Resources, TrainOptions};
use crate::{Classes, Folds, Result, Task};
use kstore::pass::lanes::{self, LaneMemory};
use kstore::statistics::{LABEL_BYTES, LabelCounts, MAX_CLASS_LABELS, MAX_GROUP_LABELS, Statistics};
use kstore::{MemoryPlan, Pass, ReadSettings, RowSource, SelectedTable, StatisticsReduction};

/// Number of rows of a tile of labels. It is large, because labels take few bytes. A segment has 16
/// tiles, as in passes over whole rows.
const LABEL_TILE_ROWS: usize = lanes::SEGMENT_ROWS as usize / 16;

/// Returns the numbers of targets and of folds. If there are classes or fold labels, they are first
/// counted in a pass over their columns only.
///
/// Rows that are later dropped for a missing input are still included in these counts. The survey
/// counts the labels of the remaining rows, and rejects too few labels.
///
/// # Errors
/// The errors of [`count_labels`].
pub fn count_targets_and_folds(
    selected: &SelectedTable,
    options: &TrainOptions,
    resources: &Resources<'_>,
) -> Result<(usize, usize)> {
    let label_counts =
        selected.labels_only().map(|labels| count_labels(&labels, resources)).transpose()?.unwrap_or_default();
    let labels_of =
        |counts: &LabelCounts| counts.sorted_counts().into_iter().map(|(label, _)| label).collect::<Vec<_>>();
    let t = match options.task {
        Task::Classification => {
            Classes::new(labels_of(&label_counts.classes)).map_or(1, |classes| classes.target_count())
        }
        _ => selected.target_names().len(),
    };
    let folds = Folds::new(&options.folds, options.seed, selected.range(), &labels_of(&label_counts.groups));
    Ok((t, folds.map_or(1, |folds| folds.count())))
}

/// Counts labels with at least one lane, even if the budget is too small for it. A plan that
/// exceeds the budget can then report the memory that it requires.
///
/// # Errors
/// The labels cannot be read; [`kstore::Error::TooManyLabels`].
pub fn count_labels(label_table: &SelectedTable, resources: &Resources<'_>) -> Result<Statistics> {
    let (source, workers) = (label_table.rows::<f64>(ReadSettings::default())?, resources.workers);
    let max_labels = MAX_CLASS_LABELS + label_table.group_column().map_or(0, |_| MAX_GROUP_LABELS);
    let lane_memory = LaneMemory {
        tile_rows: LABEL_TILE_ROWS,
        name: "labels",
        bytes: max_labels * LABEL_BYTES,
        shared_terms: Vec::new(),
    };
    let lanes = lanes::fitting_lanes("the count of labels", &source, &lane_memory, resources.memory, workers.threads());
    let observer = resources.start_stage_over("labels", label_table.range());
    let pass = lanes::default_pass(lanes.map_or(1, |lanes| lanes.count), workers, &*observer);
    let pass = Pass { tile_rows: LABEL_TILE_ROWS, journal: resources.journal, ..pass };
    let counts = pass.resume("labels", &source, &StatisticsReduction::new(source.shape()))?.0;
    counts.check_label_counts(
        label_table.class_column().unwrap_or_default(),
        label_table.group_column().unwrap_or_default(),
    )?;
    Ok(counts)
}

/// Returns the bytes of the largest plan.
///
/// # Errors
/// [`kstore::Error::OverBudget`] for the largest plan that exceeds its budget.
pub fn check_plans(mut plans: Vec<MemoryPlan>) -> Result<usize> {
    // the largest stage comes first, because its terms show what to reduce
    plans.sort_by_key(|plan| std::cmp::Reverse(plan.bytes()));
    let largest_bytes = plans.first().map_or(0, MemoryPlan::bytes);
    plans.into_iter().try_for_each(|plan| plan.check().map(drop))?;
    Ok(largest_bytes)
}
