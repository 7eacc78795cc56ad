//! Scores of a confusion matrix that rare classes do not vanish in.

/// Agreement of predicted and true classes; `None` where a score is not defined.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Agreement {
    /// Mean over the classes that have rows of the share that is recognised.
    pub balanced_accuracy: Option<f64>,
    /// 2 tp / (2 tp + fp + fn): of the second of two classes; of more the mean over all that were seen or predicted.
    pub f1: Option<f64>,
    /// The correlation of truth and prediction: 1 for equal, 0 for independent ones. Matthews, 1975; for more than two classes the
    /// coefficient R_K of Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient", 2004.
    pub matthews: Option<f64>,
}

/// The agreement of a confusion matrix, `counts[true][predicted]`, and of predictions for rows of no known class, which are false
/// positives of `f1` and count nowhere else.
pub fn agreement(counts: &[Vec<u64>], unknown: &[u64]) -> Agreement {
    let k = counts.len();
    let truth: Vec<f64> = counts.iter().map(|row| row.iter().sum::<u64>() as f64).collect();
    let predicted: Vec<f64> = (0..k).map(|j| counts.iter().map(|row| row[j]).sum::<u64>() as f64).collect();
    let right = |class: usize| counts[class][class] as f64;
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let recalls = (0..k).filter(|class| truth[*class] > 0.0).map(|class| right(class) / truth[class]).collect();
    let f1 = |class: usize| {
        let either = truth[class] + predicted[class] + unknown.get(class).map_or(0.0, |n| *n as f64);
        (either > 0.0).then(|| 2.0 * right(class) / either)
    };
    let n: f64 = truth.iter().sum();
    let inner = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let spread = (n * n - inner(&truth, &truth)) * (n * n - inner(&predicted, &predicted));
    let agreed = (0..k).map(right).sum::<f64>() * n - inner(&truth, &predicted);
    Agreement {
        balanced_accuracy: mean(recalls),
        f1: if k == 2 { f1(1) } else { mean((0..k).filter_map(f1).collect()) },
        matthews: (spread > 0.0).then(|| agreed / spread.sqrt()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: Option<f64>, expected: f64) -> bool {
        got.is_some_and(|got| (got - expected).abs() < 1e-12)
    }

    #[test]
    fn two_classes_by_the_textbook() {
        let (tp, tn, fp, fne) = (30.0, 900.0, 20.0, 50.0);
        let got = agreement(&[vec![900, 20], vec![50, 30]], &[0, 0]);
        assert!(near(got.balanced_accuracy, (tp / 80.0 + tn / 920.0) / 2.0));
        assert!(near(got.f1, 2.0 * tp / (2.0 * tp + fp + fne)));
        let root: f64 = (50.0f64 * 80.0 * 920.0 * 950.0).sqrt();
        assert!(near(got.matthews, (tp * tn - fp * fne) / root));
        // a false positive more for every row of no known class that was taken for the second
        let stranger = agreement(&[vec![900, 20], vec![50, 30]], &[3, 10]);
        assert!(near(stranger.f1, 60.0 / 140.0) && stranger.matthews == got.matthews);
    }

    #[test]
    fn three_classes_by_their_definitions() {
        let got = agreement(&[vec![5, 1, 0], vec![2, 3, 1], vec![0, 2, 8]], &[0, 0, 0]);
        assert!(near(got.balanced_accuracy, (5.0 / 6.0 + 0.5 + 0.8) / 3.0));
        assert!(near(got.f1, (10.0 / 13.0 + 6.0 / 12.0 + 16.0 / 19.0) / 3.0));
        // the correlation of the indicators, from its definition: sums of covariances over the classes
        let counts = [[5.0, 1.0, 0.0], [2.0, 3.0, 1.0], [0.0, 2.0, 8.0f64]];
        let (t, p) = ([6.0, 6.0, 10.0], [7.0, 6.0, 9.0f64]);
        let covariance = |joint: f64, a: f64, b: f64| joint / 22.0 - a / 22.0 * (b / 22.0);
        let sum = |of: &dyn Fn(usize) -> f64| (0..3).map(of).sum::<f64>();
        let both = sum(&|c| covariance(counts[c][c], t[c], p[c]));
        let own = sum(&|c| covariance(t[c], t[c], t[c])) * sum(&|c| covariance(p[c], p[c], p[c]));
        assert!(near(got.matthews, both / own.sqrt()));
    }

    #[test]
    fn what_is_not_defined_is_none() {
        let one = agreement(&[vec![7, 0], vec![0, 0]], &[0, 0]);
        assert_eq!((one.balanced_accuracy, one.f1, one.matthews), (Some(1.0), None, None));
        assert_eq!(agreement(&[vec![0, 0], vec![0, 0]], &[0, 0]), Agreement::default());
    }
}
