//! Past values as features: `--lags` and `--rolling` of `fit`, and the forecasts of `predict`.

use super::run::{kmill, ok};
use std::path::Path;

const HOURS: usize = 300;
const STATIONS: [&str; 3] = ["north", "south", "west"];

/// Writes hourly counts of three stations, one hour after the other, with an empty count from hour
/// `known` on.
fn write_counts(path: &Path, known: usize) {
    let mut text = "hour,station,holiday,count\n".to_string();
    let mut counts = [20.0, 30.0, 40.0];
    for i in 0..HOURS {
        for (s, station) in STATIONS.iter().enumerate() {
            let wave = (std::f64::consts::TAU * (i % 24) as f64 / 24.0).sin();
            let noise = ((i * 37 + s * 91) % 101) as f64 / 101.0 - 0.5;
            counts[s] = 0.8 * counts[s] + 6.0 + 2.0 * s as f64 + 5.0 * wave + noise;
            let count = if i < known { format!("{:.4}", counts[s]) } else { String::new() };
            let (day, hour, holiday) = (1 + i / 24, i % 24, usize::from(i / 24 % 7 == 6));
            text += &format!("2024-03-{day:02}T{hour:02}:00:00,{station},{holiday},{count}\n");
        }
    }
    std::fs::write(path, text).unwrap();
}

/// Returns a column of numbers of a CSV file; NaN for an empty cell.
fn numbers(folder: &Path, file: &str, index: usize) -> Vec<f64> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let cells = text.lines().skip(1).map(|line| line.split(',').nth(index).unwrap().trim_matches('"'));
    cells.map(|cell| if cell.is_empty() { f64::NAN } else { cell.parse().unwrap() }).collect()
}

const LAGS: &str = "--lags count:1,24 --rolling count:6 --by station --order hour";
const FIT: &str = "--target count --missing drop --rank 60 --folds 3 --json";

#[test]
fn a_fit_with_lags_is_the_fit_of_a_table_that_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_counts(&at.join("t.csv"), HOURS);
    ok(at, &format!("convert t.csv {LAGS} -o wide.parquet --json"));
    ok(at, "convert t.csv -o t.parquet --json");
    let report = ok(at, &format!("fit ridge t.csv {LAGS} {FIT} --test last:15%:hour -o m"));
    let wide = ok(at, &format!("fit ridge wide.parquet {FIT} --test last:15%:hour -o w"));
    let mut test_set = report["test_set"].clone();
    // the fit does not know that columns of a table are lags
    assert!(test_set["scores"].as_object_mut().unwrap().remove("naive_forecast").is_some());
    assert_eq!(test_set, wide["test_set"], "{report}");
    let model = |line: &str| {
        ok(at, &format!("fit ridge {line} {LAGS} {FIT} --test last:15%:hour -o other"));
        std::fs::read(at.join("other")).unwrap()
    };
    let bytes = std::fs::read(at.join("m")).unwrap();
    for line in ["t.parquet --threads 1", "t.parquet --threads 3 --memory 64MiB"] {
        assert!(model(line) == bytes, "{line}");
    }
    // a table that begins later has the same past values
    let again = ok(at, "evaluate m t.parquet --test same --json");
    assert_eq!(again["rmse"], report["test_set"]["scores"]["rmse"]);
    ok(at, "convert t.csv --rows 600.. -o late.csv --json");
    ok(at, "predict m late.csv --rows 72.. -o late-predictions.csv --json");
    ok(at, "predict w wide.parquet --rows 672.. -o wide-predictions.csv --json");
    assert_eq!(numbers(at, "late-predictions.csv", 0), numbers(at, "wide-predictions.csv", 0));
    let shown = ok(at, "inspect m --json");
    assert_eq!(shown["options"]["lags"]["lags"][0], "count:1,24");
    // --features restricts the other columns, and plan counts the rows
    let few = ok(at, &format!("fit ridge t.csv --features holiday {LAGS} {FIT} -o few"));
    assert_eq!(few["features"], 4);
    assert_eq!(ok(at, &format!("plan ridge t.csv {LAGS} --target count --missing drop --json"))["fits"], true);
    // without --missing the first rows of each series are an error that names the remedies
    let (code, _, stderr) = kmill(at, &format!("fit ridge t.csv {LAGS} --target count -o m2"));
    assert!(code == 1 && stderr.contains("count_lag1") && stderr.contains("--missing drop"), "{stderr}");
    let (code, _, stderr) = kmill(at, &format!("prepare ridge t.csv {LAGS} --target count -o job"));
    assert!(code == 2 && stderr.contains("--lags"), "{stderr}");
}

