//! The result of a training run: a model that predicts from rows of the table (not from features
//! phi), and its report.

use super::cluster_profile::ClusterProfiles;
use crate::fit_report::{FitReport, LandmarkReport, TrainScores};
use crate::model::{Basis, BasisTransform, ColumnDistribution, Leaves, Model, SecondView, needs_f64_for};
use crate::request::{RowAccess, TrainOptions};
use crate::solver::{FoldFunctions, Solution};
use crate::{Certificate, LinearHead, ModelMetadata, train::prepared::PreparedFit};
use faer::{Mat, MatRef};
use kapprox::{Real, map::MapSpec};
use kmodel::{model::MetricReport, predict::TrainingFolds};
use kstore::encoding::{ColumnEncoding, EncodedColumn};
use kstore::{Scaler, SelectedTable, Workers, statistics::ColumnMoments};
use std::sync::Arc;

/// The range of an input that is not clipped.
pub(crate) const UNBOUNDED: [f64; 2] = [f64::MIN, f64::MAX];

/// A model and its report. The metadata of the model lack the solver's name, its intercept and the
/// options, which the caller adds.
#[derive(Debug)]
pub struct TrainedModel<T: Real> {
    /// The model.
    pub model: Model<T>,
    /// The report of the run.
    pub report: FitReport,
    /// True if predictions need the basis in f64 although the rows are f32: see
    /// [`kapprox::NystromMap::needs_f64`].
    pub needs_f64: bool,
    /// The folds of the training rows, if the components of the model are the functions of folds,
    /// for prediction intervals.
    pub training_folds: Option<TrainingFolds>,
    /// The selected rows as the model reads them.
    pub selected: SelectedTable,
}

/// Everything from which [`Self::into_trained_model`] builds the model: the input of the run and
/// the solver's solution.
pub(super) struct ModelAssembly<'a, T: Real> {
    pub(super) selected: &'a SelectedTable,
    pub(super) options: &'a TrainOptions,
    pub(super) prepared: &'a PreparedFit<T>,
    pub(super) access: RowAccess,
    pub(super) solution: Solution<T>,
    /// Certificates at the ranks of the surface (the grid of ranks and lambdas), or at the rank of
    /// the result.
    pub(super) certificates: Vec<(usize, Certificate)>,
    pub(super) clusters: ClusterProfiles,
    pub(super) distributions: Vec<ColumnDistribution>,
}

