//! The contents of a model, as `kmill inspect` shows them.

use kreport::clusters::describe_clusters;
use kreport::fit::{DISTANCE_DESCRIPTION, describe_certificate, describe_neighbours};
use kreport::growth::growth_lines;
use kreport::importance::{bars, describe_metric, importance, weight_heading};
use kreport::table::{self, facts, format_count, rounded_kernel, short_lambda};
use ksolve::growth::GrowthReport;
use ksolve::{ModelMetadata, job::MetricReport};
use kstore::budget::format_bytes;
use kstore::display;
use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct ModelReport {
    #[serde(serialize_with = "kstore::display::lossy_path")]
    pub(crate) model: PathBuf,
    pub(crate) bytes: u64,
    #[serde(flatten)]
    pub(crate) metadata: ModelMetadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metric: Option<MetricReport>,
    /// Number of components in addition to the predictions.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) components: usize,
    /// For a graph model, the number of its nodes, and the number of nearest nodes from which the
    /// coordinates of a row are computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<(usize, usize)>,
    /// Number of leaves with an exact kernel, and total number of their rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) leaves: Option<(usize, usize)>,
    pub(crate) lambda_convention: &'static str,
    /// Rows that were added after the landmarks were chosen, compared with the rows of the fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) new_rows: Option<GrowthReport>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl fmt::Display for ModelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = &self.metadata;
        let size = format_bytes(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        writeln!(
            f,
            "{}: {} model for {}, {size}\n",
            display::escape_path(&self.model),
            metadata.solver,
            metadata.task
        )?;
        let mut lines = Vec::from_iter(self.nodes.is_none().then(|| ("kernel", rounded_kernel(&metadata.kernel))));
        lines.extend(metadata.second_view.iter().map(|view| ("with kernel", rounded_kernel(&view.kernel))));
        lines.extend(metadata.members.iter().map(|member| ("mean with", rounded_kernel(&member.kernel))));
        lines.extend(self.metric.iter().map(|metric| ("metric", describe_metric(metric))));
        match self.nodes {
            Some((nodes, k)) => {
                let by = metadata.landmarks.as_ref().map_or(String::new(), |scheme| format!(" by {scheme}"));
                lines.push(("distances", DISTANCE_DESCRIPTION.to_string()));
                lines.push(("nodes", format!("{}{by}, {}", format_count(nodes as u64), describe_neighbours(k))));
            }
            None => {
                lines.push(("map", format!("{}, {} features", metadata.map, format_count(metadata.rank as u64))));
                lines.extend(metadata.landmarks.iter().map(|scheme| ("landmarks", format!("by {scheme}"))));
            }
        }
        lines.extend(self.leaves.map(|(leaves, rows)| {
            let (leaves, rows) = (format_count(leaves as u64), format_count(rows as u64));
            ("leaves", format!("{leaves}, exact solvers on {rows} rows"))
        }));
        lines.extend(metadata.leaf_kernel.iter().map(|kernel| ("kernel of the leaves", rounded_kernel(kernel))));
        lines.extend(metadata.certificate.iter().map(|certificate| ("certificate", describe_certificate(certificate))));
        lines.extend(metadata.lambda.map(|lambda| ("lambda", short_lambda(lambda))));
        lines.push(("intercept", metadata.intercept.to_string()));
        let fitted = metadata.options["precision"].as_str().filter(|fitted| *fitted != metadata.precision);
        let fitted = fitted.map_or(String::new(), |fitted| format!(" (predictions; the fit was in {fitted})"));
        lines.push(("precision", format!("{}{fitted}", metadata.precision)));
        lines.push(("trained on", format!("{} rows, seed {}", format_count(metadata.rows), metadata.seed)));
        lines.extend(metadata.test_rows().map(|test_rows| {
            let spec = &test_rows.spec;
            ("test rows", format!("--test {spec}; evaluate --test same selects them in the table of the fit"))
        }));
        lines.extend(
            (metadata.online_rows > 0)
                .then(|| ("learned since", format!("{} rows, by update", format_count(metadata.online_rows)))),
        );
        lines.extend(self.new_rows.iter().flat_map(growth_lines));
        lines.extend((!metadata.targets.is_empty()).then(|| ("target", metadata.targets.join(", "))));
        lines.extend((!metadata.classes.is_empty()).then(|| ("classes", shorten(&metadata.classes))));
        lines.extend(
            (self.components > 0).then(|| ("components", format!("{}, by predict --components", self.components))),
        );
        lines.extend(metadata.lags().map(|lags| ("past values", lags.to_string())));
        lines.extend(metadata.encoding.iter().map(|encoding| {
            let columns = encoding.columns().iter().map(|column| format!("{} ({column})", column.name));
            ("columns", shorten(&columns.collect::<Vec<_>>()))
        }));
        let features = match metadata.sparse_shape() {
            Some(shape) => {
                format!(
                    "{}, at most {} per row",
                    format_count(shape.column_count as u64),
                    format_count(shape.max_row_entries as u64)
                )
            }
            None => format!("{}: {}", metadata.features.len(), shorten(&metadata.features)),
        };
        lines.push(("features", features));
        write!(f, "{}", facts(lines))?;
        metadata.lambda.map_or(Ok(()), |_| writeln!(f, "\n{}", self.lambda_convention))?;
        if !metadata.clusters.is_empty() {
            write!(f, "\n{}", describe_clusters(&metadata.clusters, None))?;
        }
        match &self.metric {
            Some(metric) => {
                let columns = metadata.encoding.iter().flat_map(|encoding| encoding.columns());
                let coded_columns: Vec<&str> = columns.map(|column| &column.name[..]).collect();
                write!(f, "\n{}", bars(weight_heading(metric), &importance(metric, &coded_columns)))
            }
            None => Ok(()),
        }
    }
}

/// Formats the first dozen names in one line, with the total number.
fn shorten(names: &[impl ToString]) -> String {
    const MAX_LISTED_NAMES: usize = 12;
    let listed = table::join_with_commas(names.iter().take(MAX_LISTED_NAMES).map(ToString::to_string));
    if names.len() > MAX_LISTED_NAMES { format!("{listed}, … ({})", names.len()) } else { listed }
}
