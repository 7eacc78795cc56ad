//! Poisson, Gamma and Tweedie regression compared with the generalised linear models of
//! scikit-learn on the same features.

use ksolve::job::{Candidates, ElementType, Fit, LandmarkSource, Run, Scaling};
use ksolve::predict::{Evaluation, Predictor};
use kstore::{Selection, Table};
use std::fmt::Write;

const N: usize = 60;

/// Predictions of rows 0, 7 and 59, and the mean deviance, of scikit-learn 1.9:
///
/// ```text
/// i = np.arange(60.0); x = np.c_[np.sin(.7*i), np.cos(1.3*i) + .01*i]; e = 1 + i % 4
/// y = np.exp(.5 + x[:,0] - .3*x[:,1]) * (1 + .9*np.sin(17*i))
/// if p < 2: y = np.where(np.sin(17*i) < -.5, 0, y)
/// if p == 1: y = np.floor(y)
/// # K is the kernel matrix
/// s, U = np.linalg.eigh(K); phi = (U*np.sqrt(s))[:, s > 1e-12*s.max()]
/// w = e if exposure else np.ones(60)
/// m = TweedieRegressor(power=p, link='log', alpha=2e-3, tol=1e-13, max_iter=100000,
///     solver='newton-cholesky').fit(phi, y/w, sample_weight=w**(2-p))
/// f = m.predict(phi)
/// f[[0, 7, 59]], mean_tweedie_deviance(y/w, f, power=p, sample_weight=w**(2-p))
/// ```
const GOLDEN: [(&str, f64, bool, [f64; 3], f64); 12] = [
    ("linear", 1.0, false, [0.6173500285248152, 0.33710278930757875, 0.3406360912352719], 1.541892071183746),
    ("linear", 1.0, true, [0.259133861263387, 0.13716591040076662, 0.14491961007509455], 0.7577925276772101),
    ("linear", 1.5, false, [1.0701081832960917, 0.7327353240093248, 0.7054741791699566], 1.8775661551976128),
    ("linear", 1.5, true, [0.4858607956724263, 0.3290997623058701, 0.32128423954731766], 1.4283044993740368),
    ("linear", 2.0, false, [1.1911066037042803, 0.7946244251596969, 0.7958366270745795], 0.6641693093757708),
    ("linear", 2.0, true, [0.6005622836794445, 0.4081266817759866, 0.40063109417176146], 0.9035968244129532),
    ("gaussian", 1.0, false, [0.5851011078026859, 0.386473718773341, 0.2645073809275612], 1.3970540275492442),
    ("gaussian", 1.0, true, [0.2681240402185684, 0.17844923496646659, 0.12566112505507848], 0.7031299865975882),
    ("gaussian", 1.5, false, [1.0829082585408885, 0.8470557736427455, 0.6361685240589195], 1.8223192318846102),
    ("gaussian", 1.5, true, [0.5132843848779955, 0.3650048636010866, 0.30127152682458985], 1.3911257941681276),
    ("gaussian", 2.0, false, [1.1491577288085455, 0.8252130267879074, 0.7058537777774826], 0.6441030216430507),
    ("gaussian", 2.0, true, [0.6028808494180438, 0.41110854577866673, 0.3550938104922933], 0.8710723110852084),
];

/// The rows of the golden values, as a text table.
fn text(power: f64) -> String {
    let mut text = "a,b,y,e\n".to_string();
    for i in 0..N {
        let t = i as f64;
        let (a, b, wave) = ((0.7 * t).sin(), (1.3 * t).cos() + 0.01 * t, (17.0 * t).sin());
        let y = (0.5 + a - 0.3 * b).exp() * (1.0 + 0.9 * wave);
        let y = if power < 2.0 && wave < -0.5 { 0.0 } else { y };
        let y = if power == 1.0 { y.floor() } else { y };
        writeln!(text, "{a},{b},{y},{}", 1 + i % 4).unwrap();
    }
    text
}

fn selection() -> Selection {
    Selection { features: vec!["a".into(), "b".into()], targets: vec!["y".into()], ..Selection::default() }
}

fn glm(kernel: &str, power: f64) -> Fit {
    let kernel = if kernel == "linear" { "linear()" } else { "gaussian(sigma=1.2)" };
    let fit = Fit::solver("glm").unwrap().rank(N).kernel(kernel.parse().unwrap()).scaling(Scaling::None);
    let fit = fit.landmarks(LandmarkSource::Scheme("uniform".to_string())).candidates(Candidates::Rows(N as u64));
    let fit = fit.precision(ElementType::F64).set("lambda", 1e-3);
    match power {
        1.0 => fit,
        2.0 => fit.set("family", "gamma"),
        _ => fit.set("family", "tweedie").set("power", power),
    }
}

