//! svmlight: scan for rows and the largest index, and parsing. The first byte selects the dialect.
#![no_main]

use kstore::TextOptions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((dialect, text)) = bytes.split_first() else { return };
    let mut options = TextOptions::default();
    if dialect & 1 == 1 {
        options = options.zero_based();
    }
    if dialect & 2 == 2 {
        options = options.width(usize::from(dialect >> 2));
    }
    fuzz::read_all(&fuzz::file("svm", text), &options);
});
