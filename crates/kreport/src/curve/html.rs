//! The report of a curve as an HTML page.

use super::CurveReport;
use super::columns::{COLUMNS, cell_texts};
use super::comparison::{CostMeasure, CurvePoint, ErrorMeasure};
use crate::drawing;
use crate::page::{self, Axis, Chart, DataPoint, Page, Scale, Section, Series};
use crate::table::{format_count, format_seconds, number, rounded_kernel, shortest_number};
use kstore::budget::format_bytes;

impl CurveReport {
    /// Returns the report as an HTML page.
    pub fn page(&self) -> Page {
        let (rows, features) = (format_count(self.approximated_rows), format_count(self.table.feature_count as u64));
        Page {
            title: "Error against rank".to_string(),
            subtitle: format!("{}: {rows} rows, {features} features, {}", self.files(), rounded_kernel(&self.kernel)),
            warnings: self.resources.warnings.clone(),
            style: toggle_rules(self),
            sections: vec![
                Section::new("Curves", curves_html(self)),
                Section::new("At equal cost", equal_cost_html(self)),
                Section::new("Data", data_html(self)),
                run_section(self),
                Section::new("Cells", cells_html(self)),
            ],
            data: serde_json::to_value(self).unwrap_or_default(),
        }
    }
}

/// Returns style rules that hide the charts of a cost, or the curves of a method, if its button is
/// not checked.
fn toggle_rules(report: &CurveReport) -> String {
    let costs = CostMeasure::ALL.map(|cost| (format!("at-{}", cost.key()), format!("at-{}", cost.key())));
    let methods = (0..report.methods.len()).map(|i| (format!("show-{i}"), format!("s{i}")));
    let rule = |(button, class): (String, String)| {
        format!("body:has(#{button}:not(:checked)) .{class} {{ display: none; }}\n")
    };
    costs.into_iter().chain(methods).map(rule).collect()
}

fn curves_html(report: &CurveReport) -> String {
    let cost_button = |cost: &CostMeasure| {
        let (key, label) = (cost.key(), cost.label());
        let checked = if *cost == CostMeasure::Rank { " checked" } else { "" };
        format!("<label><input type=\"radio\" name=\"at\" id=\"at-{key}\"{checked}>{label}</label>")
    };
    let method_checkbox = |(i, method): (usize, &String)| {
        let (name, swatch) = (drawing::escape_html(method), page::swatch(i));
        format!("<label><input type=\"checkbox\" id=\"show-{i}\" checked>{swatch}{name}</label>")
    };
    let costs: String = CostMeasure::ALL.iter().map(cost_button).collect();
    let methods: String = report.methods.iter().enumerate().map(method_checkbox).collect();
    let cost_charts = |cost: &CostMeasure| {
        let charts: Vec<Chart> =
            ErrorMeasure::ALL.iter().filter_map(|measure| error_chart(report, *measure, *cost)).collect();
        page::charts(&charts).replacen("charts", &format!("charts at-{}", cost.key()), 1)
    };
    let charts: String = CostMeasure::ALL.iter().map(cost_charts).collect();
    let run_once_note = match &report.deterministic_methods()[..] {
        [] => String::new(),
        methods => format!("; {} makes no random choice and ran once", methods.join(", ")),
    };
    let band_note = match report.repeats {
        1 => String::new(),
        repeats => {
            format!(
                "Lines are medians of {repeats} repeats, bands reach from the lower to the upper quartile{run_once_note}. "
            )
        }
    };
    let floor_note = report.describe_spectrum_rows().map_or(String::new(), |rows| {
        format!("The dotted line is a floor: no matrix of this rank has a smaller error. It comes from the spectrum of {rows}. ")
    });
    let note = page::note(&format!(
        "{band_note}{floor_note}Seconds and kernel evaluations are the costs of choosing landmarks, building the map and computing the \
        features of every row once; random features evaluate no kernel and are absent from that chart."
    ));
    format!(
        "<div class=\"controls\">\n<fieldset><legend>against</legend>{costs}</fieldset>\n\
         <fieldset><legend>methods</legend>{methods}</fieldset>\n</div>\n{charts}{note}"
    )
}

