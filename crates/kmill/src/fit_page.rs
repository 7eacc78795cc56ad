//! The report of a fit as an HTML page: the surface, the certificate, the scaling and the times.

use crate::importance::counted;
use crate::page::{self, Axis, Chart, Heat, Mark, Page, Scale, Section, Series, Stage};
use crate::report::{self, FitReport};
use crate::table::{count, list, number, rounded};
use crate::{machine, table};
use ksolve::job::MetricReport;
use ksolve::metric::RoundReport;
use kstore::budget::bytes;

/// Most features that are shown with their scaling.
const FEATURES: usize = 100;

/// Makes the page of a report.
pub(crate) fn page(report: &FitReport) -> Page {
    let (rows, features) = (count(report.fit.rows), count(report.fit.features as u64));
    let target = match &report.fit.target_names[..] {
        [] => String::new(),
        names => format!(", target {}", names.join(", ")),
    };
    let mut sections = vec![Section::new("Result", result(report))];
    if let Some(surface) = surface(report) {
        sections.push(Section::new("Surface", surface));
    }
    if let Some(chart) = certificate(report) {
        sections.push(Section::new("Certificate", format!("<div class=\"charts\">{chart}</div>")));
    }
    if let Some(metric) = &report.fit.metric {
        sections.push(Section::new("Metric", importance(metric)));
    }
    sections.push(Section::new("Data", data(report)));
    sections.push(Section::new("Run", run(report)));
    Page {
        title: format!("{} fit", report.fit.solver),
        subtitle: format!("{rows} rows, {features} features{target}, {}", rounded(&report.fit.kernel)),
        style: String::new(),
        sections,
        data: serde_json::to_value(report).unwrap_or_default(),
    }
}

fn result(report: &FitReport) -> String {
    let mut facts = vec![("rank", count(report.fit.rank as u64))];
    if let Some(lambda) = report.fit.lambda {
        facts.push(("lambda", format!("{}; {}", number(lambda, 3), report.fit.lambda_convention)));
    }
    if let Some(cell) = report.chosen() {
        facts.extend(cell.cv_mse.map(|mse| ("cross-validated mse", number(mse, 4))));
        facts.extend(cell.cv_error.map(|error| ("cross-validated error", table::percent(error))));
    }
    if let Some(train) = &report.fit.train {
        let r2 = train.r2.map_or(String::new(), |r2| format!(" (r2 {})", number(r2, 4)));
        facts.push(("training mse", format!("{}{r2}", number(train.mse, 4))));
    }
    for figure in &report.fit.figures {
        facts.push((figure.name, list(&figure.values)));
    }
    if let Some(landmarks) = &report.fit.landmarks {
        let (m, among) = (count(landmarks.count as u64), count(landmarks.candidates));
        facts.push(("landmarks", format!("{m} by {} among {among} rows", landmarks.scheme)));
    }
    if let Some(certificate) = &report.fit.certificate {
        facts.push(("certificate", report::certified(certificate)));
    }
    facts.extend(report.model.iter().map(|model| ("model", model.to_string())));
    page::facts(facts)
}

/// The cross-validated errors as a heat map; `None` without folds.
fn surface(report: &FitReport) -> Option<String> {
    let grid = report.surface_grid()?;
    let scores: Vec<Vec<Option<f64>>> = report.surface_scores();
    let score = if report.is_chosen_by_error() { "error" } else { "mse" };
    let note = format!(
        "<p class=\"note\">Cross-validated {score}, folds {}; the fainter the better, the chosen cell is outlined.</p>",
        page::text(&report.fit.folds)
    );
    let folds = report.folds_grid().map_or(String::new(), |(grid, scores)| {
        let heat = Heat { title: "Fold by fold", grid, shading: Scale::Log, scores };
        format!(
            "<h3>Fold by fold</h3>\n{heat}<p class=\"note\">Mean squared error on the rows of each fold, at the best lambda of \
             each rank; the worst fold of the chosen cell is outlined.</p>"
        )
    });
    let heat = Heat { title: "Surface", grid, shading: Scale::Log, scores };
    Some(format!("{heat}{note}{folds}"))
}

/// A chart of the relative trace error at every rank of the surface; `None` without certificates.
fn certificate(report: &FitReport) -> Option<Chart> {
    if report.fit.certificates.len() < 2 {
        return None;
    }
    let points = || report.fit.certificates.iter().map(|(rank, error)| (*rank as f64, *error));
    let mark =
        |(rank, error): (f64, f64)| Mark { x: rank, y: error, band: (error, error), note: format!("rank {rank}") };
    Some(Chart {
        id: "certificate".to_string(),
        title: "Relative trace error".to_string(),
        x: Axis::new("rank", Scale::Log, points().map(|(rank, _)| rank))?,
        y: Axis::new("exact, all rows", Scale::Log, points().map(|(_, error)| error))?,
        series: vec![Series { name: report.fit.map.clone(), place: 0, marks: points().map(mark).collect() }],
        cloud: Vec::new(),
        bars: Vec::new(),
        floor: None,
    })
}

