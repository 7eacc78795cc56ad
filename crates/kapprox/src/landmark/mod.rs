//! Landmarks: the rows whose span approximates all others.
//!
//! A scheme is *a weight per row* and a rule that turns weighted random keys into rows. Keys belong to rows
//! ([`kpass::key`]), so a scheme needs no random access, no array of n numbers, and finds the same landmarks whatever
//! the chunking, threads, budget or file format.
//!
//! To add a scheme: one file here, one line in [`registry`]. A scheme of another crate: [`register`].

mod bless;
mod clusters;
mod dictionary;
mod farahat;
mod greedy;
mod growth;
mod held;
mod kmeans;
mod leverage;
mod predictive;
mod round;
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
pub use predictive::Predictive;
pub use rpcholesky::RpCholesky;
#[doc(hidden)]
pub use sample::{RowSample, uniform_sample};
pub use uniform::Uniform;

pub use crate::rows::{LandmarkSet, NO_ROW, Scan};

use crate::{PrecisionPair, Real, Result, kernel::AnyKernel, map};
use kpass::named::{Named, Registry};
use std::{fmt::Debug, sync::Arc};

/// A rule that chooses landmarks.
pub trait Landmarks<T: Real>: Debug + Send + Sync {
    /// Chooses at most `m` landmarks; fewer where the rows span no more at the precision of `T`.
    fn select(&self, data: &Scan<'_, T>, kernel: &Arc<dyn AnyKernel>, m: usize, seed: u64) -> Result<LandmarkSet<T>>;
    /// Chooses as [`select`](Self::select) does, and stops once the landmarks leave at most the share `tolerance` of the trace, where
    /// the scheme sees that as it goes. It may choose more than are needed for that, and never more than `m`.
    fn select_within(
        &self,
        _tolerance: f64,
        data: &Scan<'_, T>,
        kernel: &Arc<dyn AnyKernel>,
        m: usize,
        seed: u64,
    ) -> Result<LandmarkSet<T>> {
        self.select(data, kernel, m, seed)
    }
}

/// A rule that chooses landmarks among rows of `f32` and of `f64`.
pub trait AnyLandmarks: Landmarks<f32> + Landmarks<f64> {}

impl<S: Landmarks<f32> + Landmarks<f64>> AnyLandmarks for S {}

impl PrecisionPair for &'static dyn AnyLandmarks {
    type For<T: Real> = &'static dyn Landmarks<T>;
    fn single(self) -> &'static dyn Landmarks<f32> {
        self
    }
    fn double(self) -> &'static dyn Landmarks<f64> {
        self
    }
}

/// A landmark scheme by name: what is known of it, and its rule.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// The name of the scheme: a value of the parameter `landmarks`.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// True where the first r landmarks are the scheme's choice for rank r, whatever the largest rank: one run then serves
    /// every rank, and tells [`kpass::pass::Observer::reached`] how far it is.
    pub nested: bool,
    /// True where another seed may choose other landmarks.
    pub seeded: bool,
    /// True where it looks at the targets of the rows.
    pub needs_targets: bool,
    /// What it computes of the rows.
    pub effort: Effort,
    /// Bytes held beside the rows and the factor of the landmarks.
    pub bytes: fn(ChoiceSize) -> usize,
    /// The rule.
    pub rule: &'static dyn AnyLandmarks,
}

/// What a scheme computes of the rows that it chooses among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Nothing: it draws them in one pass.
    Draw,
    /// Distances from points; no kernel.
    Distances,
    /// Their kernel with the landmarks, and a factor that grows with these.
    Factor,
}

/// The sizes of a choice of landmarks: rows, features, landmarks.
#[derive(Clone, Copy, Debug)]
pub struct ChoiceSize {
    /// Bytes of an element of the rows.
    pub element: usize,
    /// Rows to choose from.
    pub n: u64,
    /// Features of a row.
    pub d: usize,
    /// Landmarks wanted.
    pub m: usize,
}

impl Scheme {
    /// A scheme that draws at random for one rank by what landmarks leave of the rows, without the targets, and holds nothing. Other
    /// facts are fields to set.
    pub const fn new(name: &'static str, about: &'static str, rule: &'static dyn AnyLandmarks) -> Self {
        let effort = Effort::Factor;
        Self { name, about, nested: false, seeded: true, needs_targets: false, effort, bytes: |_| 0, rule }
    }

    /// The rule for rows of `T`.
    pub fn landmarks<T: Real>(&self) -> &'static dyn Landmarks<T> {
        T::pick(self.rule)
    }
}

impl Named for Scheme {
    const WHAT: &'static str = "landmark scheme";
    fn name(&self) -> &'static str {
        self.name
    }
}

static SCHEMES: Registry<Scheme> = Registry::new(&[
    rpcholesky::SCHEME,
    uniform::SCHEME,
    greedy::SCHEME,
    kmeans::SCHEME,
    Scheme::new("leverage", "recursive ridge leverage scores", &Leverage),
    Scheme::new("bless", "ridge leverage scores along a path of decreasing lambda", &Bless),
    farahat::SCHEME,
    predictive::SCHEME,
]);

/// Returns every scheme: those of this crate, then those that were [registered](register).
pub fn registry() -> Vec<&'static Scheme> {
    SCHEMES.all()
}

/// Returns the default scheme, randomly pivoted Cholesky.
pub fn usual() -> &'static Scheme {
    &SCHEMES.own()[0]
}

/// The scheme of a name, of this crate or [registered](register).
pub fn by_name(name: &str) -> Option<&'static Scheme> {
    SCHEMES.by_name(name)
}

/// Makes a scheme of another crate known by its name, in this process and from now on.
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
/// [`kpass::Error::Register`] for a name that a scheme or a map has, or that is no word.
pub fn register(scheme: &'static Scheme) -> Result<()> {
    if map::by_name(scheme.name).is_some() {
        let (what, why) = (Scheme::WHAT, "a map has this name");
        return Err(kpass::Error::Register { what, name: scheme.name, why }.into());
    }
    Ok(SCHEMES.register(scheme)?)
}
