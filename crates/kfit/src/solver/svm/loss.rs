//! Losses of support vector machines, their conjugates, and the proximal step of the solver.

/// The loss of a row with value f, target y and cost c.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Loss {
    /// c max(0, 1 − yf), y = ±1.
    Hinge,
    /// c max(0, 1 − yf)², y = ±1.
    SquaredHinge,
    /// c max(0, |y − f| − epsilon).
    Insensitive { epsilon: f64 },
    /// c max(0, −f).
    OneSided,
    /// c a |y − f|, where a is `tau` for y above f and 1 − `tau` for y below f.
    Pinball { tau: f64 },
    /// c a (y − f)², with the a of the pinball loss.
    Expectile { tau: f64 },
    /// ½ c (y − f)² for errors up to `delta`, c `delta` (|y − f| − ½ `delta`) for larger errors.
    Huber { delta: f64 },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct TargetAndCost {
    pub(super) y: f64,
    pub(super) c: f64,
}

/// The interval around a multiplier β on which the conjugate h is quadratic, and the one-sided
/// derivatives of h at β.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece {
    /// Lower end of the piece; −∞ if the piece is unbounded.
    pub(super) lower: f64,
    /// Upper end of the piece; ∞ if the piece is unbounded.
    pub(super) upper: f64,
    /// Left derivative of h at β; −∞ if β is at the lower end of its domain.
    pub(super) fall: f64,
    /// Right derivative of h at β; ∞ if β is at the upper end of its domain.
    pub(super) rise: f64,
}

/// Returns the weight of an error y − f: `tau` above f, 1 − `tau` below.
fn side(tau: f64, error: f64) -> f64 {
    if error < 0.0 { 1.0 - tau } else { tau }
}

impl Loss {
    #[inline(always)]
    pub(super) fn value(self, f: f64, TargetAndCost { y, c }: TargetAndCost) -> f64 {
        match self {
            Self::Hinge => c * (1.0 - y * f).max(0.0),
            Self::SquaredHinge => c * (1.0 - y * f).max(0.0).powi(2),
            Self::Insensitive { epsilon } => c * ((y - f).abs() - epsilon).max(0.0),
            Self::OneSided => c * (-f).max(0.0),
            Self::Pinball { tau } => c * side(tau, y - f) * (y - f).abs(),
            Self::Expectile { tau } => c * side(tau, y - f) * (y - f) * (y - f),
            Self::Huber { delta } => {
                let error = (y - f).abs();
                c * error.min(delta) * (error - 0.5 * error.min(delta))
            }
        }
    }

    /// Returns the derivative of the loss at the value f, or a one-sided derivative if f is at a
    /// kink.
    #[inline(always)]
    pub(super) fn slope(self, f: f64, TargetAndCost { y, c }: TargetAndCost) -> f64 {
        let if_costly = |is_costly: bool, slope: f64| if is_costly { slope } else { 0.0 };
        match self {
            Self::Hinge => if_costly(y * f < 1.0, -y * c),
            Self::SquaredHinge => -2.0 * y * c * (1.0 - y * f).max(0.0),
            Self::Insensitive { epsilon } => if_costly((y - f).abs() > epsilon, c.copysign(f - y)),
            Self::OneSided => if_costly(f < 0.0, -c),
            Self::Pinball { tau } => if_costly(y != f, (c * side(tau, y - f)).copysign(f - y)),
            Self::Expectile { tau } => 2.0 * c * side(tau, y - f) * (f - y),
            Self::Huber { delta } => c * (f - y).clamp(-delta, delta),
        }
    }

