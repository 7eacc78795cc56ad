//! Local models in leaves, recomputed from the model's tree and kernel values alone.

use crate::solver_laws::{bytes, run, table};
use crate::solvers::close;
use kapprox::metric::Metric;
use kmill_tests::dense::{kernel_matrix, solve};
use kmill_tests::kernels;
use kmill_tests::points::Lcg;
use kmodel::model::{Basis, LinearHead};
use ksolve::job::{ElementType, Fit, Fitted, Run};
use ksolve::job::{LandmarkSource, MetricSource, Scaling};
use ksolve::predict::Predictor;
use ksolve::{AnyModel, Model};
use kstore::{Selection, Table};
use std::sync::Arc;

type Rows = Vec<Vec<f64>>;

const KERNEL: &str = "exponential(sigma=1)";

/// A smooth function plus a fast oscillation, which few features cannot represent.
fn rows(n: usize) -> (Rows, Vec<f64>) {
    let mut random = Lcg(41);
    let x: Rows = (0..n).map(|_| vec![16.0 * random.uniform() - 8.0, 2.0 * random.uniform()]).collect();
    let y = x.iter().map(|x| x[0] + (4.0 * x[0]).sin() + 0.5 * x[1] + 0.05 * random.normal()).collect();
    (x, y)
}

fn fit(rank: usize, local: usize) -> Fit {
    let fit = Fit::ridge().scaling(Scaling::None).precision(ElementType::F64).rank(rank).set("lambda", 1e-5);
    let fit = fit.landmarks(LandmarkSource::Scheme("uniform".to_string())).kernel(KERNEL.parse().unwrap());
    fit.set("local", local)
}

fn figure(fitted: &Fitted, name: &str) -> Option<f64> {
    Some(fitted.report.figures.iter().find(|figure| figure.name == name)?.values[0])
}

fn model(fitted: &Fitted) -> &Model<f64> {
    match &fitted.model {
        AnyModel::F64(model) => model,
        AnyModel::F32(_) => panic!("f64 was asked for"),
    }
}

fn functions(model: &Model<f64>, LinearHead { weights, intercept }: &LinearHead, x: &[f64]) -> Vec<f64> {
    let Basis::Landmarks { points, .. } = &model.basis else { panic!("landmarks") };
    let k = kernels::kernel(KERNEL);
    let b: Vec<f64> = points.chunks(x.len()).map(|z| k(x, z)).collect();
    (0..intercept.len())
        .map(|j| intercept[j] + b.iter().enumerate().map(|(i, b)| b * weights[(i, j)]).sum::<f64>())
        .collect()
}

/// Computes the membership weights of a row in all leaves, along every path.
fn shares(widths: &[f64], values: &[f64]) -> Vec<f64> {
    let leaves = widths.len() + 1;
    (0..leaves)
        .map(|leaf| {
            let (mut place, mut share) = (leaf + widths.len(), 1.0);
            while place > 0 {
                let parent = (place - 1) / 2;
                let second = (0.5 + 0.5 * values[parent] / widths[parent]).clamp(0.0, 1.0);
                share *= if place == 2 * parent + 2 { second } else { 1.0 - second };
                place = parent;
            }
            share
        })
        .collect()
}

fn predicted(model: &AnyModel, x: &Rows) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    Predictor::new(model.clone()).unwrap().predict(&x.concat(), &mut out).unwrap();
    out
}

