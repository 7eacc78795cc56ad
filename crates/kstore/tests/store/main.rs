//! Tests of reading, folding and writing on generated tables and, if present, on real data.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod arrow_types;
mod atomic;
mod blank;
mod budget;
mod categories;
mod chained;
mod changing;
mod checkpoints;
mod conditions;
mod csv_files;
mod digests;
mod early;
mod engines;
mod faults;
mod files;
mod ipc;
mod iso;
mod kept;
mod keys;
mod layouts;
mod lies;
mod lists;
mod make;
mod memory;
mod mutation;
mod npy_headers;
mod numerals;
mod passes;
mod patterns;
mod reading;
mod real_data;
mod scaling;
mod scratch;
mod selecting;
mod sinks;
mod sparse_files;
mod svmlight_files;
mod times;
mod told;
mod united;
mod ways_in;
mod wild;
mod words;
mod written;
