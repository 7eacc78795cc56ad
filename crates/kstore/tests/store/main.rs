//! Everything that is read, folded and written, on generated tables and, where it is there, on real data.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod checkpoints;
mod files;
mod make;
mod passes;
mod real_data;
mod scratch;
mod selecting;
mod sinks;
