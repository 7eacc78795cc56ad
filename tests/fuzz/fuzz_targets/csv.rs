//! CSV: row scan, type inference and parsing. The first byte selects the dialect.
#![no_main]

use kstore::TextOptions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((dialect, text)) = bytes.split_first() else { return };
    let mut options = TextOptions::default().infer_rows(u64::from(dialect >> 4));
    if dialect & 1 == 1 {
        options = options.without_header();
    }
    if dialect & 2 == 2 {
        options = options.delimiter(b';');
    }
    fuzz::read_all(&fuzz::file("csv", text), &options);
});
