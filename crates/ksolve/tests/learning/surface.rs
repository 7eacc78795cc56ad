//! Ridge and its surface compared with a refit of every cell by QR of the augmented problem.
use faer::Mat;
use faer::prelude::SolveLstsq;
use kfit::{FoldCoefficients, RidgeGrid, Surface, fit};
use kmodel::{GramScratch, GramState};
use ksolve::{Intercept, SurfaceCell};
use kstore::Workers;
use kstore::pass::NoObserver;

const INTERCEPTS: [Intercept; 3] = [Intercept::Free, Intercept::Penalised, Intercept::None];
const FOLDS: usize = 3;

fn data(n: usize, p: usize, t: usize) -> (Mat<f64>, Mat<f64>) {
    let keys = kstore::key::Stream::new(11, kstore::key::Purpose::Data, 0);
    let uniform = |i: usize| keys.uniform(i as u64) - 0.4;
    let phi = Mat::from_fn(n, p, |i, j| uniform(i * p + j) / (1.0 + j as f64 / 5.0));
    let y = Mat::from_fn(n, t, |i, j| {
        let signal: f64 = (0..p).map(|k| phi[(i, k)] * ((k + j) as f64).cos()).sum();
        // a large mean, which centring has to remove
        50.0 * (j as f64 + 1.0) + signal + 0.3 * uniform((1 << 30) + i * t + j)
    });
    (phi, y)
}

fn fold_of(i: usize) -> usize {
    (i * i + i / 7) % FOLDS
}

fn state_of<T: kapprox::Real>(phi: &Mat<T>, y: &Mat<f64>, centre: &[f64], folds: usize) -> GramState {
    let mut state = GramState::new(phi.ncols(), y.ncols(), folds);
    let mut scratch = GramScratch::default();
    for fold in 0..folds {
        let rows: Vec<usize> = (0..phi.nrows()).filter(|i| folds == 1 || fold_of(*i) == fold).collect();
        let phi = Mat::from_fn(rows.len(), phi.ncols(), |i, j| phi[(rows[i], j)]);
        let y = Mat::from_fn(rows.len(), y.ncols(), |i, j| y[(rows[i], j)] - centre[j]);
        state.update(fold, phi.as_ref(), y.as_ref(), &mut scratch, &Workers::sequential()).unwrap();
    }
    state
}

/// Oracle: ‖[Φ 1; √(λn)·I] w − [y; 0]‖² by QR, with the intercept penalised or not.
fn refit(
    phi: &Mat<f64>,
    y: &Mat<f64>,
    rows: &[usize],
    rank: usize,
    lambda: f64,
    intercept: Intercept,
) -> (Mat<f64>, Vec<f64>) {
    let n = rows.len();
    let constant = usize::from(intercept != Intercept::None);
    let penalised = if intercept == Intercept::Penalised { rank + 1 } else { rank };
    let root = (lambda * n as f64).sqrt();
    let a = Mat::from_fn(n + penalised, rank + constant, |i, j| match (i < n, j < rank) {
        (true, true) => phi[(rows[i], j)],
        (true, false) => 1.0,
        (false, _) => {
            if i - n == j {
                root
            } else {
                0.0
            }
        }
    });
    let right = Mat::from_fn(n + penalised, y.ncols(), |i, j| if i < n { y[(rows[i], j)] } else { 0.0 });
    let w = a.qr().solve_lstsq(&right);
    let c = (0..y.ncols()).map(|j| if constant == 1 { w[(rank, j)] } else { 0.0 }).collect();
    (w.subrows(0, rank).to_owned(), c)
}

fn errors(phi: &Mat<f64>, y: &Mat<f64>, rows: &[usize], w: &Mat<f64>, c: &[f64]) -> f64 {
    let residual = |i: usize, j: usize| y[(i, j)] - c[j] - (0..w.nrows()).map(|k| phi[(i, k)] * w[(k, j)]).sum::<f64>();
    rows.iter().flat_map(|i| (0..y.ncols()).map(move |j| (*i, j))).map(|(i, j)| residual(i, j).powi(2)).sum()
}

fn options(t: usize, intercept: Intercept) -> RidgeGrid {
    RidgeGrid {
        ranks: vec![3, 10, 40],
        lambdas: vec![1e-6, 1e-3, 1e-1],
        intercept,
        target_centre: (0..t).map(|j| 49.0 * (j as f64 + 1.0)).collect(),
    }
}

