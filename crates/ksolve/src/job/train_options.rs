//! The training options of a fit, with defaults filled in and contradictions rejected.

use super::candidates::Candidates;
use super::fit::{Fit, ParsedOptions};
use super::sparse_rows;
use crate::folds::FoldSpec;
use crate::request::{LandmarkSource, MetricForm, MetricSource, TrainOptions};
use crate::solver::parameter::{FOLDS, INTERVAL, LAMBDA_GRID, NODES, RANKS, SECOND_KERNEL, SECOND_VIEW, TOLERANCE};
use crate::solver::{Settings, SolverProperties};
use crate::{Error, Result};
use kapprox::Kernel;
use kapprox::landmark::SelectionCost;
use kstore::condition::format_rows;
use kstore::{Missing, SelectedTable, Selection, TextOptions};

const DEFAULT_RANK: usize = 1000;
/// Maximum rank if a tolerance is set but no rank: at this rank the Gram matrix takes 128 MB.
const MAX_TOLERANCE_RANK: usize = 4000;

impl Fit {
    /// Returns the training options, with every default filled in.
    ///
    /// # Errors
    /// [`Error::Option`] for options that contradict each other or the rows.
    #[doc(hidden)]
    pub fn train_options(&self, selected: &SelectedTable) -> Result<TrainOptions> {
        if self.files().next().is_some() {
            return self.clone().with_open_files(selected, &TextOptions::default())?.train_options(selected);
        }
        let parsed = self.parsed_options()?;
        let (ParsedOptions { settings, .. }, properties) = (parsed, parsed.properties());
        self.check_landmarks(properties)?;
        let scaling = sparse_rows::scaling_for(self.scaling, selected)?;
        if selected.sparse_shape().is_some() {
            self.check_sparse(properties)?;
        } else if self.metric == MetricSource::Learned(MetricForm::Linear) {
            let why =
                "it learns factors of the columns of sparse rows, and these rows are dense; use diagonal, or learn";
            return Err(Error::option("metric", &self.metric, why));
        }
        let rank_or_default = self.rank.or(properties.default_rank);
        let (rank, ranks) = self.ranks(settings, rank_or_default)?;
        let default_landmarks = properties.default_landmarks.map(|name| LandmarkSource::Scheme(name.to_string()));
        let landmarks = self.landmarks.clone().or(default_landmarks).unwrap_or_default();
        if self.solver_family.reads(&NODES) {
            return self.graph_train_options(settings, rank, landmarks, selected);
        }
        let folds = self.folds(settings, properties, ranks.len() * self.lambda_count(settings)?)?;
        let (kernel, second_kernel) = self.kernels(settings, selected)?;
        Ok(TrainOptions {
            task: self.solver_family.task(settings),
            scaling,
            clips_inputs: self.clip,
            metric: self.metric.clone(),
            kernel,
            relative_noise: None,
            has_log_link: properties.has_log_link,
            second_kernel,
            map: self.map.clone(),
            landmarks,
            candidates: self.candidates.unwrap_or(Candidates::default_for_rank(rank)).row_count(),
            rank,
            is_default_rank: self.rank.is_none() && settings.ranks(&RANKS).is_none(),
            tolerance: settings.number(&TOLERANCE),
            ranks,
            folds,
            seed: self.seed,
        })
    }

    /// Returns true if the marginal likelihood determines lambda: the fit learns the exact kernel
    /// by likelihood, and the options give no regularisation parameter.
    fn learns_lambda(&self) -> Result<bool> {
        let is_exact = self.map.is_exact_kernel() && self.solver_family.name == "ridge";
        if !is_exact || self.metric != MetricSource::Learned(MetricForm::Likelihood) {
            return Ok(false);
        }
        let is_given = self.options.get(LAMBDA_GRID.name).is_some();
        let lambda_count = self.settings()?.regularisations().len();
        if is_given && lambda_count != 1 {
            let why = "the exact kernel solves for one lambda; give one, or none to take the noise of the likelihood";
            return Err(Error::option(LAMBDA_GRID.name, format!("{lambda_count} values"), why));
        }
        Ok(!is_given)
    }

