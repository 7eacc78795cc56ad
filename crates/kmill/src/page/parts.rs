//! Parts of a page: tables, lists of facts, the command, grids and the bar of stages.

use super::{COLOURS, Scale, text};
use crate::table::{Grid, duration};
use std::fmt::{self, Write};
use std::time::Duration;

/// A list of names and values, as HTML.
pub fn facts<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let row = |(name, value): (&str, String)| format!("<dt>{}</dt><dd>{}</dd>\n", text(name), text(&value));
    format!("<dl>\n{}</dl>", pairs.into_iter().map(row).collect::<String>())
}

/// A table as HTML: the first column names the row, the others are numbers.
pub fn table<S: AsRef<str>>(head: &[S], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        cells.enumerate().fold(String::new(), |mut out, (i, cell)| {
            let (tag, scope) = if i == 0 { ("th", " scope=\"row\"") } else { (tag, "") };
            // writing to a string cannot fail
            let _ = write!(out, "<{tag}{scope}>{}</{tag}>", text(cell));
            out
        })
    };
    let heads = cells("th", &mut head.iter().map(AsRef::as_ref)).replace(" scope=\"row\"", "");
    let body: String =
        rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", &mut row.iter().map(String::as_str)))).collect();
    format!("<div class=\"scroll\"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>")
}

/// Names with their shares of 1, each with a bar as long as its share of the largest, as HTML.
pub fn bars(head: [&str; 2], shares: &[(String, f64, String)]) -> String {
    let largest = shares.iter().map(|(_, share, _)| *share).fold(0.0, f64::max);
    let row = |(name, share, shown): &(String, f64, String)| {
        let width = if largest > 0.0 { 100.0 * share.max(0.0) / largest } else { 0.0 };
        format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"share\"><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 100 10\" \
             preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"c0\" width=\"{width:.1}\" height=\"10\"/></svg></td></tr>\n",
            text(name),
            text(shown)
        )
    };
    let rows: String = shares.iter().map(row).collect();
    let [name, value] = head.map(text);
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr><th>{name}</th><th>{value}</th><th></th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>"
    )
}

/// A command line for copying, as HTML.
pub fn command(line: &str) -> String {
    format!("<pre class=\"command\">{}</pre>", text(line))
}

/// A grid whose cells are shaded by a number: the smaller, the fainter.
#[derive(Clone, Debug)]
pub struct Heat {
    /// Title of the grid, in a few words.
    pub title: &'static str,
    /// The texts of the cells; the marked cell is outlined.
    pub grid: Grid,
    /// How numbers become shades. Linear, for shares: from 0 to the largest. Logarithmic, for errors: from the smallest to the
    /// largest, or linear between them where one is not positive.
    pub shading: Scale,
    /// The numbers that the cells are shaded by, row by row; a cell with `None` stays blank.
    pub scores: Vec<Vec<Option<f64>>>,
}

impl fmt::Display for Heat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || self.scores.iter().flatten().flatten().copied().filter(|score| score.is_finite());
        let logs = self.shading == Scale::Log && all().all(|score| score > 0.0);
        let height = |score: f64| if logs { score.ln() } else { score };
        let (low, high) =
            all().map(height).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let low = if self.shading == Scale::Linear { low.min(0.0) } else { low };
        let shade = |score: Option<f64>| {
            let share = (height(score?) - low) / (high - low);
            share.is_finite().then_some(share)
        };
        let heads: String = self.grid.columns.iter().map(|head| format!("<th>{}</th>", text(head))).collect();
        let corner = text(&self.grid.corner);
        writeln!(f, "<figure class=\"sheet\" aria-label=\"{}\"><div class=\"scroll\"><table>", self.title)?;
        write!(f, "<thead><tr><th>{corner}</th>{heads}</tr></thead>\n<tbody>\n")?;
        for (i, (name, cells)) in self.grid.rows.iter().enumerate() {
            write!(f, "<tr><th scope=\"row\">{}</th>", text(name))?;
            for (j, cell) in cells.iter().enumerate() {
                let score = self.scores.get(i).and_then(|row| row.get(j)).copied().flatten();
                let share = shade(score).unwrap_or(0.0);
                let chosen = if self.grid.marked == Some((i, j)) { " data-chosen" } else { "" };
                write!(f, "<td class=\"heat\"{chosen} style=\"--heat: {:.0}%\">{}</td>", 70.0 * share, text(cell))?;
            }
            f.write_str("</tr>\n")?;
        }
        f.write_str("</tbody>\n</table></div></figure>")
    }
}

