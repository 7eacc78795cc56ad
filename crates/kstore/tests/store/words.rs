//! Text columns as word counts: scikit-learn's numbers, the same in any order of counting; errors.

use kstore::encoding::{ColumnEncoding, Encoding, NGrams, Weighting};
use kstore::search::Search;
use kstore::{Missing, Pass, ReadSettings, RowBuf, RowSource, SelectedTable, Selection, Table, TextLimit, Workers};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn csv(folder: &Path, texts: &[&str]) -> PathBuf {
    let path = folder.join("t.csv");
    let rows: String =
        texts.iter().enumerate().map(|(i, text)| format!("{i},\"{}\"\n", text.replace('"', "\"\""))).collect();
    std::fs::write(&path, format!("y,comment\n{rows}")).unwrap();
    path
}

fn text_selection(text: &str, weighing: Option<Weighting>) -> Selection {
    let (features, targets) = (vec!["comment".to_string()], vec!["y".to_string()]);
    Selection {
        features,
        targets,
        text: vec![text.to_string()],
        sparse: true,
        weighting: weighing,
        ..Selection::default()
    }
}

/// Finds the words of the selection, by passes with the given segment length and number of lanes.
pub(crate) fn counted(selected: &SelectedTable, segment: u64, lanes: usize) -> kstore::Result<SelectedTable> {
    let search = selected.entry_search().unwrap();
    let (workers, source) = (Workers::sequential(), search.rows(TextLimit::default())?);
    let found = Pass { lane_count: lanes, ..Pass::new(3, segment, &workers) }.reduce(&source, &search)?.0;
    Ok(search.finish(&found)?.0)
}

/// Returns the entries of each row by column.
fn rows(selected: &SelectedTable) -> Vec<BTreeMap<usize, f64>> {
    let source = selected.rows::<f64>(ReadSettings::default()).unwrap();
    let (mut cursor, mut buf, mut all) = (source.open(source.range()).unwrap(), RowBuf::new(7), Vec::new());
    let half = source.shape().input_count / 2;
    while cursor.next(&mut buf).unwrap() {
        let of = |row: &[f64]| (0..half).filter(|i| row[*i] >= 0.0).map(|i| (row[i] as usize, row[half + i])).collect();
        all.extend(buf.x.chunks(2 * half).map(of).collect::<Vec<_>>());
    }
    all
}

