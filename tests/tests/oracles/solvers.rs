//! Solvers with all rows as landmarks, compared with scikit-learn (`scripts/golden.py solvers`).

use crate::solver_laws::{run, table};
use kfit::request::TrainOptions;
use kfit::solver::Options;
use kmill_tests::table::{exact, predict, select, solve, try_solve, write};
use ksolve::Task;
use ksolve::train::TrainedModel;
use serde_json::Value;
use std::path::Path;

pub(crate) struct Golden {
    pub(crate) kernel: String,
    pub(crate) x: Vec<Vec<f64>>,
    pub(crate) y: Vec<f64>,
    pub(crate) new: Vec<Vec<f64>>,
    pub(crate) cases: Value,
}

pub(crate) fn rows(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

pub(crate) fn golden() -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/solvers.json");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    Golden {
        kernel: json["kernel"].as_str().unwrap().to_string(),
        x: rows(&json["x"]),
        y: numbers(&json["y"]),
        new: rows(&json["new"]),
        cases: json["cases"].clone(),
    }
}

/// Fits in f64 to the golden rows selected by `keep`; 1 and 3 threads must give the same bits.
fn fit(golden: &Golden, name: &str, task: Task, solver: &Options, keep: impl Fn(f64) -> bool) -> TrainedModel<f64> {
    let folder = tempfile::tempdir().unwrap();
    let kept: Vec<usize> = (0..golden.y.len()).filter(|i| keep(golden.y[*i])).collect();
    let path = folder.path().join("rows.parquet");
    let x: Vec<Vec<f64>> = kept.iter().map(|i| golden.x[*i].clone()).collect();
    let y: Vec<f64> = kept.iter().map(|i| golden.y[*i]).collect();
    write(&path, &x, &y);
    let selected = select(&path, task);
    let options = TrainOptions { rank: golden.x.len(), ..exact(task, &golden.kernel, golden.x.len()) };
    let trained = solve::<f64>(&selected, &options, name, solver, 1);
    let again = solve::<f64>(&selected, &options, name, solver, 3);
    assert!(
        trained.model.coefficients == again.model.coefficients && trained.model.intercept == again.model.intercept,
        "{name}: other bits"
    );
    trained
}

fn figure<'a>(trained: &'a TrainedModel<f64>, name: &str) -> &'a [f64] {
    &trained.report.figures.iter().find(|figure| figure.name == name).unwrap().values
}

pub(crate) fn close(got: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((got - expected).abs() <= tolerance * expected.abs().max(1.0), "{what}: {got} against {expected}");
}

#[test]
fn kernel_principal_components() {
    let golden = golden();
    let case = &golden.cases["kpca"];
    let options = Options::new().set("components", 6);
    let trained = fit(&golden, "kpca", Task::Components, &options, |_| true);
    let variance = numbers(&case["variance"]);
    for (got, expected) in figure(&trained, "variance").iter().zip(&variance) {
        assert!((got / expected - 1.0).abs() < 1e-8, "{got} against {expected}");
    }
    let scores = rows(&case["scores"]);
    let got: Vec<Vec<f64>> = golden.new.iter().map(|x| predict(&trained, &golden.kernel, x)).collect();
    for j in 0..6 {
        // the sign of a component is arbitrary
        let sign = if got[0][j] * scores[0][j] < 0.0 { -1.0 } else { 1.0 };
        for (got, expected) in got.iter().zip(&scores) {
            close(sign * got[j], expected[j], 1e-6, &format!("component {j}"));
        }
    }
    let whitened = options.set("whiten", true);
    let whitened = fit(&golden, "kpca", Task::Components, &whitened, |_| true);
    let mean_square = |j: usize| {
        let scores = golden.x.iter().map(|x| predict(&whitened, &golden.kernel, x)[j]);
        scores.map(|score| score * score).sum::<f64>() / golden.x.len() as f64
    };
    (0..6).for_each(|j| close(mean_square(j), 1.0, 1e-6, "whitened"));
}

