//! The sets of columns of `kmill test hsic`: the columns A and B, which are tested for dependence,
//! and the columns C of `--given`, on which a test conditions.

use super::{DEFAULT_PERMUTATIONS, TestArgs, TestSamples, check_sparse_rows, sample_selection, selection};
use crate::args::parse;
use crate::{Error, Result, open};
use clap::Args;
use kapprox::Kernel;
use ksolve::job::{self, LandmarkSource, Scaling};
use ksolve::statistic::{Conditioning, DEFAULT_COMPONENTS, TestStatistic, default_given_rank};
use kstore::encoding::{Categories, Encoding};
use kstore::schema::Kind;
use kstore::{SelectedTable, Selection, Table};
use std::sync::Arc;

/// Options of the columns on which a test conditions.
#[derive(Debug, Args)]
pub(crate) struct GivenArgs {
    /// Tests whether --features and --with are independent given these columns (hsic), as names or
    /// globs, comma-separated: of columns with a common cause, whether anything but the cause links
    /// them
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', value_parser = parse::name, help_heading = "Table")]
    pub(crate) given: Vec<String>,
    /// Kernel on the columns of --given [default: matern(nu=1.5, sigma=median)]
    #[arg(long, value_name = "EXPR", value_parser = parse::kernel, requires = "given", help_heading = "Given")]
    pub(crate) given_kernel: Option<Kernel>,
    /// Number of features of the columns of --given [default: --rank if set, otherwise a tenth of
    /// the rows, from 300 to 2000]
    #[arg(long, value_name = "M", value_parser = parse::positive_integer, requires = "given", help_heading = "Given")]
    pub(crate) given_rank: Option<usize>,
    /// Ridge penalty of the regressions on the features of --given, in units of the features'
    /// variances [default: a tenth of the minimiser of generalised cross-validation, for each of
    /// the two regressions]
    #[arg(long, value_name = "L", value_parser = positive_number, requires = "given", help_heading = "Given")]
    pub(crate) given_lambda: Option<f64>,
    /// Maximum number of principal components of the residuals of each set [default: 10]
    #[arg(long, value_name = "D", value_parser = parse::positive_integer, requires = "given", help_heading = "Given")]
    pub(crate) components: Option<usize>,
}

fn positive_number(text: &str) -> std::result::Result<f64, String> {
    let value = parse::number(text)?;
    if value > 0.0 { Ok(value) } else { Err("expected a positive number".to_string()) }
}

/// Default kernel on the columns of `--given`.
const DEFAULT_GIVEN_KERNEL: &str = "matern(nu=1.5, sigma=median)";

impl GivenArgs {
    /// Returns the first option of this group that is set.
    pub(super) fn first_set_option(&self) -> Option<&'static str> {
        (!self.given.is_empty()).then_some("--given")
    }
}

/// Returns the regressions on the columns of `--given`; `None` without the option.
pub(super) fn conditioning(args: &TestArgs, samples: &TestSamples) -> Result<Option<Conditioning>> {
    if samples.columns.len() < 3 {
        return Ok(None);
    }
    let kernel = match &args.given.given_kernel {
        Some(kernel) => kernel.clone(),
        None => Kernel::parse(DEFAULT_GIVEN_KERNEL)?,
    };
    let stored_rows = samples.samples[0].range();
    let default_rank = || default_given_rank(stored_rows.end - stored_rows.start);
    Ok(Some(Conditioning {
        kernel: samples.kernel_on_set(&kernel, 2)?,
        rank: args.given.given_rank.or(args.rank).unwrap_or_else(default_rank),
        lambda: args.given.given_lambda,
        components: args.given.components.unwrap_or(DEFAULT_COMPONENTS),
    }))
}

