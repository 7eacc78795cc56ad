//! The loop over rows: identical bits for every cut and every set of workers, and errors.

use crate::make::*;
use kstore::pass::{NoObserver, Observer};
use kstore::rayon;
use kstore::{
    Error, MemoryRows, Merge, OutputColumn, OutputKind, OutputValues, Pass, ReadSettings, Reduction, RowBlock,
    RowSource, Scaler, Selection, Statistics, StatisticsReduction, Table, TextOptions, Workers,
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

fn pass(tile: usize, segment: u64, lanes: usize) -> Pass<'static> {
    Pass {
        tile_rows: tile,
        segment_rows: segment,
        lane_count: lanes,
        prefetch_tiles: 2,
        workers: sequential(),
        observer: &NoObserver,
        journal: None,
    }
}

struct Collect;

impl Reduction<f64> for Collect {
    type State = Whole;
    type Scratch = ();
    type Error = Error;
    fn init(&self) -> Whole {
        Whole::default()
    }
    fn scratch(&self) {}
    fn step(&self, state: &mut Whole, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> kstore::Result<()> {
        state.push(block);
        Ok(())
    }
}

fn bits(statistics: &Statistics) -> Vec<u64> {
    let moments = statistics.inputs.iter().chain(&statistics.targets);
    moments.flat_map(|m| [m.count, m.mean.to_bits(), m.m2.to_bits(), m.min.to_bits(), m.max.to_bits()]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_split_gives_the_same_rows_and_the_same_bits(
        cuts in prop::collection::vec(0u64..700, 0..4),
        group in 20usize..400,
        tile in 1usize..200,
        segment in 50u64..300,
        lanes in 1usize..4,
    ) {
        let folder = folder();
        let whole = usual_rows(&split(folder.path(), 700, &[], 1000));
        let parts_folder = crate::make::folder();
        let parts = usual_rows(&split(parts_folder.path(), 700, &cuts, group));
        let expected = read(&whole, 0..700, 64).unwrap();
        let (collected, report) = pass(tile, segment, lanes).reduce(&parts, &Collect).unwrap();
        prop_assert_eq!(report.rows, 700);
        prop_assert_eq!(&collected, &expected);
        let statistics = StatisticsReduction::new(RowSource::<f64>::shape(&whole));
        let (one, _) = pass(tile, segment, 1).reduce(&whole, &statistics).unwrap();
        let (many, _) = pass(tile, segment, lanes).reduce(&parts, &statistics).unwrap();
        prop_assert_eq!(bits(&one), bits(&many));
        prop_assert_eq!(one.groups.sorted_counts(), many.groups.sorted_counts());
    }

    #[test]
    fn merged_statistics_are_those_of_all_rows(
        x in prop::collection::vec(-1e3f64..1e3, 2..200),
        cut in 0.0f64..1.0,
        shift in prop::sample::select(vec![0.0, 1e9]),
    ) {
        let x: Vec<f64> = x.iter().map(|v| v + shift).collect();
        let at = (cut * x.len() as f64) as usize;
        let part = |x: &[f64]| statistics(x, 1);
        let mut merged = part(&x[..at]);
        merged.merge(&part(&x[at..]));
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        let m2: f64 = x.iter().map(|v| (v - mean).powi(2)).sum();
        let got = merged.inputs[0];
        prop_assert_eq!(got.count, x.len() as u64);
        prop_assert!((got.mean - mean).abs() <= 1e-13 * (shift + 1e3), "{} {}", got.mean, mean);
        prop_assert!((got.m2 - m2).abs() <= 1e-6 * m2 + 1e-6, "{} {}", got.m2, m2);
        prop_assert_eq!(got.min, x.iter().copied().fold(f64::INFINITY, f64::min));
        prop_assert_eq!(got.max, x.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    }
}

fn statistics(x: &[f64], d: usize) -> Statistics {
    let source = MemoryRows::new(x.to_vec(), d).unwrap();
    pass(16, 64, 1).reduce(&source, &StatisticsReduction::new(RowSource::<f64>::shape(&source))).unwrap().0
}

#[test]
fn statistics_skip_nan_and_know_constants() {
    let x: Vec<f64> =
        (0..300).flat_map(|i| [0.1, if i % 3 == 0 { f64::NAN } else { f64::from(i) }, 1e8 + 0.1]).collect();
    let statistics = statistics(&x, 3);
    let [constant, varying, large] = &statistics.inputs[..] else { panic!() };
    assert_eq!((constant.mean, constant.m2, constant.is_constant()), (0.1, 0.0, true));
    assert_eq!((varying.count, varying.min, varying.max), (200, 1.0, 299.0));
    assert!(!varying.is_constant() && large.is_constant());
    let scaler = Scaler::standard(&statistics);
    assert_eq!((scaler.apply(0, 0.1), scaler.apply(2, 7.0)), (0.0, -0.0));
    assert!((scaler.apply(1, varying.mean + varying.deviation()) - 1.0).abs() < 1e-14);
    let scaler = Scaler::minmax(&statistics);
    assert_eq!((scaler.apply(1, 1.0), scaler.apply(1, 299.0), scaler.apply(0, 0.1)), (0.0, 1.0, 0.0));
    assert_eq!(Scaler::identity(&statistics).apply(1, 17.5), 17.5);
}

#[test]
fn asinh_is_of_the_distance_from_the_median_in_median_distances() {
    // a constant, a column of mostly 0, and one with a long tail: 1, 2, 4, …, 2^20
    let x: Vec<f64> = (0..21)
        .flat_map(|i| [5.0, if i < 3 { 7.0 } else { 0.0 }, if i == 9 { f64::NAN } else { f64::powi(2.0, i) }])
        .collect();
    let statistics = statistics(&x, 3);
    let scaler = Scaler::asinh(&statistics, &x, &[]);
    let mut tail: Vec<f64> = (0..21).filter(|i| *i != 9).map(|i| f64::powi(2.0, i)).collect();
    let centre = tail[9];
    tail.iter_mut().for_each(|value| *value = (*value - centre).abs());
    tail.sort_by(f64::total_cmp);
    let spread = tail[9];
    assert_eq!((scaler.centre[2], scaler.scale[2]), (centre, spread));
    assert_eq!((scaler.centre[1], scaler.scale[1]), (0.0, statistics.inputs[1].deviation()));
    assert_eq!((scaler.apply(0, 5.0), scaler.apply(0, 9.0)), (0.0, 0.0));
    assert_eq!(Scaler::robust(&statistics, &x, &[]).apply(2, 3e6), (3e6 - centre) * (1.0 / spread));
    // ln(u + sqrt(u² + 1)) is the definition of asinh
    let u: f64 = (3e6 - centre) / spread;
    assert!((scaler.apply(2, 3e6) - (u + (u * u + 1.0).sqrt()).ln()).abs() < 1e-14);
    assert!((scaler.invert(2, scaler.apply(2, 3e6)) - 3e6).abs() < 1e-8);
    assert_eq!(scaler.invert(0, 0.0), 5.0);
}

/// Returns row `i` of a table that every format can store: two features and a target.
fn plain_row(i: u64) -> [f64; 3] {
    let (a, b, y, ..) = row(i);
    [f64::from(a), b, y]
}

/// Writes rows of the [`plain_row`] table to a file.
fn write_plain(path: &std::path::Path, rows: std::ops::Range<u64>) {
    if path.extension().is_some_and(|extension| extension == "svm") {
        let line = |i| format!("{:?} 1:{:?} 2:{:?}\n", plain_row(i)[2], plain_row(i)[0], plain_row(i)[1]);
        return std::fs::write(path, rows.map(line).collect::<String>()).unwrap();
    }
    // the default column names of .npy
    let columns = ["x0", "x1", "x2"].map(|name| OutputColumn::new(name, OutputKind::F64));
    let mut out = kstore::sink::create(path, &columns).unwrap();
    let column = |j: usize| rows.clone().map(|i| plain_row(i)[j]).collect::<Vec<_>>();
    out.write(&[OutputValues::F64(&column(0)), OutputValues::F64(&column(1)), OutputValues::F64(&column(2))]).unwrap();
    out.finish().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn every_format_and_any_split_give_the_same_rows_and_the_same_bits(
        format in prop::sample::select(vec!["parquet", "npy", "csv", "tsv", "svm"]),
        mut cuts in prop::collection::vec(1u64..9000, 0..4),
        tile in 1usize..900,
        segment in 500u64..5000,
        lanes in 1usize..4,
    ) {
        const N: u64 = 9000;
        let folder = folder();
        cuts.extend([0, N]);
        cuts.sort_unstable();
        cuts.dedup();
        let paths: Vec<_> = cuts.windows(2).enumerate().map(|(i, edge)| {
            let path = folder.path().join(format!("part-{i}.{format}"));
            write_plain(&path, edge[0]..edge[1]);
            path
        }).collect();
        let target = if format == "svm" { "y" } else { "x2" };
        // svmlight omits zeros at the end of a row, so some files may appear to have fewer features
        let options = TextOptions::default().width(2);
        let selection = Selection { targets: names(&[target]), ..Selection::default() };
        let parts = Table::open_with(&paths, &options).unwrap().select(&selection).unwrap();
        let parts = parts.rows::<f64>(ReadSettings::default()).unwrap();
        let (x, y): (Vec<_>, Vec<_>) = (0..N).map(plain_row).map(|[a, b, y]| ([a, b], y)).unzip();
        let whole = MemoryRows::new(x.concat(), 2).unwrap().with_targets(y, 1).unwrap();
        let expected = read(&whole, 0..N, 64).unwrap();
        let (collected, report) = pass(tile, segment, lanes).reduce(&parts, &Collect).unwrap();
        prop_assert_eq!(report.rows, N);
        prop_assert_eq!(&collected, &expected);
        let statistics = StatisticsReduction::new(RowSource::<f64>::shape(&whole));
        let (one, _) = pass(tile, segment, 1).reduce(&whole, &statistics).unwrap();
        let (many, _) = pass(tile, segment, lanes).reduce(&parts, &statistics).unwrap();
        prop_assert_eq!(bits(&one), bits(&many));
    }
}

/// A fold that truncates the file at the first tile, when most of it is still unread.
struct Shrink<'a>(&'a std::path::Path);

impl Reduction<f64> for Shrink<'_> {
    type State = Nothing;
    type Scratch = ();
    type Error = Error;
    fn init(&self) -> Nothing {
        Nothing
    }
    fn scratch(&self) {}
    fn step(&self, _: &mut Nothing, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> kstore::Result<()> {
        if block.row_numbers[0] == 0 {
            let file = std::fs::File::options().write(true).open(self.0).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        }
        Ok(())
    }
}

#[test]
fn a_file_that_shrinks_during_a_pass_is_an_error_that_names_it() {
    let folder = folder();
    for format in ["parquet", "npy", "csv", "svm"] {
        let path = folder.path().join(format!("t.{format}"));
        write_plain(&path, 0..200_000);
        let target = if format == "svm" { "y" } else { "x2" };
        let selection = Selection { targets: names(&[target]), ..Selection::default() };
        let rows = Table::open(&[&path]).unwrap().select(&selection).unwrap();
        let rows = rows.rows::<f64>(ReadSettings::default()).unwrap();
        for lanes in [1, 2] {
            let error = pass(100, 1000, lanes).reduce(&rows, &Shrink(&path)).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(&path.display().to_string()), "{format}: {error}");
        }
    }
}

#[test]
fn lanes_do_not_change_a_bit() {
    let folder = folder();
    let rows = usual_rows(&split(folder.path(), 5000, &[1234], 700));
    let fold = StatisticsReduction::new(RowSource::<f64>::shape(&rows));
    let of = |lanes| bits(&pass(64, 256, lanes).reduce(&rows, &fold).unwrap().0);
    assert_eq!(of(1), of(2));
    assert_eq!(of(1), of(8));
    // lanes that decode for themselves
    for lanes in [1, 3] {
        let alone = Pass { prefetch_tiles: 0, ..pass(64, 256, lanes) };
        assert_eq!(of(1), bits(&alone.reduce(&rows, &fold).unwrap().0));
    }
    // the test can fail: another segment length changes the bits
    assert_ne!(of(1), bits(&pass(64, 64, 1).reduce(&rows, &fold).unwrap().0));
}

/// A reduction to statistics that counts the calls on threads outside the given pool.
struct Named(StatisticsReduction, AtomicU64);
impl Reduction<f64> for Named {
    type State = Statistics;
    type Scratch = <StatisticsReduction as Reduction<f64>>::Scratch;
    type Error = Error;
    fn init(&self) -> Statistics {
        Reduction::<f64>::init(&self.0)
    }
    fn scratch(&self) -> Self::Scratch {
        Reduction::<f64>::scratch(&self.0)
    }
    fn step(
        &self,
        state: &mut Statistics,
        scratch: &mut Self::Scratch,
        block: &RowBlock<'_, f64>,
        workers: &Workers,
    ) -> kstore::Result<()> {
        let elsewhere = AtomicU64::new(0);
        let look = |_: usize| {
            let here = std::thread::current().name().is_some_and(|name| name.starts_with("host"));
            elsewhere.fetch_add(u64::from(!here), Ordering::Relaxed);
        };
        workers.run(8, look);
        look(0);
        self.1.fetch_add(elsewhere.into_inner(), Ordering::Relaxed);
        self.0.step(state, scratch, block, workers)
    }
}

#[test]
fn the_pool_of_the_program_around_does_the_work_with_the_same_bits() {
    let rows = MemoryRows::new((0..5000).map(|i| f64::from(i * 37 % 101) / 7.0).collect(), 1).unwrap();
    let fold = || Named(StatisticsReduction::new(RowSource::<f64>::shape(&rows)), AtomicU64::new(0));
    let alone = bits(&pass(64, 256, 1).reduce(&rows, &fold()).unwrap().0);
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("host {i}")).build();
        let pool = std::sync::Arc::new(pool.unwrap());
        let workers = Workers::from_pool(std::sync::Arc::clone(&pool));
        // more lanes than threads must wait without hanging, also if the pass starts on the pool
        for (lanes, prefetch) in [(1, 2), (1, 0), (2, 2), (5, 2), (5, 0)] {
            let pass = Pass { prefetch_tiles: prefetch, workers: &workers, ..pass(64, 256, lanes) };
            let fold = fold();
            assert!(alone == bits(&pass.reduce(&rows, &fold).unwrap().0), "{threads} threads, {lanes} lanes");
            assert!(alone == bits(&pool.install(|| pass.reduce(&rows, &fold)).unwrap().0), "{threads}, {lanes} lanes");
            assert_eq!(fold.1.into_inner(), 0, "{threads} threads, {lanes} lanes: on other threads");
        }
    }
}