#[test]
fn every_leaf_is_a_machine_on_what_the_features_leave() {
    let (x, y) = rows(1000);
    let fitted = run(&fit(20, 300).set("folds", "blocks:5"), &table(&x, &y), 2).unwrap();
    let (model, k) = (model(&fitted), kernels::kernel(KERNEL));
    let leaves = model.leaves.as_ref().unwrap();
    let all = LinearHead { weights: model.coefficients.clone(), intercept: model.intercept.clone() };
    assert_eq!((leaves.row_counts.len(), figure(&fitted, "leaves")), (4, Some(4.0)));
    let mu = figure(&fitted, "lambda of the leaves").unwrap() * 1000.0;
    // a model without the first fold, on the same landmarks
    let Basis::Landmarks { points, .. } = &model.basis else { panic!("landmarks") };
    let landmarks: Rows = points.chunks(2).map(<[f64]>::to_vec).collect();
    let landmarks =
        table(&landmarks, &[0.0; 20]).select(&Selection { features: vec!["x*".into()], ..Selection::default() });
    let unseen =
        fit(20, 300).without_rank_parameters().rank(20).landmarks(LandmarkSource::Rows(Box::new(landmarks.unwrap())));
    let unseen = run(&unseen, &table(&x[200..].to_vec(), &y[200..]), 2).unwrap();
    let unseen = self::model(&unseen);
    let before = LinearHead { weights: unseen.coefficients.clone(), intercept: unseen.intercept.clone() };
    let (mut first, mut found) = (0, vec![0; 1000]);
    let mut machines: Vec<(Rows, Vec<f64>)> = Vec::new();
    let mut held_out: Vec<[f64; 3]> = Vec::new();
    for count in &leaves.row_counts {
        let points: Rows = leaves.points[2 * first..2 * (first + count)].chunks(2).map(<[f64]>::to_vec).collect();
        let places: Vec<usize> = points.iter().map(|p| x.iter().position(|x| x == p).unwrap()).collect();
        places.iter().for_each(|place| found[*place] += 1);
        let left: Vec<f64> = places.iter().map(|i| y[*i] - functions(model, &all, &x[*i])[0]).collect();
        let mut system = kernel_matrix(&points, &*k);
        (0..*count).for_each(|i| system[i][i] += mu);
        let alpha = solve(&system, &left);
        let largest = alpha.iter().fold(0.0f64, |most, a| most.max(a.abs()));
        for (i, alpha) in alpha.iter().enumerate() {
            close(leaves.coefficients[(first + i, 0)] / largest, alpha / largest, 1e-6, "alpha");
        }
        // held-out rows of a leaf, predicted by its other rows and weighted by membership
        let left: Vec<f64> = places.iter().map(|i| y[*i] - functions(unseen, &before, &x[*i])[0]).collect();
        let (apart, others): (Vec<usize>, Vec<usize>) = (0..*count).partition(|i| places[*i] < 200);
        let learned: Vec<f64> = others.iter().map(|i| left[*i]).collect();
        let part: Rows = others.iter().map(|i| others.iter().map(|j| system[*i][*j]).collect()).collect();
        let of_others = solve(&part, &learned);
        let mut sums = [0.0; 3];
        for i in apart {
            let shares = shares(&leaves.half_widths, &functions(model, &leaves.splits, &points[i]));
            let share = shares[machines.len()];
            let after =
                left[i] - others.iter().zip(&of_others).map(|(j, a)| a * k(&points[i], &points[*j])).sum::<f64>();
            [share, share * left[i].powi(2), share * after.powi(2)]
                .iter()
                .zip(&mut sums)
                .for_each(|(v, sum)| *sum += v);
        }
        held_out.push(sums);
        machines.push((points, alpha));
        first += count;
    }
    // the reported errors are computed on three of the four leaves
    let sum = |column: usize| [0, 2, 3].iter().map(|leaf| held_out[*leaf][column]).sum::<f64>();
    let told = ["held-out mse of the features", "held-out mse with leaves"].map(|name| figure(&fitted, name).unwrap());
    close(told[0], sum(1) / sum(0), 1e-6, "error without leaves");
    close(told[1], sum(2) / sum(0), 1e-6, "error with leaves");
    assert!(found.iter().all(|count| (1..=4).contains(count)), "every row is in a leaf");
    // the reported training error equals the whole model's
    let of_model = predicted(&fitted.model, &x).iter().zip(&y).map(|(got, y)| (got - y).powi(2)).sum::<f64>() / 1000.0;
    close(fitted.report.train.unwrap().mse / of_model, 1.0, 1e-6, "train mse");
    // only rows near a boundary are in two leaves
    assert!((1010..1300).contains(&first), "{first}");
    let mut random = Lcg(42);
    let mut new: Rows = (0..60).map(|_| vec![4.0 * random.normal(), 2.0 * random.uniform()]).collect();
    new.extend(x[..40].to_vec());
    let got = predicted(&fitted.model, &new);
    let mut mixed = 0;
    for (new, got) in new.iter().zip(&got) {
        let shares = shares(&leaves.half_widths, &functions(model, &leaves.splits, new));
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        mixed += usize::from(shares.iter().all(|share| *share < 1.0));
        let of = |(points, alpha): &(Rows, Vec<f64>)| points.iter().zip(alpha).map(|(z, a)| a * k(new, z)).sum::<f64>();
        let expected =
            functions(model, &all, new)[0] + machines.iter().zip(shares).map(|(m, share)| share * of(m)).sum::<f64>();
        close(*got, expected, 1e-6, "prediction");
    }
    assert!(mixed > 0, "some rows lie at an edge");
    // a single row has the same bits as in a batch, also after a round trip through a file
    let predictor = Predictor::from_bytes(&bytes(&fitted.model)).unwrap();
    let mut scratch = predictor.scratch();
    for (new, got) in new.iter().zip(&got) {
        let mut alone = [0.0];
        predictor.predict_with_scratch(new, &mut alone, &mut scratch).unwrap();
        assert_eq!(alone[0].to_bits(), got.to_bits());
    }
}