/// Selects two sets of columns of the same rows, and with `--given` a third.
pub(super) fn column_sets(args: &TestArgs, job: &job::Run<'_>) -> Result<TestSamples> {
    if args.by.is_some() {
        let why = format!("{} compares columns of one sample", args.statistic);
        return Err(Error::option("--by", "", why, "omit it, or use --where or mmd"));
    }
    if let Some(LandmarkSource::File(path)) = &args.landmarks {
        let why = format!("{} has several maps on different columns", args.statistic);
        return Err(Error::option("--landmarks", path.display(), why, "choose a landmark scheme"));
    }
    if args.with.is_empty() {
        let why = "it compares --features with other columns: --with y";
        return Err(Error::Missing { option: "--with", solver: args.statistic.clone(), why });
    }
    if !args.given.given.is_empty() && ![0, DEFAULT_PERMUTATIONS].contains(&args.permutations) {
        let why = "permutations of the rows would also destroy the dependence on --given";
        return Err(Error::option("--permutations", args.permutations, why, "omit it"));
    }
    let table = open_table(args)?;
    let columns_of = |patterns: &[String]| -> Result<Vec<String>> {
        Ok(table.select(&set_selection(args, &table, patterns)?)?.feature_columns())
    };
    let second_columns = columns_of(&args.with)?;
    let given_columns = if args.given.given.is_empty() { Vec::new() } else { columns_of(&args.given.given)? };
    check_disjoint(["--with", "--given"], [&second_columns, &given_columns])?;
    if let Some(name) = args.features.iter().find(|name| given_columns.contains(name)) {
        return Err(overlap_error("--given", name, "--features"));
    }
    // exclude the other sets from the first, unless their columns are named there
    let excluded = second_columns.iter().chain(&given_columns).map(|name| format!("!{name}"));
    let first_columns = columns_of(&args.features.iter().cloned().chain(excluded).collect::<Vec<_>>())?;
    if !given_columns.is_empty() {
        check_disjoint(["--features", "--with"], [&first_columns, &second_columns])?;
        check_disjoint(["--features", "--given"], [&first_columns, &given_columns])?;
    }
    let sets: Vec<Vec<String>> =
        [first_columns, second_columns, given_columns].into_iter().filter(|set| !set.is_empty()).collect();
    let sparse_set = sparse_set(&table, &sets)?;
    let selected = match sparse_set {
        Some(sparse_set) => select_next_to_sparse_rows(args, job, &table, &sets, sparse_set)?,
        None => job.resolve_categories(&table.select(&selection(args, &sets.concat()))?)?,
    };
    let columns_of_set = |(i, set): (usize, &Vec<String>)| match sparse_set {
        Some(sparse_set) if i == sparse_set => Ok(set.clone()),
        _ => selected.features_of(set),
    };
    let columns = sets.iter().enumerate().map(columns_of_set).collect::<std::result::Result<_, _>>()?;
    Ok(TestSamples { samples: vec![selected], columns, sparse_set })
}

/// Opens the table. Rows with few nonzeros stay sparse, unless the test does not support them or an
/// option names single columns of them.
fn open_table(args: &TestArgs) -> Result<Table> {
    let dense_options = args.data.text.text_options();
    let (selection, supports_sparse) = (sparse_selection(args, &[]), check_sparse_rows(args).is_ok());
    let sparse_options =
        job::text_options_for(&selection, &args.kernel, args.scale, supports_sparse, dense_options.clone());
    let (table, _) = open::table(&args.data.paths, &sparse_options, &[])?;
    let names = [&args.features[..], &args.with, &args.given.given].concat();
    match table.schema().has_sparse() && table.matching_columns(&names).is_err() {
        true => Ok(open::table(&args.data.paths, &dense_options, &[])?.0),
        false => Ok(table),
    }
}

fn sparse_selection(args: &TestArgs, features: &[String]) -> Selection {
    Selection { sparse: true, ..sample_selection(args, features) }
}

