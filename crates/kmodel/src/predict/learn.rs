//! Learning on line, from where a fit ended: every row is predicted first and learned then.
//!
//! A model that keeps the variance of its predictions has all that recursive least squares needs. In the features φ = bF of its basis the variance is
//! ‖φR + s‖² + c in units of the noise, so that P = (R, s)(R, s)ᵀ, with c added to its last entry, which is the constant's; R and the coefficients w
//! follow from those of the basis, FR and Fw, by the QR factors of F. The new model has the basis of the old one.
//!
//! *Flops*: features of every row and 3r²; QR factors, 2mr². *Bytes*: those of [`Predictor::scores`] for r outputs, and some 40mr.

use super::{Inner, Predictor, typed::Typed};
use crate::linalg::recursion::{BLOCK, Recursion};
use crate::model::{FEATURES, Intercept, either};
use crate::quadratic::Quadratic;
use crate::{AnyModel, Card, Error, Model, Result, Task, linalg::strips::Pool, run::Run};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_upper_triangular_in_place;
use faer::{Accum, Mat, MatRef, Par};
use kapprox::{Real, decompose::orthonormal};
use kstore::{Selected, budget::Term};

/// A model that has learned rows on line, and how well it predicted each before.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Learned {
    /// The model.
    pub model: AnyModel,
    /// Rows that were learned.
    pub rows: u64,
    /// Mean over the rows and targets of the squared errors that the rows had before they were learned.
    pub running_mse: f64,
}

impl Predictor {
    /// Learns the rows of a table, in their order, by recursive least squares from where the model ended. Rows of the past count less by the factor
    /// `forgetting` with every new one; with 1 the model has the coefficients of ridge regression on all rows, those of the fit and these, at the
    /// penalty lambda·n, the basis and the scaling of the fit.
    ///
    /// The certificate stays that of the rows of the fit.
    ///
    /// ```
    /// use ksolve::job::{Fit, Run};
    /// use ksolve::predict::Predictor;
    /// # let x: Vec<f64> = (0..300).map(|i| (f64::from(i) * 0.37).sin()).collect();
    /// # let y: Vec<f64> = x.iter().map(|x| 3.0 * x + 1.0).collect();
    /// let table = kstore::Table::from_rows(&x[..200], 1, &y[..200])?;
    /// let fit = Fit::ridge().rank(20).set("lambda", 1e-6).set("std", true);
    /// let predictor = Predictor::new(fit.on(&table, &["y"], &Run::new())?.model)?;
    /// let more = kstore::Table::from_rows(&x[200..], 1, &y[200..])?;
    /// let selected = predictor.select(&more, kstore::Selection { targets: vec!["y".into()], ..Default::default() })?;
    /// let learned = predictor.learn(&selected, 1.0, &Run::new())?;
    /// assert!(learned.rows == 100 && learned.running_mse < 1e-4, "{}", learned.running_mse);
    /// # Ok::<(), ksolve::Error>(())
    /// ```
    ///
    /// # Errors
    /// A model that does not keep its variance: fit ridge or online with `std`; another number of targets; those of [`Predictor::scores`].
    pub fn learn(&self, selected: &Selected, forgetting: f64, run: &Run<'_>) -> Result<Learned> {
        if !(forgetting > 0.0 && forgetting <= 1.0) {
            return Err(Error::option("forgetting", forgetting, "give a number above 0 and up to 1, such as 0.999"));
        }
        let targets = selected.target_names();
        if targets.len() != self.outputs() {
            let why = format!("the model has {} targets; name as many", self.outputs());
            return Err(Error::option("target", targets.join(","), why));
        }
        let (features, mut recursion) = match &self.0 {
            Inner::F32(typed) => typed.begin().map(|(model, recursion)| (AnyModel::F32(model), recursion)),
            Inner::F64(typed) => typed.begin().map(|(model, recursion)| (AnyModel::F64(model), recursion)),
        }?;
        let features = Self::new(features)?;
        let (r, t, panels, workers) = (features.outputs(), targets.len(), Pool::default(), run.workers());
        let terms =
            features.term(0).bytes + Recursion::bytes(r, t, workers.threads()) + 2 * Quadratic::making_bytes(r, r);
        let held = vec![self.term(0), Term::new("inverse of the moments", terms, "fit a model of lower `rank`")];
        let mut squares = 0.0;
        let beyond = || {
            let why = "the inverse of the moments of the features is beyond f64; raise it, or fit at a lower `rank`";
            Error::option("forgetting", forgetting, why)
        };
        let mut learn = |phi: &[f64], y: &[f64]| -> Result<()> {
            let squared = recursion.learn((phi, y), forgetting, &panels, workers);
            // a block that was ended early leaves what looks like a recursion
            workers.check()?;
            squares += squared.ok_or_else(beyond)?;
            Ok(())
        };
        // whole blocks, wherever segments end: these depend on the memory, and the bits must not
        let (mut phi, mut y) = (Vec::with_capacity(BLOCK * r), Vec::with_capacity(BLOCK * t));
        let rows = features.visit_scores(selected, held, run, |segment| {
            for (row, targets) in segment.scores.chunks_exact(r).zip(segment.y.chunks_exact(t)) {
                phi.extend_from_slice(row);
                y.extend_from_slice(targets);
                if phi.len() == BLOCK * r {
                    learn(&phi, &y)?;
                    phi.clear();
                    y.clear();
                }
            }
            Ok(())
        })?;
        if !phi.is_empty() {
            learn(&phi, &y)?;
        }
        let mut model = either!(Inner to AnyModel: &self.0, typed => typed.end(&recursion, rows).ok_or_else(beyond)?);
        let card = either!(AnyModel: &mut model, model => &mut model.card);
        if !card.ranges.is_empty() {
            let learned = run.statistics(selected)?.features;
            let ranges = card.ranges.iter_mut().zip(&learned);
            ranges.for_each(|([low, high], column)| (*low, *high) = (low.min(column.min), high.max(column.max)));
        }
        Ok(Learned { model, rows, running_mse: squares / (rows * t as u64) as f64 })
    }
}