/// A forecast of several steps is the repeated prediction of one step, with each prediction written
/// into the table.
#[test]
fn a_forecast_of_several_steps_repeats_forecasts_of_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let first = HOURS - 4;
    write_counts(&at.join("t.csv"), first);
    ok(at, &format!("fit ridge t.csv {LAGS} {FIT} -o m"));
    let (code, _, stderr) = kmill(at, "predict m t.csv --keep hour,station -o all.csv");
    assert!(code == 0 && stderr.contains("12 rows") && stderr.contains("4 steps"), "{stderr}");
    let forecast = numbers(at, "all.csv", 2);
    assert_eq!(forecast.len(), 3 * HOURS);
    assert!(
        forecast[..3 * 24].iter().all(|value| value.is_nan())
            && forecast[3 * 24..].iter().all(|value| value.is_finite())
    );
    let text = std::fs::read_to_string(at.join("t.csv")).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    for step in 0..4 {
        let rows = 3 * (first + step)..3 * (first + step + 1);
        std::fs::write(at.join("step.csv"), lines[..=rows.end].join("\n") + "\n").unwrap();
        ok(at, &format!("predict m step.csv --rows {}.. -o step-predictions.csv --json", rows.start));
        let predictions = numbers(at, "step-predictions.csv", 0);
        assert_eq!(predictions, forecast[rows.clone()], "step {step}");
        rows.clone().zip(predictions).for_each(|(row, value)| lines[row + 1] += &value.to_string());
    }
    ok(at, "predict m t.csv --threads 1 --memory 64MiB -o one.csv --json");
    assert_eq!(numbers(at, "one.csv", 0)[72..], forecast[72..]);
}

#[test]
fn a_missing_value_of_another_column_does_not_end_a_forecast() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (mut text, mut y) = ("day,x,y\n".to_string(), 0.0);
    for day in 0..310 {
        let x = ((day * 37) % 101) as f64 / 50.5 - 1.0;
        y = 0.5 * y + x;
        let target = if day < 300 { y.to_string() } else { String::new() };
        let x = if day == 301 { String::new() } else { x.to_string() };
        text += &format!("{day},{x},{target}\n");
    }
    std::fs::write(at.join("t.csv"), &text).unwrap();
    ok(at, "fit ridge t.csv --target y --features x --lags y:1 --order day --missing mean --rank 50 -o m --json");
    ok(at, "predict m t.csv --rows 300.. -o all.csv --json");
    let forecast = numbers(at, "all.csv", 0);
    // the same forecast, one step at a time, with every forecast written back as a target
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    for (day, expected) in (300..310).zip(forecast) {
        std::fs::write(at.join("step.csv"), lines[..day + 2].join("\n") + "\n").unwrap();
        ok(at, &format!("predict m step.csv --rows {day}.. -o one.csv --json"));
        let one = numbers(at, "one.csv", 0)[0];
        assert_eq!(one, expected, "day {day}");
        lines[day + 1] += &one.to_string();
    }
}

