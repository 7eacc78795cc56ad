//! A kernel: the product over features of max(0, 1 − |x − z|).

use kapprox::kernel::{KernelFamily, pointwise};

pub(crate) static FAMILY: KernelFamily =
    KernelFamily::new("triangle", "prod max(0, 1 - |x_i - z_i|)", "triangle()", |text, _| {
        pointwise(text, |x, z| x.iter().zip(z).map(|(x, z)| (1.0 - (x - z).abs()).max(0.0)).product())
    });