    /// Returns the kernel and, if there are two views, the kernel of the second view. Each of two
    /// kernels is restricted to its own columns; a single kernel uses all columns.
    fn kernels(&self, settings: &Settings, selected: &SelectedTable) -> Result<(Kernel, Option<Kernel>)> {
        let names = selected.feature_names();
        let Some(patterns) = settings.columns(&SECOND_VIEW) else {
            return Ok((sparse_rows::kernel_for(&self.kernel, selected)?, None));
        };
        if let Some(landmarks @ LandmarkSource::Rows(_)) = &self.landmarks {
            return Err(Error::option("landmarks", landmarks, "each view has its own landmarks; name a scheme"));
        }
        let second_columns = selected.features_of(&patterns)?;
        let first_columns: Vec<String> = names.iter().filter(|name| !second_columns.contains(name)).cloned().collect();
        if first_columns.is_empty() {
            let why = "no column is left for the first view; name fewer columns, or more `features`";
            return Err(Error::option(SECOND_VIEW.name, patterns.join(","), why));
        }
        let second_kernel = settings.kernel(&SECOND_KERNEL).unwrap_or_else(|| self.kernel.clone());
        let restrict =
            |kernel: &Kernel, columns: &[String]| kernel.clone().on_columns(columns)?.resolve_columns(&names);
        Ok((restrict(&self.kernel, &first_columns)?, Some(restrict(&second_kernel, &second_columns)?)))
    }

    /// Returns the options of a solver on a neighbour graph. The nodes of the graph are a sample of
    /// the rows, and the landmarks are the first nodes. Distances between nodes are Euclidean. The
    /// kernel only serves to choose the nodes, and is not used at all if the landmark scheme is
    /// uniform.
    fn graph_train_options(
        &self,
        settings: &Settings,
        rank: usize,
        landmarks: LandmarkSource,
        selected: &SelectedTable,
    ) -> Result<TrainOptions> {
        let range = selected.range();
        let row_count = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let node_count = settings.count(&NODES).unwrap_or(rank).min(row_count).max(1);
        if self.rank.is_some() && rank > node_count && node_count < row_count {
            let why = format!("the landmarks are chosen among the {node_count} nodes; lower it, or raise `nodes`");
            return Err(Error::option("rank", rank, why));
        }
        let uses_kernel = landmarks.scheme().is_none_or(|scheme| scheme.cost != SelectionCost::Draw);
        if !uses_kernel && self.kernel != Kernel::default() {
            let why = format!("{} uses Euclidean distances, not a kernel; leave it out", self.solver_family.name);
            return Err(Error::option("kernel", &self.kernel, why));
        }
        let default_candidates = if uses_kernel { Candidates::default_for_rank(node_count) } else { Candidates::All };
        let kernel = if uses_kernel {
            self.kernel.resolve_columns(&selected.feature_names())?
        } else {
            Kernel::parse("linear()")?
        };
        Ok(TrainOptions {
            scaling: self.scaling.unwrap_or_default(),
            clips_inputs: self.clip,
            metric: self.metric.clone(),
            map: self.map.clone(),
            landmarks,
            candidates: self.candidates.unwrap_or(default_candidates).row_count(),
            ranks: vec![rank.min(node_count)],
            seed: self.seed,
            ..TrainOptions::new(self.solver_family.task(settings), kernel, node_count)
        })
    }

    /// Returns the options that open a table for the fit of these rows. If the scaling weights the
    /// entries of sparse rows, or the metric is linear, all rows stay sparse. Otherwise rows with
    /// few nonzeros stay sparse, unless a step of the fit computes with columns, fills zeros or
    /// handles missing values.
    #[doc(hidden)]
    pub fn text_options_for(&self, selection: &Selection, options: TextOptions) -> TextOptions {
        let supports_sparse = selection.lags.is_none()
            && self.parsed_options().is_ok_and(|parsed| self.check_sparse(parsed.properties()).is_ok());
        let can_stay_sparse = selection.sparse && matches!(selection.missing, Missing::Fitted | Missing::Error);
        if self.metric == MetricSource::Learned(MetricForm::Linear) && can_stay_sparse {
            return options.sparse();
        }
        sparse_rows::text_options_for(selection, &self.kernel, self.scaling, supports_sparse, options)
    }

    /// Rejects options that do not support the selected rows if they are sparse. No row is read.
    ///
    /// # Errors
    /// [`Error::Option`] for the option; a kernel that does not support sparse rows.
    #[doc(hidden)]
    pub fn check_sparse_rows(&self, selected: &SelectedTable) -> Result<()> {
        if selected.sparse_shape().is_none() {
            return Ok(());
        }
        sparse_rows::scaling_for(self.scaling, selected)?;
        self.check_sparse(self.parsed_options()?.properties())?;
        sparse_rows::kernel_for(&self.kernel, selected).map(drop)
    }

