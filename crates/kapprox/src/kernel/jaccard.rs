//! The Jaccard (Tanimoto) kernel on 0/1 features, |A∩B| / |A∪B| = x·z / (‖x‖² + ‖z‖² − x·z); 1 for two empty sets.
//!
//! One minus SciPy's `jaccard` distance. Positive definite (Gower, *A General Coefficient of Similarity and Some of Its
//! Properties*, Biometrics 27, 1971; Ralaivola, Swamidass, Saigo, Baldi, *Graph Kernels for Chemical Informatics*, 2005), strictly so for
//! distinct sets (Bouchard, Jousselme, Doré, *A Proof for the Positive Definiteness of the Jaccard Index Matrix*, IJAR 54, 2013).
//!
//! ```
//! use kapprox::kernel::Spec;
//! assert!(Spec::parse("jaccard()").is_ok());
//! ```

use super::family::{Domain, Facts, KernelFamily};
use super::few;
use super::fixed::KernelColumns;
use super::panel::{Block, Finish, Own, Packed};
use super::points::{Frame, fold_panels, fold_row, row_norms};
use super::terms::Products;
use super::{Kernel, check_shapes};
use crate::{Real, vectorised};
use faer::{MatMut, MatRef};
use std::sync::Arc;

pub(super) const FAMILY: KernelFamily = KernelFamily {
    domain: Domain::Binary,
    // matrices of distinct sets are not singular
    facts: Facts::RICH,
    ..KernelFamily::new("jaccard", "x.z / (x.x + z.z - x.z)", "jaccard()", |text, _| Arc::new(Jaccard { text }))
};

#[derive(Debug)]
struct Jaccard {
    text: String,
}

impl<T: Real> Kernel<T> for Jaccard {
    fn spec(&self) -> String {
        self.text.clone()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        check_shapes(x, z, &out);
        let d = x.ncols();
        let finish = &mut Union { d, x_norms: Vec::new(), z_norms: Vec::new() };
        Block { frame: &Frame::identity(d), x, z, out }.fill::<Products, _>(finish);
    }

    fn columns(&self, z: MatRef<'_, T>) -> Option<Box<dyn KernelColumns<T>>> {
        let d = z.ncols();
        let finish = Union { d, x_norms: Vec::new(), z_norms: Vec::new() };
        Some(few::columns::<T, Products, _>(Frame::identity(d), finish, z))
    }

    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        assert_eq!(x.nrows(), out.len(), "out must have an entry for each x");
        out.fill(1.0);
    }
}

/// The step that makes |A∩B| / |A∪B| of |A∩B|, |A| and |B|.
struct Union<T> {
    d: usize,
    x_norms: Vec<T>,
    z_norms: Vec<T>,
}

impl<T: Real> Finish<T> for Union<T> {
    fn rows(&mut self, packed: &mut Packed<T>) {
        fold_panels(&packed.x, packed.height, self.d, (square, 1.0), &mut self.x_norms);
    }

    fn columns(&mut self, packed: &Packed<T>) {
        row_norms(&packed.z, packed.z.len() / self.d.max(1), &mut self.z_norms);
    }

    #[inline(always)]
    fn column(&self, i: usize, j: usize, sums: &[T], values: &mut [T]) -> bool {
        let (z_norm, x_norms) = (self.z_norms[j], &self.x_norms[i..][..sums.len()]);
        for ((value, &shared), &x_norm) in values.iter_mut().zip(sums).zip(x_norms) {
            *value = ratio(x_norm, z_norm, shared);
        }
        false
    }

    const OWN: usize = 1;

    fn own(&self, x: &mut [T]) -> Own<T> {
        Own { offset: fold_row(x, (square, 1.0)), size: T::ZERO }
    }

    fn row(&self, own: Own<T>, _: &[T], _: MatRef<'_, T>, values: &mut [T]) {
        vectorised!({
            for (value, &z_norm) in values.iter_mut().zip(&self.z_norms) {
                *value = ratio(own.offset, z_norm, *value);
            }
        });
    }
}

#[inline(always)]
fn square(sum: f64, value: f64) -> f64 {
    value.mul_add(value, sum)
}

/// |A∩B| / |A∪B|.
#[inline(always)]
fn ratio<T: Real>(x_norm: T, z_norm: T, shared: T) -> T {
    let union = x_norm + z_norm - shared;
    // whole numbers: below 1 is 0
    if union > T::ZERO { (shared / union).saturate() } else { T::ONE }
}
