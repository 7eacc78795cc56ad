//! Digests of rows depend on the values only, not on how they are read.

use kstore::{Pass, ReadSettings, RowBlock, RowDigests, SelectedTable, Selection, Table, Workers};
use std::sync::Arc;

fn values(rows: std::ops::Range<usize>) -> (Vec<f64>, Vec<f64>) {
    let x = rows.clone().flat_map(|i| [i as f64 * 0.25, (i as f64).sin(), f64::from(i as u32 % 7)]).collect();
    (x, rows.map(|i| (i as f64).cos()).collect())
}

fn selected((x, y): &(Vec<f64>, Vec<f64>), first: u64, total_rows: u64) -> SelectedTable {
    let table = Table::from_rows(x, 3, y).unwrap().part_of(total_rows, first).unwrap();
    table.select(&Selection { targets: vec!["y".into()], ..Selection::default() }).unwrap()
}

/// Computes the digests of some rows, read in tiles by two lanes.
fn digests(selected: &SelectedTable, rows: std::ops::Range<u64>, tile: usize) -> Arc<RowDigests> {
    let stored = selected.table().stored_rows();
    let digests = Arc::new(RowDigests::new(stored));
    let range = Selection { targets: vec!["y".into()], rows: Some(rows), ..Selection::default() };
    let source =
        selected.table().select(&range).unwrap().with_digests(&digests).rows::<f32>(ReadSettings::default()).unwrap();
    let workers = Workers::new(2);
    let pass = Pass { lane_count: 2, ..Pass::new(tile, 500, &workers) };
    pass.for_each_tile(&source, || (), |(), _: &RowBlock<'_, f32>, _| Ok::<_, kstore::Error>(())).unwrap();
    digests.close();
    // rows that are read after `close` are not added
    pass.for_each_tile(&source, || (), |(), _: &RowBlock<'_, f32>, _| Ok::<_, kstore::Error>(())).unwrap();
    digests
}

#[test]
fn digests_of_parts_add_up_to_those_of_all_rows() {
    let n = 3000;
    let all = values(0..n);
    let whole = digests(&selected(&all, 0, n as u64), 0..n as u64, 64).piece_digests_in(&(0..n as u64));
    assert_eq!(whole.len(), 3);
    assert_eq!(whole, digests(&selected(&all, 0, n as u64), 0..n as u64, 1000).piece_digests_in(&(0..n as u64)));
    let cut = 1500;
    let parts = [0..cut, cut..n].map(|rows| {
        let here = rows.start as u64..rows.end as u64;
        digests(&selected(&values(rows), here.start, n as u64), here, 200)
    });
    for (piece, sum) in &whole {
        assert_eq!(parts[0].piece_digest(*piece).wrapping_add(parts[1].piece_digest(*piece)), *sum, "piece {piece}");
    }
}

#[test]
fn every_value_its_row_and_its_column_count() {
    let n = 1200u64;
    let (x, y) = values(0..n as usize);
    let of = |x: &[f64], y: &[f64]| {
        let selected = selected(&(x.to_vec(), y.to_vec()), 0, n);
        digests(&selected, 0..n, 100).piece_digests_in(&(0..n))
    };
    let whole = of(&x, &y);
    let changed = |change: &dyn Fn(&mut Vec<f64>, &mut Vec<f64>)| {
        let (mut x, mut y) = (x.clone(), y.clone());
        change(&mut x, &mut y);
        of(&x, &y)
    };
    assert_ne!(whole, changed(&|x, _| x[3001] = f64::from_bits(x[3001].to_bits() + 1)));
    assert_ne!(whole, changed(&|_, y| y.swap(5, 6)));
    assert_ne!(whole, changed(&|x, _| x.swap(30, 31)));
    // two rows swapped
    assert_ne!(
        whole,
        changed(&|x, y| {
            x[0..6].rotate_left(3);
            y.swap(0, 1);
        })
    );
}
