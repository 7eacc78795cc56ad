//! The two samples of `kmill test mmd`: two tables, or two parts of one table.

use super::{By, TestArgs, TestSamples, check_sparse_rows, sample_selection};
use crate::{Error, Result, open};
use ksolve::job;
use kstore::condition::Condition;
use kstore::{Part, SelectedTable, Selection, TestRows, TestRule, TestSpec};
use std::{path::PathBuf, sync::Arc};

/// Selects two samples of the same columns: two tables, or the rows that satisfy a condition and
/// all other rows.
pub(super) fn two_samples(args: &TestArgs, job: &job::Run<'_>) -> Result<TestSamples> {
    if !args.with.is_empty() {
        let why = format!("{} compares two samples", args.statistic);
        return Err(Error::option("--with", args.with.join(","), why, "omit it, or use hsic"));
    }
    if let Some(option) = args.given.first_set_option() {
        let why = format!("{} compares two samples", args.statistic);
        return Err(Error::option(option, "", why, "omit it, or use hsic"));
    }
    let (text, supports_sparse) = (args.data.text.text_options(), check_sparse_rows(args).is_ok());
    let text = job::text_options_for(&sample_selection(args, &[]), &args.kernel, args.scale, supports_sparse, text);
    let paths = &args.data.paths;
    if let Some(By::Column(name)) = &args.by {
        let why = "two samples are divided by a condition";
        return Err(Error::option(
            "--by",
            name,
            why,
            "write 'column == value'; a model is compared by groups of a column",
        ));
    }
    if let Some(By::Condition(by)) = &args.by {
        let (table, _) = open::table(paths, &text, &[])?;
        let part = args.data.condition.clone().map(rows_where);
        let select_where = |condition: Condition, features: &[String]| {
            table.select(&Selection { filter: Some(condition), part: part.clone(), ..sample_selection(args, features) })
        };
        let first_sample = select_where(by.clone(), &args.features)?;
        let second_sample = select_where(by.complement(), &first_sample.feature_columns())?;
        return encode_together(args, job, &first_sample, &second_sample.with_new_byte_counter());
    }
    let [first_path, second_path] = &paths[..] else {
        let why = "two samples are two tables, or one table that --by splits";
        let remedy = "name two files, folders or globs in quotes, or add --by 'column == value'";
        return Err(Error::option("DATA", format!("({} names)", paths.len()), why, remedy));
    };
    let open = |path: &PathBuf, features: &[String]| -> Result<SelectedTable> {
        let (table, _) = open::table(std::slice::from_ref(path), &text, &[])?;
        Ok(table.select(&sample_selection(args, features))?)
    };
    let first_sample = open(first_path, &args.features)?;
    let second_sample = open(second_path, &first_sample.feature_columns())?;
    encode_together(args, job, &first_sample, &second_sample)
}

/// Returns the rows that satisfy a condition, as a part of the table, next to which the selection
/// has room for the condition that divides the samples.
fn rows_where(condition: Condition) -> Part {
    let spec = TestSpec::Where(condition.clone());
    Part::Test(Arc::new(TestRows { spec, seed: 0, rule: TestRule::Where(condition) }))
}

/// Encodes two samples alike: a category has a feature for each of its values in at least one of
/// the samples.
fn encode_together(
    args: &TestArgs,
    job: &job::Run<'_>,
    first: &SelectedTable,
    second: &SelectedTable,
) -> Result<TestSamples> {
    if first.sparse_shape().is_some() {
        check_sparse_rows(args)?;
        job::scaling_for(args.scale, first)?;
    }
    let samples = job.resolve_categories_together(&[first, second])?;
    let sparse_set = samples[0].sparse_shape().map(|_| 0);
    let columns = if sparse_set.is_some() { samples[0].feature_columns() } else { samples[0].feature_names() };
    Ok(TestSamples { columns: vec![columns], samples, sparse_set })
}
