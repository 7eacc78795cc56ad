//! The kernels there are. To add one: a file with a [`Profile`](super::Profile) and a `FAMILY`, and a line here.

use super::applied::FUNCTIONS;
use super::{
    KernelFamily, additive, anova, cauchy, chi_squared, constant, cosine, delta, distance, gaussian, jaccard,
    laplacian, linear, matern, matern_product, periodic, polynomial, rational_quadratic, sigmoid, skewed_chi_squared,
    ssim, subset,
};
use crate::Result;
use kpass::named::{Named, Registry};

static FAMILIES: Registry<KernelFamily> = Registry::new(&[
    gaussian::FAMILY,
    laplacian::FAMILY,
    matern::EXPONENTIAL,
    matern::FAMILY,
    matern_product::FAMILY,
    cauchy::FAMILY,
    rational_quadratic::FAMILY,
    periodic::FAMILY,
    polynomial::FAMILY,
    linear::FAMILY,
    constant::FAMILY,
    distance::FAMILY,
    cosine::FAMILY,
    sigmoid::FAMILY,
    chi_squared::FAMILY,
    additive::CHI_SQUARED,
    skewed_chi_squared::FAMILY,
    additive::INTERSECTION,
    anova::FAMILY,
    delta::FAMILY,
    subset::FAMILY,
    jaccard::FAMILY,
    ssim::FAMILY,
]);

/// Returns every kernel, in the order in which help lists them: those of this crate, then those that were [registered](register).
pub fn registry() -> Vec<&'static KernelFamily> {
    FAMILIES.all()
}

/// The kernel of a name, of this crate or [registered](register).
pub fn by_name(name: &str) -> Option<&'static KernelFamily> {
    FAMILIES.by_name(name)
}

pub(super) fn names() -> Vec<&'static str> {
    registry().into_iter().map(|family| family.name).collect()
}

/// Makes a kernel of another crate known by its name, in this process and from now on: expressions with it are read, sums
/// and products with other kernels too, and models with it are saved and loaded.
///
/// A model file holds the expression and no code: whoever loads it must have registered the kernel before.
///
/// # Errors
/// [`kpass::Error::Register`] for a name that a kernel or a function of kernels has, or that is no word.
pub fn register(family: &'static KernelFamily) -> Result<()> {
    if FUNCTIONS.iter().any(|function| function.0 == family.name) {
        let (what, why) = (KernelFamily::WHAT, "a function of kernels has this name");
        return Err(kpass::Error::Register { what, name: family.name, why }.into());
    }
    Ok(FAMILIES.register(family)?)
}
