//! Parts of a page: tables, lists of facts, the command, grids and the bar of stages.

use super::{Chart, PALETTE_SIZE, Scale, Section, axis::extent};
use crate::drawing::{Canvas, Svg, escape_html};
use crate::machine;
use crate::table::{self, Grid, format_count};

/// Formats names and values as an HTML list.
pub fn fact_list<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let row =
        |(name, value): (&str, String)| format!("<dt>{}</dt><dd>{}</dd>\n", escape_html(name), escape_html(&value));
    format!("<dl>\n{}</dl>", pairs.into_iter().map(row).collect::<String>())
}

/// Formats an HTML table: the first column names the row. Other columns are aligned to the right,
/// as numbers are, except columns whose cells all begin with a letter.
pub(crate) fn html_table<S: AsRef<str>>(headings: &[S], rows: &[Vec<String>]) -> String {
    let holds_text = |i: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(i)).filter(|cell| !cell.is_empty()).peekable();
        i > 0 && cells.peek().is_some() && cells.all(|cell| cell.starts_with(char::is_alphabetic))
    };
    let classes: Vec<&str> = (0..headings.len()).map(|i| if holds_text(i) { " class=\"word\"" } else { "" }).collect();
    let class = |i: usize| classes.get(i).copied().unwrap_or_default();
    let heading = |(i, head): (usize, &S)| format!("<th{}>{}</th>", class(i), escape_html(head.as_ref()));
    let heading_cells: String = headings.iter().enumerate().map(heading).collect();
    let cell = |(i, cell): (usize, &String)| match i {
        0 => row_heading(cell),
        _ => format!("<td{}>{}</td>", class(i), escape_html(cell)),
    };
    let row = |row: &Vec<String>| format!("<tr>{}</tr>\n", row.iter().enumerate().map(cell).collect::<String>());
    table_of_cells(&heading_cells, &rows.iter().map(row).collect::<String>())
}

/// Number of characters beyond which the name of a row is wrapped on a narrow screen.
const MAX_LINE_CHARS: usize = 22;

/// Formats the name of a row as HTML.
fn row_heading(name: &str) -> String {
    let class = if name.chars().count() > MAX_LINE_CHARS { " class=\"long\"" } else { "" };
    format!("<th scope=\"row\"{class}>{}</th>", escape_html(name))
}

/// Formats a table from its HTML cells.
pub(crate) fn table_of_cells(headings: &str, rows: &str) -> String {
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr>{headings}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>"
    )
}

/// Formats a grid as HTML, without shading.
pub(crate) fn grid_table(grid: &Grid) -> String {
    let head: Vec<&String> = std::iter::once(&grid.corner).chain(&grid.columns).collect();
    let row = |(name, cells): &(String, Vec<String>)| std::iter::once(name).chain(cells).cloned().collect();
    html_table(&head, &grid.rows.iter().map(row).collect::<Vec<_>>())
}

/// Formats names with fractions as HTML, each with a bar proportional to its fraction.
pub(crate) fn bar_table(head: [&str; 2], fractions: &[(String, f64, String)]) -> String {
    let max_fraction = fractions.iter().map(|(_, fraction, _)| *fraction).fold(0.0, f64::max);
    let row = |(name, fraction, text): &(String, f64, String)| {
        let width = if max_fraction > 0.0 { 100.0 * fraction.max(0.0) / max_fraction } else { 0.0 };
        format!(
            "<tr>{}<td>{}</td><td class=\"share\"><svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" \
             aria-hidden=\"true\"><rect class=\"c0\" width=\"{width:.1}\" height=\"10\"/></svg></td></tr>\n",
            row_heading(name),
            escape_html(text)
        )
    };
    let rows: String = fractions.iter().map(row).collect();
    let [name, value] = head.map(escape_html);
    table_of_cells(&format!("<th>{name}</th><th>{value}</th><th></th>"), &rows)
}