/// Returns the chart of an error against a cost; `None` if no method has this error.
pub(super) fn error_chart(report: &CurveReport, measure: ErrorMeasure, cost: CostMeasure) -> Option<Chart> {
    let curve = |method: &String| {
        let points = report.points(method, measure, cost).into_iter();
        points.filter(|point| point.cost > 0.0).collect::<Vec<_>>()
    };
    let curves: Vec<Vec<CurvePoint>> = report.methods.iter().map(curve).collect();
    let all_points = || curves.iter().flatten();
    let floor: Option<Vec<(f64, f64)>> = measure
        .minimum_errors(report)
        .filter(|_| cost == CostMeasure::Rank)
        .map(|floor| report.ranks.iter().zip(floor).map(|(rank, error)| (*rank as f64, *error)).collect());
    let medians = || all_points().map(|point| point.error.median);
    let (low, high) = (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max));
    // small variation is easier to read on a linear axis
    let scale = if measure == ErrorMeasure::Test && high < 4.0 * low { Scale::Linear } else { Scale::Log };
    let floor_errors = floor.iter().flatten().map(|(_, y)| *y);
    // minimum errors far below every curve would compress the curves
    let heights = all_points()
        .flat_map(|point| [point.error.low, point.error.high])
        .chain(floor_errors.filter(|y| *y > low / 30.0));
    let x = Axis::new(cost.label(), Scale::Log, all_points().map(|point| point.cost))?;
    let ranks: Vec<f64> = report.ranks.iter().map(|rank| *rank as f64).collect();
    let x = if cost == CostMeasure::Rank { x.with_ticks(&ranks) } else { x };
    let y = Axis::new(measure.title(report), scale, heights)?;
    let series = report.methods.iter().zip(&curves).enumerate().map(|(index, (method, curve))| Series {
        name: method.clone(),
        palette_index: index,
        marks: curve.iter().map(|point| curve_mark(point, cost)).collect(),
        ..Series::default()
    });
    Some(Chart {
        subtitle: measure.evidence(report),
        series: series.filter(|series| !series.marks.is_empty()).collect(),
        reference_line: floor.map(|points| ("floor".to_string(), points)),
        ..Chart::new(format!("{}-{}", measure.key(), cost.key()), measure.title(report), x, y)
    })
}

fn curve_mark(CurvePoint { rank, cost: x, error }: &CurvePoint, cost: CostMeasure) -> DataPoint {
    let note = match cost {
        CostMeasure::Rank => format!("rank {rank}"),
        CostMeasure::Evaluations => format!("rank {rank}, {} evaluations", number(*x, 4)),
        CostMeasure::Seconds => format!("rank {rank}, {}", format_seconds(*x)),
    };
    DataPoint { band: (error.low, error.high), ..DataPoint::new((*x, error.median), note) }
}

fn equal_cost_html(report: &CurveReport) -> String {
    let mut html = String::new();
    for measure in ErrorMeasure::ALL {
        let table = |cost: CostMeasure| {
            let grid =
                if cost == CostMeasure::Rank { report.error_grid(measure) } else { report.budget_grid(measure, cost) }?;
            Some(format!("<div><h3>at equal {}</h3>\n{}</div>", cost.label(), page::grid_table(&grid)))
        };
        let tables: String = CostMeasure::ALL.into_iter().filter_map(table).collect();
        if !tables.is_empty() {
            let details = page::details(measure.title(report), &format!("<div class=\"pair\">{tables}</div>"));
            let open = if measure == report.comparison_measure() { "<details open" } else { "<details" };
            html += &details.replacen("<details", open, 1);
        }
    }
    let note = "At equal cost: the lowest median error among the ranks whose median cost is within the budget.";
    html + &page::note(note)
}

