//! Everything that is read, folded and written, on generated tables and, where it is there, on real data.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod csv_files;
mod files;
mod make;
mod mutation;
mod passes;
mod real_data;
mod selecting;
mod sinks;
mod svmlight_files;
