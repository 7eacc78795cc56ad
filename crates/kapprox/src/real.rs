//! The element type of kernel blocks, with arithmetic that vectorises.
//!
//! The standard library's `exp` is a function call, which does not vectorise. One call per entry of
//! a kernel block costs more than the matrix product from which the entry is computed. The
//! functions here are straight-line code, marked `#[inline(always)]` so that they are compiled with
//! the instruction set of the surrounding loop (see [`pulp::Arch::dispatch`]).

use crate::Lanes;

/// `f32` or `f64` with the arithmetic that kernels need, written so that loops over it vectorise.
///
/// The names differ from faer's (`sqrt`, `abs`, `fmax`, …), so that both can be in scope.
pub trait Real: kpass::Float + faer::traits::RealField + Lanes {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The largest finite number; kernels saturate there instead of becoming infinite.
    const LARGEST: Self;
    /// The smallest positive normal number.
    const MIN_POSITIVE: Self;

    /// Returns `self * factor + addend`, rounded once.
    fn mul_plus(self, factor: Self, addend: Self) -> Self;
    /// Returns e to the power `self`, with a relative error below 1e-7 (`f32`) and 4.5e-16 (`f64`).
    ///
    /// Results below the smallest normal number are 0, and results above the largest finite number
    /// are infinite. For infinities and NaN, the results are as in the standard library. The range
    /// reduction follows Cody and Waite, *Software Manual for the Elementary Functions* (1980),
    /// chapter 6: x = n ln 2 + r, where n is an integer and ln 2 is the sum of two numbers. exp(r)
    /// is a polynomial in r, whose maximal relative error is minimised by Lawson's iteration
    /// (Lawson 1961; see Rice, *The Approximation of Functions* 2, 1969).
    fn exponential(self) -> Self;
    /// Returns 2 to the power `-self`, for `self` ≥ 0. It is as accurate as
    /// [`exponential`](Self::exponential) at half the work: no range reduction, no overflow.
    ///
    /// If `self` is at least 127 (`f32`) or 1023 (`f64`), or infinite, the result is 0. For `self`
    /// from 126 to 127 or from 1022 to 1023, where the exact result is not a normal number, the
    /// result decreases linearly to 0.
    fn exp2_neg(self) -> Self;
    /// Returns the logarithm to base 2 of a positive normal number. The error is below 8e-8 (`f32`)
    /// and 4e-16 (`f64`). This is the absolute error if the magnitude of the logarithm is below 1,
    /// and otherwise the relative error.
    ///
    /// The logarithm is the exponent plus the logarithm of the mantissa m, which is between √½ and
    /// √2. In `f32` the logarithm of m is computed by a polynomial, fitted as for
    /// [`exponential`](Self::exponential). In `f64` it is computed by the power series of 2/ln 2 ·
    /// artanh((m − 1)/(m + 1)).
    fn log_base_2(self) -> Self;
    /// Returns the nearest integer, ties to even, if |self| is below 2²² (`f32`) or 2⁵¹
    /// (`f64`).
    fn round_to_integer(self) -> Self;
    /// Returns the cosine and the sine of an angle of at most π/4.
    fn cosine_and_sine(self) -> (Self, Self);
    /// Returns the square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// Returns the larger of the two, or `other` if `self` is NaN: a single instruction.
    fn larger(self, other: Self) -> Self;
    /// Returns the smaller of the two, or `other` if `self` is NaN: a single instruction.
    fn smaller(self, other: Self) -> Self;
    /// Returns the absolute value.
    fn magnitude(self) -> Self;
    /// Returns `self` to an integer power below 32, by repeated squaring.
    fn power(self, exponent: u32) -> Self;
    /// Returns `self` clamped to the finite numbers.
    #[inline(always)]
    fn saturate(self) -> Self {
        self.larger(Self::ZERO - Self::LARGEST).smaller(Self::LARGEST)
    }
    /// Returns the member of a pair for this type.
    fn pick<P: PrecisionPair>(pair: P) -> P::For<Self>;
}

/// A pair of values, such as kernels, one for each element type. [`Real::pick`] selects the value
/// for a type.
///
/// With a pair, code that is generic over the element type can use values that were built at run
/// time for both types.
pub trait PrecisionPair {
    /// Member for one type.
    type For<T: Real>;
    /// Returns the member for `f32`.
    fn single(self) -> Self::For<f32>;
    /// Returns the member for `f64`.
    fn double(self) -> Self::For<f64>;
}

/// Evaluates Σ c_i x^i. The coefficients are in ascending order, from the constant on.
macro_rules! polynomial {
    ($type:ident, $x:expr, $first:expr) => { $first };
    ($type:ident, $x:expr, $first:expr, $($rest:expr),+) => {
        $type::mul_add(polynomial!($type, $x, $($rest),+), $x, $first)
    };
}

