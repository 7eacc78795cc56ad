//! Families of maps: their names, parameters and sizes, and how a map is built.

use super::FeatureMap;
use crate::kernel::{AnyKernel, Kernel, NumericParameter};
use crate::landmark_set::{LandmarkSet, TableScan};
use crate::{PrecisionPair, Real, Result};
use kpass::registry::RegistryEntry;
use kpass::{Footprint, Workers, display::format_number};
use std::{fmt, sync::Arc};

/// A family of maps.
#[derive(Clone, Debug)]
pub struct MapFamily {
    /// Name of the family.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// Parameters of the map.
    pub parameters: &'static [NumericParameter],
    /// True if the leading r features are the features of the map of rank r, so that a single Gram
    /// matrix suffices for all ranks.
    pub is_nested: bool,
    /// True if the map supports sparse rows.
    pub supports_sparse: bool,
    /// Passes over the rows to build the map, in addition to the passes that choose landmarks.
    pub build_passes: u64,
    /// Size and memory of the map, computed before it is built.
    pub shape: fn(&MapSpec, MapRequest) -> MapShape,
    /// How the map is built.
    pub constructor: MapConstructorPair,
}

impl RegistryEntry for MapFamily {
    const KIND: &'static str = "map";
    fn name(&self) -> &'static str {
        self.name
    }
}

/// A map of [`registry`](super::registry()) with a value for each parameter.
///
/// Its text is the name, followed by the parameters in parentheses if there are any; parsing the
/// text gives an equal value.
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
    pub(super) parameter_values: Vec<f64>,
}

impl PartialEq for MapSpec {
    fn eq(&self, other: &Self) -> bool {
        self.family.name == other.family.name && self.parameter_values == other.parameter_values
    }
}

impl MapSpec {
    pub(crate) fn with_defaults(family: &'static MapFamily) -> Self {
        Self {
            family,
            parameter_values: family.parameters.iter().filter_map(|parameter| parameter.default.number()).collect(),
        }
    }

    /// Returns the family of the map.
    pub fn family(&self) -> &'static MapFamily {
        self.family
    }

    /// Returns the value of a parameter.
    ///
    /// # Panics
    /// If the family does not declare it.
    pub fn value(&self, name: &str) -> f64 {
        let index = self.family.parameters.iter().position(|parameter| parameter.name == name);
        self.parameter_values[index.unwrap_or_else(|| panic!("the map {} has no parameter {name}", self.family.name))]
    }
}

impl fmt::Display for MapSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.family.name)?;
        for (i, (parameter, value)) in self.family.parameters.iter().zip(&self.parameter_values).enumerate() {
            write!(f, "{}{}={}", if i > 0 { ", " } else { "(" }, parameter.name, format_number(*value))?;
        }
        f.write_str(if self.parameter_values.is_empty() { "" } else { ")" })
    }
}

/// Maximum number of features of a map. A tile of rows with this many features takes a gigabyte,
/// and products of counts in a memory plan do not overflow.
pub const MAX_FEATURES: usize = 1 << 20;

/// Sizes that determine the shape of a map.
#[derive(Clone, Copy, Debug)]
pub struct MapRequest {
    /// Number of inputs of a row; for a map that is built without rows and supports sparse rows,
    /// the number of columns.
    pub d: usize,
    /// Number of features requested.
    pub rank: usize,
    /// Number of candidate rows for landmarks. It bounds the number of landmarks, and the number of
    /// features in the span of landmarks.
    pub candidate_count: usize,
    /// Size of an element, in bytes.
    pub element_bytes: usize,
}

/// Size and memory of a map before it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// Maximum number of features.
    pub p: usize,
    /// Number of landmarks to choose; `None` for maps built without rows.
    pub landmark_count: Option<usize>,
    /// Memory of the map.
    pub footprint: Footprint,
    /// Additional bytes while the map is built.
    pub build_bytes: usize,
}

/// Inputs for a map in the span of landmarks.
#[derive(Debug)]
pub struct LandmarkMapArgs<'a, T: Real> {
    /// Map to build.
    pub spec: &'a MapSpec,
    /// Kernel.
    pub kernel: &'a Arc<dyn AnyKernel>,
    /// Landmarks, at most [`MapShape::landmark_count`].
    pub landmarks: LandmarkSet<T>,
    /// Number of features requested, [`MapShape::p`].
    pub rank: usize,
    /// True if the leading features serve as the map of fewer landmarks. The landmarks then keep
    /// their order.
    pub keeps_order: bool,
    /// Rows, for maps that pass over them.
    pub scan: &'a TableScan<'a, T>,
    /// Seed of random choices.
    pub seed: u64,
    /// Worker threads.
    pub workers: &'a Workers,
}

/// Inputs for a map built without rows.
#[derive(Debug)]
pub struct DataIndependentMapArgs<'a> {
    /// Map to build.
    pub spec: &'a MapSpec,
    /// Kernel with all parameters resolved to numbers; it knows whether rows are sparse.
    pub kernel: &'a Kernel,
    /// Number of inputs of a row.
    pub d: usize,
    /// Number of features requested, [`MapShape::p`].
    pub rank: usize,
    /// Seed of random choices.
    pub seed: u64,
}

/// A map of any type, or the error of building it.
pub type MapResult<T> = Result<Box<dyn FeatureMap<T>>>;

/// How a map is built in f32 and in f64.
#[derive(Clone, Copy, Debug)]
pub struct MapConstructorPair {
    pub(super) single: MapConstructor<f32>,
    pub(super) double: MapConstructor<f64>,
}

impl MapConstructorPair {
    /// Returns the functions that build a map from landmarks.
    pub const fn from_landmarks(
        single: fn(LandmarkMapArgs<'_, f32>) -> MapResult<f32>,
        double: fn(LandmarkMapArgs<'_, f64>) -> MapResult<f64>,
    ) -> Self {
        Self { single: MapConstructor::FromLandmarks(single), double: MapConstructor::FromLandmarks(double) }
    }

    /// Returns the functions that build a map without rows.
    pub const fn data_independent(
        single: fn(&DataIndependentMapArgs<'_>) -> MapResult<f32>,
        double: fn(&DataIndependentMapArgs<'_>) -> MapResult<f64>,
    ) -> Self {
        Self { single: MapConstructor::DataIndependent(single), double: MapConstructor::DataIndependent(double) }
    }
}

impl PrecisionPair for MapConstructorPair {
    type For<T: Real> = MapConstructor<T>;
    fn single(self) -> MapConstructor<f32> {
        self.single
    }
    fn double(self) -> MapConstructor<f64> {
        self.double
    }
}

/// How a map is built.
#[derive(Clone, Copy, Debug)]
pub enum MapConstructor<T: Real> {
    /// From landmarks.
    FromLandmarks(fn(LandmarkMapArgs<'_, T>) -> MapResult<T>),
    /// From its options alone: a model stores the options instead of the numbers of the map.
    DataIndependent(fn(&DataIndependentMapArgs<'_>) -> MapResult<T>),
    /// Without a map: the solver uses the exact kernel.
    ExactKernel,
}