#[test]
fn every_cell_equals_a_refit_with_its_held_out_residuals() {
    for t in [1, 4] {
        let (phi, y) = data(211, 40, t);
        for intercept in INTERCEPTS {
            let options = options(t, intercept);
            let state = state_of(&phi, &y, &options.target_centre, FOLDS);
            let surface = Surface::compute(&state, &options, &Workers::sequential(), &NoObserver).unwrap();
            assert_eq!((surface.cells.len(), surface.warnings.len()), (9, 0));
            for cell in &surface.cells {
                let mut total = 0.0;
                for fold in 0..FOLDS {
                    let (test, train): (Vec<_>, Vec<_>) = (0..211).partition(|i| fold_of(*i) == fold);
                    let (w, c) = refit(&phi, &y, &train, cell.rank, cell.lambda, intercept);
                    let sum = errors(&phi, &y, &test, &w, &c);
                    close(cell.fold_mse[fold].unwrap(), sum / (test.len() * t) as f64, 1e-8);
                    total += sum;
                }
                close(cell.cv_mse.unwrap(), total / (211 * t) as f64, 1e-8);
            }
        }
    }
}

/// Computes the trace of the smoother matrix, column by column: a fit to each unit vector.
fn degrees(phi: &Mat<f64>, rank: usize, lambda: f64, intercept: Intercept) -> f64 {
    let (n, all) = (phi.nrows(), (0..phi.nrows()).collect::<Vec<_>>());
    let (w, c) = refit(phi, &Mat::identity(n, n), &all, rank, lambda, intercept);
    (0..n).map(|i| c[i] + (0..rank).map(|k| phi[(i, k)] * w[(k, i)]).sum::<f64>()).sum()
}

#[test]
fn generalised_cross_validation_is_the_error_over_the_squared_share_of_freedom_left() {
    let (phi, y) = data(211, 40, 2);
    let all: Vec<usize> = (0..211).collect();
    for intercept in INTERCEPTS {
        let options = options(2, intercept);
        // all rows count, with or without folds
        for folds in [1, FOLDS] {
            let state = state_of(&phi, &y, &options.target_centre, folds);
            let surface = Surface::compute(&state, &options, &Workers::new(2), &NoObserver).unwrap();
            for cell in &surface.cells {
                let (w, c) = refit(&phi, &y, &all, cell.rank, cell.lambda, intercept);
                let mse = errors(&phi, &y, &all, &w, &c) / (211.0 * 2.0);
                let left = 1.0 - degrees(&phi, cell.rank, cell.lambda, intercept) / 211.0;
                close(cell.gcv.unwrap(), mse / (left * left), 1e-8);
            }
        }
    }
}

#[test]
fn the_fit_equals_a_refit() {
    let (phi, y) = data(211, 40, 2);
    let all: Vec<usize> = (0..211).collect();
    for intercept in INTERCEPTS {
        let options = options(2, intercept);
        let state = state_of(&phi, &y, &options.target_centre, FOLDS);
        for (rank, lambda) in [(40, 1e-6), (7, 1e-2)] {
            let got = fit(&state, rank, lambda, &options, &Workers::sequential()).unwrap();
            let (w, c) = refit(&phi, &y, &all, rank, lambda, intercept);
            for j in 0..2 {
                (0..rank).for_each(|i| assert!((got.head.weights[(i, j)] - w[(i, j)]).abs() < 1e-7 * w.norm_max()));
                assert!((got.head.intercept[j] - c[j]).abs() < 1e-8 * (1.0 + c[j].abs()), "{intercept}");
            }
            let mse = errors(&phi, &y, &all, &w, &c) / 211.0;
            close(got.train_mse.iter().sum::<f64>(), mse, 1e-8);
            assert!(got.condition_bound >= 1.0 && got.condition_bound.is_finite());
        }
    }
}

#[test]
fn the_provisional_centre_changes_nothing() {
    let (phi, y) = data(150, 40, 1);
    for intercept in INTERCEPTS {
        let of = |centre: f64| {
            let options = RidgeGrid { target_centre: vec![centre], ..options(1, intercept) };
            let state = state_of(&phi, &y, &options.target_centre, FOLDS);
            fit(&state, 40, 1e-4, &options, &Workers::sequential()).unwrap()
        };
        let (a, b) = (of(50.0), of(0.0));
        close(a.head.intercept[0] + 1.0, b.head.intercept[0] + 1.0, 1e-9);
        close(a.train_mse[0], b.train_mse[0], 1e-6);
    }
}

