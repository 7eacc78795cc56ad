//! Sequential minimal optimisation: the dual of a machine on a dense kernel matrix, one or two multipliers at a time.
//!
//! Minimises ½βᵀKβ + Σ h_i(β_i), where Σβ stays as it is or is free. With f = Kβ a multiplier can rise at the slope f + h′₊ and fall at
//! f + h′₋. The point is optimal where no slope of falling is above a slope of rising (Σβ given), or where no slope of
//! rising is below 0 and none of falling above it (Σβ free). The largest excess is the **violation**.
//!
//! A step takes the row i of the least slope of rising, and of the rows j above it that by which a step along e_i − e_j lowers the
//! objective most: by excess²/(2(K_ii + K_jj − 2K_ij + h″_i + h″_j)). It goes to the minimum, or to the end of a piece of h.
//!
//! *Cost of a step*: two rows of K are read, 10q flops. *Bytes*: 24q.
//!
//! References: Platt, "Fast training of support vector machines using sequential minimal optimization", in *Advances in
//! Kernel Methods*, MIT Press 1999; Fan, Chen, Lin, "Working set selection using second order information for training
//! support vector machines", JMLR 6, 2005.

use super::super::loss::{Loss, Row};
use kapprox::Real;
use std::array::from_fn;

/// Numbers that are compared side by side: a vector of AVX-512 in f64.
const LANES: usize = 8;

/// The least curvature of a step, as a share of the kernel's diagonal.
const FLAT: f64 = 1e-12;

/// Steps between two looks whether the run is to end.
const LOOK: usize = 512;

/// A machine on q rows.
pub(super) struct Local<'a, T> {
    pub(super) k: &'a [T],
    pub(super) rows: &'a [Row],
    pub(super) loss: Loss,
    /// True where Σβ is to stay as it is.
    pub(super) balanced: bool,
    pub(super) beta: &'a mut [f64],
    /// The values f, which are kept up to date.
    pub(super) f: &'a mut [f64],
}

/// The slopes of h at the multipliers, and the curvatures.
struct Slopes {
    rise: Vec<f64>,
    fall: Vec<f64>,
    curvature: Vec<f64>,
}

impl<'a, T: Real> Local<'a, T> {
    /// Makes steps until the violation is at most `tolerance`, at most `most` of them, or until `stop` says so; returns their number.
    pub(super) fn solve(mut self, tolerance: f64, most: usize, stop: &dyn Fn() -> bool) -> usize {
        let q = self.rows.len();
        let mut slopes = Slopes { rise: vec![0.0; q], fall: vec![0.0; q], curvature: vec![0.0; q] };
        for i in 0..q {
            slopes.curvature[i] = self.k[i * q + i].to_f64() + self.loss.curvature(self.rows[i]);
            self.update(&mut slopes, i);
        }
        match self.balanced {
            true => self.pairs(&mut slopes, tolerance, most, stop),
            false => self.singles(&mut slopes, tolerance, most, stop),
        }
    }

