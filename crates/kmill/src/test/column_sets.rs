//! The sets of columns of `kmill test hsic`: the columns A and B, which are tested for dependence,
//! and the columns C of `--given`, on which a test conditions.

use super::{DEFAULT_PERMUTATIONS, TestArgs, TestSamples, selection};
use crate::args::parse;
use crate::{Error, Result, open};
use clap::Args;
use kapprox::Kernel;
use ksolve::job::{self, LandmarkSource};
use ksolve::statistic::{Conditioning, DEFAULT_COMPONENTS, TestStatistic, default_given_rank};

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
    let [_, _, given] = &samples.columns[..] else { return Ok(None) };
    let kernel = match &args.given.given_kernel {
        Some(kernel) => kernel.clone(),
        None => Kernel::parse(DEFAULT_GIVEN_KERNEL)?,
    };
    let (names, stored_rows) = (samples.samples[0].feature_names(), samples.samples[0].range());
    let default_rank = || default_given_rank(stored_rows.end - stored_rows.start);
    Ok(Some(Conditioning {
        kernel: kernel.on_columns(given)?.resolve_columns(&names)?,
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
    let (table, _) = open::table(&args.data.paths, &args.data.text.text_options(), &[])?;
    let columns_of = |patterns: &[String]| -> Result<Vec<String>> {
        Ok(table.select(&selection(args, patterns))?.feature_columns())
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
    let selected = job.resolve_categories(&table.select(&selection(args, &sets.concat()))?)?;
    let columns = sets.iter().map(|set| selected.features_of(set)).collect::<std::result::Result<_, _>>()?;
    Ok(TestSamples { samples: vec![selected], columns })
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
