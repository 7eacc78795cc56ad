//! Sine and cosine of angles in turns, in loops that vectorise.
//!
//! An angle of t turns is 2πt. Whole turns are taken off exactly, t − round(t), where radians would need π to as many
//! digits as the angle has; so frequencies are stored divided by 2π.

use crate::Real;

/// `(cos 2πt, sin 2πt)`: absolute error below 2e-7 (`f32`) and 5e-16 (`f64`), for |t| below 2²² and 2⁵¹.
///
/// The quarter turn around the angle gives the signs; inside it, up to an eighth of a turn away, the Taylor series of both
/// are summed as far as the type sees them.
#[inline(always)]
pub(crate) fn cosine_sine<T: Real>(t: T) -> (T, T) {
    let r = t - t.whole();
    // the nearest quarter, and what is left: |s| ≤ 1/8
    let quarters = (r * T::FOUR).whole();
    let s = r - quarters * T::QUARTER;
    let a = s * T::TWO_PI;
    let (cosine, sine) = T::series(a, a * a);
    let swap = quarters.magnitude() == T::ONE;
    let (cosine, sine) = if swap { (T::ZERO - sine, cosine) } else { (cosine, sine) };
    // at −1 quarter both turn round; at ±2 both do; at 1 they are right
    let negate = quarters.magnitude() == T::TWO || quarters == T::ZERO - T::ONE;
    if negate { (T::ZERO - cosine, T::ZERO - sine) } else { (cosine, sine) }
}

/// The constants and series behind sine and cosine.
pub trait Turns: Sized {
    /// 2.
    const TWO: Self;
    /// 4.
    const FOUR: Self;
    /// 1/4.
    const QUARTER: Self;
    /// 2π.
    const TWO_PI: Self;
    /// The nearest whole number; to even in the middle.
    fn whole(self) -> Self;
    /// cos a and sin a for |a| ≤ π/4, given a and a².
    fn series(a: Self, square: Self) -> (Self, Self);
}

/// Σ c_i x^i, the constant first.
macro_rules! polynomial {
    ($type:ty, $x:expr, $first:expr) => { $first };
    ($type:ty, $x:expr, $first:expr, $($rest:expr),+) => {
        <$type>::mul_add(polynomial!($type, $x, $($rest),+), $x, $first)
    };
}

macro_rules! turns {
    ($type:ty, $shift:expr, [$($cosine:expr),+], [$($sine:expr),+]) => {
        impl Turns for $type {
            const TWO: Self = 2.0;
            const FOUR: Self = 4.0;
            const QUARTER: Self = 0.25;
            const TWO_PI: Self = std::f64::consts::TAU as $type;
            #[inline(always)]
            fn whole(self) -> Self {
                // adding it leaves the nearest whole number in the low bits of the sum
                (self + $shift) - $shift
            }
            #[inline(always)]
            fn series(a: Self, square: Self) -> (Self, Self) {
                (polynomial!($type, square, $($cosine),+), a * polynomial!($type, square, $($sine),+))
            }
        }
    };
}

turns!(
    f32,
    12_582_912.0,
    [1.0, -1.0 / 2.0, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0],
    [1.0, -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5_040.0, 1.0 / 362_880.0]
);

turns!(
    f64,
    6_755_399_441_055_744.0,
    [
        1.0,
        -1.0 / 2.0,
        1.0 / 24.0,
        -1.0 / 720.0,
        1.0 / 40_320.0,
        -1.0 / 3_628_800.0,
        1.0 / 479_001_600.0,
        -1.0 / 87_178_291_200.0,
        1.0 / 20_922_789_888_000.0
    ],
    [
        1.0,
        -1.0 / 6.0,
        1.0 / 120.0,
        -1.0 / 5_040.0,
        1.0 / 362_880.0,
        -1.0 / 39_916_800.0,
        1.0 / 6_227_020_800.0,
        -1.0 / 1_307_674_368_000.0,
        1.0 / 355_687_428_096_000.0
    ]
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_library_at_any_angle() {
        for scale in [0.3, 3.0, 1e3, 2e5] {
            for i in -20_000..20_000 {
                let t = f64::from(i) / 20_000.0 * scale;
                let (cosine, sine) = cosine_sine(t);
                // whole turns off first: 2πt itself would lose the digits
                let angle = (t - t.round()) * std::f64::consts::TAU;
                assert!((cosine - angle.cos()).abs() < 5e-16 && (sine - angle.sin()).abs() < 5e-16, "{t}");
                let t = t as f32;
                let (cosine, sine) = cosine_sine(t);
                let angle = (f64::from(t) - f64::from(t).round()) * std::f64::consts::TAU;
                let error = (f64::from(cosine) - angle.cos()).abs().max((f64::from(sine) - angle.sin()).abs());
                assert!(error < 2e-7, "{t}: {error}");
            }
        }
    }

    #[test]
    fn quarters_are_exact() {
        for (t, cosine, sine) in
            [(0.0, 1.0, 0.0), (0.25, 0.0, 1.0), (0.5, -1.0, 0.0), (0.75, 0.0, -1.0), (-0.25, 0.0, -1.0)]
        {
            assert_eq!(cosine_sine::<f64>(t), (cosine, sine));
            assert_eq!(cosine_sine::<f32>(t as f32), (cosine as f32, sine as f32));
        }
    }
}
