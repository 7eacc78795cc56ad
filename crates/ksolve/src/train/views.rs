//! The map of a run: that of one view, or of two side by side.

use super::landmarks::{Mapped, view};
use super::options::{Resources, TrainOptions};
use super::plan::Cut;
use crate::Result;
use crate::stacked::StackedMaps;
use faer::Mat;
use kapprox::map::Expansion;
use kapprox::{Real, Spec};
use kstore::{Reading, RowSource};

/// The second of two views.
#[derive(Clone, Debug)]
pub(crate) struct SecondView {
    /// The kernel, every parameter a number.
    pub(crate) kernel: Spec,
    /// Number of features.
    pub(crate) features: usize,
    /// Number of kernel functions that functions of its features are made of.
    pub(crate) functions: usize,
}

/// Makes the map, of two views those of both side by side.
pub(crate) fn map<T: Real>(
    source: &dyn RowSource<T>,
    n: u64,
    reading: &Reading,
    options: &TrainOptions,
    cut: Cut,
    resources: &Resources<'_>,
) -> Result<Mapped<T>> {
    let first = view(source, n, reading, options, cut, resources)?;
    let Some(kernel) = &options.with else { return Ok(first) };
    let own = TrainOptions { kernel: kernel.clone(), ..options.clone() };
    let Mapped { map, kernel, passes, .. } = view(source, n, reading, &own, cut, resources)?;
    let features = map.dims().1;
    let functions = match map.expand(Mat::zeros(features, 1).as_ref(), resources.workers) {
        Expansion::Landmarks { landmarks, .. } => landmarks.len(),
        Expansion::Features { .. } => features,
    };
    let with = Some(SecondView { kernel, features, functions });
    Ok(Mapped { map: Box::new(StackedMaps(vec![first.map, map])), with, passes: first.passes + passes, ..first })
}
