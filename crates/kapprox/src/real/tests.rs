//! Tests of the arithmetic against the standard library.

use super::{Real, cosine_sine_of_turns};

/// Returns the largest relative error of `f` over `steps` points of [from, to].
fn largest_error(from: f64, to: f64, steps: u32, f: impl Fn(f64) -> (f64, f64)) -> f64 {
    (0..=steps).fold(0.0, |worst: f64, i| {
        let (got, expected) = f(from + (to - from) * f64::from(i) / f64::from(steps));
        worst.max((got - expected).abs() / expected)
    })
}

/// Checks a function, `single` in f32 and `double` in f64, against `expected` of the standard
/// library.
fn assert_accurate(
    name: &str,
    single: fn(f32) -> f32,
    double: fn(f64) -> f64,
    expected: fn(f64) -> f64,
    ranges: [&[(f64, f64)]; 2],
) {
    for (from, to) in ranges[0] {
        let error =
            largest_error(*from, *to, 1_000_003, |x| (f64::from(single(x as f32)), expected(f64::from(x as f32))));
        assert!(error < 1e-7, "{name} in f32 on [{from}, {to}]: {error:e}");
    }
    for (from, to) in ranges[1] {
        let error = largest_error(*from, *to, 1_000_003, |x| (double(x), expected(x)));
        assert!(error < 4.5e-16, "{name} in f64 on [{from}, {to}]: {error:e}");
    }
}

#[test]
fn exponential_is_accurate_over_the_whole_range() {
    let ranges: [&[_]; 2] = [
        &[(-87.336, 88.722), (-20.0, 0.0), (-1.0, 1.0), (-1e-3, 1e-3), (88.0, 88.7228), (-87.3365, -87.0)],
        &[(-708.396, 709.782), (-40.0, 0.0), (-1.0, 1.0), (-1e-6, 1e-6), (709.0, 709.7827), (-708.3964, -708.0)],
    ];
    assert_accurate("exponential", Real::exponential, Real::exponential, f64::exp, ranges);
}

#[test]
fn logarithms_are_accurate() {
    for i in 0..=1_000_003 {
        let x = (f64::from(i) / 1_000_003.0 * 1400.0 - 700.0).exp();
        let error = (x.log_base_2() - x.log2()).abs() / x.log2().abs().max(1.0);
        assert!(error < 4e-16, "{x:e}: {error:e}");
        let x = (f64::from(i) / 1_000_003.0 * 170.0 - 85.0).exp() as f32;
        let expected = f64::from(x).log2();
        let error = (f64::from(x.log_base_2()) - expected).abs() / expected.abs().max(1.0);
        assert!(error < 8e-8, "{x:e}: {error:e}");
    }
    assert_eq!([1.0f32.log_base_2(), 2.0f32.log_base_2(), 0.25f32.log_base_2()], [0.0, 1.0, -2.0]);
    assert_eq!([1.0f64.log_base_2(), 2.0f64.log_base_2(), 0.25f64.log_base_2()], [0.0, 1.0, -2.0]);
}

#[test]
fn halvings_are_accurate_over_the_whole_range() {
    let ranges: [&[_]; 2] = [
        &[(0.0, 126.0), (0.0, 1.0), (0.0, 1e-3), (125.0, 126.0)],
        &[(0.0, 1022.0), (0.0, 50.0), (0.0, 1.0), (0.0, 1e-6), (1021.0, 1022.0)],
    ];
    assert_accurate("halvings", Real::exp2_neg, Real::exp2_neg, |x| (-x).exp2(), ranges);
    assert_eq!([0.0f32.exp2_neg(), 126.0f32.exp2_neg(), 127.0f32.exp2_neg()], [1.0, f32::MIN_POSITIVE, 0.0]);
    assert_eq!([0.0f64.exp2_neg(), 1022.0f64.exp2_neg(), 1023.0f64.exp2_neg()], [1.0, f64::MIN_POSITIVE, 0.0]);
    let steps = |i: i32| (f64::from(i) / 1000.0 + 1022.0).exp2_neg();
    assert!((0..1000).all(|i| steps(i) > steps(i + 1)));
    let steps = |i: i32| (i as f32 / 1000.0 + 126.0).exp2_neg();
    assert!((0..1000).all(|i| steps(i) > steps(i + 1)));
    assert_eq!([1e9f32.exp2_neg(), f32::MAX.exp2_neg(), f32::INFINITY.exp2_neg()], [0.0; 3]);
    assert_eq!([1e9f64.exp2_neg(), f64::MAX.exp2_neg(), f64::INFINITY.exp2_neg()], [0.0; 3]);
}

