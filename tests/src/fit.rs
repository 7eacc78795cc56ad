//! Shortcuts to the library's objects, for tests.

use crate::source::Points;
use kapprox::kernel::{AnyKernel, Kernel};
use kapprox::landmark::{LandmarkRule, LandmarkSet, TableScan};
use kapprox::{FeatureMap, NystromMap, Real};
use kmodel::certificate::{Certificate, CertificateState};
use kstore::pass::NoObserver;
use kstore::{Pass, Workers};
use std::sync::Arc;

/// Builds a kernel from its expression.
///
/// # Panics
/// If it does not parse.
pub fn kernel(spec: &str) -> Arc<dyn AnyKernel> {
    Kernel::parse(spec).expect("a kernel").build().expect("a kernel")
}

/// Tile rows, segment rows and number of lanes of a pass.
pub type Cut = (usize, u64, usize);

/// One tile, one segment, one lane.
pub const WHOLE: Cut = (2048, 1 << 16, 1);

/// Selects landmarks by a scheme.
///
/// # Panics
/// If the selection fails.
pub fn select<T: Real>(
    points: &Points<T>,
    scheme: &dyn LandmarkRule<T>,
    spec: &str,
    m: usize,
    seed: u64,
    cut: Cut,
) -> LandmarkSet<T> {
    select_for(points, scheme, &kernel(spec), m, seed, cut)
}

/// Selects landmarks by a scheme, for any kernel object.
///
/// # Panics
/// If the selection fails.
pub fn select_for<T: Real>(
    points: &Points<T>,
    scheme: &dyn LandmarkRule<T>,
    kernel: &Arc<dyn AnyKernel>,
    m: usize,
    seed: u64,
    (tile, segment, lanes): Cut,
) -> LandmarkSet<T> {
    let workers = Workers::new(lanes);
    let pass = Pass {
        tile_rows: tile,
        segment_rows: segment,
        lane_count: lanes,
        prefetch_tiles: 1,
        workers: &workers,
        observer: &NoObserver,
        journal: None,
    };
    let rows = TableScan { source: points, pass, row_count: points.len() as u64 };
    scheme.select(&rows, kernel, m, seed).expect("landmarks")
}

/// Computes the certificate of the landmarks' Nyström map on all points, and the map's rank.
///
/// # Panics
/// If no landmark remains.
pub fn certify<T: Real>(points: &Points<T>, landmarks: LandmarkSet<T>, spec: &str) -> (Certificate, usize) {
    certify_kernel(points, landmarks, &kernel(spec))
}

/// Like [`certify`], for any kernel object.
///
/// # Panics
/// If no landmark remains.
pub fn certify_kernel<T: Real>(
    points: &Points<T>,
    landmarks: LandmarkSet<T>,
    kernel: &Arc<dyn AnyKernel>,
) -> (Certificate, usize) {
    let map = NystromMap::new(kernel, landmarks, &Workers::sequential()).expect("a map");
    let n = points.len();
    let x = faer::MatRef::from_row_major_slice(&points.x, n, points.d);
    let mut phi = faer::Mat::<T>::zeros(n, map.rank());
    let workers = Workers::sequential();
    map.apply(x, phi.as_mut(), &workers);
    let mut diag = vec![0.0; n];
    map.kernel_diag(x, &mut diag).expect("a projection");
    let mut state = CertificateState::new(map.rank());
    state.update(phi.as_ref(), &diag, None, &mut Vec::new(), &workers);
    (state.certificate(map.rank()), map.rank())
}

/// Returns a scan of all points in one pass of several tiles.
pub fn rows_of<'a, T: Real>(points: &'a Points<T>, workers: &'a Workers) -> TableScan<'a, T> {
    let pass = Pass {
        tile_rows: 128,
        segment_rows: 256,
        lane_count: 1,
        prefetch_tiles: 1,
        workers,
        observer: &NoObserver,
        journal: None,
    };
    TableScan { source: points, pass, row_count: points.len() as u64 }
}
