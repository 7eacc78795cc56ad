//! The training pass on a toy source and map equals its definition for any cut and any threads.
use faer::{Mat, MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kfit::{CvErrorReduction, FoldCoefficients, RidgeGrid};
use kmodel::{FeatureReduction, Folds, GramScratch, GramState, MomentReduction, MomentState, Targets};
use ksolve::{Classes, FoldSpec, Intercept};
use kstore::pass::NoObserver;
use kstore::{Footprint, Label, Pass, RowBuf, RowCursor, RowSource, TableShape, Workers};
use std::ops::Range;
use std::sync::Arc;

const ROWS: u64 = 1003;
const D: usize = 3;
const P: usize = 9;

fn value(row: u64, j: usize) -> f64 {
    kstore::key::Stream::new(1, kstore::key::Purpose::Data, j as u64).uniform(row) - 0.5
}

/// Rows with features `value(row, j)`, a target, a class and a group; every eleventh is skipped.
#[derive(Debug)]
struct Toy {
    targets: usize,
    classes: u32,
}

struct ToyCursor<'a>(&'a Toy, Range<u64>);

fn class(row: u64, k: u32) -> u32 {
    ((value(row, 0) + value(row, 1) + 1.0) / 2.0 * f64::from(k)) as u32
}

fn labels(k: u32) -> Vec<Label> {
    (0..k).map(|c| Label::Int(c.into())).collect()
}

impl<T: Real> RowSource<T> for Toy {
    fn shape(&self) -> TableShape {
        TableShape { stored_rows: ROWS, input_count: D, target_count: self.targets, has_weights: false }
    }
    fn open(&self, segment: Range<u64>) -> kstore::Result<Box<dyn RowCursor<T> + Send + '_>> {
        Ok(Box::new(ToyCursor(self, segment)))
    }
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

impl<T: Real> RowCursor<T> for ToyCursor<'_> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> kstore::Result<bool> {
        buf.clear();
        buf.class_labels = (self.0.classes > 0).then(|| Arc::new(labels(self.0.classes)));
        buf.group_labels = Some(Arc::new(labels(3)));
        for row in self.1.by_ref().filter(|row| row % 11 != 5).take(buf.capacity) {
            buf.row_numbers.push(row);
            buf.x.extend((0..D).map(|j| T::from_f64(value(row, j))));
            buf.y.extend((0..self.0.targets).map(|j| 5.0 + value(row, 10 + j)));
            buf.classes.push(class(row, self.0.classes));
            buf.groups.push((row / 100 % 3) as u32);
        }
        Ok(!buf.row_numbers.is_empty())
    }
}

/// φ_j = cos(j + x·a_j), as a projection of a kernel with k(x, x) = P if `certified`.
#[derive(Debug)]
struct Cosines {
    certified: bool,
}

fn feature(x: impl Fn(usize) -> f64, j: usize) -> f64 {
    (j as f64 + (0..D).map(|k| x(k) * ((3 * j + k) as f64).sin() * 3.0).sum::<f64>()).cos()
}