/// A fold that fails or panics at the given rows.
struct Trap {
    fail: Vec<u64>,
    panic: Option<u64>,
}

struct Nothing;
impl Merge for Nothing {
    fn merge(&mut self, _: &Self) {}
}

impl Reduction<f64> for Trap {
    type State = Nothing;
    type Scratch = ();
    type Error = Error;
    fn init(&self) -> Nothing {
        Nothing
    }
    fn scratch(&self) {}
    fn step(&self, _: &mut Nothing, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> kstore::Result<()> {
        if let Some(row) = block.row_numbers.iter().find(|row| self.fail.contains(row)) {
            // later segments fail sooner
            std::thread::sleep(std::time::Duration::from_millis(if *row < 500 { 20 } else { 0 }));
            return Err(Error::Empty { what: row.to_string(), why: "trap".to_string() });
        }
        assert!(!self.panic.is_some_and(|row| block.row_numbers.contains(&row)), "a panic for the test");
        Ok(())
    }
}

fn memory(n: usize) -> MemoryRows<f64> {
    MemoryRows::new(vec![0.0; n], 1).unwrap()
}

#[test]
fn the_first_error_in_row_order_is_reported() {
    for (lanes, prefetch) in [(1, 2), (2, 2), (8, 2), (1, 0), (8, 0)] {
        let trap = Trap { fail: vec![130, 131, 555, 900], panic: None };
        let pass = Pass { prefetch_tiles: prefetch, ..pass(10, 100, lanes) };
        let error = pass.reduce(&memory(1000), &trap).map(|_| ()).unwrap_err();
        assert!(matches!(&error, Error::Empty { what, .. } if what == "130"), "{lanes} lanes: {error}");
    }
}

#[test]
fn a_panicking_fold_ends_the_pass() {
    for (lanes, prefetch) in [(1, 2), (2, 2), (8, 2), (1, 0), (8, 0)] {
        let outcome = std::panic::catch_unwind(|| {
            let trap = Trap { fail: vec![], panic: Some(333) };
            Pass { prefetch_tiles: prefetch, ..pass(10, 100, lanes) }.reduce(&memory(5000), &trap).map(|_| ())
        });
        // propagating the panic and returning an error are both fine; hanging is not
        assert!(!matches!(outcome, Ok(Ok(()))));
    }
}

struct StopAfter(u64, AtomicU64);
impl Observer for StopAfter {
    fn advance(&self, rows: u64) {
        self.1.fetch_add(rows, Ordering::Relaxed);
    }
    fn should_stop(&self) -> bool {
        self.1.load(Ordering::Relaxed) >= self.0
    }
}

/// Every thread of the pool is a waiting lane, while the lane whose turn it is needs the pool.
#[test]
fn a_delivery_may_use_the_workers_of_the_pass() {
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for threads in [1, 2, 4] {
            let (workers, parts) = (Workers::new(threads), AtomicU64::new(0));
            let pass = Pass { workers: &workers, ..pass(16, 50, threads) };
            let mut order = Vec::new();
            let delivered = pass.for_each_segment(&memory(1000), &Collect, |state: Whole| {
                order.push(state);
                workers.run(8, |_| {
                    parts.fetch_add(1, Ordering::Relaxed);
                });
                workers.install(|| order.len());
                Ok(())
            });
            assert_eq!((delivered.unwrap().rows, order.len()), (1000, 20));
            assert_eq!(workers.threads(), threads, "the pool is whole again");
            done.send(parts.into_inner()).unwrap();
        }
    });
    for _ in 0..3 {
        assert_eq!(wait.recv_timeout(std::time::Duration::from_secs(60)), Ok(160));
    }
}