/// The naive forecast is the value of an earlier row in the same series, at the best of the lags.
#[test]
fn a_fit_is_compared_with_a_past_value_as_the_forecast() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_counts(&at.join("t.csv"), HOURS);
    let fit = format!("fit ridge t.csv {LAGS} {FIT} --test last:15%:hour");
    let (_, report, good) = kmill(at, &format!("{fit} -o m"));
    ok(at, &format!("convert t.csv {LAGS} --target count --split a.csv,b.csv --test last:15%:hour --json"));
    let truth = numbers(at, "b.csv", 6);
    let rmse_of = |lag_column: usize| {
        let past = numbers(at, "b.csv", lag_column);
        let squares: f64 = past.iter().zip(&truth).map(|(past, truth)| (past - truth).powi(2)).sum();
        (squares / truth.len() as f64).sqrt()
    };
    // the counts of a day ago are nearer than the counts of the last hour
    let (last_hour, expected) = (rmse_of(3), rmse_of(4));
    assert!(expected < last_hour, "{expected} {last_hour}");
    let naive = &report["test_set"]["scores"]["naive_forecast"];
    assert_eq!((&naive["lag"], &naive["rows"]), (&24.into(), &truth.len().into()), "{report}");
    let rmse = naive["rmse"].as_f64().unwrap();
    assert!((rmse / expected - 1.0).abs() < 1e-12, "{rmse} {expected}");
    assert_eq!(&ok(at, "evaluate m t.csv --test same --json")["naive_forecast"], naive);
    // the test rows are later than all training rows
    assert!(good.contains("in hour; hour is a date") && good.contains("--features '*,!hour'"), "{good}");
    // a fit that shrinks to the mean is worse
    let (_, _, poor) = kmill(at, &format!("{fit} --lambda 1e3 -o poor"));
    assert!(poor.contains(&format!("{expected:.4} of the past value (lag 24) as the forecast")), "{poor}");
    // a fit without lags of the target does not know the last value
    let none =
        ok(at, "fit ridge t.csv --target count --lags holiday:1 --missing drop --rank 20 --test 20% -o n --json");
    assert!(none["test_set"]["scores"]["rmse"].is_number() && none["test_set"]["scores"]["naive_forecast"].is_null());
}

/// Writes a series with a growing trend, a season of 12 rows and noise; the last `unknown` values
/// are empty.
fn write_trend(path: &Path, rows: usize, unknown: usize) {
    let mut text = "month,sales\n".to_string();
    for i in 0..rows {
        let season = (std::f64::consts::TAU * (i % 12) as f64 / 12.0).sin();
        let noise = ((i * 7919) % 101) as f64 / 101.0 - 0.5;
        let level = 50.0 + 0.8 * i as f64 + 0.004 * (i * i) as f64;
        let sales = format!("{:.4}", level + 20.0 * season + 3.0 * noise);
        text += &format!("{i},{}\n", if i + unknown < rows { sales } else { String::new() });
    }
    std::fs::write(path, text).unwrap();
}

const TREND: &str = "--lags sales:1,2,12,13 --rolling sales:12 --order month";
const CHANGES: &str = "sales_lag2_minus_lag1,sales_lag12_minus_lag1,sales_lag13_minus_lag1,sales_mean12_minus_lag1";

/// The predictions of a difference are the predictions of a column of changes that is made by hand,
/// plus the earlier value; also the ends of the intervals, and the quantiles.
#[test]
fn a_difference_is_the_fit_of_changes_plus_the_earlier_value() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_trend(&at.join("t.csv"), 240, 0);
    ok(at, &format!("convert t.csv {TREND} --difference sales:1 -o wide.csv --json"));
    let header = std::fs::read_to_string(at.join("wide.csv")).unwrap();
    let header: Vec<&str> = header.lines().next().unwrap().split(',').collect();
    let column = |name: &str| numbers(at, "wide.csv", header.iter().position(|other| *other == name).unwrap());
    let (sales, base, change) = (column("sales"), column("sales_lag1"), column("sales_change1"));
    (1..240).for_each(|i| assert_eq!((base[i], change[i]), (sales[i - 1], sales[i] - sales[i - 1]), "{i}"));
    let lag12 = column("sales_lag12_minus_lag1");
    (12..240).for_each(|i| assert_eq!(lag12[i], sales[i - 12] - sales[i - 1], "{i}"));
    for (options, extra, columns) in [
        ("ridge --rank 60 --lambda 1e-4 --interval 0.8", "--interval", 3),
        ("quantile --rank 60 --lambda 1e-4 --quantiles 0.1,0.5,0.9", "", 3),
        ("svr --map exact --C 10", "", 1),
    ] {
        let rest = "--missing drop --test last:15%:month --json";
        let levels = ok(
            at,
            &format!("fit {options} t.csv --features !month --target sales {TREND} --difference sales:1 {rest} -o m"),
        );
        // the folds of a fit with lags are blocks in their order
        let folds = levels["folds"].as_str().map_or(String::new(), |folds| format!("--folds {folds}"));
        let hand = format!("fit {options} wide.csv --features {CHANGES} --target sales_change1 {folds} {rest} -o hand");
        let by_hand = ok(at, &hand);
        assert_eq!((&levels["target_names"][0], &levels["features"]), (&"sales".into(), &4.into()), "{levels}");
        let rmse = |report: &serde_json::Value| report["test_set"]["scores"]["rmse"].as_f64().unwrap();
        assert!((rmse(&levels) / rmse(&by_hand) - 1.0).abs() < 1e-9, "{options}: {levels} {by_hand}");
        ok(at, &format!("predict m t.csv {extra} --rows 20.. -o levels.csv --json"));
        ok(at, &format!("predict hand wide.csv {extra} --rows 20.. -o changes.csv --json"));
        for k in 0..columns {
            let changes = numbers(at, "changes.csv", k);
            let expected: Vec<f64> = changes.iter().zip(&base[20..]).map(|(change, base)| change + base).collect();
            let got = numbers(at, "levels.csv", k);
            let error = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(got.len() == 220 && error < 1e-9, "{options}, column {k}: {error}");
        }
        // the first rows have no earlier value, and no prediction
        ok(at, "predict m t.csv -o all.csv --json");
        let all = numbers(at, "all.csv", 0);
        assert!(all[..13].iter().all(|value| value.is_nan()) && all[13..].iter().all(|value| value.is_finite()));
        ok(at, "predict m t.csv --threads 1 --memory 64MiB -o one.csv --json");
        assert_eq!(all[13..], numbers(at, "one.csv", 0)[13..]);
        let naive = levels["test_set"]["scores"]["naive_forecast"]["rmse"].as_f64().unwrap();
        let squares: f64 =
            change[240 - levels["test_set"]["rows"].as_u64().unwrap() as usize..].iter().map(|c| c * c).sum();
        assert!((naive / (squares / levels["test_set"]["rows"].as_f64().unwrap()).sqrt() - 1.0).abs() < 1e-9);
        assert_eq!(&ok(at, "evaluate m t.csv --test same --json")["rmse"], &levels["test_set"]["scores"]["rmse"]);
    }
}

