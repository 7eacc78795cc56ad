//! Tests of the command as a user calls it.
//!
//! One binary for all tests: each links the whole program, which takes longer than most tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bits;
mod budget;
mod categories;
mod cli;
mod curve;
mod distances;
mod faults;
mod features;
mod fit;
mod forecast_intervals;
#[cfg(unix)]
mod foreign;
mod golden_models;
mod guide;
mod honest;
mod inspect;
mod iterative;
mod kernel_sums;
#[cfg(unix)]
mod lags;
mod laws;
mod letters;
mod listing;
mod literature;
mod maps;
mod memory;
mod model;
mod month;
mod odd_columns;
#[cfg(target_os = "linux")]
mod odd_machines;
mod onnx;
mod page;
mod parsers;
mod people;
mod pipes;
mod plot;
mod ranking;
mod relatives;
mod restricted;
#[cfg(unix)]
mod resume;
mod row_names;
mod run;
mod scores;
mod shards;
mod solvers;
mod sparse;
mod sparse_metric;
mod sparse_ways;
mod statistics;
mod test_errors;
mod test_rows;
mod text;
mod text_budget;
mod tune;
mod words;
