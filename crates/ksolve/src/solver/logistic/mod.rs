//! Logistic regression, binary and multinomial.
//!
//! ```text
//! minimise over W, c   F = (1/n) Σ_i a_i ℓ(Wᵀφ_i + c; y_i) + lambda ‖W‖²
//! ```
//!
//! with ℓ the logarithm of the softmax of the true class (the logistic function for two classes, one column), a_i = 1 or
//! the weight of the row's class, and the constant c free, penalised or absent. C of scikit-learn is 1/(2n lambda).
//!
//! Newton's method with conjugate gradients (`newton.rs`): every step solves H d = −∇F with products H·V, one pass over
//! the features each, and no matrix of order pk. Far from the solution they are preconditioned by one for all classes,
//! γ ΦᵀΦ/n + 2 lambda I with γ the mean of p(1 − p), whose Gram matrix the pass that keeps the features has summed; near it,
//! where there are rows enough, by one for every class (`blocks.rs`). Then a handful of iterations is enough whatever the
//! condition of the kernel.
//!
//! *Cost*: the map, np² for the Gram matrix, 4kp³ a Newton step, and 4npk flops a pass. *Bytes*: the features, n·k
//! probabilities, kp² numbers in f64.
//!
//! References: Lin, Weng, Keerthi, "Trust region Newton method for large-scale logistic regression", JMLR 9, 2008;
//! Marteau-Ferey, Bach, Rudi, "Globally convergent Newton methods for ill-conditioned generalized self-concordant losses",
//! NeurIPS 2019; Nocedal, Wright, *Numerical Optimization* (2006), algorithm 7.1.

mod blocks;
mod newton;

use super::kept::{Kept, Tile, Wanted};
use super::parameter::{C, CLASS_WEIGHT, INTERCEPT, LAMBDA, STEPS, TOLERANCE};
use super::{ClassWeight, Family, Features, Figure, Fitted, Penalty, Settings, Solver};
use crate::train::{Cut, Shape};
use crate::{Error, GramState, Intercept, Link, Result, Task};
use faer::Mat;
use kapprox::Real;
use kstore::Plan;
use kstore::pass::Observer;
use newton::{Found, newton, tolerance};

/// The description of the solver `logistic`.
pub(super) const FAMILY: Family = Family {
    name: "logistic",
    about: "logistic regression: probabilities of two or more classes",
    task: Task::Classification,
    parameters: &[LAMBDA, C, INTERCEPT, CLASS_WEIGHT, STEPS, TOLERANCE],
    make: |settings| Ok(Box::new(Logistic::new(settings))),
};

/// Rows of a strip whose probabilities are computed by one thread.
const STRIP: usize = 256;

/// Logistic regression.
#[derive(Clone, Debug)]
pub struct Logistic {
    /// The penalty, as lambda or C.
    pub penalty: Penalty,
    /// Treatment of the constant.
    pub intercept: Intercept,
    /// How much the rows of each class count.
    pub class_weight: ClassWeight,
    /// Most Newton steps at the lambda that was asked for.
    pub steps: usize,
}

impl Logistic {
    /// Warns of a gradient above the tolerance of the iteration.
    fn warn_of_gradient<T: Real>(&self, found: &Found, gradient: f64, data: &Features<'_, T>) {
        let remedy = match (found.converged, size_of::<T>() < size_of::<f64>()) {
            _ if gradient <= tolerance::<T>() => return,
            (false, _) => "raise `steps`",
            (true, true) => "the rounding of f32 hides what is left: use `precision` f64, or raise `lambda`",
            (true, false) => "rounding hides what is left: raise `lambda`",
        };
        data.resources.stages.warn(format!(
            "logistic regression ended after {} Newton steps at a relative gradient norm of {gradient:.1e}, above {:.0e}; {remedy}",
            found.steps, tolerance::<T>()
        ));
    }

    fn new(settings: &Settings) -> Self {
        Self {
            penalty: settings.penalty(),
            intercept: settings.intercept(),
            class_weight: settings.class_weight(),
            steps: settings.count(&STEPS).unwrap_or_default(),
        }
    }
}