#[test]
fn an_observer_stops_the_pass() {
    for (lanes, prefetch) in [(1, 2), (4, 2), (4, 0)] {
        let observer = StopAfter(300, AtomicU64::new(0));
        let pass = Pass { observer: &observer, prefetch_tiles: prefetch, ..pass(10, 100, lanes) };
        let error = pass.reduce(&memory(100_000), &Trap { fail: vec![], panic: None }).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
        assert!(observer.1.load(Ordering::Relaxed) < 10_000);
    }
}

#[test]
fn memory_rows_carry_the_numbers_they_were_given() {
    let source = MemoryRows::new((0..20).map(f64::from).collect(), 2)
        .unwrap()
        .with_row_numbers((0..10).map(|i| 7 * i).collect())
        .unwrap()
        .with_targets((0..10).map(f64::from).collect(), 1)
        .unwrap();
    let whole = read(&source, 3..9, 4).unwrap();
    assert_eq!(whole.rows, [21, 28, 35, 42, 49, 56]);
    assert_eq!(whole.y, [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    assert_eq!(whole.x[..2], [6.0, 7.0]);
    assert!(MemoryRows::new(vec![0.0f32; 5], 2).is_err());
    let (collected, _) = pass(3, 4, 2).reduce(&source, &Collect).unwrap();
    assert_eq!(collected, read(&source, 0..10, 100).unwrap());
}
