//! The setting that all runs share: the rows, their scaling, the kernel, and the minimum errors.

use super::run_plan::{plan, sampled_column_count, spectrum_rows};
use super::{CurveOptions, EXACT_ROWS, Method, SAMPLED_COLUMNS, SPECTRAL_ROWS};
use crate::prepare::candidates;
use crate::prepare::map_builder::{check_domain, resolve_length_scale};
use crate::prepare::survey::{Survey, survey};
use crate::prepare::target_counts::{self, check_plans};
use crate::request::{MEDIAN_ROWS, PassShape, Resources};
use crate::task::Task;
use crate::{Result, Targets};
use kapprox::kernel::{AnyKernel, Kernel};
use kapprox::landmark::{LandmarkRule, RowSample, RpCholesky, TableScan, uniform_sample};
use kapprox::map::{DataIndependentMapArgs, MapConstructor};
use kapprox::quality::{Approximation, Measure, SampleSpectrum, sample_spectrum};
use kapprox::{NystromMap, Real};
use kstore::key::Purpose;
use kstore::pass::Observer;
use kstore::{MemoryPlan, MemoryRows, Pass, RowSource, SelectedTable, Statistics, TableRows, Workers};
use std::sync::Arc;

/// Number of landmarks of the map that bounds ‖K‖₂ from below; few suffice for the leading
/// direction.
const NORM_RANK: usize = 256;

/// The minimum error of any matrix of a given rank.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct MinimumErrors {
    /// Number of rows of the kernel matrix whose spectrum was computed. If these are not all rows,
    /// the errors are estimates, and are too low at ranks close to this number.
    pub rows: usize,
    /// Ranks, ascending.
    pub ranks: Vec<usize>,
    /// Relative trace error at each rank.
    pub trace: Vec<f64>,
    /// Relative Frobenius error at each rank.
    pub frobenius: Vec<f64>,
    /// Relative spectral error at each rank.
    pub spectral: Vec<f64>,
}

/// The kind of test error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestErrorKind {
    /// Mean squared error.
    Mse,
    /// Error rate.
    Error,
}

/// The rows, the kernel and everything else that is fixed before the first run.
pub struct Setting<'a, T: Real> {
    pub(super) options: &'a CurveOptions,
    pub(super) resources: &'a Resources<'a>,
    /// Resources of passes over the rows. If the rows are in memory, the resources have no journal:
    /// every process has these rows, and the passes over them are not shared.
    pub(super) row_resources: Resources<'a>,
    pub(super) selected: &'a SelectedTable,
    survey: Survey,
    /// Rows of the table, or a sample of the rows in memory.
    source: Box<dyn RowSource<T>>,
    pub(super) test_rows: Option<TableRows<T>>,
    pub(super) n: u64,
    kernel: Kernel,
    pub(super) any_kernel: Arc<dyn AnyKernel>,
    pub(super) targets: Targets,
    spectrum: Option<SampleSpectrum>,
    /// `None` if the runs compute the spectral errors on all rows.
    pub(super) spectral_sample: Option<SpectralSample<T>>,
}

/// The rows on which spectral errors are estimated.
pub(super) struct SpectralSample<T> {
    /// ‖K‖₂ of all rows.
    pub(super) kernel_norm: Measure,
    pub(super) sample_rows: MemoryRows<T>,
}

impl<T: Real> std::fmt::Debug for Setting<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setting").field("rows", &self.n).field("kernel", &self.kernel).finish_non_exhaustive()
    }
}