/// Formats a grid as HTML, with each cell shaded by its score (`scores` holds one list for each row
/// of the grid). Cells with smaller scores are lighter, and a cell without a score is blank. A
/// linear shading, for fractions, ranges from 0 to the largest score. A logarithmic shading, for
/// errors, ranges from the smallest to the largest score; if one of the scores is not positive,
/// this shading is linear from the smallest to the largest score.
pub(crate) fn heat_map(title: &str, grid: &Grid, shading: Scale, scores: &[Vec<Option<f64>>]) -> String {
    let finite_scores = || scores.iter().flatten().flatten().copied().filter(|score| score.is_finite());
    let is_log = shading == Scale::Log && finite_scores().all(|score| score > 0.0);
    let scale_score = |score: f64| if is_log { score.ln() } else { score };
    let (low, high) = extent(finite_scores().map(scale_score));
    let low = if shading == Scale::Linear { low.min(0.0) } else { low };
    let shade_fraction = |score: Option<f64>| {
        let fraction = (scale_score(score?) - low) / (high - low);
        fraction.is_finite().then_some(fraction)
    };
    let heading_cells: String = grid.columns.iter().map(|head| format!("<th>{}</th>", escape_html(head))).collect();
    let cell = |i: usize, j: usize, cell: &String| {
        let score = scores.get(i).and_then(|row| row.get(j)).copied().flatten();
        let fraction = shade_fraction(score).unwrap_or(0.0);
        let chosen_attribute = if grid.marked_cell == Some((i, j)) { " data-chosen" } else { "" };
        format!(
            "<td class=\"heat\"{chosen_attribute} style=\"--heat: {:.0}%\">{}</td>",
            // 70 % is the strongest shade
            70.0 * fraction,
            escape_html(cell)
        )
    };
    let row = |(i, (name, cells)): (usize, &(String, Vec<String>))| {
        let cells: String = cells.iter().enumerate().map(|(j, text)| cell(i, j, text)).collect();
        format!("<tr>{}{cells}</tr>\n", row_heading(name))
    };
    let rows: String = grid.rows.iter().enumerate().map(row).collect();
    let table = table_of_cells(&format!("<th>{}</th>{heading_cells}", escape_html(&grid.corner)), &rows);
    format!("<figure class=\"sheet\" aria-label=\"{title}\">{table}</figure>")
}

/// Width of the whole bar, in units of the drawing.
const BAR_WIDTH: f64 = 1000.0;

/// Formats the times of named stages, in seconds, as an HTML bar with a table.
fn stage_bar(stages: &[(String, f64)]) -> String {
    let total_seconds: f64 = stages.iter().map(|(_, seconds)| seconds.max(0.0)).sum();
    if total_seconds <= 0.0 {
        return String::new();
    }
    let (mut bar, mut offset, mut rows) = (Svg::default(), 0.0, Vec::new());
    for (i, (name, seconds)) in stages.iter().enumerate() {
        let (fraction, time) = (seconds.max(0.0) / total_seconds, table::format_seconds(*seconds));
        let (class, tooltip) = (format!("c{}", i % PALETTE_SIZE), format!("{name}: {time}"));
        bar.rectangle(&class, (offset, 0.0), (fraction * BAR_WIDTH, 26.0), Some(&tooltip));
        offset += fraction * BAR_WIDTH;
        let swatch = format!(
            "<svg class=\"swatch\" viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"1\" height=\"1\"/></svg>"
        );
        let percentage = format!("{:.1} %", 100.0 * fraction);
        rows.push(format!(
            "<tr><th scope=\"row\">{swatch}{}</th><td>{time}</td><td>{percentage}</td></tr>\n",
            escape_html(name)
        ));
    }
    let label = "Stages of the run";
    format!(
        "<figure class=\"sheet\" aria-label=\"{label}\">\
         <svg xmlns=\"http://www.w3.org/2000/svg\" class=\"bar\" viewBox=\"0 0 {BAR_WIDTH} 26\" preserveAspectRatio=\"none\" \
         role=\"img\" aria-label=\"{label}\">{}</svg>\n{}</figure>",
        bar.into_elements(),
        table_of_cells("<th>stage</th><th>time</th><th>fraction</th>", &rows.concat())
    )
}

/// Returns the section about the run: command line (if the command ran it), version, machine,
/// further facts, and times of the stages.
pub(crate) fn run_section(
    has_command_line: bool,
    other_facts: Vec<(&str, String)>,
    seconds: &[(String, f64)],
) -> Section {
    let command_html = || format!("<pre class=\"command\">{}</pre>", escape_html(&machine::command_line()));
    let command = if has_command_line { command_html() } else { String::new() };
    let version_facts = [("kmill", env!("CARGO_PKG_VERSION").to_string()), ("machine", machine::describe_machine())];
    let facts = fact_list(version_facts.into_iter().chain(other_facts));
    Section::new("Run", format!("{command}\n{}", side_by_side(&facts, &stage_bar(seconds))))
}

/// Places two parts side by side if they fit, as HTML.
pub(crate) fn side_by_side(left: &str, right: &str) -> String {
    format!("<div class=\"pair\"><div>{left}</div><div>{right}</div></div>")
}