    /// Returns the conjugate of the loss at −β, h(β) = sup_f −βf − loss(f), for β in its domain.
    #[inline(always)]
    pub(super) fn conjugate(self, beta: f64, TargetAndCost { y, c }: TargetAndCost) -> f64 {
        match self {
            Self::Hinge => -y * beta,
            // a row without cost has the multiplier 0
            Self::SquaredHinge | Self::Expectile { .. } | Self::Huber { .. } if c <= 0.0 => 0.0,
            Self::SquaredHinge => beta * beta / (4.0 * c) - y * beta,
            Self::Insensitive { epsilon } => epsilon * beta.abs() - y * beta,
            Self::OneSided => 0.0,
            Self::Pinball { .. } => -y * beta,
            Self::Expectile { tau } => beta * beta / (4.0 * c * side(tau, beta)) - y * beta,
            Self::Huber { .. } => beta * beta / (2.0 * c) - y * beta,
        }
    }

    /// Returns β⁺ = argmin over β' of h(β') + f β' + (β' − β)²/(2σ), and its slope −dβ⁺/df.
    ///
    /// −β⁺ is the derivative at f of the Moreau envelope of the loss at the multiplier β. Smooth
    /// losses use σ = ∞, so that β⁺ does not depend on β.
    #[inline(always)]
    pub(super) fn proximal_step(
        self,
        f: f64,
        TargetAndCost { y, c }: TargetAndCost,
        beta: f64,
        sigma: f64,
    ) -> (f64, f64) {
        let if_inside = |slope: f64, is_inside: bool| if is_inside { slope } else { 0.0 };
        match self {
            Self::Hinge => {
                let z = y * beta + sigma * (1.0 - y * f);
                (y * z.clamp(0.0, c), if_inside(sigma, z > 0.0 && z < c))
            }
            Self::SquaredHinge => {
                let shortfall = 1.0 - y * f;
                (y * 2.0 * c * shortfall.max(0.0), if_inside(2.0 * c, shortfall > 0.0))
            }
            Self::Insensitive { epsilon } => {
                let z = beta + sigma * (y - f);
                let shrunk = (z.abs() - sigma * epsilon).max(0.0);
                (shrunk.min(c).copysign(z), if_inside(sigma, shrunk > 0.0 && shrunk < c))
            }
            Self::OneSided => {
                let z = beta - sigma * f;
                (z.clamp(0.0, c), if_inside(sigma, z > 0.0 && z < c))
            }
            Self::Pinball { tau } => {
                let (z, lower, upper) = (beta + sigma * (y - f), (tau - 1.0) * c, tau * c);
                (z.clamp(lower, upper), if_inside(sigma, z > lower && z < upper))
            }
            Self::Expectile { tau } => {
                let slope = 2.0 * c * side(tau, y - f);
                (slope * (y - f), slope)
            }
            Self::Huber { delta } => (c * (y - f).clamp(-delta, delta), if_inside(c, (y - f).abs() < delta)),
        }
    }

    pub(super) fn piece(self, beta: f64, TargetAndCost { y, c }: TargetAndCost) -> Piece {
        let (lower, upper) = match self {
            _ if c <= 0.0 => (0.0, 0.0),
            Self::Hinge if y > 0.0 => (0.0, c),
            Self::Hinge => (-c, 0.0),
            Self::SquaredHinge if y > 0.0 => (0.0, f64::INFINITY),
            Self::SquaredHinge => (f64::NEG_INFINITY, 0.0),
            // |β| has a kink at 0, where a piece ends
            Self::Insensitive { .. } => (if beta > 0.0 { 0.0 } else { -c }, if beta < 0.0 { 0.0 } else { c }),
            Self::OneSided => (0.0, c),
            Self::Pinball { tau } => ((tau - 1.0) * c, tau * c),
            // the curvature of h changes at 0, where a piece ends
            Self::Expectile { .. } => {
                (if beta > 0.0 { 0.0 } else { f64::NEG_INFINITY }, if beta < 0.0 { 0.0 } else { f64::INFINITY })
            }
            Self::Huber { delta } => (-delta * c, delta * c),
        };
        let (fall, rise) = match self {
            Self::Hinge => (-y, -y),
            Self::SquaredHinge => (beta / (2.0 * c) - y, beta / (2.0 * c) - y),
            Self::Insensitive { epsilon } => {
                (if beta > 0.0 { epsilon } else { -epsilon } - y, if beta < 0.0 { -epsilon } else { epsilon } - y)
            }
            Self::OneSided => (0.0, 0.0),
            Self::Pinball { .. } => (-y, -y),
            Self::Expectile { .. } | Self::Huber { .. } => {
                let slope = beta * self.curvature(beta, TargetAndCost { y, c }) - y;
                (slope, slope)
            }
        };
        Piece {
            lower,
            upper,
            fall: if beta > lower { fall } else { f64::NEG_INFINITY },
            rise: if beta < upper { rise } else { f64::INFINITY },
        }
    }