impl<T: Real> Typed<T> {
    /// The model whose outputs are the features, and the fit as a recursion that goes on.
    fn begin(&self) -> Result<(Model<T>, Recursion)> {
        let Self { model, .. } = self;
        let Some(quadratic) = model.quadratic.as_ref().filter(|_| model.card.task == Task::Regression) else {
            let why = "the model does not keep the variance that learning goes on from; fit ridge or online with `std`";
            return Err(Error::option("model", &model.card.solver, why));
        };
        let Quadratic { factor, shift, features, constant, units, freedom, .. } = quadratic;
        let m = factor.nrows();
        let f = features.clone().unwrap_or_else(|| Mat::identity(m, m));
        let (r, t, k) = (f.ncols(), units.len(), factor.ncols());
        let mut both =
            Mat::from_fn(m, t + k, |i, j| if j < t { model.coefficients[(i, j)] } else { factor[(i, j - t)] });
        if features.is_some() {
            // least squares by F = QR on this thread: those of faer take the threads of the machine, and the bits depend on their number
            let (q, _) = orthonormal(f.clone());
            let (mut upper, mut right) = (Mat::zeros(r, r), Mat::zeros(r, t + k));
            matmul(upper.as_mut(), Accum::Replace, q.transpose(), f.as_ref(), 1.0, Par::Seq);
            matmul(right.as_mut(), Accum::Replace, q.transpose(), both.as_ref(), 1.0, Par::Seq);
            solve_upper_triangular_in_place(upper.as_ref(), right.as_mut(), Par::Seq);
            both = right;
        }
        let w = Mat::from_fn(r + 1, t, |i, j| if i < r { both[(i, j)] } else { model.intercept[j] });
        let roots = Mat::from_fn(r + 1, k + 1, |i, j| match (i < r, j < k) {
            (true, true) => both[(i, t + j)],
            (false, true) => shift[j],
            (true, false) => 0.0,
            (false, false) => constant.max(0.0).sqrt(),
        });
        let (free, none) = (model.card.intercept == Intercept::Free, model.card.intercept == Intercept::None);
        let rows = freedom.unwrap_or(model.card.rows as f64 - f64::from(u8::from(free)));
        let one = f64::from(u8::from(!none));
        let recursion = Recursion::from_roots(w.as_ref(), one, roots.as_ref(), units, rows.max(1.0));
        // rows are learned as they are, and the model has their ranges from then on
        let ranges = Vec::new();
        let card = Card { solver: FEATURES.to_string(), task: Task::Components, ranges, ..model.card.clone() };
        let intercept = vec![0.0; r];
        Ok((Model { card, coefficients: f, intercept, quadratic: None, components: None, ..model.clone() }, recursion))
    }

    /// The model with what was learned of so many rows; `None` where f64 cannot hold the root of P.
    fn end(&self, recursion: &Recursion, rows: u64) -> Option<Model<T>> {
        let (model, old) = (&self.model, self.model.quadratic.as_ref()?);
        let found = recursion.variance(old.residual, old.typical)?;
        let (w, intercept) = recursion.functions();
        let of = |features: MatRef<'_, f64>| old.features.as_ref().map_or(features.to_owned(), |f| f * features);
        let quadratic = Quadratic { factor: of(found.factor.as_ref()), features: old.features.clone(), ..found };
        let card = Card { learned: model.card.learned + rows, ..model.card.clone() };
        Some(Model { card, coefficients: of(w.as_ref()), intercept, quadratic: Some(quadratic), ..model.clone() })
    }
}
