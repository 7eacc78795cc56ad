//! Provoked failures: each gives a one-sentence error, the documented exit code, and no file.

mod damage;
mod data;
mod disk;
mod make;
mod models;
mod sentences;
mod special;
mod usage;