/// Returns the selection of one set of columns. Categories of other sets are omitted, because a
/// selection adds the columns that it names as categories to the features.
fn set_selection(args: &TestArgs, table: &Table, patterns: &[String]) -> Result<Selection> {
    let selection = sparse_selection(args, patterns);
    let Categories::Named(names) = &selection.categories else { return Ok(selection) };
    let (mut categories, columns) = (table.matching_columns(names)?, table.matching_columns(patterns)?);
    categories.retain(|name| columns.contains(name));
    Ok(Selection { categories: Categories::Named(categories), ..selection })
}

/// Returns the set of columns that is a column of sparse rows; `None` if all columns are dense.
fn sparse_set(table: &Table, sets: &[Vec<String>]) -> Result<Option<usize>> {
    let is_sparse = |name: &String| {
        table.schema().columns.iter().any(|column| column.name == *name && matches!(column.kind, Kind::Sparse(_)))
    };
    let sparse_sets: Vec<usize> = (0..sets.len()).filter(|i| sets[*i].iter().any(is_sparse)).collect();
    match sparse_sets[..] {
        [] => Ok(None),
        [sparse_set] => Ok(Some(sparse_set)),
        [_, second, ..] => {
            let why = "its rows are sparse, like another set of columns, and a test supports one such set";
            let remedy = "write the rows to a .svm file, whose rows are dense columns unless --sparse is set";
            Err(Error::option(["--features", "--with", "--given"][second], sets[second].join(","), why, remedy))
        }
    }
}

/// Selects a column of sparse rows and the dense columns of all other sets. The features of the
/// sparse rows come first.
fn select_next_to_sparse_rows(
    args: &TestArgs,
    job: &job::Run<'_>,
    table: &Table,
    sets: &[Vec<String>],
    sparse_set: usize,
) -> Result<SelectedTable> {
    check_sparse_rows(args)?;
    let sparse = table.select(&set_selection(args, table, &sets[sparse_set])?)?;
    job::scaling_for(args.scale, &sparse)?;
    let other_sets = sets.iter().enumerate().filter(|(i, _)| *i != sparse_set);
    let other_columns: Vec<String> = other_sets.flat_map(|(_, set)| set).cloned().collect();
    let dense = job.resolve_categories(&table.select(&selection(args, &other_columns))?)?;
    let sparse = job.resolve_categories(&sparse)?;
    let encodings = [&sparse, &dense].map(|selected| selected.same_features().encoding);
    let columns = encodings.iter().flatten().flat_map(|encoding| encoding.columns().iter().cloned()).collect();
    let encoding = Some(Arc::new(Encoding::new(columns)));
    Ok(table.select(&Selection { encoding, ..open::selection(&args.data, &[], Vec::new()) })?)
}

/// Returns the scaling of the columns next to sparse rows, whose own scaling weights their entries.
pub(super) fn scaling_next_to_sparse_rows(scale: Option<Scaling>) -> Scaling {
    match scale {
        Some(Scaling::None) => Scaling::None,
        _ => Scaling::Standard,
    }
}

impl TestSamples {
    /// Returns a kernel on one of the sets of columns.
    pub(super) fn kernel_on_set(&self, kernel: &Kernel, set: usize) -> Result<Kernel> {
        let (selected, columns) = (&self.samples[0], &self.columns[set]);
        let names = selected.feature_names();
        match selected.sparse_features().filter(|_| self.sparse_set == Some(set)) {
            Some((features, shape)) => {
                Ok(kernel.on_sparse_rows(&columns.join(","), features, names.len(), shape.column_count)?)
            }
            None => Ok(kernel.clone().on_columns(columns)?.resolve_columns(&names)?),
        }
    }
}

