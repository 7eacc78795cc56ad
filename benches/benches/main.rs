//! Benches and measuring programs, one subject per file, in a single binary that is linked once.
//!
//! `cargo bench -p kmill-benches -- gram` measures the subjects whose names contain `gram`. With
//! `-- rates 100000 npy` it runs a program with its arguments. As a test, everything runs once on
//! little data.
#![allow(missing_docs, reason = "a bench")]

mod approximations;
mod gram;
mod kernel_block;
mod kernel_ratios;
mod map;
mod pass;
mod predict;
mod rates;
mod sources;
mod thin;

use criterion::{Criterion, criterion_group};

criterion_group!(
    subjects,
    gram::gram,
    kernel_block::kernel_blocks,
    map::maps,
    map::run,
    pass::passes,
    predict::predictions,
    thin::thin_products
);

/// A program that takes its arguments.
type Program = fn(&[String]);

/// The programs by name. Each prints its own table.
const PROGRAMS: [(&str, Program); 4] = [
    ("approximations", approximations::main),
    ("kernel_ratios", kernel_ratios::main),
    ("rates", rates::main),
    ("sources", sources::main),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let named = arguments.first().and_then(|first| PROGRAMS.iter().find(|(name, _)| name == first));
    if let Some((_, program)) = named {
        return program(&arguments[1..]);
    }
    subjects();
    if !kmill_benches::measuring() {
        PROGRAMS.iter().for_each(|(_, program)| program(&[]));
    }
    Criterion::default().configure_from_args().final_summary();
}
