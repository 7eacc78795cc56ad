//! The real data sets, if present in `KMILL_DATA` or in `../shared/data` next to the workspace.

use crate::make::*;
use kstore::pass::NoObserver;
use kstore::{Label, Pass, ReadSettings, RowSource, Scaler, Selection, StatisticsReduction, Table};
use std::path::PathBuf;
use std::sync::Arc;

fn data(name: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = match std::env::var_os("KMILL_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => root.join("../shared/data"),
    };
    let path = folder.join(name);
    if !path.exists() {
        crate::make::skip(&format!("{} is not there; set KMILL_DATA to the folder of the data sets", path.display()));
    }
    path.exists().then_some(path)
}

fn statistics(rows: &dyn RowSource<f64>) -> kstore::Statistics {
    let pass = Pass {
        tile_rows: 1024,
        segment_rows: 1 << 15,
        lane_count: 2,
        prefetch_tiles: 2,
        workers: sequential(),
        observer: &NoObserver,
        journal: None,
    };
    pass.reduce(rows, &StatisticsReduction::new(rows.shape())).unwrap().0
}

#[test]
fn beijing_is_standardised() {
    let Some(path) = data("beijing-pm25.parquet") else { return };
    let table = Table::open(&[path]).unwrap();
    let selection = Selection { targets: names(&["y"]), rows: Some(0..284_217), ..Selection::default() };
    let selected = table.select(&selection).unwrap();
    assert_eq!((selected.shape().input_count, table.stored_rows()), (29, 382_168));
    let before = statistics(&selected.rows(ReadSettings::default()).unwrap());
    assert_eq!(before.rows, 284_217);
    assert_eq!(before.targets[0].min, 2.0);
    let scaler = Some(Arc::new(Scaler::standard(&before)));
    let after = statistics(&selected.rows(ReadSettings { scaler, ..ReadSettings::default() }).unwrap());
    for feature in &after.inputs {
        assert!(feature.mean.abs() < 1e-9 && (feature.deviation() - 1.0).abs() < 1e-9, "{feature:?}");
    }
}

#[test]
fn kdd_has_five_classes_and_a_constant_column() {
    let Some(path) = data("kddcup99.parquet") else { return };
    let selection = Selection { targets: names(&["y"]), class_target: true, ..Selection::default() };
    let rows = Table::open(&[path]).unwrap().select(&selection).unwrap().rows(ReadSettings::default()).unwrap();
    let statistics = statistics(&rows);
    let counts = [157_871, 621_311, 8_273, 17_315, 280];
    let expected: Vec<_> = counts.iter().zip(0..).map(|(count, label)| (Label::Int(label), *count)).collect();
    assert_eq!(statistics.classes.sorted_counts(), expected);
    assert_eq!(statistics.inputs.iter().filter(|feature| feature.is_constant()).count(), 1);
}

#[test]
fn published_folds_are_groups() {
    let Some(path) = data("pol.parquet") else { return };
    let selection = Selection { targets: names(&["y"]), group: Some("fold".into()), ..Selection::default() };
    let rows = Table::open(&[path]).unwrap().select(&selection).unwrap().rows(ReadSettings::default()).unwrap();
    let statistics = statistics(&rows);
    let folds = statistics.groups.sorted_counts();
    assert_eq!(
        folds.iter().map(|(label, _)| label.clone()).collect::<Vec<_>>(),
        (0..10).map(Label::Int).collect::<Vec<_>>()
    );
    assert_eq!(folds.iter().map(|(_, count)| count).sum::<u64>(), 15_000);
}