fn check_disjoint(options: [&'static str; 2], [first, second]: [&[String]; 2]) -> Result<()> {
    match second.iter().find(|name| first.contains(name)) {
        Some(name) => Err(overlap_error(options[1], name, options[0])),
        None => Ok(()),
    }
}

fn overlap_error(option: &'static str, name: &str, other_option: &str) -> Error {
    let why = format!("the column is also in {other_option}, and a column has one role in a test");
    Error::option(option, name, why, "name it in one of the two")
}

/// Effect (a correlation) below which a small p-value of a conditional test is not trusted.
const NEGLIGIBLE_EFFECT: f64 = 0.1;

/// Largest p-value that rejects independence.
const LEVEL: f64 = 0.05;

/// Fraction of the features of C from which the degrees of freedom of a regression count as all
/// features, so that more features would reduce its error.
const SATURATED_FRACTION: f64 = 0.9;

/// Returns a warning if a test of conditional independence rejects, but errors of the regressions
/// on the given columns suffice as an explanation: both regressions use all `given_rank` features
/// of these columns, or the effect is negligible.
pub(super) fn reliability_warning(
    statistic: &TestStatistic,
    ranks: &[usize],
    conditioning: &Conditioning,
) -> Option<String> {
    let conditional = statistic.conditional.as_ref()?;
    statistic.p_values.spectrum.filter(|p_value| *p_value <= LEVEL)?;
    // fewer features than requested represent the columns completely
    let given_rank = ranks.last().copied().filter(|rank| *rank >= conditioning.rank);
    let uses_all = |rank: usize| {
        conditional.degrees_of_freedom.iter().all(|freedom| freedom - 1.0 >= SATURATED_FRACTION * rank as f64)
    };
    if let Some(rank) = given_rank.filter(|rank| uses_all(*rank)) {
        return Some(format!(
            "the p-value is small, but both regressions use all {rank} features of the columns of --given, which may be too few; \
             raise --given-rank, and trust a dependence whose effect then stays"
        ));
    }
    conditional.correlation.filter(|correlation| correlation.abs() < NEGLIGIBLE_EFFECT).map(|_| {
        "the p-value is small, but the effect is negligible: with many rows, small errors of the regressions on the columns of \
         --given also give small p-values; do not take it as a proof of dependence, judge by the effect"
            .to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ksolve::statistic::{ConditionalFigures, PValues};

    fn warning(p_value: f64, correlation: Option<f64>, degrees_of_freedom: [f64; 2], rank: usize) -> Option<String> {
        let statistic = TestStatistic {
            p_values: PValues { spectrum: Some(p_value), ..PValues::default() },
            conditional: Some(ConditionalFigures { correlation, degrees_of_freedom, ..ConditionalFigures::default() }),
            ..TestStatistic::default()
        };
        let kernel = Kernel::parse(DEFAULT_GIVEN_KERNEL).unwrap();
        let conditioning = Conditioning { kernel, rank: 300, lambda: None, components: 10 };
        reliability_warning(&statistic, &[300, 20, rank], &conditioning)
    }

    #[test]
    fn a_small_p_value_with_a_negligible_effect_has_a_warning() {
        for (p_value, correlation, warns) in
            [(0.01, Some(0.02), true), (0.01, Some(0.3), false), (0.2, Some(0.02), false), (0.01, None, false)]
        {
            let text = warning(p_value, correlation, [200.0, 290.0], 300);
            assert_eq!(
                text.is_some_and(|text| text.contains("judge by the effect")),
                warns,
                "{p_value} {correlation:?}"
            );
        }
    }

    #[test]
    fn a_small_p_value_of_saturated_regressions_has_a_warning() {
        for (p_value, freedom, rank, warns) in [
            (0.01, [296.0, 290.0], 300, true),
            (0.2, [296.0, 290.0], 300, false),
            (0.01, [296.0, 260.0], 300, false),
            (0.01, [40.0, 40.0], 39, false),
        ] {
            let text = warning(p_value, Some(0.3), freedom, rank);
            assert_eq!(text.is_some_and(|text| text.contains("raise --given-rank")), warns, "{p_value} {freedom:?}");
        }
    }
}
