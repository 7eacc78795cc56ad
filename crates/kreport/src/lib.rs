//! Reports of kernel machines: facts as text, JSON, HTML pages and pictures.
//!
//! Each report is a struct whose JSON is a contract with scripts; its text and its page show the
//! same facts. The command and the Python package print these reports.

pub mod curve;
mod drawing;
pub mod evaluate;
pub mod fit;
pub mod importance;
pub mod machine;
pub mod output;
pub mod page;
pub mod plot;
pub mod table;
pub mod tune;
