//! The report of a curve, from its request and its cells.

use super::request::Request;
use crate::args::RunSettings;
use kapprox::{Real, instruction_set};
use kreport::curve::{CurveReport, FeatureReport, StagePlan, TableReport};
use kreport::machine;
use ksolve::curve::{CurveCell, Setting};
use ksolve::job::LAMBDA_CONVENTION;
use ksolve::train::target_names;

/// Builds the report. `plan` contains the stages of the run that needs most memory.
pub(super) fn report<T: Real>(
    request: &Request,
    run: &RunSettings,
    setting: &Setting<'_, T>,
    plan: Vec<StagePlan>,
    cells: &[CurveCell],
) -> CurveReport {
    let options = &request.options;
    let methods: Vec<String> = options.methods.iter().map(ToString::to_string).collect();
    let mut rows: Vec<CurveCell> = cells.iter().filter(|cell| cell.repeat < options.repeats).cloned().collect();
    let method_index = |cell: &CurveCell| methods.iter().position(|method| *method == cell.method);
    rows.sort_by_key(|cell| (method_index(cell), cell.rank, cell.repeat));
    let table = request.train.table();
    let sparse_shape = request.train.sparse_shape();
    // columns of sparse rows have no names, and their positions in a row no moments
    let names = if sparse_shape.is_some() { Vec::new() } else { request.train.feature_names() };
    let feature_count = sparse_shape.map_or(names.len(), |shape| shape.column_count);
    let moments = names.into_iter().zip(&setting.statistics().inputs);
    let feature = |(name, m): (String, &kstore::statistics::ColumnMoments)| FeatureReport {
        name,
        min: m.min,
        mean: m.mean,
        deviation: m.deviation(),
        max: m.max,
    };
    let condition = |condition: &Option<kstore::Condition>| condition.as_ref().map(ToString::to_string);
    CurveReport {
        rows,
        methods,
        ranks: options.ranks.clone(),
        repeats: options.repeats,
        seed: options.seed,
        table: TableReport {
            files: table.files().map(std::path::Path::to_path_buf).collect(),
            bytes: table.file_bytes(),
            format: table.format(),
            stored_rows: table.stored_rows(),
            selected_rows: setting.statistics().rows,
            selected_where: condition(&request.train_where),
            test_where: condition(&request.test_where),
            target: target_names(&request.train),
            feature_count,
            features: moments.map(feature).collect(),
            scale: match options.scaling {
                ksolve::job::Scaling::Standard => "mean 0, standard deviation 1",
                ksolve::job::Scaling::Minmax => "from 0 to 1",
                ksolve::job::Scaling::Robust => "distance from the median over its median",
                ksolve::job::Scaling::Asinh => "asinh of the distance from the median",
                ksolve::job::Scaling::Quantile => "place among the quantiles",
                ksolve::job::Scaling::Maxabs => "each column divided by its largest absolute value",
                ksolve::job::Scaling::Unit => "each row divided by its norm",
                ksolve::job::Scaling::TfIdf => "tf-idf weights, each row divided by its norm",
                _ => "as they are",
            },
        },
        approximated_rows: setting.row_count(),
        frobenius_columns: setting.column_count(),
        kernel: setting.kernel().to_string(),
        lambda: options.lambda,
        lambda_convention: LAMBDA_CONVENTION,
        tested: setting.test_error_kind(),
        landmarks: options.landmark_scheme.name,
        minimum_errors: setting.minimum_errors(),
        resources: run.resource_report(table.bytes_read()),
        plan,
        threads: run.threads,
        precision: T::NAME,
        version: env!("CARGO_PKG_VERSION"),
        instruction_set: instruction_set(),
        machine: machine::describe_machine(),
        command: machine::command_line(),
    }
}