fn fitted(fit: &Fit, text: &str) -> ksolve::Result<(Predictor, Table)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    std::fs::write(&path, text).unwrap();
    let table = Table::open(&[path])?;
    let selected = table.select(&fit.complete_selection(selection())?)?;
    let model = fit.run(&selected, &Run::new())?.model;
    // the rows of a text file are read again in an evaluation
    std::mem::forget(folder);
    Ok((Predictor::new(model)?, table))
}

#[test]
fn predictions_and_deviances_are_those_of_scikit_learn() {
    for (kernel, power, has_exposure, expected, expected_deviance) in GOLDEN {
        let what = format!("{kernel}, power {power}, exposure {has_exposure}");
        let fit = glm(kernel, power);
        let fit = if has_exposure { fit.set("exposure", "e") } else { fit };
        let (predictor, table) = fitted(&fit, &text(power)).unwrap();
        for (row, expected) in [0usize, 7, 59].into_iter().zip(expected) {
            let t = row as f64;
            let mut out = [0.0];
            predictor.predict(&[(0.7 * t).sin(), (1.3 * t).cos() + 0.01 * t], &mut out).unwrap();
            assert!((out[0] - expected).abs() < 2e-6 * expected, "{what}: {} {expected}", out[0]);
        }
        let weight = has_exposure.then(|| "e".to_string());
        let selected = predictor.select(&table, Selection { weight, ..selection() }).unwrap();
        let Evaluation::Regression(scores) = predictor.evaluate(&selected, &Run::new()).unwrap().0 else {
            panic!("glm is a regression")
        };
        let loss = scores.loss.unwrap();
        assert!((loss.mean - expected_deviance).abs() < 1e-8, "{what}: {} {expected_deviance}", loss.mean);
        assert_eq!(loss.name, ["poisson", "tweedie", "gamma"][(2.0 * (power - 1.0)) as usize]);
    }
}

/// Without a free intercept, and in f32: the same function as with one, up to the penalty.
#[test]
fn targets_far_from_one_converge() {
    for (scale, family) in [(1e6, "poisson"), (1e-6, "gamma"), (1e5, "gamma")] {
        let mut rows = "a,b,y,e\n".to_string();
        for i in 0..400 {
            let (a, b) = ((0.7 * f64::from(i)).sin(), (1.3 * f64::from(i)).cos());
            let y = (scale * (a - b).exp() * (1.0 + 0.1 * (17.0 * f64::from(i)).sin())).max(1e-12);
            writeln!(rows, "{a},{b},{y},1").unwrap();
        }
        let fit = Fit::solver("glm").unwrap().rank(40).set("family", family).set("lambda", "1e-8,1e-6,1e-4");
        let (predictor, table) = fitted(&fit, &rows).unwrap();
        let selected = predictor.select(&table, selection()).unwrap();
        let Evaluation::Regression(scores) = predictor.evaluate(&selected, &Run::new()).unwrap().0 else {
            panic!("glm is a regression")
        };
        assert!(scores.scores.r2.unwrap() > 0.98, "{family} {scale}: {:?}", scores.scores.r2);
    }
}

#[test]
fn unsuitable_targets_and_options_are_rejected() {
    let message = |fit: &Fit, text: &str| match fitted(fit, text) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    let zeros = text(1.0);
    let negative = zeros.replace("\n", "\n0.1,0.2,-1,1\n");
    let constant = "a,b,y,e\n1,2,0,1\n2,1,0,1\n3,1,0,2\n";
    let poisson = glm("linear", 1.0);
    let cases = [
        (glm("linear", 2.0), &zeros[..], "above 0"),
        (poisson.clone(), &negative, "0 or more"),
        (poisson.clone(), constant, "must be positive"),
        (poisson.clone().set("power", 1.5), &zeros, "`family` tweedie"),
        (glm("linear", 1.5).set("power", 2.5), &zeros, "below 2"),
        (poisson.clone().set("exposure", "e").set("weights", "e"), &zeros, "leave one of the two out"),
        (poisson.map("exact".parse().unwrap()), &zeros, "`map` exact"),
    ];
    for (fit, text, expected) in cases {
        let message = message(&fit, text);
        assert!(message.contains(expected), "{expected}: {message}");
    }
}
