//! Coordinates of the rows that a model holds beside its predictions, such as discriminants: linear functions of the same basis.

use super::{Model, STRIP, combine};
use crate::strips::row_strips;
use crate::{Error, Head, Result};
use faer::prelude::*;
use faer::{MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::Workers;

impl<T: Real> Model<T> {
    /// Number of components q that the model holds beside its predictions; 0 where it holds none.
    pub fn component_count(&self) -> usize {
        self.components.as_ref().map_or(0, |head| head.intercept.len())
    }

    /// `out` (b x q) = the components of the rows of `x`, as [`predict`](Self::predict) has them. *Cost*: the basis, and 2·m·q flops
    /// a row.
    ///
    /// # Errors
    /// [`Error::NoComponents`] where the model has none; [`Error::Shape`].
    pub fn predict_components(
        &self,
        basis: &dyn FeatureMap<T>,
        x: MatRef<'_, T>,
        out: MatMut<'_, f64>,
        workers: &Workers,
    ) -> Result<()> {
        let Some(Head { weights, intercept }) = &self.components else { return Err(Error::NoComponents) };
        let shapes = [
            ("columns of the rows to predict", self.dims().1, x.ncols()),
            ("rows of the components", x.nrows(), out.nrows()),
            ("columns of the components", intercept.len(), out.ncols()),
        ];
        if let Some((what, expected, got)) = shapes.into_iter().find(|(_, expected, got)| expected != got) {
            return Err(Error::Shape { what, expected, got });
        }
        self.each_strip(basis, x, row_strips(out, STRIP), workers, |k, _, mut out, buffers| {
            combine(weights, intercept, k, &mut buffers.wide, &mut buffers.scores);
            let rows = out.nrows();
            out.rb_mut().copy_from(MatRef::from_column_major_slice(&buffers.scores, rows, intercept.len()));
        });
        Ok(())
    }
}
