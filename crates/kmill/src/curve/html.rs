//! The report of a curve as an HTML page.

use super::report::CurveReport;
use super::summary::{Cost, Metric, points};
use super::terminal::seconds;
use crate::page::{self, Axis, Chart, Mark, Page, Scale, Section, Stage};
use crate::table::{Grid, count, exact, number};
use ksolve::curve::CurveCell;
use kstore::budget::bytes;
use std::fmt::Write;

/// Most features that are shown in the summary of the data.
const SHOWN: usize = 40;

/// Makes the page of a report.
pub(super) fn page(report: &CurveReport) -> Page {
    let files: Vec<String> = report.table.files.iter().map(|file| file.display().to_string()).collect();
    let (rows, features) = (count(report.approximated_rows), count(report.table.features.len() as u64));
    Page {
        title: "Error against rank".to_string(),
        subtitle: format!("{}: {rows} rows, {features} features, {}", files.join(", "), report.kernel),
        style: switches(report),
        sections: vec![
            Section::new("Curves", curves(report)),
            Section::new("At equal cost", equal_cost(report)),
            Section::new("Data", data(report)),
            Section::new("Run", run(report)),
            Section::new("Cells", cells(report)),
        ],
        data: serde_json::to_value(report).unwrap_or_default(),
    }
}

/// The style rules and buttons that show the chosen errors, costs and methods, without a script.
fn switches(report: &CurveReport) -> String {
    let mut rules = String::new();
    for cost in Cost::ALL {
        let key = cost.key();
        // writing to a string cannot fail
        let _ = writeln!(rules, "body:has(#at-{key}:not(:checked)) .at-{key} {{ display: none; }}");
    }
    for i in 0..report.methods.len() {
        let _ = writeln!(rules, "body:has(#show-{i}:not(:checked)) .s{i} {{ display: none; }}");
    }
    rules
}

fn curves(report: &CurveReport) -> String {
    let mut html = String::from("<div class=\"controls\">\n<fieldset><legend>against</legend>");
    for cost in Cost::ALL {
        let (key, label) = (cost.key(), cost.label());
        let checked = if cost == Cost::Rank { " checked" } else { "" };
        let _ = write!(html, "<label><input type=\"radio\" name=\"at\" id=\"at-{key}\"{checked}>{label}</label>");
    }
    html.push_str("</fieldset>\n<fieldset><legend>methods</legend>");
    for (i, method) in report.methods.iter().enumerate() {
        let (name, swatch) = (page::text(method), page::swatch(i));
        let _ = write!(html, "<label><input type=\"checkbox\" id=\"show-{i}\" checked>{swatch}{name}</label>");
    }
    html.push_str("</fieldset>\n</div>\n");
    for cost in Cost::ALL {
        let charts: Vec<String> = Metric::ALL
            .iter()
            .filter_map(|metric| chart(report, *metric, cost))
            .map(|chart| chart.to_string())
            .collect();
        let _ = write!(html, "<div class=\"charts at-{}\">\n{}\n</div>\n", cost.key(), charts.join("\n"));
    }
    let once = report.run_once();
    let band = match report.repeats {
        1 => String::new(),
        repeats => format!(
            "Lines are medians of {repeats} repeats, bands reach from the lower to the upper quartile{}. ",
            if once.is_empty() {
                String::new()
            } else {
                format!("; {} makes no random choice and ran once", once.join(", "))
            }
        ),
    };
    let floor = report.floor.as_ref().map_or(String::new(), |floor| {
        let rows = if floor.rows as u64 == report.approximated_rows {
            "all rows".to_string()
        } else {
            format!("a sample of {} rows, too low at ranks near this number", count(floor.rows as u64))
        };
        format!("The dotted line is a floor: no matrix of this rank has a smaller error. It comes from the spectrum of {rows}. ")
    });
    let costs = "Seconds and kernel evaluations are those of choosing landmarks, making the map and forming the \
        features of every row once; random features evaluate no kernel and are not in that chart.";
    let _ = write!(html, "<p class=\"note\">{band}{floor}{costs}</p>");
    html
}