#[test]
fn leaves_see_what_few_features_do_not_and_are_left_out_where_they_do_not_help() {
    let (x, y) = rows(3000);
    let (seen, unseen) = (table(&x[..2400].to_vec(), &y[..2400]), &x[2400..].to_vec());
    let error = |fitted: &Fitted| {
        let got = predicted(&fitted.model, unseen);
        got.iter().zip(&y[2400..]).map(|(got, y)| (got - y).powi(2)).sum::<f64>() / got.len() as f64
    };
    let with = run(&fit(20, 500), &seen, 2).unwrap();
    let without = run(&fit(20, 500).without_rank_parameters().rank(20), &seen, 2).unwrap();
    assert!(
        model(&without).leaves.is_none() && error(&with) < 0.3 * error(&without),
        "{} {}",
        error(&with),
        error(&without)
    );
    // the held-out error of the report predicts the error on new rows
    let promised = figure(&with, "held-out mse with leaves").unwrap();
    assert!((promised / error(&with) - 1.0).abs() < 0.3, "{promised} told, {} on new rows", error(&with));
    assert!(promised < 0.5 * figure(&with, "held-out mse of the features").unwrap());
    for threads in [1, 3] {
        let other = run(&fit(20, 500), &seen, threads).unwrap();
        assert!(bytes(&other.model) == bytes(&with.model), "{threads}");
    }
    // f32 gives the same up to rounding
    let narrow = run(&fit(20, 500).precision(ElementType::F32), &seen, 2).unwrap();
    predicted(&narrow.model, unseen)
        .iter()
        .zip(predicted(&with.model, unseen))
        .for_each(|(narrow, wide)| close(*narrow, wide, 2e-3, "f32"));
    // noise is not learned
    let mut random = Lcg(43);
    let noise: Vec<f64> = x[..2400].iter().map(|x| x[0] + random.normal()).collect();
    let plain = run(&fit(200, 500), &table(&x[..2400].to_vec(), &noise), 2).unwrap();
    assert!(model(&plain).leaves.is_none());
    assert!(plain.report.warnings.is_empty() || plain.report.warnings.iter().any(|text| text.contains("discarded")));
    assert_eq!(figure(&plain, "leaves"), None);
}