impl<T: Real> Solver<T> for Logistic {
    fn keeps(&self) -> bool {
        true
    }

    fn plan(&self, plan: Plan, shape: &Shape, cut: Cut) -> Plan {
        let (n, p, k) = (usize::try_from(shape.n).unwrap_or(usize::MAX), shape.map.p, shape.t);
        plan.term("classes and probabilities of all rows", n.saturating_mul(4 + shape.element * k), "")
            .term(
                "Gram matrix and the preconditioner's factor",
                GramState::bytes(p, 0, 1) + 8 * (p + 1) * (p + 1),
                RANK,
            )
            .term(
                "Hessians of the classes",
                blocks::bytes(n, p, if k == 2 { 1 } else { k }, shape.element).unwrap_or(0),
                RANK,
            )
            .term("scores of a tile", 3 * cut.tile * k * size_of::<f64>(), "")
            .term("coefficients and directions", 9 * 8 * (p + 1) * k, RANK)
    }

    fn fit(&self, data: &Features<'_, T>) -> Result<Fitted<T>> {
        let Some(named) = data.classes() else { return Err(Error::TooFewClasses { classes: 0 }) };
        let classes = named.labels().len();
        let (kept, gathered) = Kept::gather(data, Wanted { moments: true, ..Wanted::default() })?;
        let stage = data.resources.stages.stage("newton", None);
        let lambda = self.penalty.lambda(data.rows);
        let weight = self.class_weight.of(&kept.codes, named)?;
        let columns = if classes == 2 { 1 } else { classes };
        let moments = gathered.moments.as_ref().map(|state| &state.folds()[0]);
        let moments = moments.ok_or(Error::Shape { what: "moments", expected: 1, got: 0 })?;
        let mut loss = Loss {
            kept: &kept,
            codes: &kept.codes,
            observer: &*stage,
            k: columns,
            weight: &weight,
            intercept: self.intercept,
            probabilities: vec![T::ZERO; kept.n * columns],
            passes: 0,
        };
        let found = newton(&mut loss, moments, lambda, self.steps, data.resources.journal)?;
        let passes = 2 + loss.passes;
        drop(loss);
        // what is reported is computed in f64, from the coefficients that are returned
        let mut proof = Loss {
            kept: &kept.wide(),
            codes: &kept.codes,
            observer: &*stage,
            k: columns,
            weight: &weight,
            intercept: self.intercept,
            probabilities: Vec::new(),
            passes: 0,
        };
        let (point, gradient) = found.prove(&mut proof, lambda)?;
        self.warn_of_gradient::<T>(&found, gradient, data);
        let (p, k) = (kept.p, columns);
        let figures = vec![
            Figure { name: "log-loss", values: vec![point.loss] },
            Figure { name: "objective", values: vec![point.loss + lambda * found.square] },
            Figure { name: "relative gradient norm", values: vec![gradient] },
            Figure { name: "newton steps", values: vec![found.steps as f64] },
        ];
        Ok(Fitted {
            link: Some(Link::Logit),
            weights: Mat::from_fn(p, k, |i, j| found.w[i * k + j]),
            intercept: found.w[p * k..].to_vec(),
            certificate: gathered.certificate,
            lambda: Some(lambda),
            figures,
            passes,
            ..Fitted::default()
        })
    }
}

const RANK: &str = "lower `rank`";

/// The mean loss of the rows, without the penalty, by passes over the features.
struct Loss<'a, 'k, T: Real> {
    kept: &'a Kept<'k, T>,
    /// Classes of the rows.
    codes: &'a [u32],
    observer: &'a dyn Observer,
    /// Number of columns of W.
    k: usize,
    /// Weight of the rows of each class, k numbers.
    weight: &'a [f64],
    intercept: Intercept,
    /// Probabilities at the last point that was evaluated, n x k row-major; empty where nobody asks for them.
    probabilities: Vec<T>,
    passes: u64,
}

/// The loss at some coefficients.
#[derive(Clone, Debug, Default)]
struct Point {
    /// The loss (1/n) Σ a_i ℓ_i.
    loss: f64,
    /// Gradient of the loss, (p + 1) x k row-major, the constant last.
    gradient: Vec<f64>,
    /// Mean of a_i p(1 − p) over the rows, for every column.
    curvatures: Vec<f64>,
}

