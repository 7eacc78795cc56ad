//! The result of a training run: a model in terms of the rows, and its report.

use super::report::{FitReport, LandmarkReport, Train};
use crate::model::{Basis, Form, Leaves, Model, SecondView, needs_wide_for};
use crate::request::{RowAccess, TrainOptions};
use crate::{Card, Certificate, Head, solver::Found, train::prepared::Prepared};
use faer::{Mat, MatRef};
use kapprox::{Real, map::MapSpec};
use kmodel::model::MetricReport;
use kstore::encoding::{Code, CodedColumn};
use kstore::{Scaler, Selected, Workers, statistics::Moments};
use std::sync::Arc;

/// The range of an input that is not clipped.
pub const ENDLESS: [f64; 2] = [f64::MIN, f64::MAX];

/// A model and its report. The caller adds the solver's name, its intercept and the options to the
/// card.
#[derive(Debug)]
pub struct Trained<T: Real> {
    /// The model.
    pub model: Model<T>,
    /// The report of the run.
    pub report: FitReport,
    /// True if predictions need the basis in f64 although the rows are f32: see
    /// [`kapprox::NystromMap::needs_wide`].
    pub wide: bool,
}

/// Input of a run and output of its solver.
pub(super) struct Parts<'a, T: Real> {
    pub(super) selected: &'a Selected,
    pub(super) options: &'a TrainOptions,
    pub(super) prepared: &'a Prepared<T>,
    pub(super) view: RowAccess,
    pub(super) fitted: Found<T>,
    /// Certificates at the ranks of the surface, or at the rank of the result.
    pub(super) certificates: Vec<(usize, Certificate)>,
}

