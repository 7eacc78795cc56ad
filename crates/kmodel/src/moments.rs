//! The moments of features and targets, and the certificate, from one pass.

use crate::bins::{Bins, MappedBin, Targets};
use crate::feature_reduction::{BinReduction, FeatureReduction};
use crate::folds::FoldRule;
use crate::{CertificateState, Folds, GramScratch, GramState, Result};
use faer::Mat;
use kapprox::{FeatureMap, Real};
use kstore::Workers;

/// The pass of ridge regression: the moments of features and targets of every fold, and the
/// certificate of every rank from the same features.
///
/// *Cost per row*: the map, p² flops for the Gram matrix, 5·p for the certificate.
pub type MomentReduction<'a, T> = FeatureReduction<'a, T, MomentBinReduction<'a, T>>;

/// The moments that [`MomentReduction`] accumulates.
#[derive(Debug)]
pub struct MomentBinReduction<'a, T> {
    map: &'a dyn FeatureMap<T>,
    targets: &'a Targets,
    folds: usize,
    fold_rule: FoldRule,
    certify: bool,
    /// Feature map of the targets, whose outputs replace the targets in the moments.
    target_features: Option<&'a dyn FeatureMap<f64>>,
}

/// The result of the pass.
#[derive(Clone, Debug, PartialEq)]
pub struct RidgeState {
    /// Second moments of features and targets, fold by fold.
    pub gram: GramState,
    /// Residuals at every rank; `None` for a map that is not a projection.
    pub certificate: Option<CertificateState>,
}

kstore::summed!(RidgeState { part "gram": gram, some "certificate": certificate });

/// Buffers that a worker lane reuses from bin to bin.
#[derive(Debug, Default)]
pub struct MomentScratch<T> {
    gram: GramScratch<T>,
    diag: Vec<f64>,
    partial: Vec<f64>,
}

impl<'a, T: Real> MomentReduction<'a, T> {
    /// Returns a pass over the features of `map`, with a certificate if the map is a projection.
    pub fn new(map: &'a dyn FeatureMap<T>, folds: &'a Folds, targets: &'a Targets) -> Self {
        let certify = map.is_projection();
        let (count, fold_rule) = (folds.count(), folds.rule());
        let moments = MomentBinReduction { map, targets, folds: count, fold_rule, certify, target_features: None };
        Self::over(map, folds, targets, moments)
    }

    /// Replaces the targets in the moments by the features that this map computes from the targets;
    /// `None` keeps the targets.
    #[must_use]
    pub fn with_target_features(mut self, target_features: Option<&'a dyn FeatureMap<f64>>) -> Self {
        self.bin_fold.target_features = target_features;
        self
    }

    /// Accumulates separate moments for each class: class c of fold g has index g · classes + c.
    #[must_use]
    pub fn by_class(mut self, classes: usize) -> Self {
        (self.bin_fold.folds, self.classes) = (self.bin_fold.folds * classes, classes);
        self
    }

    /// Omits the certificate.
    #[must_use]
    pub fn without_certificate(mut self) -> Self {
        self.bin_fold.certify = false;
        self
    }
}

impl<T: Real> BinReduction<T> for MomentBinReduction<'_, T> {
    type State = RidgeState;
    type Scratch = MomentScratch<T>;

    fn init(&self) -> RidgeState {
        let p = self.map.dims().1;
        let columns = self.target_features.map_or(self.targets.count(), |map| map.dims().1);
        RidgeState {
            gram: GramState::new(p, columns, self.folds).with_fold_rule(self.fold_rule),
            certificate: self.certify.then(|| CertificateState::new(p)),
        }
    }

    fn add_bin(
        &self,
        state: &mut RidgeState,
        MomentScratch { gram, diag, partial }: &mut MomentScratch<T>,
        fold: usize,
        bins: &mut Bins<T>,
        workers: &Workers,
    ) -> Result<()> {
        if let Some(certificate) = &mut state.certificate {
            let MappedBin { x, phi, w, .. } = bins.mapped_bin(fold);
            diag.resize(x.nrows(), 0.0);
            if self.map.kernel_diag(x, diag).is_some() {
                kapprox::kernel::check_finite::<T>("of this fit", diag)?;
                certificate.update(phi, diag, w, partial, workers);
            }
        }
        bins.apply_weights(fold, workers);
        let MappedBin { phi, y, w, .. } = bins.mapped_bin(fold);
        if let Some(map) = self.target_features {
            let mut features = Mat::zeros(y.nrows(), map.dims().1);
            map.apply(y, features.as_mut(), workers);
            return state.gram.update_weighted(fold, phi, features.as_ref(), w, gram, workers);
        }
        state.gram.update_weighted(fold, phi, y, w, gram, workers)
    }
}
