//! Landmarks: rows whose kernel sections span a space that approximates all rows.
//!
//! A scheme defines *a weight of each row*, and a rule that chooses rows by random keys whose
//! distribution depends on the weights. The random number in the key of a row depends only on the
//! seed and the row number ([`kpass::key`]). A scheme therefore needs neither random access nor an
//! array of n numbers. It chooses the same landmarks for every chunking, number of threads, memory
//! budget and file format.
//!
//! To add a scheme, write one file here and add one line to [`registry`]; to add one from another
//! crate, call [`register`].

mod bless;
mod candidate_rows;
mod clusters;
mod dictionary;
mod farahat;
mod greedy;
mod growth;
mod kmeans;
mod leverage;
mod nearest_centroid;
mod predictive;
mod residual_pass;
mod rpcholesky;
mod sample;
mod uniform;

pub use bless::Bless;
#[doc(hidden)]
pub use clusters::ClusterSums;
pub use farahat::Farahat;
pub use greedy::Greedy;
pub use kmeans::KMeans;
pub use leverage::Leverage;
#[doc(hidden)]
pub use nearest_centroid::{NearestCentroids, squared_distance};
pub use predictive::Predictive;
pub use rpcholesky::RpCholesky;
#[doc(hidden)]
pub use sample::{RowSample, uniform_sample};
pub use uniform::Uniform;

pub use crate::landmark_set::{LandmarkSet, NO_ROW, TableScan};

use crate::{PrecisionPair, Real, Result, kernel::AnyKernel, map};
use kpass::registry::{Registry, RegistryEntry};
use std::{fmt::Debug, sync::Arc};

/// A rule that chooses landmarks.
pub trait LandmarkRule<T: Real>: Debug + Send + Sync {
    /// Chooses `m` landmarks, or fewer if the kernel sections of the rows span a smaller space at
    /// the precision of `T`.
    fn select(
        &self,
        scan: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        seed: u64,
    ) -> Result<LandmarkSet<T>>;
    /// Chooses landmarks as [`select`](Self::select) does, but may stop before `m` landmarks, once
    /// the relative trace error is at most `tolerance`.
    ///
    /// Only schemes that know the trace error during the selection stop early. They may choose more
    /// landmarks than necessary, but never more than `m`.
    fn select_within(
        &self,
        _tolerance: f64,
        scan: &TableScan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        seed: u64,
    ) -> Result<LandmarkSet<T>> {
        self.select(scan, kernel, m, seed)
    }
}

/// A rule that chooses landmarks among rows of `f32` and of `f64`.
pub trait AnyLandmarkRule: LandmarkRule<f32> + LandmarkRule<f64> {}

impl<S: LandmarkRule<f32> + LandmarkRule<f64>> AnyLandmarkRule for S {}

impl PrecisionPair for &'static dyn AnyLandmarkRule {
    type For<T: Real> = &'static dyn LandmarkRule<T>;
    fn single(self) -> &'static dyn LandmarkRule<f32> {
        self
    }
    fn double(self) -> &'static dyn LandmarkRule<f64> {
        self
    }
}

/// A landmark scheme: its name, its properties and its rule.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// Name of the scheme, a value of the parameter `landmarks`.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// True if the first r landmarks are the scheme's choice for rank r, whatever the largest rank.
    /// One run then serves every rank and reports its progress to
    /// [`kpass::pass::Observer::report_selection`].
    pub is_nested: bool,
    /// True if the landmarks depend on the seed.
    pub depends_on_seed: bool,
    /// True if the scheme uses the targets of the rows.
    pub needs_targets: bool,
    /// Work per row.
    pub cost: SelectionCost,
    /// Bytes of memory in addition to the rows and the factor of the landmarks.
    pub extra_bytes: fn(SelectionSize) -> usize,
    /// Rule that chooses the landmarks.
    pub rule: &'static dyn AnyLandmarkRule,
}

/// The work of a scheme for each row that it chooses among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectionCost {
    /// None: the scheme draws in one pass.
    Draw,
    /// Distances from points, without the kernel.
    Distances,
    /// Kernel values with the landmarks, and a factor that grows with them.
    Factor,
}

/// Sizes of a choice of landmarks.
#[derive(Clone, Copy, Debug)]
pub struct SelectionSize {
    /// Size of an element of a row, in bytes.
    pub element_bytes: usize,
    /// Number of rows to choose from.
    pub n: u64,
    /// Number of inputs of a row.
    pub d: usize,
    /// Number of landmarks requested.
    pub m: usize,
}

impl Scheme {
    /// Returns a scheme with default properties: it is not nested, depends on the seed, does not
    /// use targets, has the cost [`SelectionCost::Factor`], and needs no additional memory. Set
    /// the fields to change these properties.
    pub const fn new(name: &'static str, about: &'static str, rule: &'static dyn AnyLandmarkRule) -> Self {
        let cost = SelectionCost::Factor;
        Self {
            name,
            about,
            is_nested: false,
            depends_on_seed: true,
            needs_targets: false,
            cost,
            extra_bytes: |_| 0,
            rule,
        }
    }

    /// Returns the rule for rows of `T`.
    pub fn typed<T: Real>(&self) -> &'static dyn LandmarkRule<T> {
        T::pick(self.rule)
    }
}

impl RegistryEntry for Scheme {
    const KIND: &'static str = "landmark scheme";
    fn name(&self) -> &'static str {
        self.name
    }
}

static SCHEMES: Registry<Scheme> = Registry::new(&[
    rpcholesky::SCHEME,
    uniform::SCHEME,
    greedy::SCHEME,
    kmeans::SCHEME,
    Scheme::new("leverage", "rows drawn by recursive ridge leverage scores", &Leverage),
    Scheme::new("bless", "rows drawn by ridge leverage scores along a path of decreasing lambda", &Bless),
    farahat::SCHEME,
    predictive::SCHEME,
]);

/// Returns all schemes: first the schemes of this crate, then the [registered](register) schemes.
pub fn registry() -> Vec<&'static Scheme> {
    SCHEMES.entries()
}

/// Returns the default scheme, randomly pivoted Cholesky.
pub fn default_scheme() -> &'static Scheme {
    &SCHEMES.builtin()[0]
}

/// Returns the scheme with this name, of this crate or [registered](register).
pub fn by_name(name: &str) -> Option<&'static Scheme> {
    SCHEMES.by_name(name)
}

/// Registers a scheme of another crate by its name, for the rest of the process.
///
/// ```
/// use kapprox::landmark::{self, Scheme, Uniform};
/// static ANY: Scheme = Scheme::new("any", "any rows", &Uniform);
/// landmark::register(&ANY)?;
/// assert!(landmark::by_name("any").is_some());
/// assert!(landmark::register(&ANY).is_err());
/// # Ok::<(), kapprox::Error>(())
/// ```
///
/// # Errors
/// [`kpass::Error::Register`] if a scheme or a map has the name, or if the name is not valid.
pub fn register(scheme: &'static Scheme) -> Result<()> {
    if map::by_name(scheme.name).is_some() {
        let (what, why) = (Scheme::KIND, "a map has this name");
        return Err(kpass::Error::Register { what, name: scheme.name, why }.into());
    }
    Ok(SCHEMES.register(scheme)?)
}