    fn row(&self, i: usize) -> &'a [T] {
        let q = self.rows.len();
        &self.k[i * q..(i + 1) * q]
    }

    fn update(&self, slopes: &mut Slopes, i: usize) {
        let piece = self.loss.piece(self.beta[i], self.rows[i]);
        (slopes.rise[i], slopes.fall[i]) = (piece.rise, piece.fall);
    }

    fn pairs(&mut self, slopes: &mut Slopes, tolerance: f64, most: usize, stop: &dyn Fn() -> bool) -> usize {
        let (mut i, mut least) = lowest(self.f, &slopes.rise);
        for step in 0..most {
            let (j, highest) = second(self.f, slopes, self.row(i), i, least);
            let excess = highest - least;
            if excess <= tolerance || excess.is_nan() || (step % LOOK == LOOK - 1 && stop()) {
                return step;
            }
            let (ki, kj) = (self.row(i), self.row(j));
            let (a, b) = (slopes.curvature[i], slopes.curvature[j]);
            let flat = FLAT * (a.abs() + b.abs());
            let curvature = (a + b - 2.0 * ki[j].to_f64()).max(flat).max(f64::MIN_POSITIVE);
            let excess = self.f[j] + slopes.fall[j] - least;
            let (rising, falling) =
                (self.loss.piece(self.beta[i], self.rows[i]), self.loss.piece(self.beta[j], self.rows[j]));
            let room = (rising.above - self.beta[i], self.beta[j] - falling.below);
            let t = (excess / curvature).min(room.0).min(room.1);
            // the ends of pieces are met exactly
            let (to_i, to_j) = (
                if t >= room.0 { rising.above } else { self.beta[i] + t },
                if t >= room.1 { falling.below } else { self.beta[j] - t },
            );
            (self.beta[i], self.beta[j]) = (to_i, to_j);
            self.update(slopes, i);
            self.update(slopes, j);
            (i, least) = shift(self.f, &slopes.rise, ki, kj, t);
        }
        most
    }

    fn singles(&mut self, slopes: &mut Slopes, tolerance: f64, most: usize, stop: &dyn Fn() -> bool) -> usize {
        for step in 0..most {
            let (i, violation) = steepest(self.f, slopes);
            if violation <= tolerance || (step % LOOK == LOOK - 1 && stop()) {
                return step;
            }
            let piece = self.loss.piece(self.beta[i], self.rows[i]);
            let (rise, fall) = (self.f[i] + piece.rise, self.f[i] + piece.fall);
            let curvature = slopes.curvature[i].max(f64::MIN_POSITIVE);
            let before = self.beta[i];
            let (to, end) = if rise < 0.0 {
                ((before - rise / curvature).min(piece.above), piece.above)
            } else {
                ((before - fall / curvature).max(piece.below), piece.below)
            };
            self.beta[i] = if (to - end).abs() == 0.0 { end } else { to };
            self.update(slopes, i);
            add(self.f, self.row(i), self.beta[i] - before);
        }
        most
    }
}

/// The place and the value of the least of f + rise, of equals the first.
fn lowest(f: &[f64], rise: &[f64]) -> (usize, f64) {
    let each = f.iter().zip(rise).map(|(f, rise)| f + rise).enumerate();
    each.fold((0, f64::INFINITY), |best, (i, value)| if value < best.1 { (i, value) } else { best })
}

/// f += t(k_i − k_j); returns [`lowest`] of the new f, of equals any, always the same one.
fn shift<T: Real>(f: &mut [f64], rise: &[f64], ki: &[T], kj: &[T], t: f64) -> (usize, f64) {
    let mut best = Best::new();
    kapprox::vectorised!({
        let (f, tail) = f.as_chunks_mut::<LANES>();
        let (rise, rises) = rise.as_chunks::<LANES>();
        let (ki, i_tail) = ki.as_chunks::<LANES>();
        let (kj, j_tail) = kj.as_chunks::<LANES>();
        for (c, (((f, rise), ki), kj)) in f.iter_mut().zip(rise).zip(ki).zip(kj).enumerate() {
            // lane by lane, a store between two loads would keep the compiler from vectors
            *f = from_fn(|l| t.mul_add(ki[l].to_f64() - kj[l].to_f64(), f[l]));
            best.take(c, from_fn(|l| -(f[l] + rise[l])));
        }
        for (l, f) in tail.iter_mut().enumerate() {
            *f = t.mul_add(i_tail[l].to_f64() - j_tail[l].to_f64(), *f);
            best.one(ki.len(), l, -(*f + rises[l]));
        }
    });
    let (at, value) = best.place();
    (at, -value)
}

