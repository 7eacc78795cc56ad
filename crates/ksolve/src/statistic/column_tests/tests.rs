use super::*;

/// Returns the moments of every feature of a sample of `d` features, computed directly.
fn moments_of(x: &[f64], d: usize) -> Vec<ColumnMoments> {
    let moments = |j: usize| {
        let values: Vec<f64> = x.iter().skip(j).step_by(d).copied().filter(|value| !value.is_nan()).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        ColumnMoments {
            count: values.len() as u64,
            weight_sum: count,
            mean,
            m2: values.iter().map(|value| (value - mean).powi(2)).sum(),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            is_integer: false,
        }
    };
    (0..d).map(moments).collect()
}

fn numbers(name: &str, samples: [Vec<f64>; 2]) -> Option<ColumnDifference> {
    let moments = [moments_of(&samples[0], 1)[0], moments_of(&samples[1], 1)[0]];
    let rows = [samples[0].len() as u64, samples[1].len() as u64];
    test_numbers(name, samples, [(&moments[0], rows[0]), (&moments[1], rows[1])])
}

/// Tests a category whose levels are features of zeros and ones.
fn category(levels: &[(usize, String)], counts: [&[usize]; 2]) -> Option<ColumnDifference> {
    let samples = counts
        .map(|counts| counts.iter().enumerate().flat_map(|(level, n)| vec![level as f64; *n]).collect::<Vec<f64>>());
    let inputs = [0, 1].map(|side: usize| {
        let level = |j: usize| samples[side].iter().map(|level| f64::from(*level == j as f64)).collect::<Vec<f64>>();
        (0..levels.len()).map(|j| moments_of(&level(j), 1)[0]).collect::<Vec<ColumnMoments>>()
    });
    let moments = [0, 1].map(|side: usize| FeatureMoments { rows: samples[side].len() as u64, inputs: &inputs[side] });
    test_levels("c", levels, samples.clone(), moments)
}

fn wave(i: usize, factor: f64) -> f64 {
    (i as f64 * factor).sin()
}

#[test]
fn p_values_equal_those_of_scipy() {
    // import numpy as np, scipy.stats as s, scipy.special as p; i = np.arange(200)
    // a = np.sin(1.3 * i[:120]); b = np.sin(.7 * i[:200]) + .3; k = s.ks_2samp(a, b)
    // k.statistic, p.kolmogorov(np.sqrt(120 * 200 / 320) * k.statistic)
    // c = s.chi2_contingency([[50, 40, 30], [60, 90, 50]]); c.statistic, c.pvalue
    let first: Vec<f64> = (0..120).map(|i| wave(i, 1.3)).collect();
    let second: Vec<f64> = (0..200).map(|i| wave(i, 0.7) + 0.3).collect();
    let found = numbers("x", [first, second]).unwrap();
    assert!(
        (found.distance - 0.28).abs() < 1e-12 && (found.p_value / 1.5621649467125444e-05 - 1.0).abs() < 1e-9,
        "{found:?}"
    );
    let levels: Vec<(usize, String)> = (0..2).map(|j| (j, format!("c={j}"))).collect();
    let found = category(&levels, [&[50, 40, 30], &[60, 90, 50]]).unwrap();
    assert!((found.p_value / 0.06448912066556958 - 1.0).abs() < 1e-9, "{found:?}");
    assert_eq!(found.level.as_deref(), Some("c=0"));
    assert!((found.means[0] - 50.0 / 120.0).abs() < 1e-12 && (found.means[1] - 0.3).abs() < 1e-12, "{found:?}");
}

#[test]
fn holm_orders_and_bounds_the_p_values() {
    // p.adjust(c(.01, .04, .03, .005), "holm") of R is .03, .06, .06, .02
    let corrected = holm(&[0.005, 0.01, 0.03, 0.04]);
    assert!(corrected.iter().zip([0.02, 0.03, 0.06, 0.06]).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-15));
    let columns: Vec<TableColumn> = (0..3).map(|j| TableColumn::Number(format!("x{j}"), j)).collect();
    let sample = |shift: f64| -> Vec<f64> {
        (0..300).flat_map(|i| [wave(i, 1.1) + shift, wave(i, 1.7), wave(i, 2.3) + shift / 4.0]).collect()
    };
    let samples = [sample(0.0), sample(0.8)];
    let inputs = [moments_of(&samples[0], 3), moments_of(&samples[1], 3)];
    let moments = [0, 1].map(|side: usize| FeatureMoments { rows: 300, inputs: &inputs[side] });
    let mut found = Vec::new();
    add_tests(&mut found, &columns, [&samples[0], &samples[1]], moments);
    correct_p_values(&mut found);
    let names: Vec<&str> = found.iter().map(|column| &*column.column).collect();
    assert_eq!(names, ["x0", "x2", "x1"]);
    let expected = [3.0 * found[0].p_value, 2.0 * found[1].p_value, 1.0];
    for (column, expected) in found.iter().zip(expected) {
        assert!((column.corrected_p_value - expected.min(1.0)).abs() < 1e-15, "{column:?}");
    }
    let histogram = found[0].histogram.as_ref().unwrap();
    assert!(histogram.fractions.iter().all(|side| (0.97..=1.0 + 1e-12).contains(&side.iter().sum::<f64>())));
}

/// Groups of columns give the tests of all columns at once, and the histograms of the first ones.
#[test]
fn columns_in_groups_have_the_same_tests() {
    let columns = || (0..9).map(|j| TableColumn::Number(format!("x{j}"), j)).collect::<Vec<_>>();
    let sample = |shift: f64| -> Vec<f64> {
        (0..100).flat_map(|i| (0..9).map(move |j| wave(i, 1.1 + 0.3 * j as f64) + shift * (j * 5 % 9) as f64)).collect()
    };
    let samples = [sample(0.0), sample(0.05)];
    let inputs = [moments_of(&samples[0], 9), moments_of(&samples[1], 9)];
    let moments = [0, 1].map(|side: usize| FeatureMoments { rows: 100, inputs: &inputs[side] });
    let of_groups = |group_size: usize| {
        let mut found = Vec::new();
        for (group, columns) in columns().chunks(group_size).enumerate() {
            let part = |x: &Vec<f64>| -> Vec<f64> {
                x.chunks(9).flat_map(|row| row[group * group_size..][..columns.len()].to_vec()).collect()
            };
            let parts = [part(&samples[0]), part(&samples[1])];
            add_tests(&mut found, columns, [&parts[0], &parts[1]], moments);
        }
        found
    };
    let together = of_groups(9);
    assert_eq!(together.iter().filter(|column| column.histogram.is_some()).count(), HISTOGRAM_COLUMNS);
    assert_eq!(of_groups(4), together);
    assert_eq!(of_groups(1), together);
}

#[test]
fn equal_and_empty_columns_do_not_differ() {
    let constant = numbers("c", [vec![2.0; 50], vec![2.0; 70]]).unwrap();
    assert_eq!((constant.distance, constant.p_value, constant.difference), (0.0, 1.0, None));
    assert!(numbers("m", [vec![f64::NAN; 50], vec![1.0; 70]]).is_none());
    let gaps = numbers("g", [vec![1.0, f64::NAN], vec![1.0, 2.0]]).unwrap();
    assert_eq!(gaps.missing, Some([0.5, 0.0]));
    assert!(category(&[(0, "c=a".to_string())], [&[40], &[40]]).is_none());
}