impl Point {
    /// Mean of a_i p(1 − p) over rows and columns.
    fn curvature(&self) -> f64 {
        self.curvatures.iter().sum::<f64>() / self.curvatures.len() as f64
    }
}

impl<T: Real> Loss<'_, '_, T> {
    /// W in the type of the features, without the constant.
    fn narrow(&self, w: &[f64]) -> Vec<T> {
        w[..self.kept.p * self.k].iter().map(|value| T::from_f64(*value)).collect()
    }

    /// Loss, gradient and probabilities at `w` ((p + 1) x k row-major): one pass.
    fn evaluate(&mut self, w: &[f64]) -> Result<Point> {
        let (n, p, k) = (self.kept.n, self.kept.p, self.k);
        let (weights, constant) = (self.narrow(w), w[p * k..].to_vec());
        let (kept, classes, weight, all) = (self.kept, self.codes, self.weight, &mut self.probabilities);
        let workers = kept.workers();
        let mut spare = Vec::new();
        let (mut sums, mut gradient) = (vec![0.0; 2 * k + 1], vec![0.0; (p + 1) * k]);
        let (mut scores, mut residuals) = (Vec::new(), Vec::new());
        kept.visit(self.observer, |tile: &Tile<'_, T>| {
            let b = tile.rows();
            scores.resize(b * k, T::ZERO);
            residuals.resize(b * k, T::ZERO);
            tile.times(&weights, &mut scores, workers);
            let codes = &classes[tile.first..tile.first + b];
            let probabilities = match all.is_empty() {
                true => {
                    spare.resize(b * k, T::ZERO);
                    &mut spare[..]
                }
                false => &mut all[tile.first * k..(tile.first + b) * k],
            };
            let mut partial = vec![0.0; b.div_ceil(STRIP) * (2 * k + 1)];
            let strips = scores.chunks(STRIP * k).zip(residuals.chunks_mut(STRIP * k));
            let strips = strips.zip(probabilities.chunks_mut(STRIP * k)).zip(codes.chunks(STRIP));
            let strips = strips.zip(partial.chunks_mut(2 * k + 1)).collect();
            workers.each(strips, |((((scores, residuals), probabilities), codes), partial)| {
                let mut f = vec![0.0; k];
                for (i, code) in codes.iter().enumerate() {
                    let at = i * k..(i + 1) * k;
                    f.iter_mut().zip(&scores[at.clone()]).zip(&constant).for_each(|((f, s), c)| *f = s.to_f64() + c);
                    let (weight, row) = (weight[*code as usize], &mut residuals[at.clone()]);
                    partial[2 * k] += weight * link(&mut f, *code as usize);
                    for (j, probability) in f.iter().enumerate() {
                        let is = if k == 1 { *code == 1 } else { *code as usize == j };
                        let residual = weight * (probability - f64::from(u8::from(is)));
                        partial[j] += residual;
                        partial[k + j] += weight * probability * (1.0 - probability);
                        row[j] = T::from_f64(residual);
                        probabilities[i * k + j] = T::from_f64(*probability);
                    }
                }
            });
            partial.chunks(2 * k + 1).for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part));
            tile.add_transposed(&residuals, &mut gradient[..p * k], workers);
            Ok(())
        })?;
        self.passes += 1;
        if self.intercept != Intercept::None {
            gradient[p * k..].copy_from_slice(&sums[..k]);
        }
        gradient.iter_mut().for_each(|g| *g /= n as f64);
        let curvatures = sums[k..2 * k].iter().map(|sum| sum / n as f64).collect();
        Ok(Point { loss: sums[2 * k] / n as f64, gradient, curvatures })
    }

    /// The Hessian of the loss at the last point times `v`, both (p + 1) x k row-major: one pass.
    fn curve(&mut self, v: &[f64]) -> Result<Vec<f64>> {
        let (n, p, k) = (self.kept.n, self.kept.p, self.k);
        let (weights, constant) = (self.narrow(v), v[p * k..].to_vec());
        let (kept, classes, weight, probabilities) = (self.kept, self.codes, self.weight, &self.probabilities);
        let workers = kept.workers();
        let (mut sums, mut product) = (vec![0.0; k], vec![0.0; (p + 1) * k]);
        let mut scores = Vec::new();
        kept.visit(self.observer, |tile: &Tile<'_, T>| {
            let b = tile.rows();
            scores.resize(b * k, T::ZERO);
            tile.times(&weights, &mut scores, workers);
            let codes = &classes[tile.first..tile.first + b];
            let probabilities = &probabilities[tile.first * k..(tile.first + b) * k];
            let mut partial = vec![0.0; b.div_ceil(STRIP) * k];
            let strips = scores.chunks_mut(STRIP * k).zip(probabilities.chunks(STRIP * k));
            let strips = strips.zip(codes.chunks(STRIP)).zip(partial.chunks_mut(k)).collect();
            workers.each(strips, |(((scores, probabilities), codes), partial)| {
                for (i, code) in codes.iter().enumerate() {
                    let (row, p) = (&mut scores[i * k..(i + 1) * k], &probabilities[i * k..(i + 1) * k]);
                    let of = |j: usize, row: &[T]| (p[j].to_f64(), row[j].to_f64() + constant[j]);
                    // of two classes the other has score 0
                    let mean: f64 = (0..k).map(|j| of(j, row)).map(|(p, u)| p * u).sum();
                    for j in 0..k {
                        let (p, u) = of(j, row);
                        let z = weight[*code as usize] * p * (u - mean);
                        partial[j] += z;
                        row[j] = T::from_f64(z);
                    }
                }
            });
            partial.chunks(k).for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part));
            tile.add_transposed(&scores, &mut product[..p * k], workers);
            Ok(())
        })?;
        self.passes += 1;
        if self.intercept != Intercept::None {
            product[p * k..].copy_from_slice(&sums);
        }
        product.iter_mut().for_each(|value| *value /= n as f64);
        Ok(product)
    }

    /// The second derivative of the penalty for coefficient `i`: 2 lambda where it is penalised, else 0.
    fn ridge(&self, i: usize, lambda: f64) -> f64 {
        let penalised = i < self.kept.p * self.k || self.intercept == Intercept::Penalised;
        if penalised { 2.0 * lambda } else { 0.0 }
    }
}