/// A stage of a run with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Name of the stage.
    pub name: String,
    /// Time of the stage, in seconds.
    pub seconds: f64,
}

/// Width of the whole bar, in units of the drawing.
const BAR: f64 = 1000.0;

/// A bar of the times of the stages, with a table of them, as HTML.
pub fn stages(stages: &[Stage]) -> String {
    let total: f64 = stages.iter().map(|stage| stage.seconds.max(0.0)).sum();
    if total <= 0.0 {
        return String::new();
    }
    let (mut bar, mut at, mut rows) = (String::new(), 0.0, Vec::new());
    for (i, Stage { name, seconds }) in stages.iter().enumerate() {
        let (width, time) = (seconds.max(0.0) / total * BAR, duration(Duration::from_secs_f64(seconds.max(0.0))));
        // writing to a string cannot fail
        let _ = write!(
            bar,
            "<rect class=\"c{}\" x=\"{at:.1}\" y=\"0\" width=\"{width:.1}\" height=\"26\"><title>{}: {time}</title></rect>",
            i % COLOURS,
            text(name)
        );
        at += width;
        rows.push(vec![name.clone(), time, format!("{:.1} %", 100.0 * seconds.max(0.0) / total)]);
    }
    let label = "Stages of the run";
    format!(
        "<figure class=\"sheet\" aria-label=\"{label}\">\
         <svg xmlns=\"http://www.w3.org/2000/svg\" class=\"bar\" viewBox=\"0 0 {BAR} 26\" preserveAspectRatio=\"none\" \
         role=\"img\" aria-label=\"{label}\">{bar}</svg>\n{}</figure>",
        table(&["stage", "time", "share"], &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_its_rows() {
        let html = table(&["method", "50"], &[vec!["a<b".to_string(), "0.1".to_string()]]);
        assert!(html.contains("<tr><th>method</th><th>50</th></tr>"), "{html}");
        assert!(html.contains("<tr><th scope=\"row\">a&lt;b</th><td>0.1</td></tr>"), "{html}");
    }

    #[test]
    fn bars_are_as_long_as_their_shares() {
        let html = bars(
            ["feature", "importance"],
            &[("<x>".to_string(), 0.6, "most".to_string()), ("y".to_string(), 0.15, "few".to_string())],
        );
        assert!(html.contains("&lt;x&gt;</th><td>most</td>") && html.contains("width=\"25.0\""), "{html}");
        assert!(!bars(["a", "b"], &[("x".to_string(), 0.0, String::new())]).contains("NaN"));
    }

    #[test]
    fn shares_are_shaded_from_zero_whether_or_not_one_is_zero() {
        let grid = Grid {
            corner: String::new(),
            columns: vec!["a".to_string(), "b".to_string()],
            rows: vec![("a".to_string(), vec!["73".to_string(), "27".to_string()])],
            marked: None,
        };
        let heat = |shading, shares: [f64; 2]| {
            Heat { title: "t", grid: grid.clone(), shading, scores: vec![shares.map(Some).to_vec()] }.to_string()
        };
        // 70 % is the strongest shade: 27 of 73 have 26 %
        let shares = heat(Scale::Linear, [0.73, 0.27]);
        assert!(shares.contains("--heat: 70%") && shares.contains("--heat: 26%"), "{shares}");
        assert!(heat(Scale::Linear, [1.0, 0.0]).contains("--heat: 0%"));
        let errors = heat(Scale::Log, [1.0, 0.5]);
        assert!(errors.contains("--heat: 70%") && errors.contains("--heat: 0%"), "{errors}");
    }

    #[test]
    fn stages_share_the_bar() {
        let stage = |name: &str, seconds| Stage { name: name.to_string(), seconds };
        let html = stages(&[stage("a", 1.0), stage("b", 3.0)]);
        assert!(html.contains("x=\"250.0\" y=\"0\" width=\"750.0\"") && html.contains("75.0 %"), "{html}");
        assert_eq!(stages(&[]), "");
    }
}
