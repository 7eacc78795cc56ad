//! One pass that computes the moments of features and targets, and the certificate.

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

/// What [`MomentReduction`] computes from each bin of rows.
#[derive(Debug)]
pub struct MomentBinReduction<'a, T> {
    map: &'a dyn FeatureMap<T>,
    targets: &'a Targets,
    /// Number of separate moments: the number of folds, times the number of classes if they have
    /// separate moments.
    gram_count: usize,
    fold_rule: FoldRule,
    needs_certificate: bool,
    /// Feature map of the targets, whose outputs replace the targets in the moments.
    target_features: Option<&'a dyn FeatureMap<f64>>,
}

/// The result of the pass.
#[derive(Clone, Debug, PartialEq)]
pub struct MomentState {
    /// Second moments of features and targets, fold by fold.
    pub gram: GramState,
    /// Residuals at every rank; `None` for a map that is not a projection.
    pub certificate: Option<CertificateState>,
}

kstore::summed!(MomentState { part "gram": gram, some "certificate": certificate });

/// Buffers that a worker lane reuses from bin to bin.
#[derive(Debug, Default)]
pub struct MomentScratch<T> {
    gram_scratch: GramScratch<T>,
    diag: Vec<f64>,
    partial_sums: Vec<f64>,
}

impl<'a, T: Real> MomentReduction<'a, T> {
    /// Returns a pass over the features of `map`, with a certificate if the map is a projection.
    pub fn new(map: &'a dyn FeatureMap<T>, folds: &'a Folds, targets: &'a Targets) -> Self {
        let needs_certificate = map.is_projection();
        let (fold_count, fold_rule) = (folds.count(), folds.rule());
        let moments = MomentBinReduction {
            map,
            targets,
            gram_count: fold_count,
            fold_rule,
            needs_certificate,
            target_features: None,
        };
        Self::with_bin_reduction(map, folds, targets, moments)
    }

    /// Replaces the targets in the moments by the features that this map computes from them. `None`
    /// keeps the targets.
    #[must_use]
    pub fn with_target_features(mut self, target_features: Option<&'a dyn FeatureMap<f64>>) -> Self {
        self.bin_reduction.target_features = target_features;
        self
    }

    /// Accumulates separate moments for each class. The moments of class c in fold g have the index
    /// g · `class_count` + c.
    #[must_use]
    pub fn with_class_bins(mut self, class_count: usize) -> Self {
        (self.bin_reduction.gram_count, self.class_count) = (self.bin_reduction.gram_count * class_count, class_count);
        self
    }

    /// Omits the certificate.
    #[must_use]
    pub fn without_certificate(mut self) -> Self {
        self.bin_reduction.needs_certificate = false;
        self
    }
}

impl<T: Real> BinReduction<T> for MomentBinReduction<'_, T> {
    type State = MomentState;
    type Scratch = MomentScratch<T>;

    fn init(&self) -> MomentState {
        let p = self.map.dims().1;
        let target_count = self.target_features.map_or(self.targets.count(), |map| map.dims().1);
        MomentState {
            gram: GramState::new(p, target_count, self.gram_count).with_fold_rule(self.fold_rule),
            certificate: self.needs_certificate.then(|| CertificateState::new(p)),
        }
    }

    fn add_bin(
        &self,
        state: &mut MomentState,
        MomentScratch { gram_scratch, diag, partial_sums }: &mut MomentScratch<T>,
        bin_index: usize,
        bins: &mut Bins<T>,
        workers: &Workers,
    ) -> Result<()> {
        if let Some(certificate) = &mut state.certificate {
            let MappedBin { x, phi, w, .. } = bins.mapped_bin(bin_index);
            diag.resize(x.nrows(), 0.0);
            if self.map.kernel_diag(x, diag).is_some() {
                kapprox::kernel::check_finite::<T>("of this fit", diag)?;
                certificate.update(phi, diag, w, partial_sums, workers);
            }
        }
        bins.apply_weights(bin_index, workers);
        let MappedBin { phi, y, w, .. } = bins.mapped_bin(bin_index);
        if let Some(map) = self.target_features {
            let mut mapped_targets = Mat::zeros(y.nrows(), map.dims().1);
            map.apply(y, mapped_targets.as_mut(), workers);
            return state.gram.update_weighted(bin_index, phi, mapped_targets.as_ref(), w, gram_scratch, workers);
        }
        state.gram.update_weighted(bin_index, phi, y, w, gram_scratch, workers)
    }
}