/// The chart of an error against a cost; `None` where no method has that error.
pub(super) fn chart(report: &CurveReport, metric: Metric, cost: Cost) -> Option<Chart> {
    let curves: Vec<Vec<_>> = report.methods.iter().map(|method| points(report, method, metric, cost)).collect();
    let all = || curves.iter().flatten().filter(|point| point.cost > 0.0);
    let floor = report.floor.as_ref().filter(|_| cost == Cost::Rank).and_then(|floor| {
        let values = match metric {
            Metric::Trace => &floor.trace,
            Metric::Frobenius => &floor.frobenius,
            Metric::Spectral => &floor.spectral,
            Metric::Test => return None,
        };
        let points: Vec<(f64, f64)> = floor.ranks.iter().map(|rank| *rank as f64).zip(values.iter().copied()).collect();
        Some(("floor".to_string(), points))
    });
    let medians = || all().map(|point| point.error.median);
    let (low, high) = (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max));
    // what hardly changes is easier read on a linear axis
    let scale = if metric == Metric::Test && high < 4.0 * low { Scale::Linear } else { Scale::Log };
    let least = floor.iter().flat_map(|(_, points)| points).map(|(_, y)| *y);
    // a floor far below every curve would press them together
    let heights = all().flat_map(|point| [point.error.low, point.error.high]).chain(least.filter(|y| *y > low / 30.0));
    let series = report.methods.iter().zip(&curves).enumerate().map(|(place, (method, curve))| page::Series {
        name: method.clone(),
        place,
        marks: curve.iter().filter(|point| point.cost > 0.0).map(|point| mark(point, cost)).collect(),
    });
    let x = Axis::new(cost.label(), Scale::Log, all().map(|point| point.cost))?;
    let ranks: Vec<f64> = report.ranks.iter().map(|rank| *rank as f64).collect();
    let x = if cost == Cost::Rank { x.with_ticks(&ranks) } else { x };
    Some(Chart {
        id: format!("{}-{}", metric.key(), cost.key()),
        title: metric.title(report),
        x,
        y: Axis::new(metric.evidence(report), scale, heights)?,
        series: series.filter(|series| !series.marks.is_empty()).collect(),
        cloud: Vec::new(),
        bars: Vec::new(),
        floor,
    })
}

fn mark(point: &super::summary::Point, cost: Cost) -> Mark {
    let note = match cost {
        Cost::Rank => format!("rank {}", point.rank),
        Cost::Evaluations => format!("rank {}, {} evaluations", point.rank, number(point.cost, 3)),
        Cost::Seconds => format!("rank {}, {}", point.rank, seconds(point.cost)),
    };
    Mark { x: point.cost, y: point.error.median, band: (point.error.low, point.error.high), note }
}

fn grid(grid: &Grid) -> String {
    let head: Vec<&str> =
        std::iter::once(grid.corner.as_str()).chain(grid.columns.iter().map(String::as_str)).collect();
    let rows: Vec<Vec<String>> = grid
        .rows
        .iter()
        .map(|(name, cells)| std::iter::once(name.clone()).chain(cells.iter().cloned()).collect())
        .collect();
    page::table(&head, &rows)
}

fn equal_cost(report: &CurveReport) -> String {
    let mut html = String::new();
    for metric in Metric::ALL {
        let tables: Vec<String> = [Cost::Rank, Cost::Evaluations, Cost::Seconds]
            .iter()
            .filter_map(|cost| {
                let table = if *cost == Cost::Rank { report.errors(metric) } else { report.within(metric, *cost) }?;
                Some(format!("<div><h3>at equal {}</h3>\n{}</div>", cost.label(), grid(&table)))
            })
            .collect();
        if !tables.is_empty() {
            let open = if metric == report.compared() { " open" } else { "" };
            let title = page::text(&metric.title(report));
            let _ = write!(
                html,
                "<details{open}><summary>{title}</summary>\n<div class=\"pair\">{}</div></details>\n",
                tables.join("\n")
            );
        }
    }
    html.push_str("<p class=\"note\">At equal cost: the least median error among the ranks whose median cost is within the budget.</p>");
    html
}

fn data(report: &CurveReport) -> String {
    let table = &report.table;
    let files: Vec<String> = table.files.iter().map(|file| file.display().to_string()).collect();
    let condition = |condition: &Option<String>| condition.as_ref().map_or(String::new(), |text| format!(" ({text})"));
    let mut facts = vec![
        ("files", format!("{} ({}, {})", files.join(", "), table.format, bytes(table.bytes as usize))),
        ("rows stored", count(table.stored_rows)),
        ("rows selected", format!("{}{}", count(table.selected_rows), condition(&table.selected_where))),
        ("rows approximated", count(report.approximated_rows)),
    ];
    if let Some(test) = &table.test_where {
        facts.push(("test rows", test.clone()));
    }
    if !table.target.is_empty() {
        facts.push(("target", table.target.join(", ")));
    }
    facts.push(("features", count(table.features.len() as u64)));
    facts.push(("scaled to", table.scale.to_string()));
    facts.push(("kernel", report.kernel.clone()));
    let row = |feature: &super::report::FeatureReport| {
        let numbers = [feature.min, feature.mean, feature.deviation, feature.max].map(|value| number(value, 4));
        std::iter::once(feature.name.clone()).chain(numbers).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = table.features.iter().take(SHOWN).map(row).collect();
    let more = table.features.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("<p class=\"note\">and {} more</p>", count(more as u64)) } else { String::new() };
    let features = page::table(&["feature", "min", "mean", "sd", "max"], &rows);
    format!(
        "<div class=\"pair\"><div>{}</div><details><summary>features</summary>{features}{more}</details></div>",
        page::facts(facts)
    )
}

