//! Published experiments: every job of `tests/literature` reproduces the published pattern.
//!
//! A job has command lines, each with a name for its report, and checks of numbers in these
//! reports. A job with several seeds runs its lines once per seed, with `SEED` replaced by the
//! seed; `curve` has its own seeds (`--repeats`). A number is addressed by a path through a report:
//! field names, list indices (or `last`), and `key=value` for the list entries with this value. Of
//! several numbers, from repeats or seeds, the median counts.

use super::run::ok;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    shows: String,
    reference: String,
    #[serde(default)]
    seeds: Option<u64>,
    run: Vec<(String, String)>,
    checks: Vec<Check>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Check {
    /// `less` is smaller than `than`, at least by the factor `by`.
    Less { less: Number, than: Number, by: f64 },
    /// For every seed, `near` differs from `to` by at most `within`.
    Near { near: Number, to: Number, within: f64 },
}

/// A number of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Number {
    Given(f64),
    /// Path of a number in a report.
    At(String),
    /// Absolute difference of a number from `from`.
    Off {
        at: String,
        from: f64,
    },
    /// Largest sine of the angle between corresponding centred columns of two tables.
    Angle {
        angle: [String; 2],
    },
    /// Width of the longest contour line of a picture divided by its length: 0 if it is straight.
    Bend {
        bend: String,
    },
}

/// Folder and reports of the lines of a job, for one seed.
struct Done {
    folder: TempDir,
    reports: BTreeMap<String, Value>,
}

fn entries<'a>(from: &[&'a Value], part: &str) -> Vec<&'a Value> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    let step = |value: &'a Value| -> Vec<&'a Value> {
        match (value, part.split_once('=')) {
            (Value::Array(list), Some((key, wanted))) => {
                list.iter().filter(|entry| text(&entry[key]) == wanted).collect()
            }
            // filters an entry that was already selected
            (entry, Some((key, wanted))) => {
                Some(entry).filter(|entry| text(&entry[key]) == wanted).into_iter().collect()
            }
            (Value::Array(list), None) if part == "last" => list.last().into_iter().collect(),
            (Value::Array(list), None) => list.get(part.parse::<usize>().unwrap()).into_iter().collect(),
            (value, None) => value.get(part).into_iter().collect(),
        }
    };
    from.iter().flat_map(|value| step(value)).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (values[(n - 1) / 2] + values[n / 2]) / 2.0
}

/// Reads the centred columns of a CSV file of numbers.
fn columns(path: &Path) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<Vec<f64>> =
        text.lines().skip(1).map(|line| line.split(',').map(|v| v.parse().unwrap()).collect()).collect();
    let column = |j: usize| {
        let mean = rows.iter().map(|row| row[j]).sum::<f64>() / rows.len() as f64;
        rows.iter().map(|row| row[j] - mean).collect()
    };
    (0..rows[0].len()).map(column).collect()
}

fn angle(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    assert!(a.len() == b.len() && dot(b, b) > 0.0 && dot(a, a) > 0.0);
    let along = dot(a, b) / dot(b, b);
    let rest: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - along * b).collect();
    (dot(&rest, &rest) / dot(a, a)).sqrt()
}

