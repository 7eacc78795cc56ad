//! Local models in leaves, recomputed from the model's tree and kernel values alone.

use crate::solver_laws::{bytes, run, table};
use crate::solvers::close;
use kmill_tests::dense::{kernel_matrix, solve};
use kmill_tests::kernels;
use kmill_tests::points::Lcg;
use kmodel::model::{Basis, LinearHead};
use ksolve::job::{ElementType, Fit, Fitted, Run};
use ksolve::job::{LandmarkSource, Scaling};
use ksolve::predict::Predictor;
use ksolve::{AnyModel, Model};
use kstore::{Selection, Table};

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
    assert!(said(fit(20, 50).set("folds", "none")).contains("`folds`"));
    let table: Table = table(&x, &y);
    let selection = Selection { features: vec!["x*".into()], targets: vec!["y".into()], ..Selection::default() };
    let folder = tempfile::tempdir().unwrap();
    let shards =
        ksolve::shards::PreparedJob::prepare(&fit(20, 50), &table, &selection, &Run::new(), &folder.path().join("job"));
    assert!(shards.unwrap_err().to_string().contains("`local`"));
}