impl<T: Real> ModelAssembly<'_, T> {
    /// Assembles the model. The solver's weights multiply the features phi; the model stores dual
    /// coefficients, which multiply kernel functions.
    pub(super) fn into_trained_model(mut self, workers: &Workers) -> TrainedModel<T> {
        let map = &*self.prepared.built_map.map;
        let metadata = self.metadata();
        let report = self.report(&metadata);
        let Self { prepared, solution, .. } = self;
        let (basis, coefficients, needs_f64) = match solution.basis {
            Some(basis) => (basis, solution.weights, solution.needs_f64),
            None => {
                let expansion = map.expand(solution.weights.as_ref(), workers);
                let needs_f64 = expansion.needs_f64();
                let (basis, coefficients) = Basis::from_expansion(expansion, map);
                (basis, coefficients, needs_f64)
            }
        };
        let uses_landmarks = matches!(basis, Basis::Landmarks { .. });
        let output_rmse = solution.train_score.map_or(Vec::new(), |(mse, _)| vec![mse.sqrt(); coefficients.ncols()]);
        let needs_f64 = needs_f64 || uses_landmarks && needs_f64_for::<T>(coefficients.as_ref(), &output_rmse);
        let needs_f64 = needs_f64 || solution.leaves.as_ref().is_some_and(|leaves| leaves.needs_f64(&output_rmse));
        let expand_weights = |weights: MatRef<'_, f64>| Basis::from_expansion(map.expand(weights, workers), map).1;
        let transform = match solution.basis_transform {
            // the degree, by which basis functions are divided, is also a linear function of the
            // features, so its weights become dual coefficients
            BasisTransform::DivideByDegree { coefficients, floor } => {
                let weights = Mat::from_fn(coefficients.len(), 1, |i, _| coefficients[i]);
                BasisTransform::DivideByDegree {
                    coefficients: expand_weights(weights.as_ref()).col_as_slice(0).to_vec(),
                    floor,
                }
            }
            transform => transform,
        };
        let fold_head = solution.fold_functions.as_ref().map(FoldFunctions::joined);
        let components = solution.components.or(fold_head);
        let components = components.map(|head| LinearHead { weights: expand_weights(head.weights.as_ref()), ..head });
        let has_own_kernel = solution.leaf_kernel.is_some();
        let leaves = solution.leaves.map(|leaves| {
            if has_own_kernel {
                return leaves;
            }
            let splits = LinearHead { weights: expand_weights(leaves.splits.weights.as_ref()), ..leaves.splits };
            Leaves { splits, ..leaves }
        });
        let rank = metadata.rank.min(coefficients.nrows());
        let model = Model {
            basis,
            transform,
            coefficients,
            intercept: solution.intercept,
            scaler: Scaler::clone(&prepared.survey.scaler),
            metric: solution.projection.map(|projection| projection.metric).or(prepared
                .options
                .metric
                .provided()
                .cloned()),
            quadratic: solution.quadratic.map(|q| q.expand(map, metadata.certificate.is_some(), workers)),
            components,
            leaves,
            intervals: None,
            metadata: ModelMetadata { rank, ..metadata },
        };
        let training_folds = solution.fold_functions.map(|functions| TrainingFolds {
            folds: prepared.folds.clone(),
            group_labels: prepared.survey.group_labels.clone(),
            scored_folds: functions.folds,
            weight_unit: prepared.survey.weight_unit(),
        });
        TrainedModel { model, report, needs_f64, training_folds, selected: prepared.selected.clone() }
    }

    /// Returns the rank of the result. This is the number of weights per output. If the solver
    /// learns a projection, its model has a linear kernel and no weights on features, and the rank
    /// is the number of features of the map.
    fn rank(&self) -> usize {
        match self.solution.projection {
            Some(_) => self.prepared.built_map.map.dims().1,
            None => self.solution.weights.nrows(),
        }
    }

    fn metadata(&self) -> ModelMetadata {
        let Self { selected, options, prepared: PreparedFit { survey, built_map, .. }, solution, certificates, .. } =
            self;
        let rank = self.rank();
        let classes = survey.classes.as_ref().filter(|_| solution.task.is_none());
        ModelMetadata {
            task: solution.task.unwrap_or(options.task),
            kernel: match solution.projection {
                Some(_) => "linear()".to_string(),
                None => built_map.kernel.to_string(),
            },
            second_view: built_map
                .second_view
                .as_ref()
                .map(|view| SecondView { kernel: view.kernel.to_string(), functions: view.basis_function_count }),
            leaf_kernel: solution.leaf_kernel.as_ref().map(ToString::to_string),
            map: options.map.to_string(),
            precision: T::NAME.to_string(),
            rank,
            lambda: solution.lambda,
            features: selected.feature_names(),
            encoding: selected.encoding().cloned().map(|encoding| Arc::new(encoding.for_new_rows())),
            text_reading: selected.text_read_options(),
            targets: target_names(selected),
            classes: classes.map_or(Vec::new(), |classes| classes.labels().to_vec()),
            link: solution.link.clone(),
            loss: solution.loss.clone(),
            one_vs_one: solution.is_one_vs_one,
            certificate: certificates
                .iter()
                .find(|(certified_rank, _)| *certified_rank == rank)
                .map(|(_, certificate)| *certificate),
            rows: survey.row_count(),
            seed: options.seed,
            landmarks: built_map.landmark_counts.map(|_| options.landmarks.to_string()),
            asinh: survey.scaler.asinh,
            ranges: self.ranges(),
            clusters: self.clusters.profiles.clone(),
            cluster_axes: self.clusters.axes.clone(),
            distributions: self.distributions.clone(),
            ..ModelMetadata::default()
        }
    }

    /// Returns the training range of each input. Predictions clip the inputs of new rows to these
    /// ranges. The result is empty for novelty detectors and for unbounded or periodic kernels.
    fn ranges(&self) -> Vec<[f64; 2]> {
        let Self { options, prepared: PreparedFit { survey, built_map, .. }, solution, .. } = self;
        let clips_inputs = options.clips_inputs
            && solution.task.unwrap_or(options.task).has_target()
            && built_map.kernel.is_constant_far_away();
        let clips_inputs = clips_inputs && self.selected.sparse_shape().is_none();
        // Three kinds of columns are not clipped. Target encodings of new rows may exceed the
        // out-of-fold encodings of training rows. Periodic inputs have no ends. Entries of a text
        // are divided by the norm of the text, so a short new text may exceed the training range.
        let unbounded_column_mask = |column: &EncodedColumn| {
            let (is_unbounded, is_periodic_time) = (
                matches!(column.encoding, ColumnEncoding::Effects(_) | ColumnEncoding::Entries(_)),
                matches!(column.encoding, ColumnEncoding::Time(_)),
            );
            (0..column.feature_count()).map(move |i| is_unbounded || is_periodic_time && i > 0)
        };
        let unbounded_mask = self
            .selected
            .encoding()
            .into_iter()
            .flat_map(|encoding| encoding.columns())
            .flat_map(unbounded_column_mask);
        let training_range = |(input, unbounded): (&ColumnMoments, bool)| match input.count {
            _ if unbounded => UNBOUNDED,
            0 => [input.mean; 2],
            _ => [input.min, input.max],
        };
        let clipped_inputs = survey.statistics.inputs.iter().filter(|_| clips_inputs);
        clipped_inputs.zip(unbounded_mask.chain(std::iter::repeat(false))).map(training_range).collect()
    }

    /// Builds the report. Moves values that only the report needs out of the solver's solution.
    fn report(&mut self, metadata: &ModelMetadata) -> FitReport {
        let (rank, metric) = (self.rank(), self.metric());
        let Self {
            selected, options, prepared: PreparedFit { survey, built_map, planned_bytes, .. }, solution, ..
        } = self;
        let names = selected.feature_names();
        let scaled_slopes =
            solution.slopes.iter().flatten().enumerate().map(|(j, slope)| slope * survey.half_spread(j));
        let slopes: Vec<f64> = scaled_slopes.collect();
        let centres_and_scales = survey.scaler.centre.iter().zip(&survey.scaler.scale);
        // the map drops linearly dependent landmarks, so the report counts at most `map_rank`
        let map_rank = match options.map == MapSpec::default() {
            true if self.access == RowAccess::Features => built_map.map.dims().1,
            true => rank,
            false => usize::MAX,
        };
        FitReport {
            rows: survey.row_count(),
            weight: survey.total_weight(),
            features: selected.sparse_shape().map_or(selected.shape().input_count, |shape| shape.column_count),
            columns: selected.encoding().map_or(Vec::new(), |encoding| {
                let encoded_columns = encoding
                    .columns()
                    .iter()
                    .filter(|column| column.has_indicator || column.encoding != ColumnEncoding::Number);
                encoded_columns.map(|column| (column.name.clone(), column.to_string())).collect()
            }),
            targets: metadata.targets.len(),
            target_names: metadata.targets.clone(),
            classes: (!metadata.classes.is_empty()).then(|| metadata.classes.clone()),
            map: metadata.map.clone(),
            landmarks: built_map.landmark_counts.map(|counts| LandmarkReport {
                scheme: options.landmarks.to_string(),
                count: counts.landmark_count.min(map_rank),
                candidates: counts.candidate_count,
            }),
            kernel: built_map.kernel.to_string(),
            length_scale: self.prepared.length_scale_report.clone(),
            likelihood: self.prepared.learned_metric.as_ref().and_then(|learned| learned.likelihood.clone()),
            neighbours: solution.basis_transform.neighbour_count(),
            second_view_kernel: metadata.second_view.as_ref().map(|view| view.kernel.clone()),
            rank,
            lambda: solution.lambda,
            folds: options.folds.to_string(),
            certificate: metadata.certificate,
            surface: std::mem::take(&mut solution.surface.cells),
            train: solution.train_score.map(|(mse, r2)| TrainScores {
                mse,
                rmse: mse.max(0.0).sqrt(),
                r2,
                loo_mse: solution.loo_mse,
            }),
            method: solution.method.take(),
            figures: std::mem::take(&mut solution.figures),
            cluster_counts: solution.cluster_counts.take(),
            clusters: metadata.clusters.clone(),
            passes: solution.passes,
            planned_bytes: *planned_bytes,
            instruction_set: kapprox::instruction_set(),
            precision: T::NAME,
            scaling: names
                .iter()
                .filter(|_| selected.sparse_shape().is_none())
                .cloned()
                .zip(centres_and_scales)
                .map(|(name, (centre, scale))| (name, *centre, *scale))
                .collect(),
            metric,
            importance: sort_names_by_value(names, &slopes),
            certificates: self.certificates.iter().map(|(rank, c)| (*rank, c.trace_error)).collect(),
            ..FitReport::default()
        }
    }

    fn metric(&self) -> Option<MetricReport> {
        if let Some(linear) = &self.prepared.linear_metric {
            let names = self.selected.encoding().into_iter().flat_map(|encoding| encoding.entry_names());
            let report = linear.report(self.options.metric.to_string(), names);
            return Some(report);
        }
        let (options, learned) = (&self.prepared.options, self.prepared.learned_metric.as_ref());
        let (source, metric, importance) = match &self.solution.projection {
            Some(projection) => (projection.solver.to_string(), &projection.metric, projection.importance.clone()),
            None => {
                let metric = options.metric.provided()?;
                (self.options.metric.to_string(), metric, metric.importance())
            }
        };
        let spread = learned.and_then(|learned| learned.spread.as_deref()).unwrap_or(&[]);
        let rounds = learned.map_or(Vec::new(), |learned| learned.rounds.clone());
        let fractions = self.selected.feature_names().into_iter().zip(importance).collect();
        let test_errors = learned.and_then(|learned| learned.test_errors.clone());
        Some(MetricReport {
            test_errors,
            ..MetricReport::new(source, metric.output_count(), fractions, spread, rounds)
        })
    }
}

/// Returns the names of the targets, or of the class column.
pub fn target_names(selected: &SelectedTable) -> Vec<String> {
    match selected.class_column() {
        Some(name) => vec![name.to_string()],
        None => selected.target_names(),
    }
}

/// Pairs each name with its value, and sorts by value, largest first.
fn sort_names_by_value(names: Vec<String>, values: &[f64]) -> Vec<(String, f64)> {
    let mut named_values: Vec<(String, f64)> = names.into_iter().zip(values.iter().copied()).collect();
    named_values.sort_by(|a, b| b.1.total_cmp(&a.1));
    named_values
}