    /// Returns the second derivative of h within the piece around `beta`; between two pieces, the
    /// larger of both, so that a step in either direction does not pass the minimum.
    pub(super) fn curvature(self, beta: f64, TargetAndCost { c, .. }: TargetAndCost) -> f64 {
        match self {
            _ if c <= 0.0 => 0.0,
            Self::SquaredHinge => 0.5 / c,
            Self::Expectile { tau } if beta == 0.0 => 0.5 / (c * tau.min(1.0 - tau)),
            Self::Expectile { tau } => 0.5 / (c * side(tau, beta)),
            Self::Huber { .. } => 1.0 / c,
            Self::Hinge | Self::Insensitive { .. } | Self::OneSided | Self::Pinball { .. } => 0.0,
        }
    }

    /// Returns true if the loss has a kink; only then does the solver need an envelope.
    pub(super) fn has_kink(self) -> bool {
        !matches!(self, Self::SquaredHinge | Self::Expectile { .. } | Self::Huber { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSSES: [Loss; 7] = [
        Loss::Hinge,
        Loss::SquaredHinge,
        Loss::Insensitive { epsilon: 0.25 },
        Loss::OneSided,
        Loss::Pinball { tau: 0.8 },
        Loss::Expectile { tau: 0.3 },
        Loss::Huber { delta: 0.75 },
    ];

    /// Returns values of f, and of β in its domain, on a grid.
    fn grid(loss: Loss, TargetAndCost { y, c }: TargetAndCost) -> (Vec<f64>, Vec<f64>) {
        let f: Vec<f64> = (-4000..=4000).map(|i| f64::from(i) / 500.0).collect();
        let (bound, other_bound): (f64, f64) = match loss {
            Loss::Hinge => (0.0, y * c),
            Loss::SquaredHinge => (0.0, y * 10.0 * c),
            Loss::Insensitive { .. } => (-c, c),
            Loss::OneSided => (0.0, c),
            Loss::Pinball { tau } => ((tau - 1.0) * c, tau * c),
            Loss::Expectile { .. } => (-4.0 * c, 4.0 * c),
            Loss::Huber { delta } => (-delta * c, delta * c),
        };
        let (low, high) = (bound.min(other_bound), bound.max(other_bound));
        (f, (0..=4000).map(|i| low + (high - low) * f64::from(i) / 4000.0).collect())
    }

    #[test]
    fn a_row_without_cost_has_no_effect() {
        for loss in LOSSES {
            for f in [-3.0, 0.0, 0.7, 5.0] {
                let row = TargetAndCost { y: 1.0, c: 0.0 };
                let (beta, slope) = loss.proximal_step(f, row, 0.0, 0.4);
                assert_eq!((beta, slope, loss.value(f, row), loss.conjugate(beta, row)), (0.0, 0.0, 0.0, 0.0));
            }
        }
    }

    #[test]
    fn the_slope_is_the_derivative() {
        for loss in LOSSES {
            for row in [TargetAndCost { y: 1.0, c: 0.75 }, TargetAndCost { y: -1.0, c: 2.0 }] {
                for f in [-1.7, -0.3, 0.1, 0.6, 1.9] {
                    let h = 1e-6;
                    let difference = (loss.value(f + h, row) - loss.value(f - h, row)) / (2.0 * h);
                    assert!((difference - loss.slope(f, row)).abs() < 1e-5, "{loss:?} {row:?} f {f}: {difference}");
                }
            }
        }
    }

    #[test]
    fn the_conjugate_is_the_supremum() {
        for loss in LOSSES {
            for row in [TargetAndCost { y: 1.0, c: 0.75 }, TargetAndCost { y: -1.0, c: 2.0 }] {
                let (f, beta) = grid(loss, row);
                for beta in beta.iter().step_by(400) {
                    let best = f.iter().map(|f| -beta * f - loss.value(*f, row)).fold(f64::NEG_INFINITY, f64::max);
                    let close = (best - loss.conjugate(*beta, row)).abs() < 1e-2;
                    assert!(close, "{loss:?} {row:?} beta {beta}: {best}");
                }
            }
        }
    }

    #[test]
    fn pieces_have_the_derivatives_of_the_conjugate() {
        for loss in LOSSES {
            for row in [TargetAndCost { y: 1.0, c: 0.75 }, TargetAndCost { y: -1.0, c: 2.0 }] {
                let (_, candidates) = grid(loss, row);
                for beta in candidates.iter().step_by(250) {
                    let (piece, h) = (loss.piece(*beta, row), 1e-6);
                    let slope = |to: f64| (loss.conjugate(to, row) - loss.conjugate(*beta, row)) / (to - beta);
                    assert!(piece.lower <= *beta && *beta <= piece.upper, "{loss:?} {row:?} {beta}: {piece:?}");
                    if *beta < piece.upper {
                        assert!((slope(beta + h) - piece.rise).abs() < 1e-5, "{loss:?} {row:?} {beta}: {piece:?}");
                    } else {
                        assert_eq!(piece.rise, f64::INFINITY);
                    }
                    if *beta > piece.lower {
                        assert!((slope(beta - h) - piece.fall).abs() < 1e-5, "{loss:?} {row:?} {beta}: {piece:?}");
                    } else {
                        assert_eq!(piece.fall, f64::NEG_INFINITY);
                    }
                }
                let without_cost = loss.piece(0.0, TargetAndCost { c: 0.0, ..row });
                assert_eq!((without_cost.fall, without_cost.rise), (f64::NEG_INFINITY, f64::INFINITY), "{loss:?}");
            }
        }
    }

    #[test]
    fn the_step_is_the_minimum_and_its_slope_the_derivative() {
        for loss in LOSSES {
            for row in [TargetAndCost { y: 1.0, c: 0.75 }, TargetAndCost { y: -1.0, c: 2.0 }] {
                let (_, candidates) = grid(loss, row);
                for f in [-1.7, -0.3, 0.1, 0.6, 1.9] {
                    for beta in candidates.iter().step_by(1000) {
                        let sigma = if loss.has_kink() { 0.4 } else { f64::INFINITY };
                        let objective =
                            |b: f64| loss.conjugate(b, row) + f * b + (b - beta) * (b - beta) / (2.0 * sigma);
                        let (minimiser, slope) = loss.proximal_step(f, row, *beta, 0.4);
                        let best = candidates.iter().map(|b| objective(*b)).fold(f64::INFINITY, f64::min);
                        assert!(
                            objective(minimiser) <= best + 1e-12,
                            "{loss:?} {row:?} f {f} beta {beta}: {minimiser}"
                        );
                        let h = 1e-7;
                        let difference = (loss.proximal_step(f - h, row, *beta, 0.4).0
                            - loss.proximal_step(f + h, row, *beta, 0.4).0)
                            / (2.0 * h);
                        assert!((difference - slope).abs() < 1e-5, "{loss:?} {row:?} f {f}: {difference}, {slope}");
                    }
                }
            }
        }
    }
}
