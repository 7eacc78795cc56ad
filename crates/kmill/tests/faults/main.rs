//! Everything that can go wrong, made to go wrong: one sentence, the exit code of the contract, and no file left.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod damage;
mod data;
mod disk;
mod make;
mod models;
mod usage;
