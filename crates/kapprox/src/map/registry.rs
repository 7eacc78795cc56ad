//! Every map by its name: the value of the parameter `map`, and the name in a model file.
//!
//! To add a map: one file here with its `FAMILY`, one line in [`registry()`].

use super::{FeatureMap, MapSpec, additive, ensemble, exact, nystrom, projected, random, sketch};
use crate::kernel::{AnyKernel, Range, Spec};
use crate::landmark::{LandmarkSet, Rows};
use crate::{Error, Real, Result};
use kstore::{Footprint, Workers};
use std::fmt::Debug;
use std::sync::Arc;

/// A kind of map.
#[derive(Debug)]
pub struct Family {
    /// The name of the map: a value of the parameter `map`.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// The parameters of the map.
    pub parameters: &'static [Parameter],
    /// The functions that make the map.
    pub(crate) build: Build,
    /// True where the leading r features are the map of rank r, so that one Gram matrix serves every rank.
    pub nested: bool,
    /// Passes over the rows that making it takes, beside those of the landmarks.
    pub passes: u64,
    /// The size and memory of the map, before it is made.
    pub(crate) shape: fn(&MapSpec, Ask) -> Shape,
}

/// A number of a map.
#[derive(Debug)]
pub struct Parameter {
    /// The name in expressions.
    pub name: &'static str,
    /// The value where the expression gives none.
    pub default: f64,
    /// The numbers that are allowed.
    pub range: Range,
    /// Why other numbers are refused, for messages.
    pub reason: &'static str,
}

/// Most features of a map: a tile of them is a gigabyte, and every product of counts in a plan is a number.
pub const MOST_FEATURES: usize = 1 << 20;

/// The sizes that decide the shape of a map.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Features of a row.
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
pub struct Shape {
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
    /// The landmarks: as many as [`Shape::landmarks`] says, or fewer.
    pub landmarks: LandmarkSet<T>,
    /// Features wanted: [`Shape::p`].
    pub rank: usize,
    /// The rows, for maps that pass over them.
    pub data: &'a Rows<'a, T>,
    /// Seed of random choices.
    pub seed: u64,
    /// Threads.
    pub workers: &'a Workers,
}

/// The ingredients of a map that looks at no rows.
#[derive(Debug)]
pub struct WithoutRows<'a> {
    /// The map to be made.
    pub spec: &'a MapSpec,
    /// The kernel, every parameter a number.
    pub kernel: &'a Spec,
    /// Features of a row.
    pub d: usize,
    /// Features wanted: [`Shape::p`].
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

/// [`Making`] in both precisions.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Build(pub(crate) Making<f32>, pub(crate) Making<f64>);

impl Build {
    pub(super) const fn on_landmarks(
        single: fn(OnLandmarks<'_, f32>) -> Built<f32>,
        double: fn(OnLandmarks<'_, f64>) -> Built<f64>,
    ) -> Self {
        Self(Making::OnLandmarks(single), Making::OnLandmarks(double))
    }

    pub(super) const fn exact() -> Self {
        Self(Making::Exact, Making::Exact)
    }

    pub(super) const fn without_rows(
        single: fn(&WithoutRows<'_>) -> Built<f32>,
        double: fn(&WithoutRows<'_>) -> Built<f64>,
    ) -> Self {
        Self(Making::WithoutRows(single), Making::WithoutRows(double))
    }
}

/// Every map. One line each.
pub fn registry() -> &'static [Family] {
    const FAMILIES: &[Family] = &[
        nystrom::FAMILY,
        projected::EIGEN,
        projected::RANDOMISED,
        projected::DOUBLE,
        projected::TRUNCATED,
        ensemble::FAMILY,
        random::FOURIER,
        random::ORTHOGONAL,
        random::STRUCTURED,
        random::QUASI,
        sketch::FAMILY,
        additive::FAMILY,
        exact::FAMILY,
    ];
    FAMILIES
}

/// The family called `name`.
pub fn by_name(name: &str) -> Option<&'static Family> {
    registry().iter().find(|family| family.name == name)
}

impl MapSpec {
    /// The size and memory of the map: the one place that turns the rank that was asked for into the one that is made.
    ///
    /// # Errors
    /// [`Error::TooManyFeatures`] above [`MOST_FEATURES`].
    pub fn shape(&self, ask: Ask) -> Result<Shape> {
        let rows = ask.rows.max(1);
        let most = if self.is_without_rows() { usize::MAX } else { rows };
        // beyond the most, how far does not matter, and its square must be a number
        let rank = ask.rank.min(most).min(2 * MOST_FEATURES);
        let shape = (self.family().shape)(self, Ask { rank, rows, ..ask });
        match shape.p > MOST_FEATURES {
            true => Err(Error::TooManyFeatures { map: self.to_string() }),
            false => Ok(shape),
        }
    }

    /// Passes over the rows that making the map takes, beside those of the landmarks.
    pub fn passes(&self) -> u64 {
        self.family().passes
    }

    /// True for a map that looks at no rows.
    pub fn is_without_rows(&self) -> bool {
        matches!(self.making::<f64>(), Making::WithoutRows(_))
    }

    /// True for the kernel itself, without a map.
    pub fn is_exact(&self) -> bool {
        matches!(self.making::<f64>(), Making::Exact)
    }

    /// How the map is made in a precision.
    pub fn making<T: Real>(&self) -> Making<T> {
        T::making(&self.family().build)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_map_on_landmarks_is_larger_than_its_rows_and_none_than_the_most() {
        for family in registry() {
            let spec: MapSpec = family.name.parse().unwrap();
            let shape = |rank, rows| spec.shape(Ask { d: 5000, rank, rows, element: 8 });
            for rank in [100, 1_000_000_000, usize::MAX] {
                let Ok(few) = shape(rank, 60) else {
                    assert!(spec.is_without_rows() && rank > MOST_FEATURES, "{}", family.name);
                    continue;
                };
                assert!(few.landmarks.is_none_or(|m| m <= 60 && few.p <= 60), "{} at {rank}: {few:?}", family.name);
                // additive features are as many as the columns ask for, whatever the rank
                let asked = spec.is_without_rows() && family.name != "additive";
                assert_eq!(
                    shape(rank, usize::MAX).is_err(),
                    rank > MOST_FEATURES && (asked || few.landmarks.is_some())
                );
            }
            assert!(shape(MOST_FEATURES, usize::MAX).is_ok(), "{}: no product of counts wraps", family.name);
        }
    }
}
