//! The available kernels. To add a kernel, write a file with a [`Profile`](super::Profile) and a
//! `FAMILY`, and add a line here.

use super::transform::TRANSFORMS;
use super::{
    KernelFamily, additive, anova, cauchy, chi_squared, constant, cosine, delta, distance, gaussian, jaccard,
    laplacian, linear, matern, matern_product, periodic, polynomial, rational_quadratic, sigmoid, skewed_chi_squared,
    ssim, subset,
};
use crate::Result;
use kpass::registry::{Registry, RegistryEntry};

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

/// Returns every kernel, in the order in which help lists them: the kernels of this crate, then the
/// [registered](register) kernels.
pub fn registry() -> Vec<&'static KernelFamily> {
    FAMILIES.entries()
}

/// Returns the kernel with this name, of this crate or [registered](register).
pub fn by_name(name: &str) -> Option<&'static KernelFamily> {
    FAMILIES.by_name(name)
}

pub(super) fn names() -> Vec<&'static str> {
    registry().into_iter().map(|family| family.name).collect()
}

/// Registers a kernel of another crate by its name, in this process and from now on. Expressions
/// with this kernel can then be parsed, also in sums and products with other kernels, and models
/// with this kernel can be saved and loaded.
///
/// A model file contains the expression but no code: register the kernel before loading the model.
///
/// # Errors
/// [`kpass::Error::Register`] if a kernel or a function of kernels has the name, or if the name is
/// not a word.
pub fn register(family: &'static KernelFamily) -> Result<()> {
    if TRANSFORMS.iter().any(|function| function.0 == family.name) {
        let (what, why) = (KernelFamily::KIND, "a function of kernels has this name");
        return Err(kpass::Error::Register { what, name: family.name, why }.into());
    }
    Ok(FAMILIES.register(family)?)
}
