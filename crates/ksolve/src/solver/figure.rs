//! Numbers of a solver's report.

/// Named numbers of a solver's report.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    /// Name of the numbers in the report.
    pub name: &'static str,
    /// The numbers: one, or one for each component.
    pub values: Vec<f64>,
}
