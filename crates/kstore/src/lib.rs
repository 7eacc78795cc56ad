//! Tables of rows on disk, read in blocks under a memory budget and written back whole.
//!
//! A [`Table`] is one or more files, record batches, or a custom source. A [`Selection`] names its
//! columns and rows, and [`SelectedTable::rows`] reads them as blocks of numbers. [`sink`] writes
//! tables, and [`source`] registers file formats. The crate `kpass` has the loop over the blocks,
//! [`kpass::Pass`], with its memory plans and checkpoints. Kernels and solvers are in the crates
//! that depend on this crate.
//!
//! # Features
//!
//! Each file format is a feature; `formats` enables all of them and is the default. With
//! `default-features = false`, rows come from slices, record batches, iterators and custom sources,
//! and no codec is built. [`arrow`] re-exports the types of Arrow that appear in signatures here.
//!
//! # Example
//!
//! This example computes the mean of a column. The table may have any size; only a few tiles of it
//! are in memory:
//!
//! ```
//! use kpass::{Pass, RowSource, StatisticsReduction, Workers};
//! use kstore::{ReadSettings, Selection, Table};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("rows.parquet");
//! # let column = |name| kstore::OutputColumn::new(name, kstore::OutputKind::F64);
//! # let mut out = kstore::sink::create(&path, &[column("a"), column("y")])?;
//! # let values: [&[f64]; 2] = [&[1.0, 2.0, 6.0], &[0.0, 1.0, 0.0]];
//! # out.write(&values.map(kstore::OutputValues::F64))?;
//! # out.finish()?;
//! let table = Table::open(&[path])?; // files, folders or patterns; reads footers only
//! let selection = Selection { targets: vec!["y".to_string()], ..Selection::default() };
//! let rows = table.select(&selection)?.rows::<f64>(ReadSettings::default())?;
//! let workers = Workers::sequential();
//! let pass = Pass::new(1024, 65_536, &workers);
//! let statistics = StatisticsReduction::new(RowSource::shape(&rows));
//! let (statistics, report) = pass.reduce(&rows, &statistics)?;
//! assert_eq!((statistics.inputs[0].mean, report.rows), (3.0, 3));
//! # Ok::<(), kstore::Error>(())
//! ```

#![cfg_attr(
    not(feature = "formats"),
    allow(dead_code, unused_imports, reason = "without formats, the code that they share is unused")
)]

pub mod arrow;
mod chunk;
pub mod condition;
mod convert;
mod dates;
pub mod encoding;
mod future_rows;
mod gather;
mod kept_column;
mod labels;
mod lag_pass;
mod lags;
mod missing;
#[doc(hidden)]
pub mod mmap;
mod pattern;
mod row_digests;
pub mod schema;
pub mod scratch;
#[doc(hidden)]
pub mod search;
mod select;
mod series;
pub mod sink;
pub mod source;
mod table;
mod table_cursor;
mod table_rows;
mod target_file;
mod text_limit;
mod view;
mod writer;

pub use condition::Condition;
pub use encoding::Categories;
#[doc(hidden)]
pub use encoding::Encoding;
pub use kpass::{BadLine, CancelToken, Error, Label, OutputKind, OutputValues, Result};
// the loop over rows: it is documented in `kpass`, and re-exported for the crates that depend on
// this crate
#[doc(hidden)]
pub use future_rows::{FuturePaths, FutureRows};
#[doc(hidden)]
pub use kpass::{
    AtomicFile, BufferPool, Digest, Float, Footprint, KeptColumn, KeptValues, LabelCodes, MemoryPlan, MemoryRows,
    Merge, Pass, Reduction, RowBlock, RowBuf, RowCursor, RowSource, Scaler, Statistics, StatisticsReduction, Strings,
    TableShape, Workers, atomic, budget, checkpoint, committed_outputs, display, key, names, pass, persist, quantiles,
    rayon, registry, remove_temporaries, rows, sparse, statistics, stop_outputs, summed, vectorised, watch_outputs,
};
#[doc(hidden)]
pub use lag_pass::LagPass;
#[doc(hidden)]
pub use lags::{Lags, RowsBack};
pub use missing::{Missing, MissingTarget};
#[doc(hidden)]
pub use row_digests::RowDigests;
pub use schema::{Column, Kind, Schema};
pub use select::{SelectedTable, Selection};
// test rows, for the crates that choose and report them
#[doc(hidden)]
pub use select::{Fraction, OrderedValue, Part, TestRows, TestRule, TestSpec};
pub use source::{ColumnType, TextOptions, TextReadOptions};
pub use table::Table;
pub use table_rows::{ReadSettings, TableRows};
#[doc(hidden)]
pub use text_limit::{TILE_TEXT_BYTES, TextLimit};
pub use writer::{OutputColumn, Sink};