/// Defines everything except the constants and the logarithm, with the same text for both types.
macro_rules! shared {
    (
        $type:ident, $pick:ident,
        to_whole $to_whole:literal, mantissa $mantissa:literal,
        exponential $lowest:literal, $highest:literal, $ln2_high:literal, $ln2_low:literal, [$($exponential:expr),+],
        halvings $most:literal, [$($halvings:expr),+],
        waves [$($cosine:expr),+], [$($sine:expr),+]
    ) => {
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;
        const LARGEST: Self = $type::MAX;
        const MIN_POSITIVE: Self = $type::MIN_POSITIVE;

        #[inline(always)]
        fn mul_plus(self, factor: Self, addend: Self) -> Self {
            $type::mul_add(self, factor, addend)
        }
        #[inline(always)]
        fn sqrt(self) -> Self {
            $type::sqrt(self)
        }
        #[inline(always)]
        fn larger(self, other: Self) -> Self {
            if self > other { self } else { other }
        }
        #[inline(always)]
        fn smaller(self, other: Self) -> Self {
            if self < other { self } else { other }
        }
        #[inline(always)]
        fn magnitude(self) -> Self {
            $type::abs(self)
        }
        #[inline(always)]
        fn power(self, exponent: u32) -> Self {
            let (mut result, mut square) = (1.0, self);
            for bit in 0..5 {
                // a selection, not a branch: the surrounding loop stays vectorisable, and an
                // overflow that is not selected is harmless
                result = if exponent >> bit & 1 == 1 { result * square } else { result };
                square *= square;
            }
            result
        }
        #[inline(always)]
        fn round_to_integer(self) -> Self {
            (self + $to_whole) - $to_whole
        }
        #[inline(always)]
        fn exponential(self) -> Self {
            let shifted = self.mul_add(std::$type::consts::LOG2_E, $to_whole);
            let n = shifted - $to_whole;
            let r = n.mul_add(-$ln2_high, self);
            let r = n.mul_add(-$ln2_low, r);
            let q = polynomial!($type, r, $($exponential),+);
            let p = (q * r).mul_add(r, r) + 1.0;
            // multiply by 2^n through the exponent field
            let scaled = $type::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << $mantissa));
            let scaled = if self < $lowest { 0.0 } else { scaled };
            if self > $highest { $type::INFINITY } else { scaled }
        }
        #[inline(always)]
        fn exp2_neg(self) -> Self {
            const MOST: $type = $most;
            // for numbers ≥ 0, the order of the bits is the order of the values, with NaN above all
            // numbers. A comparison of bits vectorises, unlike a minimum that must treat NaN, and
            // leaves the floating-point units to sums and products
            let least = self.to_bits().cast_signed().min(MOST.to_bits().cast_signed());
            let x = $type::from_bits(least.cast_unsigned());
            let shifted = $to_whole - x;
            let n = shifted - $to_whole;
            let r = x + n;
            let q = polynomial!($type, r, $($halvings),+);
            let p = q.mul_add(r, 1.0);
            $type::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << $mantissa))
        }
        #[inline(always)]
        fn cosine_and_sine(self) -> (Self, Self) {
            let square = self * self;
            (polynomial!($type, square, $($cosine),+), self * polynomial!($type, square, $($sine),+))
        }
        fn pick<P: PrecisionPair>(pair: P) -> P::For<Self> {
            pair.$pick()
        }
    };
}

// The constants of `shared`:
// * adding `to_whole`, 1.5 · 2^23 or 1.5 · 2^52, leaves the nearest integer in the low bits of
//   the sum;
// * for arguments between the first two numbers of `exponential` the result is a normal number. In
//   `f32` they are ln 2^-126 and ln 2^128, in `f64` ln 2^-1022 and ln 2^1024, rounded inwards. ln 2
//   is the sum of two numbers. The first has 15 or 32 significant bits, so that its product with n
//   is exact. exp(r) = 1 + r + r² q(r) for |r| ≤ ½ ln 2: the relative error is
//   3.1e-9 or 3.6e-18 before rounding;
// * at the first number of `halvings` 2^-r = 1 exactly, and the exponent field becomes 0. The
//   formula is 2^-r = 1 + r q(r) for |r| ≤ 1/2, with the polynomial of `exponential`, in -r ln 2;
// * the power series of cosine and sine are as long as the precision of the type requires.

impl Real for f32 {
    shared! {
        f32, single,
        to_whole 12_582_912.0, mantissa 23,
        exponential -87.336_54, 88.722_83, 6.931_457_5e-1, 1.428_606_8e-6,
        [4.999_999_4e-1, 1.666_652_1e-1, 4.166_839e-2, 8.368_717e-3, 1.381_459_6e-3],
        halvings 127.0,
        [-std::f32::consts::LN_2, 2.402_264_8e-1, -5.550_362_5e-2, 9.618_526e-3, -1.339_017_4e-3, 1.532_113_7e-4],
        waves [1.0, -1.0 / 2.0, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0],
        [1.0, -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5_040.0, 1.0 / 362_880.0]
    }