#[test]
fn leaves_of_classes_and_several_targets_and_of_one_leaf() {
    let (x, y) = rows(1200);
    let classes: Vec<f64> = y.iter().zip(&x).map(|(y, x)| f64::from(u8::from(*y > x[0]))).collect();
    let on = |fit: &Fit, y: &[f64]| {
        let selection = Selection { features: vec!["x*".into()], targets: vec!["y".into()], ..Selection::default() };
        let selected = table(&x, y).select(&fit.complete_selection(selection).unwrap()).unwrap();
        fit.run(&selected, &Run::new().memory(1 << 30).threads(2)).unwrap()
    };
    let wrong = |fitted: &Fitted| {
        let got = predicted(&fitted.model, &x);
        got.iter().zip(&classes).filter(|(got, class)| (**got > 0.0) != (**class > 0.5)).count()
    };
    let with = on(&fit(20, 400).set("task", "classification"), &classes);
    let without = on(&fit(20, 400).without_rank_parameters().rank(20).set("task", "classification"), &classes);
    assert!(4 * wrong(&with) < wrong(&without), "{} {}", wrong(&with), wrong(&without));
    // one leaf has all rows
    let one = on(&fit(20, 5000), &y);
    assert_eq!(model(&one).leaves.as_ref().unwrap().row_counts, [1200]);
    // two targets are learned like each alone
    let wide: Rows = x.iter().zip(&y).map(|(x, y)| vec![x[0], x[1], -y]).collect();
    let both = fit(20, 400).fit_table(&table(&wide, &y), &["y", "x2"], &Run::new().memory(1 << 30)).unwrap();
    let predictor = Predictor::new(both.model).unwrap();
    let mut out = vec![0.0; 2400];
    predictor.predict(&x.concat(), &mut out).unwrap();
    out.chunks(2).for_each(|pair| close(pair[0], -pair[1], 1e-7, "the second is the first, negative"));
}

/// A series: a smooth function of a column, and a function of time that changes within a few rows.
fn series(n: usize) -> (Rows, Vec<f64>) {
    let mut random = Lcg(44);
    let mut state = 0.0;
    let row = |i: usize| {
        state = 0.95 * state + 0.3 * random.normal();
        let x = vec![2.0 * random.uniform() - 1.0, i as f64 / 1000.0];
        let y = (2.0 * x[0]).sin() + state + 0.02 * random.normal();
        (x, y)
    };
    (0..n).map(row).unzip()
}