impl<T: Real> Parts<'_, T> {
    /// Assembles the model: expands functions of the features into functions of the rows.
    pub(super) fn assemble(mut self, workers: &Workers) -> Trained<T> {
        let map = &*self.prepared.mapped.map;
        let card = self.card();
        let report = self.report(&card);
        let Self { prepared, fitted, .. } = self;
        let (basis, coefficients, wide) = match fitted.basis {
            Some(basis) => (basis, fitted.weights, fitted.wide),
            None => {
                let expansion = map.expand(fitted.weights.as_ref(), workers);
                let wide = expansion.is_wide();
                let (basis, coefficients) = Basis::of(expansion, map);
                (basis, coefficients, wide)
            }
        };
        let on_landmarks = matches!(basis, Basis::Landmarks { .. });
        let errors = fitted.train.map_or(Vec::new(), |(mse, _)| vec![mse.sqrt(); coefficients.ncols()]);
        let wide = wide || on_landmarks && needs_wide_for::<T>(coefficients.as_ref(), &errors);
        let wide = wide || fitted.leaves.as_ref().is_some_and(|leaves| leaves.needs_wide(&errors));
        let expanded = |weights: MatRef<'_, f64>| Basis::of(map.expand(weights, workers), map).1;
        let form = match fitted.form {
            // the degree is a function of the features too
            Form::OverDegree { coefficients, floor } => {
                let weights = Mat::from_fn(coefficients.len(), 1, |i, _| coefficients[i]);
                Form::OverDegree { coefficients: expanded(weights.as_ref()).col_as_slice(0).to_vec(), floor }
            }
            form => form,
        };
        let components = fitted.components.map(|head| Head { weights: expanded(head.weights.as_ref()), ..head });
        let leaves = fitted.leaves.map(|leaves| {
            let splits = Head { weights: expanded(leaves.splits.weights.as_ref()), ..leaves.splits };
            Leaves { splits, ..leaves }
        });
        let rank = card.rank.min(coefficients.nrows());
        let model = Model {
            basis,
            form,
            coefficients,
            intercept: fitted.intercept,
            scaler: Scaler::clone(&prepared.survey.scaler),
            metric: fitted.projection.map(|found| found.metric).or(prepared.options.metric.known().cloned()),
            quadratic: fitted.quadratic.map(|q| q.expand(map, card.certificate.is_some(), workers)),
            components,
            leaves,
            card: Card { rank, ..card },
        };
        Trained { model, report, wide }
    }

    /// Returns the rank of the result. A projection of the inputs is learned from all features of
    /// the map, and its model contains none of them.
    fn rank(&self) -> usize {
        match self.fitted.projection {
            Some(_) => self.prepared.mapped.map.dims().1,
            None => self.fitted.weights.nrows(),
        }
    }

    fn card(&self) -> Card {
        let Self { selected, options, prepared: Prepared { survey, mapped, .. }, fitted, certificates, .. } = self;
        let rank = self.rank();
        let classes = survey.classes.as_ref().filter(|_| fitted.task.is_none());
        Card {
            task: fitted.task.unwrap_or(options.task),
            kernel: match fitted.projection {
                Some(_) => "linear()".to_string(),
                None => mapped.kernel.to_string(),
            },
            with: mapped
                .with
                .as_ref()
                .map(|with| SecondView { kernel: with.kernel.to_string(), functions: with.functions }),
            map: options.map.to_string(),
            precision: T::NAME.to_string(),
            rank,
            lambda: fitted.lambda,
            features: selected.feature_names(),
            encoding: selected.encoding().cloned().map(|encoding| Arc::new(encoding.of_new_rows())),
            reading: selected.reading(),
            targets: target_names(selected),
            classes: classes.map_or(Vec::new(), |classes| classes.labels().to_vec()),
            link: fitted.link.clone(),
            pairs: fitted.pairs,
            certificate: certificates.iter().find(|(at, _)| *at == rank).map(|(_, certificate)| *certificate),
            rows: survey.rows(),
            seed: options.seed,
            landmarks: mapped.landmarks.map(|_| options.landmarks.to_string()),
            asinh: survey.scaler.asinh,
            ranges: self.ranges(),
            ..Card::default()
        }
    }

    /// Returns the ranges to which inputs of new rows are clipped; empty for novelty detectors and
    /// unbounded or periodic kernels.
    fn ranges(&self) -> Vec<[f64; 2]> {
        let Self { options, prepared: Prepared { survey, mapped, .. }, fitted, .. } = self;
        let clips = options.clip && fitted.task.unwrap_or(options.task).has_target() && mapped.kernel.settles();
        let clips = clips && self.selected.sparse().is_none();
        // Not clipped: target encodings, because those of new rows may exceed the out-of-fold
        // encodings of training rows; periodic inputs, which have no ends; and texts, because a
        // short text gives its words larger weights.
        let endless = |column: &CodedColumn| {
            let (all, behind) =
                (matches!(column.code, Code::Effects(_) | Code::Entries(_)), matches!(column.code, Code::Time(_)));
            (0..column.features()).map(move |i| all || behind && i > 0)
        };
        let endless = self.selected.encoding().into_iter().flat_map(|encoding| encoding.columns()).flat_map(endless);
        let of = |(feature, endless): (&Moments, bool)| match feature.count {
            _ if endless => ENDLESS,
            0 => [feature.mean; 2],
            _ => [feature.min, feature.max],
        };
        let features = survey.statistics.features.iter().filter(|_| clips);
        features.zip(endless.chain(std::iter::repeat(false))).map(of).collect()
    }

    /// Builds the report; moves values that only the report needs out of the solver's result.
    fn report(&mut self, card: &Card) -> FitReport {
        let (rank, metric) = (self.rank(), self.metric());
        let Self { selected, options, prepared: Prepared { survey, mapped, planned_bytes, .. }, fitted, .. } = self;
        let names = selected.feature_names();
        let slopes = fitted.slopes.iter().flatten().enumerate().map(|(j, slope)| slope * survey.spread(j));
        let slopes: Vec<f64> = slopes.collect();
        let scales = survey.scaler.centre.iter().zip(&survey.scaler.scale);
        // linearly dependent landmarks were dropped
        let kept = match options.map == MapSpec::default() {
            true if self.view == RowAccess::Features => mapped.map.dims().1,
            true => rank,
            false => usize::MAX,
        };
        FitReport {
            rows: survey.rows(),
            weight: survey.weight(),
            features: selected.sparse().map_or(selected.shape().features, |shape| shape.width),
            columns: selected.encoding().map_or(Vec::new(), |encoding| {
                let told = encoding.columns().iter().filter(|column| column.missing || column.code != Code::Number);
                told.map(|column| (column.name.clone(), column.to_string())).collect()
            }),
            targets: card.targets.len(),
            target_names: card.targets.clone(),
            classes: (!card.classes.is_empty()).then(|| card.classes.clone()),
            map: card.map.clone(),
            landmarks: mapped.landmarks.map(|(count, candidates)| LandmarkReport {
                scheme: options.landmarks.to_string(),
                count: count.min(kept),
                candidates,
            }),
            kernel: mapped.kernel.to_string(),
            length: self.prepared.length.clone(),
            neighbours: fitted.form.neighbours(),
            with_kernel: card.with.as_ref().map(|with| with.kernel.clone()),
            rank,
            lambda: fitted.lambda,
            folds: options.folds.to_string(),
            certificate: card.certificate,
            surface: std::mem::take(&mut fitted.surface.cells),
            train: fitted.train.map(|(mse, r2)| Train { mse, rmse: mse.max(0.0).sqrt(), r2, loo_mse: fitted.left_out }),
            method: fitted.method.take(),
            figures: std::mem::take(&mut fitted.figures),
            passes: fitted.passes,
            planned_bytes: *planned_bytes,
            instruction_set: kapprox::instruction_set(),
            precision: T::NAME,
            scaling: names
                .iter()
                .filter(|_| selected.sparse().is_none())
                .cloned()
                .zip(scales)
                .map(|(name, (centre, scale))| (name, *centre, *scale))
                .collect(),
            metric,
            importance: by_size(names, &slopes),
            certificates: self.certificates.iter().map(|(rank, c)| (*rank, c.trace_error)).collect(),
            ..FitReport::default()
        }
    }

    fn metric(&self) -> Option<MetricReport> {
        let (options, learned) = (&self.prepared.options, self.prepared.learned.as_ref());
        let (source, metric, shares) = match &self.fitted.projection {
            Some(found) => (found.solver.to_string(), &found.metric, found.importance.clone()),
            None => {
                let metric = options.metric.known()?;
                (self.options.metric.to_string(), metric, metric.importance())
            }
        };
        let spread = learned.and_then(|learned| learned.spread.as_deref()).unwrap_or(&[]);
        let rounds = learned.map_or(Vec::new(), |learned| learned.rounds.clone());
        let shares = self.selected.feature_names().into_iter().zip(shares).collect();
        let judged = learned.and_then(|learned| learned.judged.clone());
        Some(MetricReport { judged, ..MetricReport::new(source, metric.outputs(), shares, spread, rounds) })
    }
}

/// The names of the targets, or of the class column.
pub fn target_names(selected: &Selected) -> Vec<String> {
    match selected.class_name() {
        Some(name) => vec![name.to_string()],
        None => selected.target_names(),
    }
}

/// Sorts inputs by these numbers, the largest first.
fn by_size(names: Vec<String>, numbers: &[f64]) -> Vec<(String, f64)> {
    let mut named: Vec<(String, f64)> = names.into_iter().zip(numbers.iter().copied()).collect();
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    named
}