fn data_html(report: &CurveReport) -> String {
    let table = &report.table;
    let condition = table.selected_where.as_ref().map_or(String::new(), |text| format!(" ({text})"));
    let mut facts = vec![
        ("files", format!("{} ({}, {})", report.files(), table.format, format_bytes(table.bytes as usize))),
        ("rows stored", format_count(table.stored_rows)),
        ("rows selected", format!("{}{condition}", format_count(table.selected_rows))),
        ("rows approximated", format_count(report.approximated_rows)),
    ];
    facts.extend(table.test_where.iter().map(|test| ("test rows", test.clone())));
    facts.extend((!table.target.is_empty()).then(|| ("target", table.target.join(", "))));
    facts.push(("features", format_count(table.feature_count as u64)));
    facts.push(("scaling", table.scale.to_string()));
    facts.push(("kernel", rounded_kernel(&report.kernel)));
    let features = table.features.iter().map(|feature| {
        let [min, mean, deviation, max] =
            [feature.min, feature.mean, feature.deviation, feature.max].map(|value| number(value, 4));
        [feature.name.clone(), min, mean, deviation, max]
    });
    page::data_html(facts, "features", ["feature", "min", "mean", "sd", "max"], features)
}

fn run_section(report: &CurveReport) -> Section {
    let last_seed = report.seed.saturating_add(report.repeats.saturating_sub(1));
    let mut facts = vec![
        ("precision", format!("{}, {}", report.precision, report.instruction_set)),
        ("threads", report.threads.to_string()),
        ("seeds", format!("{} to {last_seed}", report.seed)),
    ];
    facts.extend(report.resources.facts(None, Some(report.planned_bytes())));
    if report.tested.is_some() {
        facts.push(("lambda", format!("{}; {}", shortest_number(report.lambda), report.lambda_convention)));
    }
    let mut section = page::run_section(true, facts, &report.resources.seconds);
    let stage = |stage: &super::StagePlan| {
        let terms = stage.terms.iter().map(|(name, size)| vec![format!("\u{2003}{name}"), format_bytes(*size)]);
        std::iter::once(vec![stage.stage.clone(), format_bytes(stage.bytes)]).chain(terms).collect::<Vec<_>>()
    };
    let plan: Vec<Vec<String>> = report.plan.iter().flat_map(stage).collect();
    let title = report.plan.first().map_or(String::new(), |stage| format!("plan of {}", stage.method));
    section.body += &page::details(&title, &page::html_table(&["stage", "memory"], &plan));
    section
}

fn cells_html(report: &CurveReport) -> String {
    let rows: Vec<Vec<String>> = report.rows.iter().map(cell_texts).collect();
    let headings: Vec<String> = COLUMNS.iter().map(|(name, _)| name.replace('_', " ")).collect();
    page::details(&format!("all {} cells", format_count(rows.len() as u64)), &page::html_table(&headings, &rows))
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn every_method_is_in_every_chart_that_it_has_a_number_for() {
        let html = report().page().to_string();
        let chart = |id: &str| {
            let start = html.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no chart {id}"));
            &html[start..start + html[start..].find("</svg>").unwrap()]
        };
        for cost in CostMeasure::ALL {
            for metric in ["trace", "frobenius", "spectral"] {
                let svg = chart(&format!("{metric}-{}", cost.key()));
                for (i, method) in ["uniform", "rpcholesky", "fourier"].iter().enumerate() {
                    let is_drawn = svg.contains(&format!("class=\"series s{i}\" data-name=\"{method}\""));
                    let none = *method == "fourier" && (metric == "trace" || cost == CostMeasure::Evaluations);
                    assert_eq!(is_drawn, !none, "{metric} {method} {}", cost.key());
                }
            }
        }
        assert!(!html.contains("id=\"test-rank\""), "nothing was tested");
        assert!(html.contains("a&lt;b&gt;.parquet") && !html.contains("a<b>") && html.contains("x&quot;0"));
    }
}