impl<T: Real> FeatureMap<T> for Cosines {
    fn dims(&self) -> (usize, usize) {
        (D, P)
    }
    fn apply(&self, x: MatRef<'_, T>, mut out: MatMut<'_, T>, _: &Workers) {
        for i in 0..x.nrows() {
            for j in 0..P {
                out[(i, j)] = T::from_f64(feature(|k| x[(i, k)].to_f64(), j));
            }
        }
    }
    fn kernel_diag(&self, _: MatRef<'_, T>, out: &mut [f64]) -> Option<()> {
        out.fill(P as f64);
        self.certified.then_some(())
    }
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

fn run<T: Real>(tile: usize, lanes: usize, threads: usize, bin: usize, segment: u64, spec: &str) -> MomentState {
    let toy = Toy { targets: 2, classes: 0 };
    let spec = FoldSpec::parse(spec).unwrap();
    let folds = Folds::new(&spec, 0, 0..ROWS, &labels(3)).unwrap();
    let targets = Targets::Numeric { centre: vec![5.0, 4.0] };
    let map = Cosines { certified: true };
    let fold = MomentReduction::<T>::new(&map, &folds, &targets).with_bin_rows(bin);
    let workers = Workers::new(threads);
    let pass = Pass {
        tile_rows: tile,
        segment_rows: segment,
        lane_count: lanes,
        prefetch_tiles: 1,
        workers: &workers,
        observer: &NoObserver,
        journal: None,
    };
    pass.reduce(&toy, &fold).unwrap().0
}

#[test]
fn tiles_lanes_and_threads_do_not_change_a_bit() {
    for spec in ["4", "blocks:3", "column:g", "none"] {
        let one = run::<f32>(64, 1, 1, 50, 256, spec);
        for (tile, lanes, threads) in [(1, 1, 1), (63, 1, 3), (256, 3, 1), (100, 2, 2), (64, 1, 8)] {
            assert!(run::<f32>(tile, lanes, threads, 50, 256, spec) == one, "{spec}: {tile} {lanes} {threads}");
        }
    }
}

#[test]
fn the_state_is_that_of_its_definition_for_any_bin_and_segment() {
    let rows: Vec<u64> = (0..ROWS).filter(|row| row % 11 != 5).collect();
    let phi = Mat::from_fn(rows.len(), P, |i, j| feature(|k| value(rows[i], k), j));
    for (bin, segment) in [(1, 1000), (50, 100), (2048, 10_000)] {
        let state = run::<f64>(64, 1, 1, bin, segment, "column:g");
        for group in 0..3 {
            let of_group: Vec<usize> = (0..rows.len()).filter(|i| rows[*i] / 100 % 3 == group).collect();
            let phi = Mat::from_fn(of_group.len(), P, |i, j| phi[(of_group[i], j)]);
            let y = Mat::from_fn(of_group.len(), 2, |i, j| value(rows[of_group[i]], 10 + j) + j as f64);
            let mut whole = GramState::new(P, 2, 1);
            let mut scratch = GramScratch::default();
            whole.update(0, phi.as_ref(), y.as_ref(), &mut scratch, &Workers::sequential()).unwrap();
            let (got, want) = (&state.gram.folds()[group as usize], &whole.folds()[0]);
            assert_eq!(got.row_count, want.row_count);
            near(&got.s, &want.s);
            near(&got.b, &want.b);
            near(&got.sy, &want.sy);
            near(&got.yy, &want.yy);
            (0..P).for_each(|j| near(&got.g[j * P + j..(j + 1) * P], &want.g[j * P + j..(j + 1) * P]));
        }
        let certificate = state.certificate.unwrap();
        assert_eq!((certificate.weight_sum, certificate.trace), (rows.len() as f64, (rows.len() * P) as f64));
        let missing: f64 = (0..rows.len()).map(|i| P as f64 - (0..4).map(|j| phi[(i, j)].powi(2)).sum::<f64>()).sum();
        near(&[certificate.certificate(4).trace_error], &[missing / certificate.trace]);
    }
}

#[test]
fn a_map_that_is_no_projection_has_no_certificate() {
    let map = Cosines { certified: false };
    let (folds, targets) = (Folds::None, Targets::Numeric { centre: vec![] });
    let fold = MomentReduction::<f64>::new(&map, &folds, &targets);
    let workers = Workers::sequential();
    let pass = Pass {
        tile_rows: 100,
        segment_rows: 500,
        lane_count: 1,
        prefetch_tiles: 1,
        workers: &workers,
        observer: &NoObserver,
        journal: None,
    };
    let (state, report) = pass.reduce(&Toy { targets: 0, classes: 0 }, &fold).unwrap();
    assert!(state.certificate.is_none());
    assert_eq!((state.gram.row_count(), report.rows), (912, 912));
}

#[test]
fn cv_error_counts_the_wrong_decisions_on_held_out_rows() {
    for k in [2, 4] {
        let toy = Toy { targets: 0, classes: k };
        let targets = Targets::Classes(Classes::new(labels(k)).unwrap());
        let folds = Folds::new(&FoldSpec::Random(3), 0, 0..ROWS, &[]).unwrap();
        let map = Cosines { certified: true };
        let workers = Workers::sequential();
        let pass = Pass {
            tile_rows: 77,
            segment_rows: 300,
            lane_count: 2,
            prefetch_tiles: 1,
            workers: &workers,
            observer: &NoObserver,
            journal: None,
        };
        let (state, _) = pass.reduce(&toy, &MomentReduction::<f64>::new(&map, &folds, &targets)).unwrap();
        let options = RidgeGrid {
            ranks: vec![P],
            lambdas: vec![1e-4],
            intercept: Intercept::Free,
            target_centre: targets.centre(),
        };
        let cells = [(P, 1e-4), (2, 1e-2)];
        let heads = FoldCoefficients::compute(&state.gram, &cells, &options, &workers, &NoObserver).unwrap();
        let (got, _) = pass
            .reduce(
                &toy,
                &FeatureReduction::<f64, _>::with_bin_reduction(&map, &folds, &targets, CvErrorReduction(&heads)),
            )
            .unwrap();
        let pool = Workers::new(3);
        let threaded = Pass { lane_count: 1, workers: &pool, ..pass };
        assert!(
            threaded
                .reduce(
                    &toy,
                    &FeatureReduction::<f64, _>::with_bin_reduction(&map, &folds, &targets, CvErrorReduction(&heads))
                )
                .unwrap()
                .0
                == got
        );
        let Targets::Classes(classes) = &targets else { unreachable!() };
        let counted = CvErrorReduction(&heads);
        for (cell, (rank, _)) in cells.iter().enumerate() {
            let wrong = (0..ROWS).filter(|row| row % 11 != 5).filter(|row| {
                let head = heads.heads[folds.fold_of(*row, 0).unwrap()][cell].as_ref().unwrap();
                let score = |j: usize| {
                    let dot = |i: usize| head.weights[(i, j)] * feature(|k| value(*row, k), i);
                    head.intercept[j] + (0..*rank).map(dot).sum::<f64>()
                };
                classes.decide((0..classes.target_count()).map(score)) != class(*row, k) as usize
            });
            let wrong: Vec<u64> = wrong.collect();
            assert_eq!(
                counted.counts(&got, cell).map(|counts| counts.iter().sum::<u64>()),
                [912, wrong.len() as u64],
                "{k} classes, cell {cell}"
            );
            let fold_rates = (0..folds.count()).map(|fold| {
                let in_fold = |row: &&u64| folds.fold_of(**row, 0).unwrap() == fold;
                let rows: Vec<u64> = (0..ROWS).filter(|row| row % 11 != 5).collect();
                Some(wrong.iter().filter(in_fold).count() as f64 / rows.iter().filter(in_fold).count() as f64)
            });
            assert_eq!(counted.fold_error_rates(&got, cell), fold_rates.collect::<Vec<_>>());
        }
        let [first, second] = [0, 1].map(|cell| counted.error_rate(&got, cell).unwrap());
        assert!(0.0 < first && first < second, "{got:?}");
    }
}

#[test]
fn a_class_that_was_not_there_is_an_error_with_its_row() {
    let targets = Targets::Classes(Classes::new(labels(2)).unwrap());
    let map = Cosines { certified: true };
    let fold = MomentReduction::<f64>::new(&map, &Folds::None, &targets);
    let workers = Workers::sequential();
    let pass = Pass {
        tile_rows: 100,
        segment_rows: 500,
        lane_count: 1,
        prefetch_tiles: 1,
        workers: &workers,
        observer: &NoObserver,
        journal: None,
    };
    let error = pass.reduce(&Toy { targets: 0, classes: 4 }, &fold).unwrap_err();
    let first = (0..ROWS).find(|row| row % 11 != 5 && class(*row, 4) > 1).unwrap();
    assert!(matches!(error, ksolve::Error::UnknownClass { row } if row == first), "{error}");
}

#[track_caller]
fn near(a: &[f64], b: &[f64]) {
    let scale = b.iter().fold(1e-3, |m: f64, v| m.max(v.abs()));
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12 * scale) && a.len() == b.len(), "{a:?} against {b:?}");
}