#[test]
fn f32_features_give_nearly_the_same_surface() {
    let (phi, y) = data(211, 40, 1);
    let narrow = Mat::from_fn(211, 40, |i, j| phi[(i, j)] as f32);
    let options = options(1, Intercept::Free);
    let compute = |state| Surface::compute(&state, &options, &Workers::sequential(), &NoObserver).unwrap();
    let wide = compute(state_of(&phi, &y, &options.target_centre, FOLDS));
    let narrow = compute(state_of(&narrow, &y, &options.target_centre, FOLDS));
    for (a, b) in wide.cells.iter().zip(&narrow.cells) {
        close(a.cv_mse.unwrap(), b.cv_mse.unwrap(), 1e-4);
    }
}

#[test]
fn fold_coefficients_are_those_of_the_cells() {
    let (phi, y) = data(211, 40, 2);
    let options = options(2, Intercept::Free);
    let state = state_of(&phi, &y, &options.target_centre, FOLDS);
    let cells = [(40, 1e-3), (10, 1e-1), (3, 1e-3)];
    let got = FoldCoefficients::compute(&state, &cells, &options, &Workers::sequential(), &NoObserver).unwrap();
    for fold in 0..FOLDS {
        let train: Vec<usize> = (0..211).filter(|i| fold_of(*i) != fold).collect();
        for (cell, (rank, lambda)) in cells.iter().enumerate() {
            let head = got.heads[fold][cell].as_ref().unwrap();
            let (w, c) = refit(&phi, &y, &train, *rank, *lambda, Intercept::Free);
            assert!((&head.weights - &w).norm_max() < 1e-7);
            close(head.intercept[1], c[1], 1e-9);
        }
    }
}

#[test]
fn an_indefinite_cell_is_left_out_with_a_warning_and_smaller_ranks_survive() {
    // nine of twelve features are far from zero: centring leaves their indefinite rounding errors
    let (small, y) = data(300, 12, 1);
    let phi = Mat::from_fn(300, 12, |i, j| (small[(i, j)] + if j < 3 { 0.0 } else { 1e5 }) as f32);
    let state = state_of(&phi, &y, &[50.0], FOLDS);
    let options = RidgeGrid {
        ranks: vec![3, 12],
        lambdas: vec![1e-9, 1e6],
        intercept: Intercept::Free,
        target_centre: vec![50.0],
    };
    let surface = Surface::compute(&state, &options, &Workers::sequential(), &NoObserver).unwrap();
    let mse = |rank, lambda| surface.cell(rank, lambda).unwrap().cv_mse;
    assert_eq!(mse(12, 1e-9), None);
    for (rank, lambda) in [(3, 1e-9), (3, 1e6), (12, 1e6)] {
        assert!(mse(rank, lambda).unwrap().is_finite());
    }
    let alone =
        Surface::compute(&state, &RidgeGrid { ranks: vec![3], ..options.clone() }, &Workers::sequential(), &NoObserver);
    close(mse(3, 1e-9).unwrap(), alone.unwrap().cell(3, 1e-9).unwrap().cv_mse.unwrap(), 1e-12);
    assert_eq!(surface.warnings.len(), 1);
    assert!(surface.warnings[0].starts_with("lambda up to 1.00e-9 is too small for the rounding of f32 at some ranks"));
    assert!(surface.warnings[0].contains("`precision` f64"));
    let error = fit(&state, 12, 1e-9, &options, &Workers::sequential()).unwrap_err();
    assert!(matches!(error, ksolve::Error::Indefinite { rank: 12, precision: "f32", .. }), "{error}");
    let json = serde_json::to_value(&surface).unwrap();
    assert!(json["cells"].as_array().unwrap().iter().any(|cell| cell["cv_mse"].is_null()));
}

