//! What a map by name is: its facts, and how it is made of landmarks or without.

use super::FeatureMap;
use crate::kernel::{AnyKernel, Kernel, KernelParameter};
use crate::rows::{LandmarkSet, Scan};
use crate::{Real, Result};
use kpass::{Footprint, Workers, shown::number};
use std::{fmt, sync::Arc};

/// A kind of map.
#[derive(Debug)]
pub struct MapFamily {
    /// The name by which it is asked for.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// The parameters of the map.
    pub parameters: &'static [KernelParameter],
    /// True where the leading r features are the map of rank r, so that one Gram matrix serves every rank.
    pub nested: bool,
    /// True where it is known on sparse rows.
    pub sparse: bool,
    /// Passes over the rows that making it takes, beside those of the landmarks.
    pub passes: u64,
    /// The size and memory of the map, before it is made.
    pub(crate) shape: fn(&MapSpec, MapRequest) -> MapShape,
}

/// A map of [`registry`](super::registry()) with a value for each of its parameters.
///
/// Written as its name, with the parameters in parentheses where there are some; reading that gives an equal value.
///
/// ```
/// use kapprox::map::MapSpec;
/// let spec: MapSpec = "ensemble( parts = 8 )".parse()?;
/// assert_eq!(spec.to_string(), "ensemble(parts=8)");
/// assert_eq!(MapSpec::default().to_string(), "nystrom");
/// # Ok::<(), kapprox::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MapSpec {
    family: &'static MapFamily,
    pub(super) values: Vec<f64>,
}

impl PartialEq for MapSpec {
    fn eq(&self, other: &Self) -> bool {
        self.family.name == other.family.name && self.values == other.values
    }
}

impl MapSpec {
    pub(crate) fn of(family: &'static MapFamily) -> Self {
        Self { family, values: family.parameters.iter().filter_map(|parameter| parameter.default.number()).collect() }
    }

    /// The entry of the registry.
    pub fn family(&self) -> &'static MapFamily {
        self.family
    }

    /// The value of a parameter.
    ///
    /// # Panics
    /// If the family does not declare it.
    pub fn value(&self, name: &str) -> f64 {
        let at = self.family.parameters.iter().position(|parameter| parameter.name == name);
        self.values[at.unwrap_or_else(|| panic!("the map {} has no parameter {name}", self.family.name))]
    }
}

impl fmt::Display for MapSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.family.name)?;
        for (i, (parameter, value)) in self.family.parameters.iter().zip(&self.values).enumerate() {
            write!(f, "{}{}={}", if i > 0 { ", " } else { "(" }, parameter.name, number(*value))?;
        }
        f.write_str(if self.values.is_empty() { "" } else { ")" })
    }
}

/// Most features of a map: a tile of them is a gigabyte, and every product of counts in a plan is a number.
pub const MOST_FEATURES: usize = 1 << 20;

/// The sizes that decide the shape of a map.
#[derive(Clone, Copy, Debug)]
pub struct MapRequest {
    /// Features of a row; for maps that look at no rows the columns of sparse ones.
    pub d: usize,
    /// Features wanted.
    pub rank: usize,
    /// Rows that landmarks are chosen among: there are no more landmarks, and no more features in their span.
    pub rows: usize,
    /// Bytes of an element.
    pub element: usize,
}

/// The size and memory of a map that is not made yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// Its features, at most.
    pub p: usize,
    /// Landmarks to choose; `None` for maps that look at no rows.
    pub landmarks: Option<usize>,
    /// Memory that the map holds.
    pub footprint: Footprint,
    /// Bytes beside the map's own while it is made.
    pub making: usize,
}

/// The ingredients of a map in the span of landmarks.
#[derive(Debug)]
pub struct OnLandmarks<'a, T: Real> {
    /// The map to be made.
    pub spec: &'a MapSpec,
    /// The kernel.
    pub kernel: &'a Arc<dyn AnyKernel>,
    /// The landmarks: as many as [`MapShape::landmarks`] says, or fewer.
    pub landmarks: LandmarkSet<T>,
    /// Features wanted: [`MapShape::p`].
    pub rank: usize,
    /// The rows, for maps that pass over them.
    pub data: &'a Scan<'a, T>,
    /// Seed of random choices.
    pub seed: u64,
    /// Threads.
    pub workers: &'a Workers,
}

/// The ingredients of a map that looks at no rows.
#[derive(Debug)]
pub struct WithoutRows<'a> {
    /// The map.
    pub spec: &'a MapSpec,
    /// The kernel, every parameter a number; it knows whether rows are sparse.
    pub kernel: &'a Kernel,
    /// Features of a row.
    pub d: usize,
    /// Features wanted: [`MapShape::p`].
    pub rank: usize,
    /// Seed of random choices.
    pub seed: u64,
}

/// A map, whatever its type, or the error that it could not be made.
pub type Built<T> = Result<Box<dyn FeatureMap<T>>>;

/// How a map is made.
#[derive(Clone, Copy, Debug)]
pub enum Making<T: Real> {
    /// From landmarks.
    OnLandmarks(fn(OnLandmarks<'_, T>) -> Built<T>),
    /// From its options alone: a model keeps those instead of the map's numbers.
    WithoutRows(fn(&WithoutRows<'_>) -> Built<T>),
    /// Without a map: solvers work on the kernel itself.
    Exact,
}