fn words(encoding: &Encoding) -> Vec<String> {
    let ColumnEncoding::Entries(entries) = &encoding.columns()[0].encoding else { panic!("{encoding:?}") };
    let json = serde_json::to_value(entries).unwrap();
    json["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_string()).collect()
}

const TEXTS: [&str; 4] =
    ["The cat sat on the mat; the CAT.", "A dog! the dog_1 sat, 42 x", "--", "Über café: cat, dog"];

/// `TfidfVectorizer().fit_transform(TEXTS)` of scikit-learn 1.9.1.
const GOLDEN: [&[(usize, f64)]; 4] = [
    &[
        (2, 0.48199710618681807),
        (5, 0.3056761061126352),
        (6, 0.3056761061126352),
        (7, 0.24099855309340903),
        (8, 0.7229956592802271),
    ],
    &[
        (0, 0.5086718718935653),
        (3, 0.40104274646999605),
        (4, 0.5086718718935653),
        (7, 0.40104274646999605),
        (8, 0.40104274646999605),
    ],
    &[],
    &[(1, 0.5552826649411127), (2, 0.43779123108611473), (3, 0.43779123108611473), (9, 0.5552826649411127)],
];

#[test]
fn words_are_weighed_as_scikit_learn_weighs_them() {
    let folder = tempfile::tempdir().unwrap();
    let table = Table::open(&[csv(folder.path(), &TEXTS)]).unwrap();
    let found = counted(&table.select(&text_selection("comment", None)).unwrap(), 2, 1).unwrap();
    assert_eq!(
        words(found.encoding().unwrap()),
        ["42", "café", "cat", "dog", "dog_1", "mat", "on", "sat", "the", "über"]
    );
    for (row, golden) in rows(&found).iter().zip(GOLDEN) {
        assert_eq!(row.keys().copied().collect::<Vec<_>>(), golden.iter().map(|(place, _)| *place).collect::<Vec<_>>());
        row.values()
            .zip(golden)
            .for_each(|(value, (_, golden))| assert!((value - golden).abs() < 1e-15, "{value} {golden}"));
    }
}

/// Compares the words of a text with `CountVectorizer`, with `ngram_range` and `analyzer`.
#[test]
fn texts_are_cut_as_scikit_learn_cuts_them() {
    let folder = tempfile::tempdir().unwrap();
    for (grams, text, expected) in [
        ("word", "Don't STOP: a_b 42, Über-x é", &["42", "a_b", "don", "stop", "über"][..]),
        ("word(1,2)", "the cat, the a dog", &["cat", "cat the", "dog", "the", "the cat", "the dog"]),
        ("char(2,3)", "Ab,,  c", &[" c", ", ", ", c", ",,", ",, ", "ab", "ab,", "b,", "b,,"]),
        ("spectrum(2)", "AbA é", &[" é", "A ", "Ab", "bA"]),
    ] {
        let table = Table::open(&[csv(folder.path(), &[text, text])]).unwrap();
        let selected = table.select(&text_selection(&format!("comment:{grams}"), None)).unwrap();
        assert_eq!(words(counted(&selected, 2, 1).unwrap().encoding().unwrap()), expected, "{grams}");
    }
    for text in [
        "word(1,1)",
        "word(1,2)",
        "char(3,5)",
        "spectrum(5)",
        "word(1,3,features=50000)",
        "value",
        "value(features=7)",
        "word(1,2,hash=1000000)",
    ] {
        assert_eq!(text.parse::<NGrams>().unwrap().to_string(), text);
    }
    for text in ["", "words", "word(2,1)", "char", "char(0,3)", "spectrum(1,2)", "word(1", "word(1,2)x", "char(3,65)"] {
        let error = text.parse::<NGrams>().unwrap_err().to_string();
        assert!(error.contains("spectrum(P)"), "{error}");
    }
}

/// Compares the counts of character runs with their definition, on texts of a few letters.
#[test]
fn spectra_are_counts_of_all_runs_and_do_not_depend_on_the_cut_of_the_pass() {
    let texts: Vec<String> = (0..60usize)
        .map(|i| (0..5 + i % 40).map(|j| ['a', 'C', 'é', 'T'][(i * i + j * (j + i)) % 7 % 4]).collect())
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let folder = tempfile::tempdir().unwrap();
    let table = Table::open(&[csv(folder.path(), &texts)]).unwrap();
    let selected = table.select(&text_selection("comment:spectrum(3)", Some(Weighting::None))).unwrap();
    let found = counted(&selected, 7, 1).unwrap();
    let runs = |text: &str| -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        letters.windows(3).map(|run| run.iter().collect()).collect()
    };
    let all: BTreeSet<String> = texts.iter().flat_map(|text| runs(text)).collect();
    let all: Vec<String> = all.into_iter().collect();
    assert_eq!(words(found.encoding().unwrap()), all);
    for (row, text) in rows(&found).iter().zip(&texts) {
        for (place, run) in all.iter().enumerate() {
            let count = runs(text).iter().filter(|other| *other == run).count();
            assert_eq!(row.get(&place).copied().unwrap_or_default(), count as f64, "{text} {run}");
        }
    }
    let same = counted(&selected, 1000, 3).unwrap();
    assert_eq!(found.encoding(), same.encoding());
    // a limited number of features selects the runs in most rows, ties in alphabetical order
    let fewer = "comment:spectrum(3,features=4)";
    let fewer = counted(&table.select(&text_selection(fewer, Some(Weighting::Unit))).unwrap(), 7, 1).unwrap();
    let mut by_rows: Vec<(usize, &String)> =
        all.iter().map(|run| (texts.iter().filter(|text| text.contains(run.as_str())).count(), run)).collect();
    by_rows.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let mut most: Vec<&String> = by_rows[..4].iter().map(|(_, run)| *run).collect();
    most.sort();
    assert_eq!(words(fewer.encoding().unwrap()).iter().collect::<Vec<_>>(), most);
    assert!(by_rows[3].0 == by_rows[4].0 && all.len() > 4);
    for row in rows(&fewer) {
        let square: f64 = row.values().map(|value| value * value).sum();
        assert!(row.is_empty() || (square - 1.0).abs() < 1e-15);
    }
}