#[test]
fn an_error_below_rounding_is_never_negative_nor_the_best_by_accident() {
    let (phi, _) = data(200, 10, 1);
    let y = Mat::from_fn(200, 1, |i, _| (0..10).map(|j| phi[(i, j)]).sum());
    let narrow = Mat::from_fn(200, 10, |i, j| phi[(i, j)] as f32);
    let options =
        RidgeGrid { ranks: vec![10], lambdas: vec![1e-12], intercept: Intercept::None, target_centre: vec![0.0] };
    for (state, at_least) in [(state_of(&phi, &y, &[0.0], FOLDS), 1e-18), (state_of(&narrow, &y, &[0.0], FOLDS), 1e-9)]
    {
        let surface = Surface::compute(&state, &options, &Workers::sequential(), &NoObserver).unwrap();
        let mse = surface.cells[0].cv_mse.unwrap();
        assert!(mse >= at_least && mse < 1e-4, "{mse:e}");
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    for (p, t) in [(70, 1), (530, 3), (1100, 1)] {
        let (phi, y) = data(p * 3 / 2, p, t);
        let options = RidgeGrid { ranks: vec![p / 3, p], ..options(t, Intercept::Penalised) };
        let state = state_of(&phi, &y, &options.target_centre, 2);
        let of = |threads| {
            let workers = Workers::new(threads);
            let surface = Surface::compute(&state, &options, &workers, &NoObserver).unwrap();
            (surface, fit(&state, p, 1e-6, &options, &workers).unwrap())
        };
        let one = of(1);
        for threads in [2, 3, 8] {
            assert!(of(threads) == one, "p = {p}, {threads} threads");
        }
    }
}

#[test]
fn the_best_cell_and_its_ties() {
    let cell = |rank, lambda, cv_mse| SurfaceCell {
        rank,
        lambda,
        cv_mse,
        gcv: None,
        cv_error: None,
        fold_mse: vec![],
        fold_error: vec![],
    };
    let surface = |cells: Vec<SurfaceCell>| Surface {
        ranks: vec![1, 2],
        lambdas: vec![0.1, 0.2],
        fold_count: 2,
        cells,
        warnings: vec![],
    };
    let tied = vec![cell(2, 0.2, Some(1.0)), cell(1, 0.1, Some(1.0)), cell(1, 0.2, Some(1.0)), cell(2, 0.1, None)];
    let mut tied = surface(tied);
    let best = tied.best().unwrap();
    assert_eq!((best.rank, best.lambda), (1, 0.2));
    assert_eq!(tied.best_per_rank().len(), 2);
    assert!(tied.best_by_error().is_none());
    tied.set_cv_error(2, 0.1, 0.25, &[Some(0.2), None, Some(0.3)]);
    assert_eq!(tied.best_by_error().unwrap().rank, 2);
    assert!(surface(vec![cell(1, 0.1, None)]).best().is_none());
}

#[test]
fn folds_without_rows_are_skipped_and_a_fold_with_all_rows_is_an_error() {
    let (phi, y) = data(100, 5, 1);
    let options =
        RidgeGrid { ranks: vec![5], lambdas: vec![1e-3], intercept: Intercept::Free, target_centre: vec![0.0] };
    let fill = |folds: usize, of: fn(usize) -> usize| {
        let mut state = GramState::new(5, 1, folds);
        for i in 0..100 {
            let (phi, y) = (phi.as_ref().subrows(i, 1), y.as_ref().subrows(i, 1));
            state.update(of(i), phi, y, &mut GramScratch::default(), &Workers::sequential()).unwrap();
        }
        Surface::compute(&state, &options, &Workers::sequential(), &NoObserver)
    };
    let surface = fill(3, |i| 2 * (i % 2)).unwrap();
    assert_eq!(surface.cells[0].fold_mse[1], None);
    assert!(surface.cells[0].cv_mse.is_some());
    assert!(matches!(fill(2, |_| 1), Err(ksolve::Error::UnsuitableFolds { .. })));
    let none = fill(1, |_| 0).unwrap();
    assert_eq!((none.cells[0].cv_mse, none.warnings.len()), (None, 0));
}

#[test]
fn wrong_options_are_refused() {
    let (phi, y) = data(50, 5, 1);
    let state = state_of(&phi, &y, &[0.0], 1);
    let good = RidgeGrid { ranks: vec![5], lambdas: vec![1e-3], intercept: Intercept::Free, target_centre: vec![0.0] };
    let try_fit = |rank, lambda, options: &RidgeGrid| fit(&state, rank, lambda, options, &Workers::sequential());
    assert!(try_fit(5, 1e-3, &good).is_ok());
    assert!(matches!(try_fit(6, 1e-3, &good), Err(ksolve::Error::InvalidRank { rank: 6, features: 5 })));
    assert!(matches!(try_fit(0, 1e-3, &good), Err(ksolve::Error::InvalidRank { .. })));
    assert!(matches!(try_fit(5, 0.0, &good), Err(ksolve::Error::Option { .. })));
    assert!(matches!(try_fit(5, f64::NAN, &good), Err(ksolve::Error::Option { .. })));
    let centre = RidgeGrid { target_centre: vec![0.0; 2], ..good.clone() };
    assert!(matches!(try_fit(5, 1e-3, &centre), Err(ksolve::Error::Shape { .. })));
    let one = GramState::new(5, 1, 1);
    assert!(matches!(fit(&one, 5, 1e-3, &good, &Workers::sequential()), Err(ksolve::Error::TooFewRows { rows: 0 })));
}

#[track_caller]
fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance * b.abs(), "{a:e} against {b:e}");
}