    #[inline(always)]
    fn log_base_2(self) -> Self {
        // √½ as bits: subtracting it gives the exponent for a mantissa from √½ to √2
        const HALF_ROOT: i32 = std::f32::consts::FRAC_1_SQRT_2.to_bits().cast_signed();
        // log₂(1 + t) = t q(t), √½ ≤ 1 + t ≤ √2: absolute error 1.8e-8 before rounding. This avoids
        // a division, which costs as much as the whole polynomial
        const Q: [f32; 9] = [
            1.442_694_9,
            -7.213_471_5e-1,
            4.809_225_2e-1,
            -3.607_212e-1,
            2.876_566_6e-1,
            -2.385_194_3e-1,
            2.173_793_8e-1,
            -2.103_033_4e-1,
            1.254_124_3e-1,
        ];

        // differences of bits cannot overflow; without overflow checks, loops vectorise in every
        // profile
        let bits = self.to_bits().cast_signed();
        let exponent = bits.wrapping_sub(HALF_ROOT) >> 23;
        let t = f32::from_bits(bits.wrapping_sub(exponent << 23).cast_unsigned()) - 1.0;
        let q = Q[8].mul_add(t, Q[7]).mul_add(t, Q[6]).mul_add(t, Q[5]).mul_add(t, Q[4]);
        let q = q.mul_add(t, Q[3]).mul_add(t, Q[2]).mul_add(t, Q[1]).mul_add(t, Q[0]);
        q.mul_add(t, exponent as f32)
    }
}

impl Real for f64 {
    shared! {
        f64, double,
        to_whole 6_755_399_441_055_744.0, mantissa 52,
        exponential -708.396_418_532_264_1, 709.782_712_893_384, 6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10,
        [
            5.000_000_000_000_001e-1,
            1.666_666_666_666_641_3e-1,
            4.166_666_666_653_013_5e-2,
            8.333_333_333_494_335e-3,
            1.388_888_894_363_596_4e-3,
            1.984_126_950_689_350_5e-4,
            2.480_149_309_346_542_8e-5,
            2.755_758_606_654_660_7e-6,
            2.763_025_013_082_236e-7,
            2.500_016_524_515_085e-8
        ],
        halvings 1023.0,
        [
            -std::f64::consts::LN_2,
            2.402_265_069_591_012_5e-1,
            -5.550_410_866_482_074e-2,
            9.618_129_107_596_96e-3,
            -1.333_355_814_668_605e-3,
            1.540_353_045_409_908_3e-4,
            -1.525_273_354_701_211_6e-5,
            1.321_543_659_149_472_4e-6,
            -1.017_818_456_550_752_2e-7,
            7.073_582_562_556_167e-9,
            -4.436_320_875_291_994e-10
        ],
        waves
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
    }

    #[inline(always)]
    fn log_base_2(self) -> Self {
        // √½ as bits: subtracting it gives the exponent for a mantissa from √½ to √2
        const HALF_ROOT: i64 = std::f64::consts::FRAC_1_SQRT_2.to_bits().cast_signed();
        let bits = self.to_bits().cast_signed();
        let exponent = bits.wrapping_sub(HALF_ROOT) >> 52;
        let m = f64::from_bits(bits.wrapping_sub(exponent << 52).cast_unsigned());
        let s = (m - 1.0) / (m + 1.0);
        let square = s * s;
        // artanh(s) = s (1 + s²/3 + s⁴/5 + …), s² < 0.03
        let mut series = 0.0;
        for term in (0..12).rev() {
            series = square.mul_add(series, 1.0 / f64::from(2 * term as u8 + 1));
        }
        (s * series).mul_add(2.0 * std::f64::consts::LOG2_E, exponent as f64)
    }
}

/// Returns `(cos 2πt, sin 2πt)` of t turns, with an absolute error below 2e-7 (`f32`) and 5e-16
/// (`f64`), for |t| below 2²² and 2⁵¹.
///
/// Whole turns are subtracted exactly, as t − round(t). The nearest quarter turn determines the
/// signs and which result is the sine. For the remainder, which is at most an eighth of a turn, the
/// Taylor series of cosine and sine are summed to the precision of the type. Angles in radians
/// would need as many digits of π as the angle has; frequencies are therefore stored in turns, i.e.
/// divided by 2π.
#[inline(always)]
pub(crate) fn cosine_sine_of_turns<T: Real>(t: T) -> (T, T) {
    let r = t - t.round_to_integer();
    // the nearest quarter and the remainder: |s| ≤ 1/8
    let quarters = (r * T::from_f64(4.0)).round_to_integer();
    let s = r - quarters * T::from_f64(0.25);
    let (cosine, sine) = (s * T::from_f64(std::f64::consts::TAU)).cosine_and_sine();
    let is_swapped = quarters.magnitude() == T::ONE;
    let (cosine, sine) = if is_swapped { (T::ZERO - sine, cosine) } else { (cosine, sine) };
    // if the nearest quarter is −1 or ±2, both signs change; if it is 0 or 1, they are right
    let is_negated = quarters.magnitude() == T::ONE + T::ONE || quarters == T::ZERO - T::ONE;
    if is_negated { (T::ZERO - cosine, T::ZERO - sine) } else { (cosine, sine) }
}

#[cfg(test)]
mod tests;