/// Compares sparse rows with scikit-learn's `TfidfTransformer`, `normalize` and `MaxAbsScaler`.
#[test]
fn sparse_rows_are_weighed_by_their_columns_and_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.svm");
    std::fs::write(&path, "1 1:3 3:-4\n1\n1 3:2\n1 1:1 4:5\n").unwrap();
    let table = Table::open_with(&[&path], &kstore::TextOptions::default().sparse()).unwrap();
    let selection = |weighing| Selection {
        targets: vec!["y".to_string()],
        sparse: true,
        weighting: Some(weighing),
        ..Selection::default()
    };
    let unit = table.select(&selection(Weighting::Unit)).unwrap();
    assert!(unit.entry_search().is_none() && unit.weighting() == Weighting::Unit);
    assert_eq!(rows(&unit)[..2], [BTreeMap::from([(0, 0.6), (2, -0.8)]), BTreeMap::new()]);
    let largest = counted(&table.select(&selection(Weighting::Maxabs)).unwrap(), 2, 1).unwrap();
    assert_eq!(rows(&largest)[0], BTreeMap::from([(0, 1.0), (2, -1.0)]));
    assert_eq!(rows(&largest)[3], BTreeMap::from([(0, 3f64.recip()), (3, 1.0)]));
    let rare = rows(&counted(&table.select(&selection(Weighting::TfIdf)).unwrap(), 2, 1).unwrap());
    let (two, one) = (1.0 + (5f64 / 3.0).ln(), 1.0 + (5f64 / 2.0).ln());
    let length = (two * two + 25.0 * one * one).sqrt();
    assert!((rare[3][&0] - two / length).abs() < 1e-15 && (rare[3][&3] - 5.0 * one / length).abs() < 1e-15);
}

#[test]
fn rare_words_are_dropped_while_they_are_too_many_to_count() {
    let text = |i: usize| (0..3_000).map(|j| format!("w{} ", i * 3_000 + j)).collect::<String>() + "common words";
    let texts: Vec<String> = (0..100).map(text).collect();
    let folder = tempfile::tempdir().unwrap();
    let table = Table::open(&[csv(folder.path(), &texts.iter().map(String::as_str).collect::<Vec<_>>())]).unwrap();
    let selected = table.select(&text_selection("comment", None)).unwrap();
    let (found, same) = (counted(&selected, 9, 1).unwrap(), counted(&selected, 9, 2).unwrap());
    assert_eq!(found.encoding(), same.encoding());
    let words = words(found.encoding().unwrap());
    assert!(words.contains(&"common".to_string()) && words.contains(&"words".to_string()) && words.len() < 1 << 18);
    // rows have room for the remaining words
    assert!(rows(&found).iter().all(|row| row.len() >= 2));
}

#[test]
fn what_cannot_be_counted_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let table = Table::open(&[csv(folder.path(), &TEXTS)]).unwrap();
    let refused = |selection: &Selection| {
        let found = table.select(selection).and_then(|selected| counted(&selected, 2, 1));
        found.map(|_| ()).expect_err(&format!("{selection:?}")).to_string()
    };
    let usual = text_selection("comment", None);
    for (selection, part) in [
        (Selection { text: vec!["y".to_string()], ..usual.clone() }, "`text` counts words of text columns"),
        (Selection { text: vec!["remark".to_string()], ..usual.clone() }, "remark"),
        (text_selection("comment:word(3,1)", None), "word(A,B)"),
        (text_selection("comment:word(9,9)", None), "no text has a feature of word(9,9)"),
        (text_selection("comment", Some(Weighting::Maxabs)), "choose tf-idf, unit or none"),
    ] {
        let error = refused(&selection);
        assert!(error.contains(part), "{error}\nexpected: {part}");
    }
    std::fs::write(folder.path().join("m.csv"), "y,comment\n1,one word\n2,\n3,word\n").unwrap();
    let table = Table::open(&[folder.path().join("m.csv")]).unwrap();
    let missing = |missing| counted(&table.select(&Selection { missing, ..usual.clone() }).unwrap(), 2, 1);
    let error = missing(Missing::Error).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("row 1 (counted from 0)") && error.contains("\"comment\" is missing"), "{error}");
    assert_eq!(rows(&missing(Missing::Drop).unwrap()).len(), 2);
    let all = rows(&missing(Missing::Indicator).unwrap());
    assert!(all.len() == 3 && all[1].is_empty());
}