fn run(report: &CurveReport) -> String {
    let peak = report.peak_rss_bytes.map_or("unknown".to_string(), bytes);
    let planned = report.rows.iter().map(|row| row.planned_bytes).max().unwrap_or(0);
    let mut facts = vec![
        ("kmill", format!("{}, {}, {}", report.version, report.precision, report.instruction_set)),
        ("machine", report.machine.clone()),
        ("threads", report.threads.to_string()),
        ("seeds", format!("{} to {}", report.seed, report.seed.saturating_add(report.repeats.saturating_sub(1)))),
        ("memory", format!("peak {peak}, planned {}, budget {}", bytes(planned), bytes(report.memory_budget_bytes))),
        ("read", bytes(usize::try_from(report.bytes_read).unwrap_or(usize::MAX))),
    ];
    if report.tested.is_some() {
        facts.push(("lambda", format!("{}; {}", exact(report.lambda), report.lambda_convention)));
    }
    for warning in &report.warnings {
        facts.push(("warning", warning.clone()));
    }
    let stages: Vec<Stage> =
        report.seconds.iter().map(|(name, seconds)| Stage { name: name.clone(), seconds: *seconds }).collect();
    let mut plan = Vec::new();
    for stage in &report.plan {
        plan.push(vec![stage.stage.clone(), bytes(stage.bytes)]);
        plan.extend(stage.terms.iter().map(|(name, size)| vec![format!("\u{2003}{name}"), bytes(*size)]));
    }
    let of = report.plan.first().map_or(String::new(), |stage| format!("plan of {}", stage.method));
    format!(
        "{}\n<div class=\"pair\"><div>{}</div><div>{}<details><summary>{}</summary>{}</details></div></div>",
        page::command(&report.command),
        page::facts(facts),
        page::stages(&stages),
        page::text(&of),
        page::table(&["stage", "memory"], &plan),
    )
}

fn cells(report: &CurveReport) -> String {
    let optional = |value: Option<f64>| value.map_or("–".to_string(), |value| number(value, 4));
    let row = |cell: &CurveCell| {
        let errors = Metric::ALL.map(|metric| optional(metric.of(cell)));
        let costs = [
            cell.method.clone(),
            cell.rank.to_string(),
            cell.repeat.to_string(),
            cell.features.to_string(),
            seconds(cell.seconds),
            count(cell.kernel_evaluations),
            cell.passes.to_string(),
            bytes(cell.bytes_read as usize),
        ];
        costs.into_iter().chain(errors).collect()
    };
    let rows: Vec<Vec<String>> = report.rows.iter().map(row).collect();
    let head = [
        "method",
        "rank",
        "repeat",
        "features",
        "time",
        "evaluations",
        "passes",
        "read",
        "trace",
        "Frobenius",
        "spectral",
        "test",
    ];
    format!("<details><summary>all {} cells</summary>{}</details>", count(rows.len() as u64), page::table(&head, &rows))
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;
    use crate::page::COLOURS;

    #[test]
    fn every_method_is_in_every_chart_that_it_has_a_number_for() {
        let html = page(&report()).to_string();
        let chart = |id: &str| {
            let start = html.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no chart {id}"));
            &html[start..start + html[start..].find("</svg>").unwrap()]
        };
        for cost in Cost::ALL {
            for metric in ["trace", "frobenius", "spectral"] {
                let svg = chart(&format!("{metric}-{}", cost.key()));
                for (i, method) in ["uniform", "rpcholesky", "fourier"].iter().enumerate() {
                    let there = svg.contains(&format!("class=\"series s{i} c{}\" data-name=\"{method}\"", i % COLOURS));
                    let none = *method == "fourier" && (metric == "trace" || cost == Cost::Evaluations);
                    assert_eq!(there, !none, "{metric} {method} {}", cost.key());
                }
            }
        }
        assert!(!html.contains("id=\"test-rank\""), "nothing was tested");
        assert!(html.contains("a&lt;b&gt;.parquet") && !html.contains("a<b>") && html.contains("x&quot;0"));
    }
}