/// Returns the width of a contour line across its longest direction divided by its length.
fn bend(picture: &Path) -> f64 {
    let svg = std::fs::read_to_string(picture).unwrap();
    let lines = svg.split("<path class=\"contour\" d=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let points = |line: &str| -> Vec<Vec<f64>> {
        let words = line.split(['M', 'L']).filter(|word| !word.is_empty());
        words.map(|word| word.split(' ').map(|v| v.parse().unwrap()).collect()).collect()
    };
    let lines: Vec<Vec<Vec<f64>>> = lines.map(points).collect();
    assert!(lines.len() > 2, "{} lines of equal value", lines.len());
    let longest = lines.into_iter().max_by_key(Vec::len).unwrap();
    // end points of the longest direction, by moving to the farthest point twice
    let far = |from: &Vec<f64>| {
        let square = |p: &&Vec<f64>| (p[0] - from[0]).powi(2) + (p[1] - from[1]).powi(2);
        longest.iter().max_by(|p, q| square(p).total_cmp(&square(q))).unwrap()
    };
    let a = far(&longest[0]);
    let b = far(a);
    let (u, length) = ([b[0] - a[0], b[1] - a[1]], (b[0] - a[0]).hypot(b[1] - a[1]));
    let beside = |p: &Vec<f64>| ((p[0] - a[0]) * u[1] - (p[1] - a[1]) * u[0]) / (length * length);
    let (low, high) = longest.iter().map(beside).fold((0.0f64, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    high - low
}

impl Number {
    fn of(&self, done: &Done) -> f64 {
        let path = |name: &String| done.folder.path().join(name);
        match self {
            Self::Given(number) => *number,
            Self::Off { at, from } => (Self::At(at.clone()).of(done) - from).abs(),
            Self::Bend { bend: picture } => bend(&path(picture)),
            Self::Angle { angle: tables } => {
                let [a, b] = tables.each_ref().map(|table| columns(&path(table)));
                assert!(a.len() == b.len() && !a.is_empty());
                a.iter().zip(&b).map(|(a, b)| angle(a, b)).fold(0.0, f64::max)
            }
            Self::At(path) => {
                let mut parts = path.split('/');
                let report = &done.reports[parts.next().unwrap()];
                let found = parts.fold(vec![report], |found, part| entries(&found, part));
                assert!(!found.is_empty(), "{path}: not in {report}");
                median(found.iter().map(|value| value.as_f64().unwrap_or_else(|| panic!("{path}: {value}"))).collect())
            }
        }
    }
}

/// Runs the lines of a job with a seed.
fn done(job: &Job, seed: u64) -> Done {
    let folder = tempfile::tempdir().unwrap();
    let line = |text: &str| {
        // generate prints no report
        let report = if text.starts_with("generate ") { "" } else { "--json" };
        ok(folder.path(), &format!("{} {report} -q", text.replace("SEED", &seed.to_string())))
    };
    let reports = job.run.iter().map(|(name, text)| (name.clone(), line(text))).collect();
    Done { folder, reports }
}

fn holds(name: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/literature");
    let job: Job = serde_json::from_slice(&std::fs::read(folder.join(format!("{name}.json"))).unwrap()).unwrap();
    eprintln!("{} ({})", job.shows, job.reference);
    assert!(!job.checks.is_empty() && (job.seeds.is_some() == job.run.iter().any(|(_, line)| line.contains("SEED"))));
    let runs: Vec<Done> = (0..job.seeds.unwrap_or(1)).map(|seed| done(&job, seed)).collect();
    let all = |number: &Number| runs.iter().map(|run| number.of(run)).collect::<Vec<f64>>();
    for check in &job.checks {
        match check {
            Check::Less { less, than, by } => {
                let (low, high) = (median(all(less)), median(all(than)));
                eprintln!("  {low:.3e} {less:?}, {high:.3e} {than:?}: a factor of {:.2}", high / low);
                assert!(high >= by * low, "{name}: {less:?} is {low:e}, {than:?} {high:e}, expected a factor of {by}");
            }
            Check::Near { near, to, within } => {
                for (seed, (got, expected)) in all(near).into_iter().zip(all(to)).enumerate() {
                    eprintln!("  {got:.3e} {near:?}, {expected:.3e} {to:?}");
                    let apart = (got - expected).abs();
                    assert!(
                        apart <= *within,
                        "{name}, seed {seed}: {near:?} is {got:e}, not {expected:e} to {within:e}"
                    );
                }
            }
        }
    }
}

#[test]
fn random_pivoting_sees_the_whole_smile() {
    holds("smile");
}

#[test]
fn greedy_pivoting_is_lost_in_the_outliers_of_the_spiral() {
    holds("robspiral");
}

#[test]
fn landmarks_beat_random_features_where_the_spectrum_falls() {
    holds("fourier");
}

#[test]
fn centroids_beat_random_rows() {
    holds("kmeans");
}

#[test]
fn leading_directions_of_more_landmarks_beat_as_many_landmarks() {
    holds("directions");
}

#[test]
fn landmarks_that_look_at_targets_predict_and_those_of_the_residual_approximate() {
    holds("chosen");
}

#[test]
fn a_mean_of_approximations_beats_one_of_as_many_columns() {
    holds("ensemble");
}

#[test]
fn as_many_landmarks_as_the_rank_of_the_kernel_are_exact() {
    holds("exactness");
}

#[test]
fn the_rank_is_a_regulariser() {
    holds("regulariser");
}

#[test]
fn a_perceptron_learns_two_parabolas_where_its_kernel_can_part_them() {
    holds("parabolas");
}

#[test]
fn lines_of_equal_value_are_straight_for_a_linear_kernel_alone() {
    holds("contours");
}

#[test]
fn a_projection_and_a_linear_method_are_the_kernel_method() {
    holds("projection");
}

#[test]
fn outliers_turn_the_components_of_the_l1_norm_less() {
    holds("outliers");
}

#[test]
fn eigenvalues_of_the_matrix_tend_to_those_of_the_operator() {
    holds("operator");
}

#[test]
fn groups_that_are_no_balls_are_found_by_the_spectrum() {
    holds("groups");
}

#[test]
fn scaling_of_distances_is_principal_components() {
    holds("scaling");
}

#[test]
fn isomap_with_all_rows_as_neighbours_is_principal_components() {
    holds("joined");
}

#[test]
fn isomap_follows_the_length_along_the_roll() {
    holds("unrolled");
}

#[test]
fn an_unfolded_roll_has_two_components() {
    holds("unfolding");
}

#[test]
fn components_tell_clusters_first_and_then_places_in_them() {
    holds("clusters");
}

#[test]
fn a_polynomial_kernel_has_as_many_components_as_monomials() {
    holds("monomials");
}

#[test]
fn products_of_two_features_part_circles_and_not_moons() {
    holds("products");
}

#[test]
fn the_largest_margin_depends_on_the_support_vectors_alone() {
    holds("margins");
}

#[test]
fn nu_is_the_fraction_of_rows_outside() {
    holds("novelty");
}
