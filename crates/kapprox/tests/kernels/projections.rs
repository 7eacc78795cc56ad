//! Every map on landmarks is a projection (K̂ ≼ K), for every scheme and order of landmarks.

use faer::{Mat, Side};
use kapprox::kernel::{AnyKernel, Domain, KernelFamily, registry as kernels};
use kapprox::landmark::{LandmarkRule, LandmarkSet, TableScan, registry as schemes};
use kapprox::map::{LandmarkMapArgs, MAX_FEATURES, MapConstructor, MapRequest, MapSpec, registry as maps};
use kapprox::{FeatureMap, Kernel, NystromMap, Real};
use kpass::{MemoryRows, Pass, Workers};
use std::sync::Arc;

use crate::inputs::{points, view, wide};

/// Maximum excess of ‖phi‖² over the kernel diagonal, as a fraction of the trace.
const OVERSHOOT: f64 = 1e-6;

/// Returns how far an eigenvalue of K − K̂ may lie below zero, as a fraction of the trace. Rounding
/// errors of equal sign in the entries of K̂ add up.
fn below<T: Real>() -> f64 {
    if size_of::<T>() == size_of::<f64>() { OVERSHOOT } else { 4.0 * OVERSHOOT }
}

/// Returns the tolerance of a projection's trace error beyond twice the error of the pseudo-inverse
/// on the same landmarks, as a fraction of the trace. For rows far from the landmarks, both errors
/// depend on the last direction that is kept.
fn missing<T: Real>() -> f64 {
    if size_of::<T>() == size_of::<f64>() { 1e-9 } else { 1e-6 }
}

/// Returns `n` rows in the kernel's domain, exact in f32, between ±3; a quarter are duplicates.
fn table<T: Real>(domain: Domain, n: usize, d: usize) -> Vec<T> {
    let value = |v: f64| match domain {
        Domain::Any => 3.0 * v,
        Domain::NonNegative => 3.0 * v.abs(),
        Domain::Binary => f64::from(u8::from(v > 0.0)),
    };
    let drawn = points::<f32>(n, d, d as u64, 0.0);
    let mut rows: Vec<T> = drawn.iter().map(|v| T::from_f64(value(f64::from(*v)))).collect();
    for i in 0..n / 4 {
        let twin = 7 * i % n;
        rows.copy_within(twin * d..(twin + 1) * d, (4 * i + 1) * d);
    }
    rows
}

/// A kernel on rows, with its kernel matrix in f64.
struct Case<T: Real> {
    name: String,
    kernel: Arc<dyn AnyKernel>,
    rows: Vec<T>,
    d: usize,
    source: MemoryRows<T>,
    matrix: Mat<f64>,
    trace: f64,
}

impl<T: Real> Case<T> {
    fn new(spec: &Kernel, domain: Domain, n: usize, d: usize) -> Self {
        let (kernel, rows) = (spec.build().unwrap(), table::<T>(domain, n, d));
        let matrix = dense(&kernel, &rows, &rows, d);
        let sums = rows.chunks(d).map(|row| wide(row).iter().sum()).collect();
        let source = MemoryRows::new(rows.clone(), d).unwrap().with_targets(sums, 1).unwrap();
        let trace = (0..n).map(|i| matrix[(i, i)]).sum();
        Self { name: format!("{spec}, d = {d}, {}", T::NAME), kernel, rows, d, source, matrix, trace }
    }

    fn data<'a>(&'a self, workers: &'a Workers) -> TableScan<'a, T> {
        let n = self.matrix.nrows();
        TableScan { source: &self.source, pass: Pass::new(64, 128, workers), row_count: n as u64 }
    }

    fn landmarks(&self, scheme: &dyn LandmarkRule<T>, m: usize) -> LandmarkSet<T> {
        scheme.select(&self.data(&Workers::sequential()), &self.kernel, m, 3).unwrap()
    }

