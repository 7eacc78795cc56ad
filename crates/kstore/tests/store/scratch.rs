//! Caches return the rows that were written, for every cut; limits and full disks.

use crate::make::*;
use kstore::scratch::{Cache, ScratchFolder};
use kstore::{Error, Label, MemoryRows, Pass, RowBuf, RowSource, StatisticsReduction};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// Returns the rows 0, 1, 3, 4, 6, … with two features, a target, a class and a group.
fn rows(n: usize) -> (MemoryRows<f32>, Vec<u64>) {
    let numbers: Vec<u64> = (0..n as u64).map(|i| i + i / 2).collect();
    let x = numbers.iter().flat_map(|row| [*row as f32 * 0.1, -(*row as f32)]).collect();
    let labels = |names: &[&str]| Arc::new(names.iter().map(|name| Label::Text((*name).into())).collect::<Vec<_>>());
    let codes = |k: u64| numbers.iter().map(|row| (row % k) as u32).collect();
    let rows = MemoryRows::new(x, 2)
        .and_then(|rows| rows.with_targets(numbers.iter().map(|row| (*row as f64).sin()).collect(), 1))
        .and_then(|rows| rows.with_classes(codes(2), labels(&["a", "b"])))
        .and_then(|rows| rows.with_groups(codes(3), labels(&["u", "v", "w"])))
        .and_then(|rows| rows.with_row_numbers(numbers.clone()));
    (rows.unwrap(), numbers)
}

fn shape(rows: &MemoryRows<f32>, stored: u64) -> kstore::TableShape {
    kstore::TableShape { stored_rows: stored, ..RowSource::<f32>::shape(rows) }
}

/// Caches all rows in blocks of `tile`.
fn cached(scratch: &ScratchFolder, rows: &MemoryRows<f32>, stored: u64, tile: usize) -> kstore::Result<Cache<f32>> {
    let mut writer = scratch.create_cache::<f32>(shape(rows, stored), 0..stored)?;
    let (mut buf, mut cursor) = (RowBuf::new(tile), rows.open(0..u64::MAX)?);
    while cursor.next(&mut buf)? {
        writer.push(&buf.block(&RowSource::<f32>::shape(rows)))?;
    }
    writer.finish()
}

fn names_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_cache_gives_back_the_rows_it_was_given(
        n in 0usize..300,
        writing in 1usize..100,
        tile in 1usize..100,
        cut in 0.0f64..1.0,
    ) {
        let folder = folder();
        let scratch = ScratchFolder::open(folder.path(), 1 << 20).unwrap();
        let (rows, numbers) = rows(n);
        let stored = numbers.last().map_or(1, |last| last + 2);
        let cache = cached(&scratch, &rows, stored, writing).unwrap();
        prop_assert_eq!((cache.len(), RowSource::<f32>::shape(&cache)), (n as u64, shape(&rows, stored)));
        let whole = read(&rows, 0..n as u64, 64).unwrap();
        prop_assert_eq!(&read(&cache, 0..stored, tile).unwrap(), &whole);
        // segments are ranges of row numbers, and missing row numbers shift nothing
        let at = (cut * stored as f64) as u64;
        let (before, after) = (read(&cache, 0..at, tile).unwrap(), read(&cache, at..stored, tile).unwrap());
        prop_assert!(before.rows.iter().all(|row| *row < at) && after.rows.iter().all(|row| *row >= at));
        let joined = { let mut joined = before; kstore::Merge::merge(&mut joined, &after); joined };
        prop_assert_eq!(joined, whole);
        // the file is not visible, even while it is in use
        prop_assert_eq!(if cfg!(unix) { names_in(folder.path()) } else { 0 }, 0);
    }
}