/// Places charts side by side if they fit, as HTML.
pub(crate) fn charts<'c>(charts: impl IntoIterator<Item = &'c Chart>) -> String {
    let charts: Vec<String> = charts.into_iter().map(ToString::to_string).collect();
    format!("<div class=\"charts\">\n{}\n</div>", charts.join("\n"))
}

pub(crate) fn note(sentence: &str) -> String {
    format!("<p class=\"note\">{}</p>", escape_html(sentence))
}

/// Formats a part that is shown when its title is clicked, as HTML.
pub(crate) fn details(title: &str, body: &str) -> String {
    format!("<details><summary>{}</summary>{body}</details>", escape_html(title))
}

/// Places facts next to a table of the first features, as HTML.
pub(crate) fn data_html<const N: usize>(
    facts: Vec<(&str, String)>,
    title: &str,
    head: [&str; N],
    features: impl ExactSizeIterator<Item = [String; N]>,
) -> String {
    let omitted_note = match features.len().saturating_sub(MAX_FEATURES) {
        0 => String::new(),
        count => note(&format!("and {} more", format_count(count as u64))),
    };
    let rows: Vec<Vec<String>> = features.take(MAX_FEATURES).map(|row| row.to_vec()).collect();
    side_by_side(&self::fact_list(facts), &details(title, &(html_table(&head, &rows) + &omitted_note)))
}

pub(crate) const MAX_FEATURES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_its_rows() {
        let html = html_table(&["method", "50"], &[vec!["a<b".to_string(), "0.1".to_string()]]);
        assert!(html.contains("<tr><th>method</th><th>50</th></tr>"), "{html}");
        let row = |word: &str| vec!["a".to_string(), word.to_string(), "0.1".to_string()];
        let worded = html_table(&["class", "confused with", "rate"], &[row("b (10 %)"), row("")]);
        assert!(worded.contains("<th class=\"word\">confused with</th><th>rate</th>"), "{html}");
        assert!(worded.contains("<td class=\"word\">b (10 %)</td><td>0.1</td>"), "{html}");
        assert!(!html_table(&["class", "rate"], &[row("b"), row("0.2")]).contains("word"), "a number is no text");
        let long = "x".repeat(40);
        let headings =
            bar_table(["a", "b"], &[(long.clone(), 0.5, String::new()), ("short".to_string(), 0.5, String::new())]);
        assert!(headings.contains(&format!("<th scope=\"row\" class=\"long\">{long}</th>")), "{headings}");
        assert!(headings.contains("<th scope=\"row\">short</th>"), "{headings}");
        assert!(html.contains("<tr><th scope=\"row\">a&lt;b</th><td>0.1</td></tr>"), "{html}");
    }

    #[test]
    fn bars_are_as_long_as_their_shares() {
        let html = bar_table(
            ["feature", "importance"],
            &[("<x>".to_string(), 0.6, "most".to_string()), ("y".to_string(), 0.15, "few".to_string())],
        );
        assert!(html.contains("&lt;x&gt;</th><td>most</td>") && html.contains("width=\"25.0\""), "{html}");
        assert!(!bar_table(["a", "b"], &[("x".to_string(), 0.0, String::new())]).contains("NaN"));
    }

    #[test]
    fn shares_are_shaded_from_zero_whether_or_not_one_is_zero() {
        let grid = Grid {
            corner: String::new(),
            columns: vec!["a".to_string(), "b".to_string()],
            rows: vec![("a".to_string(), vec!["73".to_string(), "27".to_string()])],
            marked_cell: None,
        };
        let heat = |shading, shares: [f64; 2]| heat_map("t", &grid, shading, &[shares.map(Some).to_vec()]);
        // 70 % is the strongest shade: 27 of 73 have 26 %
        let shares = heat(Scale::Linear, [0.73, 0.27]);
        assert!(shares.contains("--heat: 70%") && shares.contains("--heat: 26%"), "{shares}");
        assert!(heat(Scale::Linear, [1.0, 0.0]).contains("--heat: 0%"));
        let errors = heat(Scale::Log, [1.0, 0.5]);
        assert!(errors.contains("--heat: 70%") && errors.contains("--heat: 0%"), "{errors}");
    }

    #[test]
    fn stages_share_the_bar() {
        let html = stage_bar(&[("a".to_string(), 1.0), ("b".to_string(), 3.0)]);
        assert!(html.contains("x=\"250.00\" y=\"0.00\" width=\"750.00\"") && html.contains("75.0 %"), "{html}");
        assert_eq!(stage_bar(&[]), "");
    }
}