    /// Rejects options that compute with the columns of sparse rows.
    fn check_sparse(&self, properties: SolverProperties) -> Result<()> {
        let reject = |option, value: &dyn std::fmt::Display, why| Err(Error::option(option, value, why));
        let distance_landmarks = self.landmarks.as_ref().filter(|landmarks| landmarks.computes_distances());
        match &self.metric {
            MetricSource::None | MetricSource::Learned(MetricForm::Linear) => {}
            MetricSource::File(path) => return Err(sparse_rows::metric_error(&path.display())),
            metric => return Err(sparse_rows::metric_error(metric)),
        }
        if !self.map.family().supports_sparse {
            return reject("map", &self.map, "it does not support sparse rows; use nystrom, fourier, or exact");
        }
        if let Some(landmarks) = distance_landmarks {
            return reject("landmarks", landmarks, "its points are not sparse rows; use rpcholesky, or another scheme");
        }
        if let Some(parameter) = properties.dense_only_parameter {
            return reject(parameter, &"", "it computes with columns, and the rows are sparse; leave it out");
        }
        if properties.dense_only {
            let why = "it does not support sparse rows; read an svmlight file without `sparse`, or use another solver";
            return reject("solver", &self.solver_family.name, why);
        }
        Ok(())
    }

    /// Rejects landmarks and candidates that no step of the fit reads.
    fn check_landmarks(&self, properties: SolverProperties) -> Result<()> {
        let is_exact = self.map.is_exact_kernel();
        let why_no_landmarks = if self.map.is_data_independent() {
            Some(format!(
                "`map` {} has no landmarks; leave it out, or use a map with landmarks, such as nystrom",
                self.map.family().name
            ))
        } else if is_exact && !properties.uses_preconditioner {
            Some(format!("{} has no landmarks with `map` exact; leave it out", self.solver_family.name))
        } else {
            properties.landmarks_unused_why.filter(|_| is_exact).map(str::to_string)
        };
        if let Some(rank) = self.rank.filter(|_| is_exact && !properties.uses_preconditioner) {
            return Err(Error::option(
                "rank",
                rank,
                "`map` exact uses the exact kernel, which has no rank; leave it out",
            ));
        }
        let sampled_candidates = self.candidates.filter(|candidates| *candidates != Candidates::All);
        match (why_no_landmarks, &self.landmarks, self.candidates) {
            (Some(why), Some(landmarks), _) => Err(Error::option("landmarks", landmarks, why)),
            (Some(why), None, Some(candidates)) => Err(Error::option("candidates", candidates, why)),
            (None, Some(LandmarkSource::Rows(_)), Some(candidates)) => {
                let why = "landmarks from a table are not chosen among candidates; leave it out, or name a scheme as `landmarks`";
                Err(Error::option("candidates", candidates, why))
            }
            _ => match sampled_candidates.filter(|_| is_exact) {
                Some(candidates) => {
                    let why = "`map` exact stores all rows and chooses landmarks among them; leave it out";
                    Err(Error::option("candidates", candidates, why))
                }
                None => Ok(()),
            },
        }
    }

    /// Returns true if cross-validation has something to choose, or if the solver needs validation
    /// rows for another reason. `cell_count` is the number of cells of ranks and lambdas.
    fn needs_folds(&self, settings: &Settings, properties: SolverProperties, cell_count: usize) -> bool {
        self.has_choices(settings, cell_count)
            || settings.levels(&INTERVAL).is_some()
            || properties.always_needs_validation_rows
    }

    fn has_choices(&self, settings: &Settings, cell_count: usize) -> bool {
        match self.solver_family.reads(&RANKS) {
            true => cell_count > 1,
            false => self.solver_family.needs_validation_rows(settings),
        }
    }

    /// Returns true if the fit cross-validates and no folds are requested.
    pub(super) fn uses_default_folds(&self) -> Result<bool> {
        let parsed = self.parsed_options()?;
        let (ParsedOptions { settings, .. }, properties) = (parsed, parsed.properties());
        if !self.solver_family.reads(&FOLDS) || settings.folds(&FOLDS).is_some() {
            return Ok(false);
        }
        let (_, ranks) = self.ranks(settings, self.rank.or(properties.default_rank))?;
        Ok(self.needs_folds(settings, properties, ranks.len() * self.lambda_count(settings)?))
    }

    /// Returns the number of regularisation parameters that are compared.
    fn lambda_count(&self, settings: &Settings) -> Result<usize> {
        Ok(if self.learns_lambda()? { 1 } else { settings.regularisations().len() })
    }

