//! Categorical columns as features, in every format and cut, compared with one-hot coding by hand.

use crate::make::*;
use kstore::arrow::array::*;
use kstore::arrow::datatypes::Int32Type;
use kstore::encoding::{ColumnEncoding, EncodedColumn};
use kstore::search::{ColumnNote, DistinctCount, Search};
use kstore::{
    Categories, Encoding, Error, Label, Missing, Pass, ReadSettings, Scaler, SelectedTable, Selection, Table,
    TextLimit, Workers,
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A row of the test tables: a text, an integer, a boolean and a float.
#[derive(Clone, Debug)]
struct Row {
    city: Option<String>,
    shop: Option<i64>,
    open: Option<bool>,
    size: Option<f64>,
}

fn arrays(rows: &[Row], dictionary: bool) -> RecordBatch {
    let cities = rows.iter().map(|row| row.city.as_deref());
    let cities: ArrayRef = match dictionary {
        true => Arc::new(cities.collect::<DictionaryArray<Int32Type>>()),
        false => Arc::new(cities.collect::<StringArray>()),
    };
    batch(&[
        ("city", cities),
        ("shop", Arc::new(rows.iter().map(|row| row.shop).collect::<Int64Array>())),
        ("open", Arc::new(rows.iter().map(|row| row.open).collect::<BooleanArray>())),
        ("size", Arc::new(rows.iter().map(|row| row.size).collect::<Float64Array>())),
    ])
}

/// Writes the rows as Parquet, Arrow with a dictionary, CSV and record batches.
fn tables(folder: &Path, rows: &[Row]) -> Vec<Table> {
    let path = |name: &str| folder.join(name);
    write(&path("t.parquet"), &arrays(rows, false), groups_of(7));
    write_ipc(&path("t.arrow"), &[arrays(rows, true)], None);
    let text = |value: &Option<String>| value.as_ref().map_or(String::new(), |value| format!("\"{value}\""));
    let show = |value: Option<String>| value.unwrap_or_default();
    let lines = rows.iter().map(|row| {
        let (shop, open) = (show(row.shop.map(|v| v.to_string())), show(row.open.map(|v| v.to_string())));
        format!("{},{shop},{open},{}\n", text(&row.city), show(row.size.map(|v| v.to_string())))
    });
    std::fs::write(path("t.csv"), format!("city,shop,open,size\n{}", lines.collect::<String>())).unwrap();
    let open = |name: &str| Table::open(&[path(name)]).unwrap();
    let batches = Table::from_batches(vec![arrays(rows, false)]).unwrap();
    vec![open("t.parquet"), open("t.arrow"), open("t.csv"), batches]
}

fn all_columns(missing: Missing) -> Selection {
    let categories = Categories::Named(names(&["city", "shop", "open"]));
    Selection { categories, missing, ..Selection::default() }
}

/// Finds the values of the selection by a pass with this segment length and number of lanes.
pub(crate) fn search_columns(
    table: &Table,
    selection: &Selection,
    segment_rows: u64,
    lane_count: usize,
) -> kstore::Result<(SelectedTable, Vec<ColumnNote>)> {
    search_selected(table.select(selection)?, segment_rows, lane_count)
}

pub(crate) fn search_selected(
    selected: SelectedTable,
    segment_rows: u64,
    lane_count: usize,
) -> kstore::Result<(SelectedTable, Vec<ColumnNote>)> {
    let Some(search) = selected.column_search() else { return Ok((selected, Vec::new())) };
    let workers = Workers::sequential();
    let source = search.rows(TextLimit::default())?;
    let pass = Pass { lane_count, ..Pass::new(5, segment_rows, &workers) };
    search.finish(&pass.reduce(&source, &search)?.0)
}

/// Computes names and rows of the features by definition: sorted values, then the missing value.
fn expected_features(rows: &[Row]) -> (Vec<String>, Vec<f64>) {
    let mut columns: Vec<(String, Vec<f64>)> = Vec::new();
    let mut category = |name: &str, values: Vec<Option<Label>>| {
        let mut distinct: Vec<Label> = values.iter().flatten().cloned().collect();
        distinct.sort();
        distinct.dedup();
        for label in &distinct {
            let column = values.iter().map(|value| f64::from(u8::from(value.as_ref() == Some(label))));
            columns.push((format!("{name}={label}"), column.collect()));
        }
        if values.contains(&None) {
            let column = values.iter().map(|value| f64::from(u8::from(value.is_none())));
            columns.push((format!("{name}=(missing)"), column.collect()));
        }
    };
    category("city", rows.iter().map(|row| row.city.as_deref().map(|city| Label::Text(city.into()))).collect());
    category("shop", rows.iter().map(|row| row.shop.map(Label::Int)).collect());
    category("open", rows.iter().map(|row| row.open.map(Label::Bool)).collect());
    let there: Vec<f64> = rows.iter().filter_map(|row| row.size).collect();
    let mean = there.iter().sum::<f64>() / there.len().max(1) as f64;
    columns.push(("size".to_string(), rows.iter().map(|row| row.size.unwrap_or(mean)).collect()));
    if rows.iter().any(|row| row.size.is_none()) {
        let column = rows.iter().map(|row| f64::from(u8::from(row.size.is_none())));
        columns.push(("size=(missing)".to_string(), column.collect()));
    }
    let x = (0..rows.len()).flat_map(|i| columns.iter().map(move |(_, column)| column[i])).collect();
    (columns.iter().map(|(name, _)| name.clone()).collect(), x)
}

/// Reads the rows of a coded selection, unscaled; a missing number becomes the mean.
fn rows_of(selected: &SelectedTable, rows: &[Row], tile: usize) -> kstore::Result<Vec<f64>> {
    let there: Vec<f64> = rows.iter().filter_map(|row| row.size).collect();
    let mean = there.iter().sum::<f64>() / there.len().max(1) as f64;
    let d = selected.shape().input_count;
    let scaler = Scaler { centre: vec![0.0; d], scale: vec![1.0; d], mean: vec![mean; d], ..Scaler::default() };
    let reading = ReadSettings { scaler: Some(Arc::new(scaler)), ..ReadSettings::default() };
    Ok(read::<f64>(&selected.rows::<f64>(reading)?, 0..rows.len() as u64, tile)?.x)
}

fn row() -> impl Strategy<Value = Row> {
    let city = prop::option::weighted(0.8, prop::sample::select(vec!["Ulm", "Bonn", "Köln, am Rhein", "b=c", " Ulm"]));
    let shop = prop::option::weighted(0.8, -3i64..4);
    let parts = (city, shop, prop::option::weighted(0.8, any::<bool>()), prop::option::weighted(0.8, -1e3f64..1e3));
    parts.prop_map(|(city, shop, open, size)| Row { city: city.map(str::to_string), shop, open, size })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Features equal the definition for all values, formats, segment lengths and numbers of lanes.
    #[test]
    fn features_are_those_of_one_hot_coding_by_hand(
        mut rows in prop::collection::vec(row(), 2..60), segment in 1u64..40, lanes in 1usize..4, tile in 1usize..30,
    ) {
        // a CSV column without a value has no type
        rows[0] = Row { city: Some("Ulm".into()), shop: Some(1), open: Some(true), size: Some(0.5) };
        let (names, x) = expected_features(&rows);
        let folder = folder();
        for table in tables(folder.path(), &rows) {
            let (selected, left_out) = search_columns(&table, &all_columns(Missing::Indicator), segment, lanes).unwrap();
            prop_assert!(left_out.is_empty());
            prop_assert_eq!(selected.feature_names(), names.clone());
            let found = rows_of(&selected, &rows, tile).unwrap();
            prop_assert_eq!(found, x.clone());
        }
    }
}

fn rows_of_cities(cities: &[&str]) -> Vec<Row> {
    let row = |(i, city): (usize, &&str)| Row {
        city: Some(city.to_string()),
        shop: Some(i as i64 % 2),
        open: Some(i % 3 == 0),
        size: Some(i as f64),
    };
    cities.iter().enumerate().map(row).collect()
}

#[test]
fn text_is_a_category_by_default_and_numbers_and_truth_values_are_numbers() {
    let folder = folder();
    for table in tables(folder.path(), &rows_of_cities(&["b", "a", "b"])) {
        let (selected, _) = search_columns(&table, &Selection::default(), 9, 1).unwrap();
        assert_eq!(selected.feature_names(), ["city=a", "city=b", "shop", "open", "size"]);
        assert_eq!(selected.feature_columns(), ["city", "shop", "open", "size"]);
        assert_eq!(rows_of(&selected, &rows_of_cities(&["b", "a", "b"]), 2).unwrap()[..5], [0.0, 1.0, 0.0, 1.0, 0.0]);
        assert_eq!(selected.features_of(&names(&["size", "c*"])).unwrap(), ["size", "city=a", "city=b"]);
        let without = Selection { categories: Categories::None, ..Selection::default() };
        assert_eq!(table.select(&without).unwrap().feature_names(), ["shop", "open", "size"]);
        let named = Selection { features: names(&["city"]), categories: Categories::None, ..Selection::default() };
        assert!(matches!(table.select(&named), Err(Error::WrongType { .. })));
        let error = table.select(&Selection::default()).unwrap().rows::<f64>(ReadSettings::default()).unwrap_err();
        assert!(matches!(&error, Error::UnknownCategories { column } if column == "city"), "{error}");
    }
}

/// Writes a file with the given numbers of rows and cities.
fn cities(folder: &Path, rows: usize, count: usize) -> PathBuf {
    let path = folder.join(format!("{rows}_{count}.csv"));
    let lines: String = (0..rows).map(|i| format!("c{},{}\n", i % count, i % 7)).collect();
    std::fs::write(&path, format!("city,size\n{lines}")).unwrap();
    path
}

#[test]
fn text_that_differs_in_nearly_every_row_is_no_feature_unless_it_is_asked_for() {
    let folder = folder();
    let open = |rows, count| Table::open(&[cities(folder.path(), rows, count)]).unwrap();
    let features = |table: &Table, wanted: &Selection| {
        let (selected, notes) = search_columns(table, wanted, 16, 2).unwrap();
        (selected.shape().input_count, notes.iter().map(ToString::to_string).collect::<String>())
    };
    let wanted = Selection::default();
    let identifier = open(100, 99);
    let (count, told) = features(&identifier, &wanted);
    assert!(
        count == 1 && told.contains("column city is left out: it has 99 values, a different one in nearly every row"),
        "{told}"
    );
    assert_eq!(features(&identifier, &Selection { hash: Some(16), ..wanted.clone() }), (17, String::new()));
    // a column is kept if the table has few rows or its values repeat
    assert_eq!(features(&open(40, 40), &wanted), (41, String::new()));
    assert_eq!(features(&open(100, 90), &wanted), (91, String::new()));
    for asked in [
        Selection { features: names(&["city", "size"]), ..wanted.clone() },
        Selection { categories: Categories::All, ..wanted.clone() },
    ] {
        assert_eq!(features(&identifier, &asked), (100, String::new()));
    }
}

#[test]
fn columns_of_many_values_are_left_out_or_hashed_or_named() {
    let folder = folder();
    let few = Table::open(&[cities(folder.path(), 1200, 1000)]).unwrap();
    let (selected, left_out) = search_columns(&few, &Selection::default(), 64, 2).unwrap();
    assert_eq!((selected.shape().input_count, left_out.len()), (1001, 0));
    let many = Table::open(&[cities(folder.path(), 1001, 1001)]).unwrap();
    for (segment, lanes) in [(64, 2), (2000, 1)] {
        let (selected, left_out) = search_columns(&many, &Selection::default(), segment, lanes).unwrap();
        assert_eq!(selected.feature_names(), ["size"]);
        let [ColumnNote::TooManyValues { column, values }] = &left_out[..] else { panic!("{left_out:?}") };
        assert_eq!((column.as_str(), *values), ("city", DistinctCount::More { limit: 1000, has_repeats: false }));
        let told = left_out[0].to_string();
        assert!(
            ["more than 1,000 values", "identifier", "`hash`", "`categories` city"]
                .iter()
                .all(|part| told.contains(part)),
            "{told}"
        );
    }
    let (selected, _) = search_columns(&many, &Selection { hash: Some(16), ..Selection::default() }, 64, 2).unwrap();
    assert_eq!(selected.shape().input_count, 17);
    let x = read::<f64>(&selected.rows::<f64>(ReadSettings::default()).unwrap(), 0..1001, 100).unwrap().x;
    let buckets: Vec<usize> = x.chunks(17).map(|row| row[..16].iter().position(|v| *v == 1.0).unwrap()).collect();
    assert!(x.chunks(17).all(|row| row[..16].iter().sum::<f64>() == 1.0));
    // chi-squared with 15 degrees of freedom, p = 1e-4
    let counts = (0..16).map(|bucket| buckets.iter().filter(|b| **b == bucket).count() as f64);
    let chi2: f64 = counts.map(|count| (count - 1001.0 / 16.0).powi(2) / (1001.0 / 16.0)).sum();
    assert!(chi2 < 44.3, "{chi2}");
    let all = Selection { categories: Categories::All, ..Selection::default() };
    assert_eq!(search_columns(&many, &all, 64, 2).unwrap().0.shape().input_count, 1002);
    let named = Selection { features: names(&["city", "size"]), ..Selection::default() };
    assert!(matches!(search_columns(&many, &named, 64, 2), Err(Error::TooManyValues { limit: 1000, .. })));
    let only = Selection { features: names(&["c*"]), ..Selection::default() };
    assert!(matches!(search_columns(&many, &only, 64, 2), Err(Error::Empty { .. })));
}

/// The result depends on all rows, not on order or cut: users recur after 1,000 rows, or at once.
#[test]
fn what_becomes_of_many_values_does_not_depend_on_the_order_of_the_rows() {
    let folder = folder();
    let (users, visits) = (3000usize, 4usize);
    let rows = users * visits;
    let wide = "w".repeat(500);
    // rows are sorted by visit; nearly every `own` is distinct; most notes are too long for names
    let line = |i: usize| {
        let own = if i.is_multiple_of(20) { "same".to_string() } else { format!("o{i}") };
        let note = if i.is_multiple_of(8) { "short".to_string() } else { format!("{wide}{}", i % users) };
        format!("u{},{own},{note},{}\n", i % users, i % 7)
    };
    let orders: [&dyn Fn(usize) -> usize; 3] = [&|i| i, &|i| i % visits * users + i / visits, &|i| i * 7919 % rows];
    for (at, order) in orders.iter().enumerate() {
        let path = folder.path().join(format!("{at}.csv"));
        let lines: String = (0..rows).map(|i| line(order(i))).collect();
        std::fs::write(&path, format!("user,own,note,y\n{lines}")).unwrap();
        let table = Table::open(&[path]).unwrap();
        let search_features = |features: &[&str], segment_rows, lane_count| {
            let selection = Selection { features: names(features), targets: names(&["y"]), ..Selection::default() };
            search_columns(&table, &selection, segment_rows, lane_count)
        };
        for (segment_rows, lane_count) in [(64, 2), (20_000, 1)] {
            let (selected, notes) = search_features(&["*"], segment_rows, lane_count).unwrap();
            assert_eq!(selected.effect_columns(), ["user"], "{at} {notes:?}");
            assert_eq!(notes.len(), 2, "{notes:?}");
            assert_eq!(
                search_features(&["user"], segment_rows, lane_count).unwrap().0.effect_columns(),
                ["user"],
                "named"
            );
        }
        assert!(matches!(search_features(&["own"], 64, 2), Err(Error::TooManyValues { .. })));
    }
}

#[test]
fn a_known_encoding_meets_values_that_it_does_not_know() {
    let folder = folder();
    let values =
        |values: &[&str]| ColumnEncoding::Values(values.iter().map(|value| Label::Text((*value).into())).collect());
    let column =
        |name: &str, code, missing| EncodedColumn { name: name.into(), encoding: code, has_indicator: missing };
    let integers = ColumnEncoding::Values(vec![Label::Int(0), Label::Int(1)]);
    let columns = vec![
        column("city", values(&["7", "Bonn"]), true),
        column("shop", integers, false),
        column("size", ColumnEncoding::Number, false),
    ];
    let encoding = Some(Arc::new(Encoding::new(columns)));
    // integers in a file match text values of the encoding, and text matches integers
    let path = folder.path().join("new.csv");
    std::fs::write(&path, "size,shop,city\n1,1,7\n2,x,Oslo\n3,0,\n").unwrap();
    let table = Table::open(&[&path]).unwrap();
    let selected = table.select(&Selection { encoding: encoding.clone(), ..Selection::default() }).unwrap();
    let x = read::<f64>(&selected.rows::<f64>(ReadSettings::default()).unwrap(), 0..3, 9).unwrap().x;
    assert_eq!(
        x.chunks(6).collect::<Vec<_>>(),
        [[1.0, 0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0, 2.0], [0.0, 0.0, 1.0, 1.0, 0.0, 3.0]]
    );
    assert_eq!(selected.unseen_value_counts(), [("city".to_string(), 1), ("shop".to_string(), 1)]);
    std::fs::write(&path, "size,shop,city\n1,,7\n").unwrap();
    let table = Table::open(&[&path]).unwrap();
    for (missing, remedy) in [(Missing::Error, "`missing` indicator"), (Missing::Mean, "only numbers have a mean")] {
        let selected =
            table.select(&Selection { encoding: encoding.clone(), missing, ..Selection::default() }).unwrap();
        let error =
            read::<f64>(&selected.rows::<f64>(ReadSettings::default()).unwrap(), 0..1, 9).unwrap_err().to_string();
        assert!(error.contains("row 0") && error.contains("\"shop\" is missing") && error.contains(remedy), "{error}");
    }
    let lenient = Selection { encoding: encoding.clone(), missing: Missing::Indicator, ..Selection::default() };
    let selected = table.select(&lenient).unwrap();
    assert_eq!(
        read::<f64>(&selected.rows::<f64>(ReadSettings::default()).unwrap(), 0..1, 9).unwrap().x[3..5],
        [0.0, 0.0]
    );
    assert_eq!(selected.unseen_value_counts(), [("shop".to_string(), 1)]);
    let drop = Selection { encoding, missing: Missing::Drop, ..Selection::default() };
    assert!(
        read::<f64>(&table.select(&drop).unwrap().rows::<f64>(ReadSettings::default()).unwrap(), 0..1, 9)
            .unwrap()
            .x
            .is_empty()
    );
}

#[test]
fn a_missing_category_is_an_error_with_its_place_or_is_dropped_with_its_row() {
    let folder = folder();
    let mut rows = rows_of_cities(&["a", "b", "c", "d"]);
    (rows[2].city, rows[3].size) = (None, None);
    for table in tables(folder.path(), &rows) {
        for (missing, remedy) in [(Missing::Error, "clean the data"), (Missing::Mean, "only numbers have a mean")] {
            let error = search_columns(&table, &all_columns(missing), 2, 2).unwrap_err().to_string();
            assert!(error.contains("row 2") && error.contains("\"city\"") && error.contains(remedy), "{error}");
        }
        // a value that occurs only in dropped rows is not a category
        let (selected, _) =
            search_columns(&table, &Selection { missing: Missing::Drop, ..Selection::default() }, 2, 2).unwrap();
        assert_eq!(selected.feature_names(), ["city=a", "city=b", "shop", "open", "size"]);
        assert_eq!(rows_of(&selected, &rows, 9).unwrap().len(), 2 * 5);
    }
}

#[test]
fn numbers_with_a_word_among_them_are_no_categories_unless_that_is_said() {
    let folder = folder();
    let path = folder.path().join("t.csv");
    let write = |numbers: usize| {
        let lines: String = (0..numbers).map(|i| format!("{i}.5,1\n")).collect();
        std::fs::write(&path, format!("size,y\n{lines}half,1\n")).unwrap();
        Table::open(&[&path]).unwrap()
    };
    let error = search_columns(&write(30), &Selection::default(), 9, 2).unwrap_err().to_string();
    assert!(error.contains("30 of its 31 values are numbers") && error.contains("\"half\" is not"), "{error}");
    let all = Selection { categories: Categories::All, ..Selection::default() };
    assert_eq!(search_columns(&write(30), &all, 9, 2).unwrap().0.shape().input_count, 32);
    // with few numbers, a single word makes the column categorical
    assert_eq!(search_columns(&write(7), &Selection::default(), 9, 2).unwrap().0.shape().input_count, 9);
}

#[test]
fn what_is_no_category_is_refused() {
    let folder = folder();
    let table = &tables(folder.path(), &rows_of_cities(&["a", "b"]))[0];
    let named = |name: &str| Selection { categories: Categories::Named(names(&[name])), ..Selection::default() };
    let error = search_columns(table, &named("nothing"), 9, 1).unwrap_err();
    assert!(matches!(error, Error::NoSuchColumn { .. }), "{error}");
    // every size here is an integer
    assert!(search_columns(table, &named("size"), 9, 1).is_ok());
    let mut rows = rows_of_cities(&["a", "b"]);
    rows[1].size = Some(0.5);
    let error = search_columns(&tables(folder.path(), &rows)[0], &named("size"), 9, 1).unwrap_err().to_string();
    assert!(error.contains("row 1") && error.contains("`categories`"), "{error}");
    assert!(table.select(&Selection { hash: Some(0), ..Selection::default() }).is_err());
}