#[test]
fn leaves_with_their_own_kernel_predict_rows_between_and_leave_later_rows_alone() {
    let (x, y) = series(1800);
    let chosen = |keep: &dyn Fn(usize) -> bool| -> (Rows, Vec<f64>) {
        (0..1800).filter(|i| keep(*i)).map(|i| (x[i].clone(), y[i])).unzip()
    };
    let (seen, between, later) =
        (chosen(&|i| i < 1500 && i % 6 > 0), chosen(&|i| i < 1500 && i % 6 == 0), chosen(&|i| i >= 1500));
    let features = fit(30, 700).clip(true).set("folds", "blocks:6").kernel("gaussian(sigma=3)".parse().unwrap());
    let own = features.clone().set("local_kernel", "exponential()");
    let without = features.clone().without_rank_parameters().rank(30);
    let on = |fit: &Fit| run(fit, &table(&seen.0, &seen.1), 2).unwrap();
    let error = |fitted: &Fitted, (x, y): &(Rows, Vec<f64>)| {
        predicted(&fitted.model, x).iter().zip(y).map(|(got, y)| (got - y).powi(2)).sum::<f64>() / y.len() as f64
    };
    let (own, without) = (on(&own), on(&without));
    assert!(error(&own, &between) < 0.3 * error(&without, &between), "{}", error(&own, &between));
    assert!(error(&own, &later) < 1.02 * error(&without, &later), "{}", error(&own, &later));
    let told = figure(&own, "mse with leaves, random rows").unwrap();
    assert!((told / error(&own, &between) - 1.0).abs() < 0.4, "{told}, {}", error(&own, &between));
    // the prediction is the sum of the features and of the leaves, with their kernel
    let fitted = model(&own);
    let leaf_kernel = fitted.metadata.leaf_kernel.clone().unwrap();
    let list = leaf_kernel.strip_prefix("exponential(sigma=[").and_then(|text| text.strip_suffix("])")).unwrap();
    let lengths: Vec<f64> = list.split(", ").map(|length| length.parse().unwrap()).collect();
    let k = |x: &[f64], z: &[f64]| (-((x[0] - z[0]) / lengths[0]).hypot((x[1] - z[1]) / lengths[1])).exp();
    let of_features = kernels::kernel("gaussian(sigma=3)");
    let (leaves, Basis::Landmarks { points, .. }) = (fitted.leaves.as_ref().unwrap(), &fitted.basis) else {
        panic!("landmarks")
    };
    let head = |head: &LinearHead, x: &[f64]| -> Vec<f64> {
        let b: Vec<f64> = points.chunks(2).map(|z| of_features(x, z)).collect();
        let sum = |j: usize| b.iter().enumerate().map(|(i, b)| b * head.weights[(i, j)]).sum::<f64>();
        (0..head.intercept.len()).map(|j| head.intercept[j] + sum(j)).collect()
    };
    let all = LinearHead { weights: fitted.coefficients.clone(), intercept: fitted.intercept.clone() };
    // the tree splits the inputs of the kernel, first along the time, whose length scale is short
    let weights = &leaves.splits.weights;
    assert!(1.5 * weights[(1, 0)].abs() > 10.0 * 2.0 * weights[(0, 0)].abs(), "{weights:?}");
    let node_values = |x: &[f64]| -> Vec<f64> {
        let value = |j: usize| leaves.splits.intercept[j] + weights[(0, j)] * x[0] + weights[(1, j)] * x[1];
        (0..weights.ncols()).map(value).collect()
    };
    let ends: Vec<usize> = leaves.row_counts.iter().scan(0, |end, count| (*end += count, Some(*end)).1).collect();
    let clip = |x: &Vec<f64>| -> Vec<f64> {
        x.iter().zip(&fitted.metadata.ranges).map(|(x, range)| x.clamp(range[0], range[1])).collect()
    };
    // only the features see clipped rows
    for (x, got) in between.0.iter().chain(&later.0).zip(predicted(&own.model, &[&between.0[..], &later.0].concat())) {
        let shares = shares(&leaves.half_widths, &node_values(x));
        let of_leaf = |leaf: usize| {
            let rows = ends[leaf] - leaves.row_counts[leaf]..ends[leaf];
            rows.map(|i| leaves.coefficients[(i, 0)] * k(x, &leaves.points[2 * i..2 * i + 2])).sum::<f64>()
        };
        let expected = head(&all, &clip(x))[0] + (0..ends.len()).map(|leaf| shares[leaf] * of_leaf(leaf)).sum::<f64>();
        close(got, expected, 1e-6, "prediction");
    }
    // a file keeps the kernel
    let again = Predictor::from_bytes(&bytes(&own.model)).unwrap();
    let mut out = vec![0.0; later.1.len()];
    again.predict(&later.0.concat(), &mut out).unwrap();
    assert_eq!(out, predicted(&own.model, &later.0));
}