/// A hash counts every word in one bucket, which is the same in all rows and for every cut of the
/// pass; words in the same bucket are added up.
#[test]
fn hashed_words_are_counted_in_their_places() {
    let words = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay", "kite", "lynx"];
    let text =
        |i: usize| (0..i % 9).map(|j| words[(i * i + 5 * j) % 12]).fold("-".to_string(), |all, word| all + " " + word);
    let texts: Vec<String> = words.iter().map(ToString::to_string).chain((0..70).map(text)).collect();
    let folder = tempfile::tempdir().unwrap();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let table = Table::open(&[csv(folder.path(), &texts)]).unwrap();
    let found = |grams: &str, weighing, segment, lanes| {
        counted(&table.select(&text_selection(&format!("comment:{grams}"), Some(weighing))).unwrap(), segment, lanes)
            .unwrap()
    };
    let (named, hashed) = (found("word", Weighting::None, 7, 1), found("word(1,1,hash=8)", Weighting::None, 7, 1));
    assert_eq!(hashed.encoding(), found("word(1,1,hash=8)", Weighting::None, 1000, 3).encoding());
    assert_eq!(hashed.sparse_shape().unwrap().column_count, 8);
    let (named, hashed) = (rows(&named), rows(&hashed));
    let places: Vec<usize> = hashed[..12].iter().map(|row| *row.keys().next().unwrap()).collect();
    assert!(places.iter().collect::<BTreeSet<_>>().len() > 3);
    for (by_word, by_place) in named.iter().zip(&hashed) {
        let mut expected = BTreeMap::new();
        by_word.iter().for_each(|(word, count)| *expected.entry(places[*word]).or_insert(0.0) += count);
        assert_eq!(*by_place, expected);
    }
    // the weight of a bucket depends on the number of rows that contain any of its words
    let weighed = found("word(1,1,hash=8)", Weighting::TfIdf, 7, 2);
    assert_eq!(weighed.encoding(), found("word(1,1,hash=8)", Weighting::TfIdf, 1000, 1).encoding());
    let inverse = |place: &usize| {
        let count = hashed.iter().filter(|row| row.contains_key(place)).count();
        1.0 + ((1.0 + texts.len() as f64) / (1.0 + count as f64)).ln()
    };
    for (row, counts) in rows(&weighed).iter().zip(&hashed) {
        let squares: f64 = counts.iter().map(|(place, count)| (count * inverse(place)).powi(2)).sum();
        for (place, count) in counts {
            assert!((row[place] - count * inverse(place) / squares.sqrt()).abs() < 1e-14);
        }
    }
}

#[test]
fn values_are_categories_of_text_or_whole_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.csv");
    std::fs::write(&path, "y,user,page\n1,7,the home\n2,-3,a page\n3,7,a page\n4,11,The home\n").unwrap();
    let table = Table::open(&[&path]).unwrap();
    let select = |user: &str| {
        let texts = vec![format!("user:{user}"), "page:value".to_string()];
        let (features, targets) = (vec!["user".to_string(), "page".to_string()], vec!["y".to_string()]);
        table.select(&Selection { features, targets, text: texts, sparse: true, ..Selection::default() }).unwrap()
    };
    let found = rows(&counted(&select("value"), 3, 1).unwrap());
    // first the users -3, 11, 7 in alphabetical order, then the pages
    let of = |user: usize, page: usize| BTreeMap::from([(user, 1.0), (3 + page, 1.0)]);
    assert_eq!(found, [of(2, 2), of(0, 1), of(2, 1), of(1, 0)]);
    let hashed = counted(&select("value(hash=1000000)"), 3, 1).unwrap();
    assert_eq!(
        (hashed.sparse_shape().unwrap().column_count, hashed.sparse_shape().unwrap().max_row_entries),
        (1_000_003, 2)
    );
    let hashed = rows(&hashed);
    let users: Vec<usize> = hashed.iter().map(|row| *row.keys().next().unwrap()).collect();
    assert!(users[0] == users[2] && users[0] != users[1] && users[0] != users[3] && users[1] != users[3]);
    // only text has word counts
    let word = Selection { text: vec!["user".to_string()], sparse: true, ..Selection::default() };
    assert!(table.select(&word).unwrap_err().to_string().contains("`text` counts words of text columns"));
}

#[test]
fn words_keep_the_marks_of_their_letters() {
    let folder = tempfile::tempdir().unwrap();
    let found = |text: &str| {
        let table = Table::open(&[csv(folder.path(), &[text, "--"])]).unwrap();
        let selected = table.select(&text_selection("comment", None)).unwrap();
        words(counted(&selected, 2, 1).unwrap().encoding().unwrap())
    };
    assert_eq!(found("हिन्दी में, अच्छा!"), ["अच्छा", "में", "हिन्दी"]);
    assert_eq!(found("น้ำ ที่นี่"), ["ที่นี่", "น้ำ"]);
    assert_eq!(found("cafe\u{301} l·l 東京・大阪"), ["cafe\u{301}", "大阪", "東京"]);
    assert_eq!(found("می\u{200c}خواهم don't x_1"), ["don", "x_1", "می\u{200c}خواهم"]);
}
