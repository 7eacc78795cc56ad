//! Reports of fits, evaluations, searches and comparisons, as text, JSON, HTML pages and pictures.
//!
//! Each report is a struct. Scripts rely on its JSON, which must stay stable; the text and the page
//! show the same facts. The command and the Python package print these reports.

pub mod clusters;
pub mod curve;
mod drawing;
pub mod evaluate;
pub mod fit;
#[doc(hidden)]
pub mod growth;
pub mod importance;
pub mod inspect;
pub mod machine;
pub mod output;
pub mod page;
pub mod plot;
#[doc(hidden)]
pub mod row_names;
pub mod statistic;
pub mod table;
pub mod tune;