#[test]
fn uncentred_components_are_those_of_the_kernel_matrix() {
    let golden = golden();
    let options = Options::new().set("components", 3).set("uncentred", true);
    let trained = fit(&golden, "kpca", Task::Components, &options, |_| true);
    // the first eigenvalue of K by power iteration
    let k = kmill_tests::kernels::kernel(&golden.kernel);
    let n = golden.x.len();
    let (mut v, mut value) = (vec![1.0; n], 0.0);
    for _ in 0..2000 {
        let w: Vec<f64> = golden.x.iter().map(|x| golden.x.iter().zip(&v).map(|(z, v)| k(x, z) * v).sum()).collect();
        value = w.iter().map(|w| w * w).sum::<f64>().sqrt();
        v = w.iter().map(|w| w / value).collect();
    }
    close(figure(&trained, "variance")[0] * n as f64, value, 1e-9, "the first eigenvalue");
    assert!(trained.model.intercept.iter().all(|c| *c == 0.0));
}

#[test]
fn fisher_discriminants() {
    let golden = golden();
    for (name, classes) in [("fisher", 3.0), ("fisher_two", 2.0)] {
        let case = &golden.cases[name];
        let options = Options::new().set("lambda", case["lambda"].as_f64().unwrap());
        let trained = fit(&golden, "fisher", Task::Classification, &options, |label| label < classes);
        let expected = rows(&case["scores"]);
        for (x, expected) in golden.new.iter().zip(&expected) {
            let got = predict(&trained, &golden.kernel, x);
            // only differences between the scores of the classes are determined
            for j in 0..expected.len() {
                close(got[j] - got[0], expected[j] - expected[0], 1e-6, name);
            }
            if expected.len() == 1 {
                close(got[0], expected[0], 1e-6, name);
            }
        }
        if classes == 3.0 {
            let ratios = figure(&trained, "discriminant ratio");
            let total: f64 = ratios.iter().sum();
            for (ratio, share) in ratios.iter().zip(numbers(&case["share"])) {
                close(ratio / total, share, 1e-6, "share of a discriminant");
            }
        }
    }
}

/// Returns the cluster of each score vector.
fn groups(scores: impl Iterator<Item = Vec<f64>>) -> Vec<usize> {
    let largest = |s: Vec<f64>| (1..s.len()).fold(0, |best, j| if s[j] > s[best] { j } else { best });
    scores.map(largest).collect()
}

