//! Everything that is read, folded and written, on generated tables and, where it is there, on real data.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod blank;
mod categories;
mod changing;
mod checkpoints;
mod csv_files;
mod digests;
mod early;
mod engines;
mod faults;
mod files;
mod ipc;
mod lies;
mod lists;
mod make;
mod memory;
mod mutation;
mod numerals;
mod passes;
mod reading;
mod real_data;
mod scratch;
mod selecting;
mod sinks;
mod sparse_files;
mod svmlight_files;
mod times;
mod united;
mod ways_in;
mod wild;
mod words;
mod written;
