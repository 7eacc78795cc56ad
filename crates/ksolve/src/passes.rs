//! The pass of training: rows go through the map into the Gram state and the certificate.

use crate::bins::{BIN, Bins, Filled, Targets};
use crate::strips::{Pool, for_each_strip};
use crate::{CertificateState, Error, FoldCoefficients, Folds, GramScratch, GramState, Head, Result};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use kapprox::{FeatureMap, Real};
use kstore::{Fold, RowBlock, Workers};

/// Rows scored at once by one thread: 256 x 4,000 features in f64 are 8 MB.
const STRIP: usize = 256;

/// The pass that ridge regression needs: for every fold the moments of features and targets, and the certificate of
/// every rank from the same features.
///
/// *Cost per row*: the map, p² flops for the Gram matrix, 5·p for the certificate. *Bytes*:
/// [`RidgeFold::state_bytes`] per state, [`RidgeFold::scratch_bytes`] per lane.
#[derive(Debug)]
pub struct RidgeFold<'a, T> {
    map: &'a dyn FeatureMap<T>,
    folds: &'a Folds,
    targets: &'a Targets,
    bin: usize,
    certify: bool,
    /// What makes features of the targets, whose moments are then taken in the place of theirs.
    target_features: Option<&'a dyn FeatureMap<f64>>,
}

/// The result of the pass.
#[derive(Clone, Debug, PartialEq)]
pub struct RidgeState {
    /// Second moments of features and targets, fold by fold.
    pub gram: GramState,
    /// Residuals at every rank; `None` for a map that is no projection.
    pub certificate: Option<CertificateState>,
}

kstore::summed!(RidgeState { part "gram": gram, some "certificate": certificate });

/// Buffers that a lane reuses from bin to bin.
#[derive(Debug)]
pub struct RidgeScratch<T> {
    bins: Bins<T>,
    gram: GramScratch<T>,
    diag: Vec<f64>,
    partial: Vec<f64>,
}

impl<'a, T: Real> RidgeFold<'a, T> {
    /// A pass over rows of the map's d features. It certifies where the map knows its kernel's diagonal.
    pub fn new(map: &'a dyn FeatureMap<T>, folds: &'a Folds, targets: &'a Targets) -> Self {
        Self { map, folds, targets, bin: BIN, certify: map.is_projection(), target_features: None }
    }

    /// Sets the number of rows of a bin. It decides the order of sums: give it from the shape of the work, never from
    /// memory or threads.
    #[must_use]
    pub fn with_bin(self, rows: usize) -> Self {
        Self { bin: rows.max(1), ..self }
    }

    /// Takes the moments with these features of the targets, and not with the targets.
    #[must_use]
    pub(crate) fn with_target_features(self, map: &'a dyn FeatureMap<f64>) -> Self {
        Self { target_features: Some(map), ..self }
    }

    /// Number of columns that the moments are taken with.
    fn columns(&self) -> usize {
        self.target_features.map_or(self.targets.count(), |map| map.dims().1)
    }

    /// Leaves the certificate out.
    #[must_use]
    pub fn without_certificate(self) -> Self {
        Self { certify: false, ..self }
    }

    /// Bytes of a state: Gram matrices for the most part. How many of them there are, [`kstore::pass::states`] says.
    pub fn state_bytes(&self) -> usize {
        let p = self.map.dims().1;
        let certificate = if self.certify { CertificateState::bytes(p) } else { 0 };
        GramState::bytes(p, self.columns(), self.folds.count()) + certificate
    }

