//! What a map by name is: its facts, and how it is made of landmarks or without.

use super::{FeatureMap, MapSpec};
use crate::kernel::{AnyKernel, Range, Spec};
use crate::rows::{LandmarkSet, Rows};
use crate::{Real, Result};
use kstore::{Footprint, Workers};
use std::fmt::Debug;
use std::sync::Arc;

/// A kind of map.
#[derive(Debug)]
pub struct Family {
    /// The name by which it is asked for.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Its numbers.
    pub parameters: &'static [Parameter],
    /// True where the leading r features are the map of rank r, so that one Gram matrix serves every rank.
    pub nested: bool,
    /// Passes over the rows that making it takes, beside those of the landmarks.
    pub passes: u64,
    /// What it will be, before it is made.
    pub(crate) shape: fn(&MapSpec, Ask) -> Shape,
}

/// A number of a map.
#[derive(Debug)]
pub struct Parameter {
    /// The name in expressions.
    pub name: &'static str,
    /// What is taken when the expression does not say.
    pub default: f64,
    /// Which numbers are allowed.
    pub range: Range,
    /// Why no others.
    pub reason: &'static str,
}

/// Most features of a map: a tile of them is a gigabyte, and every product of counts in a plan is a number.
pub const MOST_FEATURES: usize = 1 << 20;

/// A map that is wanted.
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

/// A map to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its features, at most.
    pub p: usize,
    /// Landmarks to choose; `None` for maps that look at no rows.
    pub landmarks: Option<usize>,
    /// What it holds.
    pub footprint: Footprint,
    /// Bytes beside that while it is made.
    pub making: usize,
}

/// What a map in the span of landmarks is made of.
#[derive(Debug)]
pub struct OnLandmarks<'a, T: Real> {
    /// The map.
    pub spec: &'a MapSpec,
    /// The kernel.
    pub kernel: &'a Arc<dyn AnyKernel>,
    /// As many as [`Shape::landmarks`] says, or fewer.
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

/// What a map that looks at no rows is made of.
#[derive(Debug)]
pub struct WithoutRows<'a> {
    /// The map.
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

/// A map of either kind, whatever its type.
pub type Built<T> = Result<Box<dyn FeatureMap<T>>>;

/// How a map is made.
#[derive(Clone, Copy, Debug)]
pub enum Making<T: Real> {
    /// On landmarks.
    OnLandmarks(fn(OnLandmarks<'_, T>) -> Built<T>),
    /// Of its options alone: a model keeps those instead of the map's numbers.
    WithoutRows(fn(&WithoutRows<'_>) -> Built<T>),
    /// Not at all: the kernel itself is learned with.
    Exact,
}