impl<'a, T: Real> Setting<'a, T> {
    /// Opens the training and test rows, plans every run, computes the scaling, resolves the kernel
    /// and computes the minimum errors.
    ///
    /// *Passes*: one for the statistics; if requested, one each for the sample and the median; one
    /// for the minimum errors. For more than [`EXACT_ROWS`] rows, also the passes that select 256
    /// landmarks, three for ‖K‖₂ and one for a sample.
    ///
    /// # Errors
    /// [`kstore::Error::OverBudget`] before the first pass if a run exceeds the memory. An invalid
    /// row (the error names its position); a map that does not support the kernel.
    pub fn open(
        selected: &'a SelectedTable,
        test: Option<&SelectedTable>,
        options: &'a CurveOptions,
        resources: &'a Resources<'a>,
    ) -> Result<Self> {
        options.kernel.check_input_count(selected.shape().input_count)?;
        let largest_rank = options.ranks.last().copied().unwrap_or(1);
        let count_targets = |method| {
            target_counts::count_targets_and_folds(
                selected,
                &super::run_plan::build_train_options(options, method, largest_rank),
                resources,
            )
        };
        let t = test.and(options.methods.first()).map(count_targets).transpose()?.map(|(t, _)| t);
        let mut first_pass_shape = None;
        for method in &options.methods {
            let (pass_shape, plans) = plan::<T>(selected, options, method, largest_rank, t, resources)?;
            check_plans(plans)?;
            first_pass_shape.get_or_insert(pass_shape);
        }
        let Some(pass_shape) = first_pass_shape else {
            return Err(crate::Error::option("methods", "", "name a landmark scheme or a map"));
        };
        let train_options = super::run_plan::build_train_options(options, &options.methods[0], largest_rank);
        let survey = survey(selected, &train_options, pass_shape, resources)?;
        let table_rows: TableRows<T> = selected.rows(survey.read_settings())?;
        let builder = SettingBuilder { options, resources, pass_shape };
        let row_range = RowSource::<T>::range(&table_rows);
        let n = row_range.end - row_range.start;
        check_domain(&table_rows, &options.kernel, n, 1, pass_shape, resources)?;
        let sample_rows = builder.draw_sample(&table_rows, &survey, test.is_some())?;
        let n = sample_rows.as_ref().map_or(survey.row_count(), |sample| sample.len() as u64);
        let row_resources = Resources { journal: resources.journal.filter(|_| sample_rows.is_none()), ..*resources };
        let row_source =
            sample_rows.map_or_else(|| Box::new(table_rows) as Box<dyn RowSource<T>>, |sample| Box::new(sample));
        let (source, builder) = (&*row_source, SettingBuilder { resources: &row_resources, ..builder });
        let kernel = builder.resolve_kernel(source, n)?;
        let any_kernel = kernel.build()?;
        builder.check_maps::<T>(&kernel, source.shape().input_count)?;
        let is_definite = any_kernel.typed::<T>().is_positive_definite();
        let spectral_sample = match n > EXACT_ROWS && is_definite {
            true => Some(SpectralSample {
                kernel_norm: builder.bound_kernel_norm(source, n, &any_kernel)?,
                sample_rows: builder.draw_spectral_rows(source, n)?,
            }),
            false => None,
        };
        let spectrum = if is_definite { Some(builder.compute_spectrum(source, n, &any_kernel)?) } else { None };
        let test = test.map(|test| test.rows(survey.read_settings())).transpose()?;
        let targets = survey.regression_targets();
        let source = row_source;
        Ok(Self {
            options,
            resources,
            row_resources,
            selected,
            survey,
            source,
            test_rows: test,
            n,
            kernel,
            any_kernel,
            targets,
            spectrum,
            spectral_sample,
        })
    }

    /// Returns the number of rows whose kernel matrix is approximated.
    pub fn row_count(&self) -> u64 {
        self.n
    }

    /// Returns the statistics of all rows, from the first pass.
    #[doc(hidden)]
    pub fn statistics(&self) -> &Statistics {
        &self.survey.statistics
    }

    /// Returns the kernel, with numeric parameters.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Returns the kind of test error; `None` without test rows.
    #[doc(hidden)]
    pub fn test_error_kind(&self) -> Option<TestErrorKind> {
        self.test_rows.as_ref().map(|_| match self.options.task {
            Task::Classification => TestErrorKind::Error,
            _ => TestErrorKind::Mse,
        })
    }

    /// Returns the number of columns of K for the Frobenius error; all columns if it is exact.
    #[doc(hidden)]
    pub fn column_count(&self) -> usize {
        sampled_column_count(self.n)
    }

    /// Returns the minimum errors at the ranks of the options; `None` for kernels that are not
    /// positive definite.
    pub fn minimum_errors(&self) -> Option<MinimumErrors> {
        let spectrum = self.spectrum.as_ref()?;
        let errors_by_rank =
            |error: &dyn Fn(usize) -> f64| self.options.ranks.iter().map(|rank| error(*rank)).collect();
        Some(MinimumErrors {
            rows: spectrum.eigenvalues.len(),
            ranks: self.options.ranks.clone(),
            trace: errors_by_rank(&|rank| spectrum.trace_floor(rank)),
            frobenius: errors_by_rank(&|rank| spectrum.frobenius_floor(rank)),
            spectral: errors_by_rank(&|rank| spectrum.spectral_floor(rank)),
        })
    }

    /// Returns the plan of a method at its largest rank.
    ///
    /// # Errors
    /// The errors of opening the rows.
    #[doc(hidden)]
    pub fn plan(&self, method: &Method, rank: usize) -> Result<(PassShape, Vec<MemoryPlan>)> {
        let t = self.test_rows.as_ref().map(|_| self.targets.count());
        plan::<T>(self.selected, self.options, method, rank, t, self.resources)
    }

    pub(super) fn source(&self) -> &dyn RowSource<T> {
        &*self.source
    }
}

