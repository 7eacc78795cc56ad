//! Criterion benches, one subject a file: `cargo bench -p kmill-benches --bench gram`.