#[test]
fn a_pass_over_a_cache_has_the_bits_of_the_pass_over_its_rows() {
    let folder = folder();
    let scratch = ScratchFolder::open(folder.path(), 1 << 24).unwrap();
    let table = kstore::Table::open(&split(folder.path(), 5000, &[1700], 400)).unwrap();
    let source = table.select(&usual()).unwrap().rows::<f64>(kstore::ReadSettings::default()).unwrap();
    let mut writer = scratch.create_cache::<f64>(source.shape(), RowSource::range(&source)).unwrap();
    let (mut buf, mut cursor) = (RowBuf::new(77), source.open(0..5000).unwrap());
    while cursor.next(&mut buf).unwrap() {
        writer.push(&buf.block(&source.shape())).unwrap();
    }
    let cache = writer.finish().unwrap();
    let fold = StatisticsReduction::new(source.shape());
    for lanes in [1, 3] {
        let pass = Pass { lane_count: lanes, ..Pass::new(64, 300, sequential()) };
        let (of_rows, of_cache) = (pass.reduce(&source, &fold).unwrap().0, pass.reduce(&cache, &fold).unwrap().0);
        assert_eq!(
            format!("{:?} {:?}", of_rows.inputs, of_rows.targets),
            format!("{:?} {:?}", of_cache.inputs, of_cache.targets)
        );
        assert_eq!(of_rows.groups.sorted_counts(), of_cache.groups.sorted_counts());
    }
    assert!(cache.bytes_read() > 5000 * 2 * 8);
}

#[test]
fn the_limit_is_kept_and_given_back() {
    let folder = folder();
    let (rows, numbers) = rows(100);
    let stored = numbers.last().unwrap() + 1;
    let row = Cache::<f32>::row_bytes(&shape(&rows, stored)) as u64;
    let scratch = ScratchFolder::open(folder.path(), 2 * row * stored + 5).unwrap();
    let first = cached(&scratch, &rows, stored, 10).unwrap();
    let second = cached(&scratch, &rows, stored, 10).unwrap();
    let error = cached(&scratch, &rows, stored, 10).unwrap_err();
    assert!(matches!(&error, Error::OverScratch { left: 5, needed, .. } if *needed == row * stored), "{error}");
    drop(first);
    cached(&scratch, &rows, stored, 10).unwrap();
    drop(second);
    assert_eq!(scratch.remaining(), 2 * row * stored + 5);
    assert!(matches!(ScratchFolder::open(&folder.path().join("no"), 1).unwrap_err(), Error::NotFound { .. }));
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let folder = folder();
    let scratch = ScratchFolder::open(folder.path(), 1 << 20).unwrap();
    let (rows, _) = rows(20);
    let mut buf = RowBuf::new(20);
    rows.open(0..20).unwrap().next(&mut buf).unwrap();
    let block = buf.block(&RowSource::<f32>::shape(&rows));
    let mut writer = scratch.create_cache::<f32>(shape(&rows, 30), 0..30).unwrap();
    writer.push(&block).unwrap();
    let refused = |block: &kstore::RowBlock<'_, f32>| {
        let mut writer = scratch.create_cache::<f32>(shape(&rows, 30), 0..25).unwrap();
        matches!(writer.push(block), Err(Error::Syntax { .. }))
    };
    // a repeated block; rows out of range; missing features
    assert!(matches!(writer.push(&block), Err(Error::Syntax { .. })));
    assert!(
        refused(&block)
            && refused(&kstore::RowBlock { x: &block.x[1..], row_numbers: &block.row_numbers[..1], ..block })
    );
    let reversed: Vec<u64> = block.row_numbers.iter().rev().copied().collect();
    assert!(refused(&kstore::RowBlock { row_numbers: &reversed, ..block }));
    // a block without the labels of the earlier blocks
    let first =
        kstore::RowBlock { row_numbers: &[28], x: &[1.0, 2.0], y: &[0.0], classes: None, groups: None, ..block };
    assert!(matches!(writer.push(&first), Err(Error::Syntax { .. })));
    assert_eq!(writer.finish().unwrap().len(), 20);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_with_its_free_bytes() {
    use std::process::Command;
    let folder = folder();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=256k", "tmpfs"];
    if !Command::new("mount").args(mount).arg(&disk).output().is_ok_and(|output| output.status.success()) {
        crate::make::skip("mounting a small file system is not allowed here");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        let scratch = ScratchFolder::open(&disk, 1 << 30).unwrap();
        let (rows, numbers) = rows(40_000);
        let error = cached(&scratch, &rows, numbers.last().unwrap() + 1, 1000).unwrap_err();
        let Error::ScratchFull { folder, needed, free: Some(free) } = &error else { panic!("{error}") };
        assert!(*folder == disk && *needed > 1 << 20 && *free < 256 << 10, "{error}");
        assert!(error.to_string().contains("is full"), "{error}");
        assert_eq!((names_in(&disk), scratch.remaining()), (0, 1 << 30));
        // the space is free again
        cached(&scratch, &self::rows(100).0, 200, 10).unwrap();
    });
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    result.unwrap();
}
