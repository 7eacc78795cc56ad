//! Landmarks: the rows whose span approximates all others.
//!
//! A scheme is *a weight per row* and a rule that turns weighted random keys into rows. Keys belong to rows
//! ([`kstore::key`]), so a scheme needs no random access, no array of n numbers, and finds the same landmarks whatever
//! the chunking, threads, budget or file format.
//!
//! To add a scheme: one file here, one line in [`registry`].

mod bless;
mod columns;
mod dictionary;
mod farahat;
mod greedy;
mod growth;
mod kmeans;
mod leverage;
mod predictive;
mod round;
mod rpcholesky;
mod sample;
mod targets;
mod uniform;

pub use bless::Bless;
pub use farahat::Farahat;
pub use greedy::Greedy;
pub use kmeans::KMeans;
pub use leverage::Leverage;
pub use predictive::Predictive;
pub use rpcholesky::{BlockRpCholesky, PlainRpCholesky, RpCholesky};
pub use sample::{Sample, uniform_sample};
pub use uniform::Uniform;

use crate::kernel::AnyKernel;
use crate::map::registry::{Build, Making};
use crate::{Real, Result};
use faer::MatRef;
use kstore::{Pass, RowSource};
use std::fmt::Debug;
use std::sync::Arc;

/// A table and how to pass over it.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T: Real> {
    /// The table.
    pub source: &'a dyn RowSource<T>,
    /// How a pass over it is made: tiles, lanes, threads, progress.
    pub pass: Pass<'a>,
    /// Number of selected rows, n.
    pub count: u64,
}

/// The row number of a landmark that is no row of the table.
pub const NO_ROW: u64 = u64::MAX;

/// Landmarks in the order they were chosen: the first r of them are the scheme's choice for rank r.
#[derive(Clone, Debug, PartialEq)]
pub struct LandmarkSet<T> {
    /// m x d, row-major.
    pub points: Vec<T>,
    /// Stored row number of each landmark, [`NO_ROW`] for points that are no rows.
    pub rows: Vec<u64>,
    /// Number of features.
    pub d: usize,
    /// Passes over the rows it took.
    pub passes: u64,
    /// Kernel evaluations it took, diagonal included.
    pub evaluations: u64,
}

impl<T: Real> LandmarkSet<T> {
    /// Number of landmarks, m.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// True where nothing was chosen.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// The landmarks at positions `kept`.
    #[must_use]
    pub fn keep(&self, kept: &[usize]) -> Self {
        let points = kept.iter().flat_map(|i| &self.points[i * self.d..(i + 1) * self.d]).copied().collect();
        Self { points, rows: kept.iter().map(|i| self.rows[*i]).collect(), ..*self }
    }
    /// These landmarks, followed by `more`.
    #[must_use]
    pub fn followed_by(mut self, more: Self) -> Self {
        self.points.extend(more.points);
        self.rows.extend(more.rows);
        Self { passes: self.passes + more.passes, evaluations: self.evaluations + more.evaluations, ..self }
    }
    /// The points, m x d, row-major.
    pub fn as_mat(&self) -> MatRef<'_, T> {
        MatRef::from_row_major_slice(&self.points, self.len(), self.d)
    }
}

/// A rule that chooses landmarks.
pub trait Landmarks<T: Real>: Debug + Send + Sync {
    /// Bytes held beside the rows and the factor of the landmarks, for n rows of d features.
    fn bytes(&self, _n: u64, _d: usize, _m: usize) -> usize {
        0
    }
    /// True for a scheme that looks at the targets of the rows.
    fn needs_targets(&self) -> bool {
        false
    }
    /// Chooses at most `m` landmarks; fewer where the rows span no more at the precision of `T`.
    fn select(&self, data: &Rows<'_, T>, kernel: &Arc<dyn AnyKernel>, m: usize, seed: u64) -> Result<LandmarkSet<T>>;
}

/// The description of a scheme: its name, its help, and the functions that make it.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// The name of the scheme: a value of the parameter `landmarks`.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// True where the first r landmarks are the scheme's choice for rank r, whatever the largest rank: one run then serves
    /// every rank, and tells [`kstore::pass::Observer::reached`] how far it is.
    pub nested: bool,
    /// True where another seed may choose other landmarks.
    pub seeded: bool,
    single: fn() -> Box<dyn Landmarks<f32>>,
    double: fn() -> Box<dyn Landmarks<f64>>,
}

impl Scheme {
    /// [`Landmarks::bytes`] for elements of `element` bytes.
    pub fn bytes(&self, element: usize, n: u64, d: usize, m: usize) -> usize {
        if element == size_of::<f32>() { (self.single)().bytes(n, d, m) } else { (self.double)().bytes(n, d, m) }
    }
}

/// The scheme called `name`.
pub fn by_name(name: &str) -> Option<&'static Scheme> {
    registry().iter().find(|scheme| scheme.name == name)
}

macro_rules! scheme {
    ($name:literal, $about:literal, $type:ty) => {
        Scheme { nested: true, ..scheme!($name, $about, $type, for one rank) }
    };
    ($name:literal, $about:literal, $type:ty, for one rank) => {
        Scheme {
            name: $name,
            about: $about,
            nested: false,
            seeded: true,
            single: || Box::new(<$type>::default()),
            double: || Box::new(<$type>::default()),
        }
    };
}
/// Every scheme. One line each.
pub fn registry() -> &'static [Scheme] {
    const SCHEMES: &[Scheme] = &[
        scheme!("rpcholesky", "randomly pivoted Cholesky, accelerated: proportional to the residual", RpCholesky),
        scheme!("uniform", "every row equally likely, without replacement", Uniform),
        Scheme {
            seeded: false,
            ..scheme!("greedy", "pivoted Cholesky: the row that the earlier landmarks leave most of", Greedy)
        },
        scheme!("kmeans", "centroids of k-means++ and Lloyd's iterations", KMeans, for one rank),
        scheme!("leverage", "recursive ridge leverage scores", Leverage, for one rank),
        scheme!("bless", "ridge leverage scores along a path of decreasing lambda", Bless, for one rank),
        scheme!("farahat", "the row whose column explains most of the residual matrix", Farahat),
        Scheme {
            seeded: false,
            ..scheme!("predictive", "explains the kernel matrix and the targets alike", Predictive, for one rank)
        },
        scheme!(
            "rpcholesky-block",
            "randomly pivoted Cholesky in blocks without rejection, for comparison",
            BlockRpCholesky
        ),
        scheme!(
            "rpcholesky-plain",
            "randomly pivoted Cholesky, a pass for each landmark, for comparison",
            PlainRpCholesky
        ),
    ];
    SCHEMES
}

/// A choice between the two precisions of an entry of a registry; implemented by [`Real`] types only.
pub trait Precision: Sized {
    /// The scheme's object for this precision.
    fn landmarks(scheme: &Scheme) -> Box<dyn Landmarks<Self>>
    where
        Self: Real;
    /// How a map is made in this precision.
    #[doc(hidden)]
    fn making(build: &Build) -> Making<Self>
    where
        Self: Real;
}

macro_rules! precision {
    ($type:ty, $field:ident, $index:tt) => {
        impl Precision for $type {
            fn landmarks(scheme: &Scheme) -> Box<dyn Landmarks<Self>> {
                (scheme.$field)()
            }
            fn making(build: &Build) -> Making<Self> {
                build.$index
            }
        }
    };
}
precision!(f32, single, 0);
precision!(f64, double, 1);