/// Replaces scores by probabilities, and returns −ln of that of the true class. One score is that of class 1 of two.
fn link(scores: &mut [f64], class: usize) -> f64 {
    if let [f] = scores {
        let margin = if class == 1 { *f } else { -*f };
        // ln(1 + e^−m) without overflow, and its derivative's σ(f) without cancellation
        let loss = (-margin).max(0.0) + (-margin.abs()).exp().ln_1p();
        let tail = (-f.abs()).exp() / (1.0 + (-f.abs()).exp());
        *f = if *f >= 0.0 { 1.0 - tail } else { tail };
        return loss;
    }
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let own = scores[class] - largest;
    scores.iter_mut().for_each(|f| *f = (*f - largest).exp());
    let sum: f64 = scores.iter().sum();
    scores.iter_mut().for_each(|f| *f /= sum);
    sum.ln() - own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_and_losses_are_right_far_out() {
        let mut one = [0.5];
        assert!((link(&mut one, 1) - (1.0 + (-0.5f64).exp()).ln()).abs() < 1e-15);
        assert!((one[0] - 1.0 / (1.0 + (-0.5f64).exp())).abs() < 1e-15);
        let mut far = [-800.0];
        assert_eq!((link(&mut far, 1), far[0]), (800.0, 0.0));
        // two columns of softmax are one of the logistic function
        let mut two = [1.25, -0.5];
        assert!((link(&mut two, 0) - (1.0 + (-1.75f64).exp()).ln()).abs() < 1e-15);
        assert!((two[0] + two[1] - 1.0).abs() < 1e-15);
        let mut wide = [1000.0, -1000.0, 0.0];
        assert_eq!((link(&mut wide, 1), wide), (2000.0, [1.0, 0.0, 0.0]));
    }
}
