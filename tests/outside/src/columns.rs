//! A map: the first columns themselves, up to the rank. Its kernel is their inner product.

use faer::{MatMut, MatRef};
use kapprox::Real;
use kapprox::kpass::{Footprint, Workers};
use kapprox::map::{DataIndependentMapArgs, FeatureMap, MapConstructorPair, MapFamily, MapResult, MapShape};

pub(crate) static FAMILY: MapFamily = MapFamily {
    name: "columns",
    summary: "the first columns of a row",
    parameters: &[],
    is_nested: true,
    supports_sparse: false,
    build_passes: 0,
    shape: |_, request| MapShape {
        p: request.rank.min(request.d),
        landmark_count: None,
        footprint: Footprint::default(),
        build_bytes: 0,
    },
    constructor: MapConstructorPair::data_independent(build, build),
};

fn build<T: Real>(request: &DataIndependentMapArgs<'_>) -> MapResult<T> {
    Ok(Box::new(Columns { d: request.d, p: request.rank }))
}

#[derive(Debug)]
struct Columns {
    d: usize,
    p: usize,
}

impl<T: Real> FeatureMap<T> for Columns {
    fn dims(&self) -> (usize, usize) {
        (self.d, self.p)
    }
    fn apply(&self, x: MatRef<'_, T>, mut out: MatMut<'_, T>, _: &Workers) {
        out.copy_from(x.get(.., ..self.p));
    }
    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}
