//! The report page: a single HTML file that loads nothing from the network.
//!
//! The page is complete without a script: charts are SVG generated here, tabs and toggles are style
//! rules. The script only adds tooltips and the saving of charts. `escape_html` escapes all text
//! that the user supplied.

mod axis;
mod chart;
mod parts;
mod plane;

pub(crate) use axis::{Axis, Scale, extent, tick_label};
pub(crate) use chart::{Chart, DataPoint, Series, Spread, draw_key, swatch};
pub use parts::fact_list;
pub(crate) use parts::{
    MAX_FEATURES, bar_table, charts, data_html, details, grid_table, heat_map, html_table, note, run_section,
    side_by_side, table_of_cells,
};

pub(crate) use plane::{Edges, Plane};

use crate::drawing::{COLOUR_VARIABLES, DRAWING_STYLE, escape_html};
use crate::output;
use kstore::Result;
use std::fmt::{self, Write};
use std::path::Path;

const PAGE_STYLE: &str = include_str!("style.css");

/// Script that shows tooltips and saves charts.
const SCRIPT: &str = include_str!("script.js");

/// Number of colours in the palette; further classes and series repeat them.
pub(crate) const PALETTE_SIZE: usize = 24;

/// A page with its sections.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Title of the window, and heading of the page.
    pub title: String,
    /// One line under the title.
    pub subtitle: String,
    /// Warnings of the run, one sentence each; shown at the top.
    pub warnings: Vec<String>,
    /// Style rules specific to this page.
    pub style: String,
    /// Sections of the page, from top to bottom.
    pub sections: Vec<Section>,
    /// All numbers of the page, as one JSON value.
    pub data: serde_json::Value,
}

/// A part of the page with a heading.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Heading of the section.
    pub title: String,
    /// Content of the section, as HTML.
    pub body: String,
    /// Style class of the section; empty for none.
    pub class: &'static str,
}

impl Section {
    pub(crate) fn new(title: impl Into<String>, body: impl Into<String>) -> Self {
        Self { title: title.into(), body: body.into(), class: "" }
    }

    pub(crate) fn with_class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }
}

impl Page {
    /// Writes the page to a file atomically.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn write(&self, path: &Path) -> Result<()> {
        output::write_file(path, self.to_string().as_bytes())
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, subtitle) = (escape_html(&self.title), escape_html(&self.subtitle));
        let mut sections = String::new();
        if !self.warnings.is_empty() {
            let items: String =
                self.warnings.iter().map(|warning| format!("<li>{}</li>\n", escape_html(warning))).collect();
            writeln!(sections, "<section class=\"warnings\">\n<h2>Warnings</h2>\n<ul>\n{items}</ul>\n</section>")?;
        }
        for section in &self.sections {
            let class = if section.class.is_empty() { String::new() } else { format!(" class=\"{}\"", section.class) };
            let (title, body) = (escape_html(&section.title), &section.body);
            writeln!(sections, "<section{class}>\n<h2>{title}</h2>\n{body}\n</section>")?;
        }
        write!(
            f,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <link rel=\"icon\" href=\"data:,\">\n<style>\n{COLOUR_VARIABLES}{PAGE_STYLE}{DRAWING_STYLE}{style}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<h1>{title}</h1>\n<p>{subtitle}</p>\n</header>\n{sections}</main>\n\
             <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
            style = self.style,
            // escaped JSON cannot end the script element
            data = self.data.to_string().replace('<', "\\u003c"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_a_user_becomes_markup() {
        let evil = "</script><script>alert('x')</script>\"&";
        let page = Page {
            title: evil.to_string(),
            subtitle: evil.to_string(),
            warnings: vec![evil.to_string()],
            sections: vec![Section::new(evil, html_table(&[evil], &[vec![evil.to_string()]]))],
            data: serde_json::json!({ "name": evil }),
            ..Page::default()
        };
        let html = page.to_string();
        assert_eq!(html.matches("<script").count(), 2, "the page's own");
        assert_eq!(html.matches("</script").count(), 2, "the page's own");
        assert!(html.contains("&lt;/script&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"));
        let start = html.find("id=\"data\">").unwrap() + "id=\"data\">".len();
        let data = &html[start..start + html[start..].find("</script>").unwrap()];
        assert_eq!(serde_json::from_str::<serde_json::Value>(data).unwrap()["name"], evil);
    }

    #[test]
    fn the_page_asks_nothing_of_the_network() {
        let html = Page::default().to_string();
        for address in ["src=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!html.contains(address), "{address}");
        }
        let without_namespaces =
            html.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xhtml", "");
        assert!(!without_namespaces.contains("http"), "no address but the names of XML's spaces");
    }
}
