//! The surface of a fit: the cross-validated errors for every rank and lambda, and the errors of
//! each fold.

use super::FitReport;
use crate::table::{Grid, optional_number, short_lambda};
use ksolve::{SurfaceCell, job};

/// Returns the chosen cell of the surface of a fit.
pub(super) fn selected_cell(fit: &job::FitReport) -> Option<&SurfaceCell> {
    fit.surface.iter().find(|cell| cell.rank == fit.rank && Some(cell.lambda) == fit.lambda)
}

impl FitReport {
    /// Returns the surface with the chosen cell marked; `None` if it has fewer than two cells, or
    /// no scores. The scores are `cv_error` if every cell has a `cv_error`, otherwise `cv_mse`.
    pub(super) fn surface_grid(&self) -> Option<Grid> {
        let scores = self.surface_scores();
        if self.fit.surface.len() < 2 || scores.iter().flatten().all(Option::is_none) {
            return None;
        }
        let (ranks, lambdas) = (self.ranks(), self.lambdas());
        let row = lambdas.iter().position(|lambda| Some(*lambda) == self.fit.lambda);
        let column = ranks.iter().position(|rank| *rank == self.fit.rank);
        Some(Grid {
            corner: "lambda \\ rank".to_string(),
            columns: ranks.iter().map(ToString::to_string).collect(),
            rows: lambdas
                .iter()
                .zip(&scores)
                .map(|(lambda, scores)| (short_lambda(*lambda), format_scores(scores)))
                .collect(),
            marked_cell: row.zip(column),
        })
    }

    /// Returns the values of the cells of [`Self::surface_grid`], lambda by lambda.
    pub(super) fn surface_scores(&self) -> Vec<Vec<Option<f64>>> {
        let uses_error_rate = self.is_chosen_by_error();
        let score = |cell: &SurfaceCell| if uses_error_rate { cell.cv_error } else { cell.cv_mse };
        let cell = |rank: usize, lambda: f64| {
            self.fit.surface.iter().find(|cell| cell.rank == rank && cell.lambda == lambda).and_then(score)
        };
        let ranks = self.ranks();
        self.lambdas().iter().map(|lambda| ranks.iter().map(|rank| cell(*rank, *lambda)).collect()).collect()
    }

    /// Returns a grid of the errors of every fold, at every rank with the best lambda of this rank;
    /// the chosen rank is marked. Also returns the values of the grid. `None` if there are no
    /// folds.
    pub(super) fn folds_grid(&self) -> Option<(Grid, Vec<Vec<Option<f64>>>)> {
        let best_cell = |rank: &usize| {
            let rank_cells = self.fit.surface.iter().filter(|cell| cell.rank == *rank && !cell.fold_mse.is_empty());
            // the chosen cell represents its rank, whatever the criterion
            let is_chosen = |cell: &SurfaceCell| *rank == self.fit.rank && Some(cell.lambda) == self.fit.lambda;
            let key = |cell: &&SurfaceCell| (!is_chosen(cell), cell.cv_mse.unwrap_or(f64::INFINITY));
            rank_cells.min_by(|a, b| key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1)))
        };
        let cells: Vec<&SurfaceCell> = self.ranks().iter().filter_map(best_cell).collect();
        let fold_count = cells.first()?.fold_mse.len();
        let row = |cell: &&SurfaceCell| {
            (format!("{}, {}", cell.rank, short_lambda(cell.lambda)), format_scores(&cell.fold_mse))
        };
        let chosen_row = cells.iter().position(|cell| cell.rank == self.fit.rank);
        let grid = Grid {
            corner: "rank, lambda \\ fold".to_string(),
            columns: (1..=fold_count).map(|fold| fold.to_string()).collect(),
            rows: cells.iter().map(row).collect(),
            marked_cell: chosen_row.and_then(|row| {
                // marks the worst fold of the model
                let errors = cells[row].fold_mse.iter().enumerate().filter_map(|(fold, mse)| Some((fold, (*mse)?)));
                errors.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(fold, _)| (row, fold))
            }),
        };
        Some((grid, cells.iter().map(|cell| cell.fold_mse.clone()).collect()))
    }

    /// Returns true if every cell has a `cv_error`, which is then the criterion.
    pub(super) fn is_chosen_by_error(&self) -> bool {
        self.fit.surface.iter().all(|cell| cell.cv_error.is_some())
    }

    pub(super) fn selected_cell(&self) -> Option<&SurfaceCell> {
        selected_cell(&self.fit)
    }

    fn ranks(&self) -> Vec<usize> {
        let mut ranks: Vec<usize> = self.fit.surface.iter().map(|cell| cell.rank).collect();
        ranks.dedup();
        ranks
    }

    fn lambdas(&self) -> Vec<f64> {
        let mut lambdas: Vec<f64> = self.fit.surface.iter().map(|cell| cell.lambda).collect();
        lambdas.sort_by(f64::total_cmp);
        lambdas.dedup();
        lambdas
    }
}

fn format_scores(scores: &[Option<f64>]) -> Vec<String> {
    scores.iter().copied().map(optional_number).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;

    #[test]
    fn folds_are_those_of_the_best_cell_of_each_rank() {
        let mut report = report();
        assert!(report.folds_grid().is_none(), "no folds");
        for (i, cell) in report.fit.surface.iter_mut().enumerate() {
            cell.fold_mse = vec![Some(i as f64), None, Some(0.5)];
        }
        let (grid, scores) = report.folds_grid().unwrap();
        // lambda 1e-7 is the best at both ranks: the third and the sixth cell
        assert_eq!(grid.rows[0], ("250, 1e-7".to_string(), ["2.000", "–", "0.5000"].map(str::to_string).to_vec()));
        assert_eq!(scores[1], [Some(5.0), None, Some(0.5)]);
        assert_eq!(grid.marked_cell, Some((1, 0)), "the worst fold of the model");
        // the cell of the model is marked, although another cell of the same rank has a smaller
        // squared error
        report.fit.lambda = Some(1e-8);
        assert_eq!(report.folds_grid().unwrap().1, [[Some(2.0), None, Some(0.5)], [Some(3.0), None, Some(0.5)]]);
    }
}
