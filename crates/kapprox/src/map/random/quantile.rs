//! The quantile function of the normal distribution.

/// Returns Φ⁻¹(u) for 0 < u < 1, with a relative error of about 1e-16.
///
/// Reference: Wichura, "Algorithm AS 241: the percentage points of the normal distribution",
/// Applied Statistics 37, 1988, PPND16.
pub(super) fn normal_quantile(u: f64) -> f64 {
    let q = u - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * polynomial_ratio(&A, &B, r);
    }
    let tail_probability = if q < 0.0 { u } else { 1.0 - u };
    // 0 < u < 1; a subnormal tail counts as the smallest normal number
    let r = (-tail_probability.max(f64::MIN_POSITIVE).ln()).sqrt();
    let value = if r <= 5.0 { polynomial_ratio(&C, &D, r - 1.6) } else { polynomial_ratio(&E, &F, r - 5.0) };
    if q < 0.0 { -value } else { value }
}

fn polynomial_ratio(numerator: &[f64; 8], denominator: &[f64; 8], r: f64) -> f64 {
    let horner = |c: &[f64; 8]| c.iter().rev().fold(0.0, |sum, c| sum * r + c);
    horner(numerator) / horner(denominator)
}

// coefficients of PPND16: A and B for |u − 1/2| ≤ 0.425, C and D for r ≤ 5, E and F for larger r
const A: [f64; 8] = [
    3.387_132_872_796_366_5,
    1.331_416_678_917_843_8e2,
    1.971_590_950_306_551_3e3,
    1.373_169_376_550_946e4,
    4.592_195_393_154_987e4,
    6.726_577_092_700_87e4,
    3.343_057_558_358_813e4,
    2.509_080_928_730_122_7e3,
];
const B: [f64; 8] = [
    1.0,
    4.231_333_070_160_091e1,
    6.871_870_074_920_579e2,
    5.394_196_021_424_751e3,
    2.121_379_430_158_659_7e4,
    3.930_789_580_009_271e4,
    2.872_908_573_572_194_3e4,
    5.226_495_278_852_854e3,
];
const C: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    2.417_807_251_774_506e-1,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
const D: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    6.897_673_349_851e-1,
    1.481_039_764_274_800_8e-1,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
const E: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    2.965_605_718_285_048_7e-1,
    2.653_218_952_657_612_4e-2,
    1.242_660_947_388_078_4e-3,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const F: [f64; 8] = [
    1.0,
    5.998_322_065_558_88e-1,
    1.369_298_809_227_358e-1,
    1.487_536_129_085_061_5e-2,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

#[cfg(test)]
mod tests {
    /// Values of scipy.stats.norm.ppf (SciPy 1.17.1).
    #[test]
    fn agrees_with_scipy() {
        let table = [
            (0.5, 0.0),
            (0.3, -0.524_400_512_708_040_9),
            (0.9, 1.281_551_565_544_600_4),
            (0.975, 1.959_963_984_540_054),
            (1e-3, -3.090_232_306_167_813),
            (1e-10, -6.361_340_902_404_056),
            (1e-30, -11.464_024_688_443_613),
        ];
        for (u, expected) in table {
            let computed: f64 = super::normal_quantile(u);
            assert!((computed - expected).abs() <= 3e-15 * expected.abs().max(0.1), "{u}: {computed} {expected}");
        }
    }
}