#[test]
fn exponential_at_the_edges() {
    assert_eq!([0.0f32.exponential(), (-0.0f32).exponential()], [1.0, 1.0]);
    assert_eq!([0.0f64.exponential(), (-0.0f64).exponential()], [1.0, 1.0]);
    for x in [-87.34, -88.0, -104.0, -1e4, -1e30, -f32::MAX, f32::NEG_INFINITY] {
        assert_eq!(x.exponential(), 0.0, "{x}");
    }
    for x in [-708.4, -709.0, -746.0, -1e9, -1e300, -f64::MAX, f64::NEG_INFINITY] {
        assert_eq!(x.exponential(), 0.0, "{x}");
    }
    assert!(88.722_83_f32.exponential().is_finite() && 709.782_712_893_384_f64.exponential().is_finite());
    for x in [88.73, 89.0, 200.0, 1e30, f32::MAX, f32::INFINITY] {
        assert_eq!(x.exponential(), f32::INFINITY, "{x}");
    }
    for x in [709.783, 710.0, 1e4, 1e300, f64::MAX, f64::INFINITY] {
        assert_eq!(x.exponential(), f64::INFINITY, "{x}");
    }
    assert!(f32::NAN.exponential().is_nan() && f64::NAN.exponential().is_nan());
}

#[test]
fn every_f32_near_the_edges_is_normal() {
    for bits in (-87.0f32).to_bits()..=(-87.336_54_f32).to_bits() {
        let y = f32::from_bits(bits).exponential();
        assert!((f32::MIN_POSITIVE..2e-38).contains(&y), "exp({}) = {y:e}", f32::from_bits(bits));
    }
    for bits in 88.5f32.to_bits()..=88.722_83_f32.to_bits() {
        let y = f32::from_bits(bits).exponential();
        assert!(y.is_finite() && y > 2e38, "exp({}) = {y:e}", f32::from_bits(bits));
    }
}

#[test]
fn powers_and_bounds() {
    for exponent in 0..12 {
        assert_eq!(1.5f64.power(exponent), 1.5f64.powi(exponent as i32));
    }
    assert_eq!([f64::INFINITY.saturate(), f64::NEG_INFINITY.saturate()], [f64::MAX, -f64::MAX]);
    assert_eq!([2.0f32.larger(3.0), 2.0f32.smaller(3.0), f32::NAN.larger(0.0)], [3.0, 2.0, 0.0]);
}

#[test]
fn agrees_with_the_library_at_any_angle() {
    for scale in [0.3, 3.0, 1e3, 2e5] {
        for i in -20_000..20_000 {
            let t = f64::from(i) / 20_000.0 * scale;
            let (cosine, sine) = cosine_sine_of_turns(t);
            // subtract whole turns first: 2πt itself would lose the digits
            let angle = (t - t.round()) * std::f64::consts::TAU;
            assert!((cosine - angle.cos()).abs() < 5e-16 && (sine - angle.sin()).abs() < 5e-16, "{t}");
            let t = t as f32;
            let (cosine, sine) = cosine_sine_of_turns(t);
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
        assert_eq!(cosine_sine_of_turns::<f64>(t), (cosine, sine));
        assert_eq!(cosine_sine_of_turns::<f32>(t as f32), (cosine as f32, sine as f32));
    }
}
