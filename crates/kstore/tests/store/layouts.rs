//! Memory layouts of rows and text.

use kstore::mmap::MappedFile;
use kstore::sparse::{NO_INDEX, SparseRows, entries, widen_rows};
use std::io::Write;

fn map_bytes(bytes: &[u8]) -> MappedFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    MappedFile::open(file.path()).unwrap()
}

#[test]
fn out_of_bounds_and_misaligned_views_are_none() {
    let map = map_bytes(&[0; 64]);
    assert!(map.slice::<f64>(0, 8).is_some());
    assert!(map.slice::<f64>(0, 9).is_none());
    assert!(map.slice::<f64>(4, 1).is_none());
    assert!(map.slice::<f64>(8, usize::MAX / 4).is_none());
    assert!(map.slice::<u8>(65, 0).is_none());
    assert_eq!(map.bytes().len(), 64);
}

const ROWS: SparseRows<'_> =
    SparseRows { starts: &[0, 3, 3, 5], indices: &[0, 4, 9, 2, 7], values: &[1.5, 0.0, -2.0, 1e300, f64::NAN] };

#[test]
fn rows_have_room_for_the_longest_and_lose_their_zeros() {
    let mut out = [7.0; 6];
    assert!(ROWS.pack(0, &mut out));
    assert_eq!(out, [0.0, 9.0, NO_INDEX, 1.5, -2.0, 0.0]);
    assert_eq!(entries(&out), (&[0.0, 9.0][..], &[1.5, -2.0][..]));
    assert!(ROWS.pack(1, &mut out));
    assert_eq!(entries(&out), (&[][..], &[][..]));
    let roomy = widen_rows(&[3.0f32, -1.0, 5.0, 0.0], 4, 6);
    assert_eq!(roomy, [3.0, -1.0, -1.0, 5.0, 0.0, 0.0]);
}

#[test]
fn values_that_are_not_finite_and_rows_without_room_are_told() {
    assert!(!ROWS.pack(2, &mut [0.0f64; 4]));
    assert!(!ROWS.pack(0, &mut [0.0f64; 2]));
    let huge = SparseRows { starts: &[0, 1], indices: &[3], values: &[1e300] };
    assert!(huge.pack(0, &mut [0.0f64; 2]) && !huge.pack(0, &mut [0.0f32; 2]));
}