    /// Bytes of a lane's buffers where so many threads work inside a step.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        let (dims, t) = (self.map.dims(), self.targets.count());
        let certificate =
            if self.certify { CertificateState::scratch_bytes(dims.1, self.bin) + 8 * self.bin } else { 0 };
        Bins::<T>::bytes(dims, t, self.folds.count(), self.bin)
            + GramScratch::<T>::bytes(dims.1, t, self.bin, threads)
            + self.map.footprint().per_row * self.bin
            + certificate
    }

    /// Adds a full bin to the state.
    fn take(
        &self,
        state: &mut RidgeState,
        (bins, gram, diag, partial): (&mut Bins<T>, &mut GramScratch<T>, &mut Vec<f64>, &mut Vec<f64>),
        fold: usize,
        workers: &Workers,
    ) -> Result<()> {
        let filled = bins.apply(fold, self.map, workers);
        if let Some(certificate) = &mut state.certificate {
            diag.resize(filled.x.nrows(), 0.0);
            if self.map.kernel_diag(filled.x, diag).is_some() {
                kapprox::kernel::check_finite::<T>("of this fit", diag)?;
                certificate.update(filled.phi, diag, partial, workers);
            }
        }
        let Filled { phi, y, w, .. } = bins.weigh(fold, workers);
        if let Some(map) = self.target_features {
            let mut features = Mat::zeros(y.nrows(), map.dims().1);
            map.apply(y, features.as_mut(), workers);
            return state.gram.update_weighted(fold, phi, features.as_ref(), w, gram, workers);
        }
        state.gram.update_weighted(fold, phi, y, w, gram, workers)
    }
}

impl<T: Real> Fold<T> for RidgeFold<'_, T> {
    type State = RidgeState;
    type Scratch = RidgeScratch<T>;
    type Error = Error;

    fn init(&self) -> RidgeState {
        let p = self.map.dims().1;
        RidgeState {
            gram: GramState::new(p, self.columns(), self.folds.count()),
            certificate: self.certify.then(|| CertificateState::new(p)),
        }
    }

    fn scratch(&self) -> RidgeScratch<T> {
        RidgeScratch {
            bins: Bins::new(self.map.dims(), self.targets.count(), self.folds.count(), self.bin),
            gram: GramScratch::default(),
            diag: Vec::new(),
            partial: Vec::new(),
        }
    }

    fn step(
        &self,
        state: &mut RidgeState,
        scratch: &mut RidgeScratch<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let RidgeScratch { bins, gram, diag, partial } = scratch;
        bins.push(block, self.folds, self.targets, |bins, fold| {
            self.take(state, (bins, gram, diag, partial), fold, workers)
        })
    }

    fn flush(&self, state: &mut RidgeState, scratch: &mut RidgeScratch<T>, workers: &Workers) -> Result<()> {
        let RidgeScratch { bins, gram, diag, partial } = scratch;
        bins.flush(|bins, fold| self.take(state, (bins, gram, diag, partial), fold, workers))
    }
}

/// The pass that measures `cv_error`: every row is classified by the coefficients that did not see its fold.
///
/// *Cost per row*: the map, and 2·rank·t flops for each cell.
#[derive(Debug)]
pub struct CvErrorFold<'a, T> {
    map: &'a dyn FeatureMap<T>,
    folds: &'a Folds,
    targets: &'a Targets,
    coefficients: &'a FoldCoefficients,
    bin: usize,
}

/// Counts of rows and of wrong decisions, cell by cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CvErrorState {
    /// Number of rows scored, per cell.
    pub rows: Vec<u64>,
    /// Number of rows classified wrongly, per cell.
    pub wrong: Vec<u64>,
}

impl CvErrorState {
    /// Share of rows that a cell classified wrongly; `None` where it has no coefficients.
    pub fn error(&self, cell: usize) -> Option<f64> {
        (self.rows[cell] > 0).then(|| self.wrong[cell] as f64 / self.rows[cell] as f64)
    }
}

kstore::summed!(CvErrorState { fill "rows": rows, fill "wrong": wrong });

/// Buffers that a lane reuses from bin to bin.
#[derive(Debug)]
pub struct CvErrorScratch<T> {
    bins: Bins<T>,
    wide: Pool<Vec<f64>>,
}

impl<'a, T: Real> CvErrorFold<'a, T> {
    /// A pass with the folds, the map and the targets of training.
    pub fn new(
        map: &'a dyn FeatureMap<T>,
        folds: &'a Folds,
        targets: &'a Targets,
        coefficients: &'a FoldCoefficients,
    ) -> Self {
        Self { map, folds, targets, coefficients, bin: BIN }
    }

    /// Sets the number of rows of a bin.
    #[must_use]
    pub fn with_bin(self, rows: usize) -> Self {
        Self { bin: rows.max(1), ..self }
    }