/// The row whose step with row i lowers the objective most, and the highest slope of falling of all rows.
fn second<T: Real>(f: &[f64], slopes: &Slopes, ki: &[T], i: usize, least: f64) -> (usize, f64) {
    let (mut best, mut highest) = (Best::new(), [f64::NEG_INFINITY; LANES]);
    let own = slopes.curvature[i];
    let flat = (FLAT * own.abs()).max(f64::MIN_POSITIVE);
    // a step along nothing gains nothing: the excess of a row is 0 where it is not positive
    let gain = |value: f64, curvature: f64, k: f64| {
        let excess = (value - least).max(0.0);
        excess * excess / (own + curvature - 2.0 * k).max(flat)
    };
    kapprox::vectorised!({
        let (f, tail) = f.as_chunks::<LANES>();
        let (fall, falls) = slopes.fall.as_chunks::<LANES>();
        let (curvature, curvatures) = slopes.curvature.as_chunks::<LANES>();
        let (k, ks) = ki.as_chunks::<LANES>();
        for (c, (((f, fall), curvature), k)) in f.iter().zip(fall).zip(curvature).zip(k).enumerate() {
            let mut value = [0.0; LANES];
            for l in 0..LANES {
                let slope = f[l] + fall[l];
                highest[l] = if slope > highest[l] { slope } else { highest[l] };
                value[l] = gain(slope, curvature[l], k[l].to_f64());
            }
            best.take(c, value);
        }
        for (l, f) in tail.iter().enumerate() {
            let slope = f + falls[l];
            highest[l] = if slope > highest[l] { slope } else { highest[l] };
            best.one(k.len(), l, gain(slope, curvatures[l], ks[l].to_f64()));
        }
    });
    (best.place().0, highest.into_iter().fold(f64::NEG_INFINITY, f64::max))
}

/// The row whose step alone lowers the objective most, and the largest violation of all rows.
fn steepest(f: &[f64], slopes: &Slopes) -> (usize, f64) {
    let (mut best, mut highest) = (Best::new(), [0.0; LANES]);
    kapprox::vectorised!({
        let whole = f.len() / LANES;
        let parts = f.chunks(LANES).zip(slopes.rise.chunks(LANES)).zip(slopes.fall.chunks(LANES));
        for (c, (((f, rise), fall), curvature)) in parts.zip(slopes.curvature.chunks(LANES)).enumerate() {
            let mut value = [f64::NEG_INFINITY; LANES];
            let count = if c < whole { LANES } else { f.len() };
            for l in 0..count {
                let violation = (-(f[l] + rise[l])).max(f[l] + fall[l]).max(0.0);
                highest[l] = if violation > highest[l] { violation } else { highest[l] };
                value[l] = violation * violation / curvature[l].max(f64::MIN_POSITIVE);
            }
            best.take(c, value);
        }
    });
    (best.place().0, highest.into_iter().fold(0.0, f64::max))
}

/// f += t k.
pub(super) fn add<T: Real>(f: &mut [f64], k: &[T], t: f64) {
    kapprox::vectorised!(f.iter_mut().zip(k).for_each(|(f, k)| *f = t.mul_add(k.to_f64(), *f)));
}

/// The largest value of every lane, and the chunk that it is in.
struct Best {
    value: [f64; LANES],
    chunk: [u64; LANES],
}

impl Best {
    #[inline(always)]
    fn new() -> Self {
        Self { value: [f64::NEG_INFINITY; LANES], chunk: [0; LANES] }
    }

    #[inline(always)]
    fn take(&mut self, chunk: usize, value: [f64; LANES]) {
        for (value, (best, at)) in value.into_iter().zip(self.value.iter_mut().zip(&mut self.chunk)) {
            let better = value > *best;
            *best = if better { value } else { *best };
            *at = if better { chunk as u64 } else { *at };
        }
    }

    #[inline(always)]
    fn one(&mut self, chunk: usize, l: usize, value: f64) {
        if value > self.value[l] {
            (self.value[l], self.chunk[l]) = (value, chunk as u64);
        }
    }

    fn place(&self) -> (usize, f64) {
        let lane = (1..LANES).fold(0, |best, l| if self.value[l] > self.value[best] { l } else { best });
        (self.chunk[lane] as usize * LANES + lane, self.value[lane])
    }
}