    /// Returns the trace error. Checks that no rank overshoots the diagonal and that K − K̂ is
    /// positive semi-definite up to a tolerance.
    fn check(&self, what: &str, map: &dyn FeatureMap<T>) -> f64 {
        let (n, p) = (self.matrix.nrows(), map.dims().1);
        let (mut phi, mut residual) = (Mat::<T>::zeros(n, p), vec![0.0; n]);
        map.apply(view(&self.rows, self.d), phi.as_mut(), &Workers::sequential());
        map.kernel_diag(view(&self.rows, self.d), &mut residual).expect("a projection");
        let phi = Mat::from_fn(n, p, |i, j| phi[(i, j)].to_f64());
        let mut overshoot = 0.0f64;
        for j in 0..p {
            residual.iter_mut().enumerate().for_each(|(i, r)| *r -= phi[(i, j)] * phi[(i, j)]);
            overshoot = overshoot.max(residual.iter().map(|r| (-r).max(0.0)).sum::<f64>() / self.trace);
        }
        let left = &self.matrix - &phi * phi.transpose();
        let above = |i, j| left[(i, j)] + if i == j { below::<T>() * self.trace } else { 0.0 };
        let below = Mat::from_fn(n, n, above).llt(Side::Lower).is_ok();
        assert!(
            overshoot <= OVERSHOOT && below,
            "{}, {what}: rank {p}, overshoot {overshoot:.1e}, approximation below the kernel: {below}",
            self.name
        );
        residual.iter().map(|r| r.max(0.0)).sum::<f64>() / self.trace
    }

    /// Checks that the Nyström map projects, and that its trace error is at most twice the
    /// pseudo-inverse's, up to [`missing`].
    fn check_nystrom(&self, what: &str, landmarks: LandmarkSet<T>) {
        let oracle = self.pseudo_inverse(&landmarks);
        let map = NystromMap::new(&self.kernel, landmarks, &Workers::sequential()).unwrap();
        let error = self.check(what, &map);
        let most = 2.0 * oracle + missing::<T>();
        assert!(error <= most, "{}, {what}: trace error {error:.3e}, pseudo-inverse {oracle:.3e}", self.name);
    }

    /// Returns the trace error of the pseudo-inverse of the landmarks' kernel matrix, in f64.
    fn pseudo_inverse(&self, landmarks: &LandmarkSet<T>) -> f64 {
        let k_nm = dense(&self.kernel, &self.rows, &landmarks.points, self.d);
        let k_mm = dense(&self.kernel, &landmarks.points, &landmarks.points, self.d);
        let eigen = k_mm.self_adjoint_eigen(Side::Lower).unwrap();
        let (values, y) = (eigen.S().column_vector(), &k_nm * eigen.U());
        let (n, m) = y.shape();
        let kept: Vec<usize> = (0..m).filter(|j| values[*j] > 1e-13 * values[m - 1]).collect();
        let left = |i: usize| self.matrix[(i, i)] - kept.iter().map(|j| y[(i, *j)].powi(2) / values[*j]).sum::<f64>();
        (0..n).map(|i| left(i).max(0.0)).sum::<f64>() / self.trace
    }
}

/// Computes k(x_i, z_j) in f64.
fn dense<T: Real>(kernel: &Arc<dyn AnyKernel>, x: &[T], z: &[T], d: usize) -> Mat<f64> {
    crate::inputs::block::<f64>(kernel, view(&wide(x), d), view(&wide(z), d))
}

/// Returns the kernel of the family, and the same kernel with longer length scales if it has any.
fn specs(family: &KernelFamily) -> Vec<Kernel> {
    let spec = Kernel::parse(family.example).unwrap();
    let smooth = spec.with_scaled_lengths(6.0).unwrap();
    if smooth == spec { vec![spec] } else { vec![spec, smooth] }
}

fn every_case<T: Real>(n: usize, mut check: impl FnMut(&Case<T>)) {
    for family in kernels().iter().filter(|family| family.is_positive_definite) {
        for spec in specs(family) {
            for d in [1, 2, 3, 5] {
                check(&Case::<T>::new(&spec, family.domain, n, d));
            }
        }
    }
}

fn every_scheme<T: Real>() {
    every_case::<T>(96, |case| {
        for (scheme, m) in schemes().iter().flat_map(|scheme| [(scheme, 24), (scheme, 96)]) {
            case.check_nystrom(&format!("{m} by {}", scheme.name), case.landmarks(scheme.typed::<T>(), m));
        }
    });
}

/// Number of landmark schemes that each map uses for each kernel. The cases take turns, so that all
/// pairs of a map and a scheme occur.
const SCHEMES_PER_CASE: usize = 3;