/// Returns true if two partitions are equal up to the labels of the clusters.
fn same_partition(a: &[usize], b: &[usize]) -> bool {
    let pairs = || (0..a.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    pairs().all(|(i, j)| (a[i] == a[j]) == (b[i] == b[j]))
}

/// Computes the squared distance from a cluster's mean in feature space, from kernel values.
fn from_mean(k: &kmill_tests::kernels::Kernel, x: &[f64], group: &[&Vec<f64>]) -> f64 {
    let n = group.len() as f64;
    let cross: f64 = group.iter().map(|z| k(x, z)).sum();
    let within: f64 = group.iter().map(|a| group.iter().map(|b| k(a, b)).sum::<f64>()).sum();
    k(x, x) - 2.0 * cross / n + within / (n * n)
}

#[test]
fn kernel_k_means() {
    let golden = golden();
    let best = golden.cases["kmeans"]["mean_square"].as_f64().unwrap();
    let options = Options::new().set("clusters", 4).set("starts", 50);
    let trained = fit(&golden, "kmeans", Task::Clusters, &options, |_| true);
    let found = groups(golden.x.iter().map(|x| predict(&trained, &golden.kernel, x)));
    let k = kmill_tests::kernels::kernel(&golden.kernel);
    let members = |j: usize| (0..golden.x.len()).filter(|i| found[*i] == j).map(|i| &golden.x[i]).collect::<Vec<_>>();
    let groups: Vec<Vec<&Vec<f64>>> = (0..4).map(members).collect();
    let mut squares = 0.0;
    for (x, group) in golden.x.iter().zip(&found) {
        let distances: Vec<f64> = groups.iter().map(|group| from_mean(&k, x, group)).collect();
        assert!(distances.iter().all(|d| *d >= distances[*group] - 1e-9), "a row is nearer to another group's mean");
        squares += distances[*group] / golden.x.len() as f64;
    }
    close(figure(&trained, "mean squared distance")[0], squares, 1e-9, "squares");
    // there are many local optima; scikit-learn's best of 50 starts is one too
    assert!(squares < 1.002 * best, "{squares} against {best}");
    let sizes = figure(&trained, "rows of each cluster");
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    assert!((0..4).all(|j| groups[j].len() as f64 == sizes[j]), "{sizes:?}");
}

#[test]
fn spectral_clustering_finds_rings() {
    let golden = golden();
    let options = Options::new().set("clusters", 4);
    let trained = fit(&golden, "spectral", Task::Clusters, &options, |_| true);
    let expected = numbers(&golden.cases["spectral"]["eigenvalues"]);
    for (got, expected) in figure(&trained, "eigenvalue").iter().zip(&expected) {
        close(*got, *expected, 1e-8, "eigenvalue");
    }
    // three concentric rings, which no hyperplane separates
    let rings = Golden {
        kernel: "gaussian(sigma=0.4)".to_string(),
        x: (0..300).map(point_on_rings).collect(),
        y: vec![0.0; 300],
        new: Vec::new(),
        cases: Value::Null,
    };
    let options = options.set("clusters", 3);
    let truth: Vec<usize> = (0..300).map(|i| i % 3).collect();
    let found = |name: &str| {
        let trained = fit(&rings, name, Task::Clusters, &options, |_| true);
        groups(rings.x.iter().map(|x| predict(&trained, &rings.kernel, x)))
    };
    assert!(same_partition(&found("spectral"), &truth));
    assert!(!same_partition(&found("kmeans"), &truth), "k-means finds them too: the rings test nothing");
}

/// Returns the mean silhouette of rows in feature space, from kernel values.
fn mean_silhouette(k: &kmill_tests::kernels::Kernel, x: &[Vec<f64>], labels: &[usize]) -> f64 {
    let distance = |a: &Vec<f64>, b: &Vec<f64>| (k(a, a) + k(b, b) - 2.0 * k(a, b)).max(0.0).sqrt();
    let silhouette = |i: usize| {
        let mean_distance = |cluster: usize| {
            let others = (0..x.len()).filter(|j| *j != i && labels[*j] == cluster);
            let distances: Vec<f64> = others.map(|j| distance(&x[i], &x[j])).collect();
            distances.iter().sum::<f64>() / distances.len() as f64
        };
        let clusters = labels.iter().max().unwrap() + 1;
        let within = mean_distance(labels[i]);
        let nearest = (0..clusters).filter(|c| *c != labels[i]).map(mean_distance).fold(f64::INFINITY, f64::min);
        (nearest - within) / nearest.max(within)
    };
    (0..x.len()).map(silhouette).sum::<f64>() / x.len() as f64
}

#[test]
fn a_range_of_clusters_keeps_the_number_of_the_largest_silhouette() {
    let golden = golden();
    let k = kmill_tests::kernels::kernel(&golden.kernel);
    let starts = Options::new().set("starts", 20);
    let ranged = fit(&golden, "kmeans", Task::Clusters, &starts.clone().set("clusters", "2..4"), |_| true);
    let counts = ranged.report.cluster_counts.as_ref().unwrap();
    assert_eq!((&counts.clusters[..], counts.sampled_rows, counts.silhouette_rows), (&[2, 3, 4][..], 150, 150));
    let mut best = (f64::NEG_INFINITY, 0);
    for (i, clusters) in counts.clusters.iter().enumerate() {
        let single = fit(&golden, "kmeans", Task::Clusters, &starts.clone().set("clusters", clusters), |_| true);
        // the sample has all rows, so it has the clusters of the fit
        let labels = groups(golden.x.iter().map(|x| predict(&single, &golden.kernel, x)));
        let silhouette = mean_silhouette(&k, &golden.x, &labels);
        close(counts.silhouette[i], silhouette, 1e-8, "silhouette");
        close(counts.mean_squared_distance[i], figure(&single, "mean squared distance")[0], 1e-9, "squares");
        assert!(counts.stability[i].unwrap() <= 1.0);
        if silhouette > best.0 {
            best = (silhouette, *clusters);
        }
        if *clusters == counts.chosen {
            assert!(ranged.model.coefficients == single.model.coefficients, "other bits than {clusters} clusters");
        }
    }
    assert_eq!(counts.chosen, best.1);
    // three rings: the embedding has three points, so that three clusters have silhouette 1
    let rings = Golden {
        kernel: "gaussian(sigma=0.4)".to_string(),
        x: (0..300).map(point_on_rings).collect(),
        y: vec![0.0; 300],
        ..golden
    };
    let spectral = fit(&rings, "spectral", Task::Clusters, &Options::new().set("clusters", "2..5"), |_| true);
    let counts = spectral.report.cluster_counts.unwrap();
    assert!(counts.chosen == 3 && counts.silhouette[1] > 0.99 && counts.stability[1].unwrap() > 0.99, "{counts:?}");
}

#[test]
fn clusters_are_described_by_their_columns_and_typical_rows() {
    let golden = golden();
    let k = kmill_tests::kernels::kernel(&golden.kernel);
    let trained = fit(&golden, "kmeans", Task::Clusters, &Options::new().set("clusters", 3), |_| true);
    let labels = groups(golden.x.iter().map(|x| predict(&trained, &golden.kernel, x)));
    let mean = |j: usize, rows: &[usize]| rows.iter().map(|i| golden.x[*i][j]).sum::<f64>() / rows.len() as f64;
    let all: Vec<usize> = (0..golden.x.len()).collect();
    assert_eq!(trained.model.metadata.clusters, trained.report.clusters);
    for (cluster, profile) in trained.report.clusters.iter().enumerate() {
        let members: Vec<usize> = all.iter().copied().filter(|i| labels[*i] == cluster).collect();
        assert_eq!(profile.rows, members.len() as u64);
        close(profile.fraction, members.len() as f64 / all.len() as f64, 1e-12, "fraction");
        assert!(!profile.columns.is_empty());
        for column in &profile.columns {
            let j: usize = column.column[1..].parse().unwrap();
            let variance =
                all.iter().map(|i| (golden.x[*i][j] - mean(j, &all)).powi(2)).sum::<f64>() / all.len() as f64;
            close(column.mean, mean(j, &members), 1e-9, "mean");
            close(column.mean_of_all, mean(j, &all), 1e-9, "mean of all");
            close(column.difference, (mean(j, &members) - mean(j, &all)) / variance.sqrt(), 1e-9, "difference");
        }
        let group: Vec<&Vec<f64>> = members.iter().map(|i| &golden.x[*i]).collect();
        let mut nearest = members.clone();
        nearest.sort_by(|a, b| from_mean(&k, &golden.x[*a], &group).total_cmp(&from_mean(&k, &golden.x[*b], &group)));
        let expected: Vec<u64> = nearest[..3].iter().map(|i| *i as u64).collect();
        assert_eq!(profile.typical_rows, expected, "cluster {cluster}");
    }
}

#[test]
fn more_clusters_than_points_are_refused() {
    let twins = Golden {
        kernel: "gaussian(sigma=1)".to_string(),
        x: (0..30).map(|i| vec![(i % 2) as f64, 0.0, 0.0]).collect(),
        y: vec![0.0; 30],
        new: Vec::new(),
        cases: Value::Null,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &twins.x, &twins.y);
    let options = Options::new().set("clusters", 3);
    let selected = select(&path, Task::Clusters);
    let all = TrainOptions { rank: 2, ..exact(Task::Clusters, &twins.kernel, 30) };
    let refused = try_solve::<f64>(&selected, &all, "kmeans", &options, 1).unwrap_err();
    assert!(matches!(refused, ksolve::Error::TooFewPoints { asked: 3, distinct: 2 }), "{refused}");
}

/// Runs the textbook perceptron: α counts the mistakes on each row; `one` 0 means no intercept.
fn dual_perceptron(golden: &Golden, classes: usize, sweeps: usize, one: f64) -> (Vec<Vec<f64>>, Vec<f64>) {
    let k = kmill_tests::kernels::kernel(&golden.kernel);
    let n = golden.x.len();
    let (mut alpha, mut c) = (vec![vec![0.0; n]; classes], vec![0.0; classes]);
    for _ in 0..sweeps {
        for (i, x) in golden.x.iter().enumerate() {
            let values: Vec<f64> = golden.x.iter().map(|z| k(x, z)).collect();
            let score = |j: usize| alpha[j].iter().zip(&values).map(|(a, k)| a * k).sum::<f64>() + c[j];
            let scores: Vec<f64> = (0..classes).map(score).collect();
            let class = golden.y[i] as usize;
            let rival =
                (0..classes).rev().filter(|j| *j != class).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
            if scores[rival] >= scores[class] {
                for (j, sign) in [(class, 1.0), (rival, -1.0)] {
                    alpha[j][i] += sign;
                    c[j] += sign * one;
                }
            }
        }
    }
    (alpha, c)
}

#[test]
fn the_perceptron_makes_the_mistakes_of_its_dual_form() {
    let golden = golden();
    let sweeps = 7;
    let options = Options::new().set("steps", sweeps).set("last", true);
    for (intercept, one) in [("free", 1.0), ("none", 0.0)] {
        let (alpha, c) = dual_perceptron(&golden, 3, sweeps, one);
        let options = options.clone().set("intercept", intercept);
        let trained = fit(&golden, "perceptron", Task::Classification, &options, |_| true);
        let total: f64 = figure(&trained, "mistakes of each sweep").iter().sum();
        let counted: f64 = alpha.iter().flatten().map(|a| a.max(0.0)).sum();
        assert_eq!(total, counted, "mistakes");
        assert!(intercept == "free" || trained.model.intercept.iter().all(|c| *c == 0.0));
        let k = kmill_tests::kernels::kernel(&golden.kernel);
        for x in &golden.new {
            let got = predict(&trained, &golden.kernel, x);
            for j in 0..3 {
                let expected = golden.x.iter().zip(&alpha[j]).map(|(z, a)| a * k(x, z)).sum::<f64>() + c[j];
                close(got[j], expected, 1e-6, "score");
            }
        }
    }
    // the warning reports the mistakes of the last sweep only
    let last = ksolve::job::Fit::solver("perceptron").unwrap().rank(golden.x.len()).set("steps", 3).set("last", true);
    let report = run(&last, &table(&golden.x, &golden.y), 1).unwrap().report;
    let mistakes = &report.figures.iter().find(|figure| figure.name == "mistakes of each sweep").unwrap().values;
    let said = format!("the last of 3 sweeps still made {} mistakes", mistakes[2]);
    assert!(mistakes[2] > 0.0 && report.warnings.iter().any(|text| text.contains(&said)), "{:?}", report.warnings);
    // separated classes: the search ends with a sweep without a mistake
    let apart = |x: &Vec<f64>, y: &f64| x.iter().map(|v| v + 6.0 * y).collect();
    let x = golden.x.iter().zip(&golden.y).map(|(x, y)| apart(x, y)).collect();
    let far = Golden { x, kernel: golden.kernel.clone(), y: golden.y.clone(), new: vec![], cases: Value::Null };
    for averaged in [false, true] {
        let options = options.clone().set("steps", 1000).set("last", !averaged);
        let separable = fit(&far, "perceptron", Task::Classification, &options, |label| label < 2.0);
        let mistakes = figure(&separable, "mistakes of each sweep");
        assert!(mistakes.len() < 100 && mistakes.last() == Some(&0.0), "{mistakes:?}");
        let rows = || far.x.iter().zip(&far.y).filter(|(_, y)| **y < 2.0);
        let wrong = rows().filter(|(x, y)| (predict(&separable, &far.kernel, x)[0] > 0.0) != (**y == 1.0)).count();
        assert!(wrong <= usize::from(averaged), "{wrong}");
    }
}

/// Returns point i on three concentric rings, which no hyperplane separates.
fn point_on_rings(i: usize) -> Vec<f64> {
    let (radius, angle) = ((i % 3) as f64 * 2.0 + 1.0, i as f64 * 2.399_963);
    vec![radius * angle.cos(), radius * angle.sin(), 0.0]
}