    /// Returns the requested folds; by default five if the fit needs folds.
    fn folds(&self, settings: &Settings, properties: SolverProperties, cell_count: usize) -> Result<FoldSpec> {
        match settings.folds(&FOLDS) {
            Some(FoldSpec::None) if self.solver_family.reads(&RANKS) && self.has_choices(settings, cell_count) => {
                let why = format!(
                    "the {cell_count} cells of ranks and lambdas cannot be compared without folds; give one `lambda` and one `rank`, or folds"
                );
                Err(Error::option(FOLDS.name, "none", why))
            }
            Some(folds) => settings.folds_of_whole_groups(folds),
            None if self.needs_folds(settings, properties, cell_count) => {
                settings.folds_of_whole_groups(FoldSpec::DEFAULT)
            }
            None => Ok(FoldSpec::None),
        }
    }

    /// Returns the number of features, and the ranks at which the cross-validation surface is
    /// computed. `rank_or_default` is the requested rank or, if none was requested, the solver's
    /// default.
    fn ranks(&self, settings: &Settings, rank_or_default: Option<usize>) -> Result<(usize, Vec<usize>)> {
        let ranks = settings.ranks(&RANKS);
        if let Some(tolerance) = settings.number(&TOLERANCE) {
            if ranks.is_some() {
                let why = "the tolerance determines the rank; leave out `ranks` or the tolerance";
                return Err(Error::option(TOLERANCE.name, tolerance, why));
            }
            let max_rank = self.rank.unwrap_or(MAX_TOLERANCE_RANK);
            return Ok((max_rank, vec![max_rank]));
        }
        let Some(mut ranks) = ranks else {
            let rank = rank_or_default.unwrap_or_else(|| match &self.landmarks {
                Some(LandmarkSource::Rows(table)) => {
                    let range = table.range();
                    usize::try_from(range.end - range.start).unwrap_or(usize::MAX).max(1)
                }
                _ => DEFAULT_RANK,
            });
            return Ok((rank, vec![rank]));
        };
        let largest_rank = ranks.last().copied().unwrap_or(DEFAULT_RANK);
        match self.rank {
            Some(rank) if rank < largest_rank => {
                let why = format!(
                    "it is below the largest of `ranks`, {largest_rank}; raise it to {largest_rank}, or leave it out"
                );
                Err(Error::option("rank", rank, why))
            }
            Some(rank) if rank > largest_rank => {
                ranks.push(rank);
                Ok((rank, ranks))
            }
            _ => Ok((largest_rank, ranks)),
        }
    }

    /// Returns the options that define the result, as JSON with sorted keys for the model file. The
    /// JSON contains no paths.
    pub(super) fn canonical_options(&self, train_options: &TrainOptions) -> Result<serde_json::Value> {
        let mut solver_options = self.settings()?.to_json();
        solver_options["folds"] = train_options.folds.to_string().into();
        if train_options.folds == FoldSpec::None
            && let Some(options) = solver_options.as_object_mut()
        {
            options.remove("folds");
        }
        let mut canonical = serde_json::json!({
            "candidates": train_options.candidates.map_or("all".to_string(), |n| n.to_string()),
            "kernel": self.kernel.to_string(),
            "landmarks": train_options.landmarks.to_string(),
            "map": self.map.to_string(),
            "precision": self.precision.to_string(),
            "rank": train_options.rank,
            "scale": train_options.scaling.to_string(),
            "seed": self.seed,
            "solver": self.solver_family.name,
            "solver_options": solver_options,
            "task": train_options.task,
        });
        if self.clip {
            canonical["clip"] = true.into();
        }
        if !self.members.is_empty() {
            canonical["members"] = self.members.iter().map(ToString::to_string).collect::<Vec<_>>().into();
        }
        if train_options.metric != MetricSource::None {
            canonical["metric"] = train_options.metric.to_string().into();
        }
        if let Some(rows) = &self.selection {
            canonical["missing"] = rows.missing.name().into();
            canonical["rows"] = rows.rows.as_ref().map_or("0..".to_string(), format_rows).into();
            canonical["where"] = rows.filter.as_ref().map(ToString::to_string).into();
            if let Some(lags) = &rows.lags {
                canonical["lags"] = serde_json::to_value(lags).unwrap_or_default();
            }
            if let Some(part) = &rows.part {
                canonical["test"] = serde_json::to_value(&**part.test_rows()).unwrap_or_default();
            }
        }
        for (name, value) in &self.extra_options {
            if canonical.get(name).is_none() {
                canonical[name] = value.clone();
            }
        }
        Ok(canonical)
    }
}
