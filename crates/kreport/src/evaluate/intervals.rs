//! Tables of prediction intervals and prediction sets.

use crate::table::{Align, AlignedTable, format_list, number, percent};
use ksolve::predict::{DecileScores, IntervalScores, PredictionIntervalScores, PredictionSetScores};

/// Returns a table of the prediction intervals; `None` if the model has none.
pub(super) fn interval_table(intervals: &[PredictionIntervalScores]) -> Option<AlignedTable> {
    let headings = [("intervals of", Align::Left)];
    let numbers = ["level", "coverage", "mean width"].map(|heading| (heading, Align::Right));
    let mut table = AlignedTable::new(headings.into_iter().chain(numbers));
    for PredictionIntervalScores { target, scores: IntervalScores { level, coverage, width }, .. } in intervals {
        table.push_row([target.clone(), percent(*level), percent(*coverage), number(*width, 4)]);
    }
    (!intervals.is_empty()).then_some(table)
}

/// Returns a table of the tenths of the rows by prediction, for the intervals of the highest level
/// of the first target; `None` if the model has no intervals.
pub(super) fn decile_table(intervals: &[PredictionIntervalScores]) -> Option<AlignedTable> {
    let first_target = &intervals.first()?.target;
    let shown = intervals.iter().rfind(|interval| interval.target == *first_target)?;
    let coverage = format!("coverage of {}", percent(shown.scores.level));
    let headings = ["predictions up to", "rows", &coverage, "mean width"].map(|heading| (heading, Align::Right));
    let mut table = AlignedTable::new(headings);
    for DecileScores { prediction, rows, coverage, width } in &shown.deciles {
        table.push_row([number(*prediction, 4), format_list(&[*rows]), percent(*coverage), number(*width, 4)]);
    }
    Some(table)
}

/// Returns a table of the prediction sets; `None` if the model has none.
pub(super) fn set_table(sets: &[PredictionSetScores]) -> Option<AlignedTable> {
    let headings = ["sets of level", "coverage", "mean size", "empty", "one class"];
    let mut table = AlignedTable::new(headings.map(|heading| (heading, Align::Right)));
    for PredictionSetScores { level, coverage, size, empty, single } in sets {
        table.push_row([percent(*level), percent(*coverage), number(*size, 4), percent(*empty), percent(*single)]);
    }
    (!sets.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_sets_have_tables() {
        let decile = DecileScores { prediction: 2.5, rows: 10.0, coverage: 0.8, width: 1.5 };
        let of_level = |level: f64| PredictionIntervalScores {
            target: "y".to_string(),
            scores: IntervalScores { level, coverage: level - 0.01, width: 4.0 * level },
            deciles: vec![decile],
        };
        let intervals = [of_level(0.5), of_level(0.9)];
        let expected = "  intervals of   level  coverage  mean width\n  y             50.0 %    49.0 %       2.000\n  \
            y             90.0 %    89.0 %       3.600\n";
        assert_eq!(interval_table(&intervals).unwrap().to_string(), expected);
        let expected = "  predictions up to  rows  coverage of 90.0 %  mean width\n              2.500    10              \
            80.0 %       1.500\n";
        assert_eq!(decile_table(&intervals).unwrap().to_string(), expected);
        let set = PredictionSetScores { level: 0.9, coverage: 0.91, size: 1.25, empty: 0.0, single: 0.8 };
        let table = set_table(&[set]).unwrap().to_string();
        let cells = ["sets of level", "90.0 %", "91.00 %", "1.250", "80.0 %"];
        assert!(cells.iter().all(|cell| table.contains(cell)), "{table}");
        assert!(interval_table(&[]).is_none() && decile_table(&[]).is_none() && set_table(&[]).is_none());
    }
}