/// Returns a pass with one worker lane that uses all threads within its steps, so that measured
/// times do not include waits between lanes.
pub(super) fn pass<'o>(pass_shape: PassShape, resources: &'o Resources<'o>, observer: &'o dyn Observer) -> Pass<'o> {
    pass_shape.pass(1, resources, observer)
}

struct SettingBuilder<'a> {
    options: &'a CurveOptions,
    resources: &'a Resources<'a>,
    pass_shape: PassShape,
}

impl SettingBuilder<'_> {
    /// Runs `action` as a separate stage. `action` is called with a scan of the rows of `source`,
    /// of which `row_count` are selected.
    fn stage<T: Real, R>(
        &self,
        name: &str,
        source: &dyn RowSource<T>,
        row_count: u64,
        action: impl FnOnce(TableScan<'_, T>) -> Result<R>,
    ) -> Result<R> {
        let observer = self.resources.start_stage_over(name, source.range());
        action(TableScan { source, pass: pass(self.pass_shape, self.resources, &*observer), row_count })
    }

    /// Returns a sample of the rows; `None` if all rows are used. If requested, the sample includes
    /// the targets.
    fn draw_sample<T: Real>(
        &self,
        table_rows: &TableRows<T>,
        survey: &Survey,
        needs_targets: bool,
    ) -> Result<Option<MemoryRows<T>>> {
        let sample_count = self.options.sample_rows.filter(|count| (*count as u64) < survey.row_count());
        let draw = |count: usize| {
            self.stage("sampling rows", table_rows, survey.row_count(), |scan| {
                let sample = uniform_sample(&scan, count, Purpose::Candidates, self.options.seed)?;
                let sample_rows = candidates::sort_by_row_number(sample)?;
                if needs_targets {
                    candidates::with_targets(sample_rows, table_rows, scan.pass)
                } else {
                    Ok(sample_rows)
                }
            })
        };
        sample_count.map(draw).transpose()
    }

    fn resolve_kernel<T: Real>(&self, source: &dyn RowSource<T>, n: u64) -> Result<Kernel> {
        let (kernel, seed) = (&self.options.kernel, self.options.seed);
        if !kernel.needs_median() {
            return resolve_length_scale::<T>(kernel, &RowSample::default(), seed);
        }
        self.stage("median distance", source, n, |scan| {
            resolve_length_scale(kernel, &uniform_sample(&scan, MEDIAN_ROWS, Purpose::Candidates, seed)?, seed)
        })
    }

    /// Builds the maps that need no rows, so that an unsupported kernel is rejected before the work
    /// starts.
    fn check_maps<T: Real>(&self, kernel: &Kernel, d: usize) -> Result<()> {
        let (rank, seed) = (self.options.ranks.first().copied().unwrap_or(1), self.options.seed);
        for method in &self.options.methods {
            let spec = method.map_spec();
            if let MapConstructor::DataIndependent(build) = spec.constructor::<T>() {
                build(&DataIndependentMapArgs { spec: &spec, kernel, d, rank, seed })?;
            }
        }
        Ok(())
    }

    /// Bounds ‖K‖₂. The lower bound is the largest eigenvalue of a Nyström approximation; the upper
    /// bound is the lower bound plus the norm of the residual.
    fn bound_kernel_norm<T: Real>(
        &self,
        source: &dyn RowSource<T>,
        n: u64,
        any_kernel: &Arc<dyn AnyKernel>,
    ) -> Result<Measure> {
        self.stage("norm of the kernel matrix", source, n, |scan| {
            let seed = self.options.seed;
            let set = RpCholesky.select(&scan, any_kernel, NORM_RANK, seed)?;
            let map = NystromMap::new(any_kernel, set, &Workers::sequential())?;
            let approximation = Approximation { scan, kernel: any_kernel, map: &map };
            let errors = approximation.errors(&[map.rank()], SAMPLED_COLUMNS, seed)?;
            Ok(errors[0].spectral_bounds(approximation.largest_eigenvalue()?).kernel)
        })
    }

    fn draw_spectral_rows<T: Real>(&self, source: &dyn RowSource<T>, n: u64) -> Result<MemoryRows<T>> {
        self.stage("rows of the spectral error", source, n, |scan| {
            candidates::sort_by_row_number(uniform_sample(&scan, SPECTRAL_ROWS, Purpose::Quality, self.options.seed)?)
        })
    }

    fn compute_spectrum<T: Real>(
        &self,
        source: &dyn RowSource<T>,
        n: u64,
        any_kernel: &Arc<dyn AnyKernel>,
    ) -> Result<SampleSpectrum> {
        let count = spectrum_rows(n, self.options);
        self.stage("floor", source, n, |scan| Ok(sample_spectrum(&scan, any_kernel, count, self.options.seed)?))
    }
}
