//! Advertised flats with an ID, a date, a city, a comment and missing values, and `tune any`.

use super::run::{kmill, ok};
use std::path::Path;

const CITIES: [(&str, f64); 8] = [
    ("Basel", 40.0),
    ("Bern", 0.0),
    ("Chur", -20.0),
    ("Genf", 80.0),
    ("Olten", -10.0),
    ("Sion", 15.0),
    ("Thun", -30.0),
    ("Zug", 60.0),
];

const WORDS: [&str; 8] = ["bright", "quiet", "view", "lake", "garden", "new kitchen", "station", "balcony"];

/// Standard deviation of the price given all columns.
const NOISE: f64 = 20.0;

/// Uniform numbers in [0, 1) from a linear congruential generator (Knuth, MMIX).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Nearly normal: the sum of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }

    fn choice<T: Copy>(&mut self, of: &[T]) -> T {
        of[((self.next() * of.len() as f64) as usize).min(of.len() - 1)]
    }

    /// Returns the text, or an empty string with probability `share`.
    fn or_missing(&mut self, text: String, share: f64) -> String {
        if self.next() < share { String::new() } else { text }
    }
}

/// Returns the date `day` days after 2019-01-01
/// (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn date(day: u64) -> String {
    let z = day + 17_897 + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{}-{month:02}-{day:02}", year + 400 * era + u64::from(month <= 2))
}

/// Writes the table and returns the variance of the prices, which grow over the years and vary with
/// the season; the price per square metre depends on city and date.
fn write(path: &Path, rows: u64) -> f64 {
    let (mut random, mut text, mut prices) =
        (Random(1), String::from("id,date,city,size,rooms,year,comment,price\n"), Vec::new());
    for id in 1..=rows {
        let (day, (city, dear)) = ((random.next() * 1826.0) as u64, random.choice(&CITIES));
        let size = (10.0 * (30.0 + 100.0 * random.next() * random.next() + 40.0 * random.next())).round() / 10.0;
        let rooms = (size / 28.0 + 0.6 * random.normal()).round().clamp(1.0, 9.0);
        let year = 1900 + (random.next() * 124.0) as u64;
        let years = day as f64 / 365.25;
        let season = 25.0 * (std::f64::consts::TAU * years).sin();
        let price = 50.0 + 2.2 * size * (1.0 + 0.08 * years) + dear * size / 60.0 + season + 8.0 * rooms
            - 0.15 * (2024 - year) as f64
            + NOISE * random.normal();
        prices.push(price);
        let comment =
            format!("\"{}, {}, no. {}\"", random.choice(&WORDS), random.choice(&WORDS), (random.next() * 1e9) as u64);
        let city = random.or_missing(city.to_string(), 0.02);
        let rooms = random.or_missing(rooms.to_string(), 0.06);
        let year = random.or_missing(year.to_string(), 0.04);
        text += &format!("{id},{},{city},{size},{rooms},{year},{comment},{price:.2}\n", date(day));
    }
    std::fs::write(path, text).unwrap();
    let mean = prices.iter().sum::<f64>() / rows as f64;
    prices.iter().map(|price| (price - mean).powi(2)).sum::<f64>() / rows as f64
}

#[test]
fn a_listing_is_learned_as_it_is_and_its_format_changes_nothing() {
    assert_eq!(
        [0, 58, 59, 424, 425, 1825].map(date),
        ["2019-01-01", "2019-02-28", "2019-03-01", "2020-02-29", "2020-03-01", "2023-12-31"]
    );
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let variance = write(&at.join("listing.csv"), 2000);
    let search = "--target price --where id<=1600 --work 6,2 --ranks 200 --json -o";
    let (code, report, said) = kmill(at, &format!("tune any listing.csv {search} csv"));
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("date (time, weekday, yearday), city (8 values and missing), size, rooms (number and missing)"),
        "{said}"
    );
    assert!(said.contains("id (row condition), comment (text with too many values), price (target)"), "{said}");
    assert!(
        said.contains("column comment is left out: it has more than 1,000 values, a different one in nearly every row"),
        "{said}"
    );
    // the noise is a known fraction of the variance of the test rows
    let possible = 1.0 - NOISE * NOISE / variance;
    let apart = ok(at, "evaluate csv listing.csv --where id>1600 --json -q")["r2"].as_f64().unwrap();
    assert!(apart > possible - 0.02 && apart < possible + 0.01, "{apart} of {possible}");
    let told = report["test"]["r2"].as_f64().unwrap();
    assert!((told - apart).abs() < 0.02, "the report says {told}, and new rows {apart}");
    ok(at, "convert listing.csv -o listing.parquet -q --json");
    ok(at, &format!("tune any listing.parquet {search} parquet -q"));
    assert!(
        std::fs::read(at.join("csv")).unwrap() == std::fs::read(at.join("parquet")).unwrap(),
        "the same rows, the same model"
    );
}