    /// Bytes of a lane's buffers where so many threads work inside a step: bins, features, and a strip of features and
    /// scores in f64 per thread.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        let (dims, t) = (self.map.dims(), self.targets.count());
        Bins::<T>::bytes(dims, t, self.folds.count(), self.bin)
            + self.map.footprint().per_row * self.bin
            + 8 * (dims.1 + t) * STRIP * threads.max(1)
    }

    fn take(
        &self,
        state: &mut CvErrorState,
        bins: &mut Bins<T>,
        wide: &Pool<Vec<f64>>,
        fold: usize,
        workers: &Workers,
    ) -> Result<()> {
        let filled = bins.apply(fold, self.map, workers);
        let heads = &self.coefficients.heads[fold];
        let rows = filled.phi.nrows();
        let mut wrong = vec![0u64; rows.div_ceil(STRIP) * heads.len()];
        for_each_strip(workers, &mut wrong, heads.len().max(1), |strip, wrong| {
            let (first, rows) = (strip * STRIP, STRIP.min(rows - strip * STRIP));
            let (phi, y) = (filled.phi.subrows(first, rows), filled.y.subrows(first, rows));
            wide.with(Vec::new, |wide| count_wrong(phi, y, heads, wide, wrong));
        });
        for (i, wrong) in wrong.iter().enumerate() {
            state.wrong[i % heads.len()] += wrong;
        }
        for (cell, _) in heads.iter().enumerate().filter(|(_, head)| head.is_some()) {
            state.rows[cell] += rows as u64;
        }
        Ok(())
    }
}

/// `wrong[cell]` = wrong decisions of each cell's head on some rows.
fn count_wrong<T: Real>(
    phi: MatRef<'_, T>,
    y: MatRef<'_, f64>,
    heads: &[Option<Head>],
    wide: &mut Vec<f64>,
    wrong: &mut [u64],
) {
    let (rows, p) = (phi.nrows(), phi.ncols());
    wide.resize(wide.len().max(STRIP * p), 0.0);
    crate::dots::widen(phi, &mut wide[..rows * p]);
    let phi = MatRef::from_column_major_slice(&wide[..rows * p], rows, p);
    for (head, wrong) in heads.iter().zip(wrong) {
        let Some(head) = head else { continue };
        let mut scores = Mat::from_fn(rows, head.intercept.len(), |_, j| head.intercept[j]);
        let phi = phi.subcols(0, head.weights.nrows());
        matmul(scores.as_mut(), Accum::Add, phi, head.weights.as_ref(), 1.0, Par::Seq);
        *wrong = (0..rows).filter(|i| is_wrong(scores.as_ref(), y, *i)).count() as u64;
    }
}

/// True where the decision from the scores is not the class that the ±1 codes stand for.
fn is_wrong(scores: MatRef<'_, f64>, codes: MatRef<'_, f64>, i: usize) -> bool {
    let largest =
        |m: MatRef<'_, f64>| (0..m.ncols()).fold(0, |best, j| if m[(i, j)] > m[(i, best)] { j } else { best });
    match codes.ncols() {
        1 => (scores[(i, 0)] > 0.0) != (codes[(i, 0)] > 0.0),
        _ => largest(scores) != largest(codes),
    }
}

impl<T: Real> Fold<T> for CvErrorFold<'_, T> {
    type State = CvErrorState;
    type Scratch = CvErrorScratch<T>;
    type Error = Error;

    fn init(&self) -> CvErrorState {
        let cells = self.coefficients.cells.len();
        CvErrorState { rows: vec![0; cells], wrong: vec![0; cells] }
    }

    fn scratch(&self) -> CvErrorScratch<T> {
        let bins = Bins::new(self.map.dims(), self.targets.count(), self.folds.count(), self.bin);
        CvErrorScratch { bins, wide: Pool::default() }
    }

    fn step(
        &self,
        state: &mut CvErrorState,
        scratch: &mut CvErrorScratch<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let CvErrorScratch { bins, wide } = scratch;
        bins.push(block, self.folds, self.targets, |bins, fold| self.take(state, bins, wide, fold, workers))
    }

    fn flush(&self, state: &mut CvErrorState, scratch: &mut CvErrorScratch<T>, workers: &Workers) -> Result<()> {
        let CvErrorScratch { bins, wide } = scratch;
        bins.flush(|bins, fold| self.take(state, bins, wide, fold, workers))
    }
}