/// What every feature counts in the metric, and the rounds in which it was learned.
fn importance(metric: &MetricReport) -> String {
    let shown = |(name, share, spread): (&str, f64, Option<f64>)| (name.to_string(), share, counted(share, spread));
    let most: Vec<_> = metric.shares().take(FEATURES).map(shown).collect();
    let row = |round: &RoundReport| {
        let r2 = round.cv_r2.map_or("–".to_string(), |r2| number(r2, 4));
        vec![round.form.clone(), round.kernel.clone(), count(round.rows), number(round.cv_mse, 4), r2]
    };
    let rounds: Vec<Vec<String>> = metric.rounds.iter().map(row).collect();
    let features = page::bars(["feature", "importance"], &most);
    if rounds.is_empty() {
        return features;
    }
    let rounds = page::table(&["metric", "kernel", "rows", "held-out mse", "held-out r2"], &rounds);
    format!("<div class=\"pair\"><div>{features}</div><div>{rounds}</div></div>")
}

fn data(report: &FitReport) -> String {
    let mut facts = vec![("rows", count(report.fit.rows)), ("features", count(report.fit.features as u64))];
    if !report.fit.target_names.is_empty() {
        facts.push(("target", report.fit.target_names.join(", ")));
    }
    if let Some(classes) = &report.fit.classes {
        let labels: Vec<String> = classes.iter().map(ToString::to_string).collect();
        facts.push(("classes", labels.join(", ")));
    }
    let row = |(name, centre, scale): &(String, f64, f64)| vec![name.clone(), number(*centre, 4), number(*scale, 4)];
    let rows: Vec<Vec<String>> = report.fit.scaling.iter().take(FEATURES).map(row).collect();
    let more = match report.fit.scaling.len().saturating_sub(FEATURES) {
        0 => String::new(),
        more => format!("<p class=\"note\">and {} more</p>", count(more as u64)),
    };
    let table = page::table(&["feature", "taken off", "divided by"], &rows);
    let scaler = format!("<details><summary>scaling of the features</summary>{table}{more}</details>");
    format!("<div class=\"pair\"><div>{}</div>{scaler}</div>", page::facts(facts))
}

fn run(report: &FitReport) -> String {
    let peak = report.peak_rss_bytes.map_or("unknown".to_string(), bytes);
    let memory = format!(
        "peak {peak}, planned {}, budget {}",
        bytes(report.fit.planned_bytes),
        bytes(report.memory_budget_bytes)
    );
    let read = bytes(usize::try_from(report.bytes_read).unwrap_or(usize::MAX));
    let mut facts = vec![
        ("kmill", format!("{}, {}, {}", env!("CARGO_PKG_VERSION"), report.fit.precision, report.fit.instruction_set)),
        ("machine", machine::machine()),
        ("threads", report.threads.to_string()),
        ("memory", memory),
        ("read", format!("{read} in {} passes", report.fit.passes)),
    ];
    facts.extend(report.warnings.iter().map(|warning| ("warning", warning.clone())));
    let stage = |(name, seconds): &(String, f64)| Stage { name: name.clone(), seconds: *seconds };
    let stages: Vec<Stage> = report.seconds.iter().map(stage).collect();
    // a fit without a file is one of another program, which no command line repeats
    let command = report.model.as_ref().map_or(String::new(), |_| page::command(&machine::command()));
    format!(
        "{command}\n<div class=\"pair\"><div>{}</div><div>{}</div></div>",
        page::facts(facts),
        page::stages(&stages)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn the_page_of_a_fit_has_its_surface_and_its_scaling() {
        let mut report = report();
        report.fit.certificates = vec![(250, 0.05), (1000, 0.012_34)];
        report.fit.scaling = vec![("<x0>".to_string(), 1.5, 2.0)];
        let html = page(&report).to_string();
        assert!(html.contains("id=\"certificate\"") && html.contains("&lt;x0&gt;") && html.contains("0.2800"));
        assert_eq!(html.matches("class=\"heat\"").count(), 6, "every cell of the surface");
        assert_eq!(html.matches(" data-chosen").count(), 1, "the cell of the model");
        assert!(!html.contains("Fold by fold"), "there are none");
        report.fit.surface.iter_mut().for_each(|cell| cell.fold_mse = vec![Some(0.1), Some(0.4)]);
        let html = page(&report).to_string();
        assert_eq!(html.matches("class=\"heat\"").count(), 6 + 2 * 2, "two folds at either rank");
    }
}