/// A series leaves its past range: a fit of values is worse than the last value, the warning names
/// the difference, and a fit of changes is better. Its forecast repeats forecasts of one step.
#[test]
fn a_difference_follows_a_trend() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_trend(&at.join("t.csv"), 240, 0);
    let fit =
        format!("fit ridge t.csv --features !month --target sales {TREND} --missing drop --test last:15%:month -o m");
    let (_, _, text) = kmill(at, &fit);
    assert!(text.contains("of the last value (lag 1)") && text.contains("--difference sales:1"), "{text}");
    let (_, report, text) = kmill(at, &format!("{fit} --difference sales:1 --json"));
    let scores = &report["test_set"]["scores"];
    let (rmse, naive) = (scores["rmse"].as_f64().unwrap(), scores["naive_forecast"]["rmse"].as_f64().unwrap());
    assert!(rmse < 0.5 * naive && !text.contains("as the forecast;"), "{rmse} {naive} {text}");
    for rows_back in [1, 12] {
        write_trend(&at.join("future.csv"), 240, 15);
        let lags = format!("{TREND} --difference sales:{rows_back}");
        let line = format!("future.csv --features !month --target sales {lags} --missing drop --rank 60");
        ok(at, &format!("fit ridge {line} -o f --json"));
        ok(at, "predict f future.csv --rows 225.. -o forecast.csv --json");
        let forecast = numbers(at, "forecast.csv", 0);
        let text = std::fs::read_to_string(at.join("future.csv")).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        for (row, expected) in (225..240).zip(forecast) {
            std::fs::write(at.join("step.csv"), lines[..row + 2].join("\n") + "\n").unwrap();
            ok(at, &format!("predict f step.csv --rows {row}.. -o one.csv --json"));
            assert_eq!(numbers(at, "one.csv", 0), [expected], "{rows_back}: row {row}");
            lines[row + 1] += &expected.to_string();
        }
    }
    for (options, part) in [
        ("--difference month:1", "expected the only target"),
        ("--difference sales:1,2", "one number of rows"),
        ("--difference sales", "numbers of rows"),
        ("--difference sales:1 --task classification", "--difference"),
    ] {
        let (code, _, text) =
            kmill(at, &format!("fit ridge t.csv --target sales {TREND} --missing drop {options} -o no"));
        assert!(code != 0 && text.contains(part), "{options}: {text}");
    }
    let (code, _, text) = kmill(at, "export m -o m.onnx");
    assert!(code == 1 && text.contains("--difference"), "{text}");
}
