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
    let quarters = (r * T::from_f64(4.0)).whole();
    let s = r - quarters * T::from_f64(0.25);
    let (cosine, sine) = (s * T::from_f64(std::f64::consts::TAU)).cosine_and_sine();
    let swap = quarters.magnitude() == T::ONE;
    let (cosine, sine) = if swap { (T::ZERO - sine, cosine) } else { (cosine, sine) };
    // at −1 quarter both turn round; at ±2 both do; at 1 they are right
    let negate = quarters.magnitude() == T::ONE + T::ONE || quarters == T::ZERO - T::ONE;
    if negate { (T::ZERO - cosine, T::ZERO - sine) } else { (cosine, sine) }
}

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