#[test]
fn leaves_with_their_own_kernel_are_discarded_if_they_do_not_hold_on_the_last_fold() {
    let mut random = Lcg(45);
    let x: Rows = (0..1800).map(|_| vec![2.0 * random.uniform() - 1.0, random.uniform()]).collect();
    let target = |sign: f64| -> Vec<f64> {
        let rows = x.iter().enumerate();
        rows.map(|(i, x)| (2.0 * x[0]).sin() + if i < 1500 { 1.0 } else { sign } * (20.0 * x[0]).sin()).collect()
    };
    let fit = fit(30, 700).set("folds", "blocks:6").kernel("gaussian(sigma=3)".parse().unwrap());
    let fit = fit.set("local_kernel", "exponential()");
    let on = |sign: f64| run(&fit, &table(&x, &target(sign)), 2).unwrap();
    let (same, opposite) = (on(1.0), on(-1.0));
    assert!(model(&same).leaves.is_some());
    let errors = ["mse of the features, random rows", "mse with leaves, random rows"];
    let [without, with] = errors.map(|name| figure(&opposite, name).unwrap());
    assert!(with < 0.9 * without && model(&opposite).leaves.is_none(), "{with} {without}");
    let errors = ["held-out mse of the features", "held-out mse with leaves"];
    let [without, with] = errors.map(|name| figure(&opposite, name).unwrap());
    assert!(with > 1.5 * without, "{with} {without}");
}

#[test]
fn leaves_with_their_own_kernel_see_the_features_before_a_full_metric() {
    let (x, y) = series(900);
    let metric = Metric::matrix(&[1.0, 0.5, 0.5, 1.0], 2).unwrap();
    let fit = fit(30, 500).set("folds", "blocks:6").set("local_kernel", "exponential()");
    let fit = fit.metric(MetricSource::from_metric(Arc::new(metric)));
    let fitted = run(&fit, &table(&x, &y), 2).unwrap();
    let leaves = model(&fitted).leaves.as_ref().unwrap();
    // the first row of the table is in the first rows of a leaf
    let has_row =
        |row: &Vec<f64>| leaves.points.chunks(2).any(|p| (p[0] - row[0]).abs() + (p[1] - row[1]).abs() < 1e-9);
    assert!(x.iter().step_by(50).all(has_row));
    let (got, mean) = (predicted(&fitted.model, &x), y.iter().sum::<f64>() / 900.0);
    let error: f64 = got.iter().zip(&y).map(|(got, y)| (got - y).powi(2)).sum();
    let variance: f64 = y.iter().map(|y| (y - mean).powi(2)).sum();
    assert!(error < 0.1 * variance, "{error} {variance}");
}

#[test]
fn what_leaves_cannot_do_is_refused_in_a_sentence() {
    let (x, y) = rows(200);
    let said = |fit: Fit| run(&fit, &table(&x, &y), 1).unwrap_err().to_string();
    for name in ["std", "loo", "importance"] {
        let text = said(fit(20, 50).set(name, true).set("folds", "none"));
        assert!(text.contains(&format!("`{name}`")) && text.contains("leaves"), "{text}");
    }
    assert!(said(fit(20, 50).set("method", "pcg").set("folds", "none")).contains("`local`"));
    assert!(said(fit(20, 50).map("exact".parse().unwrap())).contains("exact"));
    assert!(said(fit(20, 50).set("lambda", 0)).contains("`local`"));
    for kernel in ["linear()", "exponential(on=x0)"] {
        assert!(said(fit(20, 50).set("local_kernel", kernel)).contains("`local_kernel`"), "{kernel}");
    }
    let alone = fit(20, 50).without_rank_parameters().rank(20).set("local_kernel", "exponential()");
    assert!(said(alone).contains("set `local`"));
    assert!(said(fit(20, 50).set("folds", "none")).contains("`folds`"));
    let table: Table = table(&x, &y);
    let selection = Selection { features: vec!["x*".into()], targets: vec!["y".into()], ..Selection::default() };
    let folder = tempfile::tempdir().unwrap();
    let shards =
        ksolve::shards::PreparedJob::prepare(&fit(20, 50), &table, &selection, &Run::new(), &folder.path().join("job"));
    assert!(shards.unwrap_err().to_string().contains("`local`"));
}