fn every_map<T: Real>() {
    let workers = Workers::sequential();
    let mut turns = schemes().into_iter().cycle();
    every_case::<T>(48, |case| {
        for spec in maps().into_iter().map(|family| family.name.parse::<MapSpec>().unwrap()) {
            let MapConstructor::FromLandmarks(make) = spec.constructor::<T>() else { continue };
            let schemes = turns.by_ref().take(SCHEMES_PER_CASE);
            for (scheme, rank) in schemes.flat_map(|scheme| [(scheme, 12), (scheme, 48)]) {
                let ask =
                    MapRequest { d: case.d, rank, candidate_count: case.matrix.nrows(), element_bytes: size_of::<T>() };
                let wanted = spec.shape(ask).unwrap().landmark_count.unwrap();
                let landmarks = case.landmarks(scheme.typed::<T>(), wanted);
                let (kernel, data) = (&case.kernel, &case.data(&workers));
                let (spec_ref, keeps_order, workers) = (&spec, rank < 48, &workers);
                let given = LandmarkMapArgs {
                    spec: spec_ref,
                    kernel,
                    landmarks,
                    rank,
                    keeps_order,
                    scan: data,
                    seed: 1,
                    workers,
                };
                case.check(&format!("{spec}, {rank} by {}", scheme.name), &*make(given).unwrap());
            }
        }
    });
}

#[test]
fn landmarks_of_every_scheme_project_in_f32() {
    every_scheme::<f32>();
}

#[test]
fn landmarks_of_every_scheme_project_in_f64() {
    every_scheme::<f64>();
}

#[test]
fn every_map_on_landmarks_projects_in_f32() {
    every_map::<f32>();
}

#[test]
fn every_map_on_landmarks_projects_in_f64() {
    every_map::<f64>();
}

/// Landmarks in a corner, on a line, or within 1e-6 of one point, each alone and before all rows.
fn tables<T: Real>(d: usize) -> Vec<(&'static str, Vec<T>)> {
    let (all, drawn) = (table::<T>(Domain::Any, 240, d), wide(&points::<T>(120, d, 5, 0.0)));
    let make = |value: &dyn Fn(usize) -> f64| (0..120 * d).map(|i| T::from_f64(value(i))).collect::<Vec<T>>();
    let corner = make(&|i| 2.0 + 0.5 * drawn[i]);
    let line = make(&|i| -3.0 + 0.05 * (i / d) as f64);
    let place = make(&|i| 1e-6 * drawn[i]);
    let before = |rows: &[T]| [rows, &all].concat();
    vec![
        ("corner and rows", before(&corner)),
        ("line and rows", before(&line)),
        ("place and rows", before(&place)),
        ("corner", corner),
        ("line", line),
        ("place", place),
    ]
}

fn every_table<T: Real>() {
    for text in ["gaussian(sigma=1)", "gaussian(sigma=4)", "cauchy(sigma=3)", "matern(nu=2.5, sigma=20)"] {
        for d in [1, 2, 3] {
            let case = Case::<T>::new(&Kernel::parse(text).unwrap(), Domain::Any, 240, d);
            for (what, points) in tables::<T>(d) {
                let rows = (0..(points.len() / d) as u64).collect();
                case.check_nystrom(what, LandmarkSet { points, row_numbers: rows, d, passes: 0, evaluations: 0 });
            }
        }
    }
}

#[test]
fn tables_of_landmarks_project_wherever_they_lie() {
    every_table::<f32>();
    every_table::<f64>();
}

#[test]
fn no_map_on_landmarks_is_larger_than_its_rows_and_none_than_the_most() {
    for family in maps() {
        let spec: MapSpec = family.name.parse().unwrap();
        let shape = |rank, rows| spec.shape(MapRequest { d: 5000, rank, candidate_count: rows, element_bytes: 8 });
        for rank in [100, 1_000_000_000, usize::MAX] {
            let Ok(few) = shape(rank, 60) else {
                assert!(spec.is_data_independent() && rank > MAX_FEATURES, "{}", family.name);
                continue;
            };
            assert!(few.landmark_count.is_none_or(|m| m <= 60 && few.p <= 60), "{} at {rank}: {few:?}", family.name);
            // the columns, not the rank, determine the number of additive features
            let asked = spec.is_data_independent() && family.name != "additive";
            assert_eq!(
                shape(rank, usize::MAX).is_err(),
                rank > MAX_FEATURES && (asked || few.landmark_count.is_some())
            );
        }
        assert!(shape(MAX_FEATURES, usize::MAX).is_ok(), "{}: no product of counts wraps", family.name);
    }
}
