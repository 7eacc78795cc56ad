//! Histograms of a column in two samples.

/// Number of bins of a histogram of numbers, and of levels of a histogram of a category.
const BINS: usize = 20;

/// Fraction of the values that the first and the last bin of a histogram leave out.
const TAIL: f64 = 0.005;

/// A histogram of two samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Edges of the bins, one more than bins; empty for a category.
    pub edges: Vec<f64>,
    /// Levels of a category; empty for numbers.
    pub levels: Vec<String>,
    /// Fraction of the rows of each sample in each bin.
    pub fractions: [Vec<f64>; 2],
}

/// Returns the histogram of two samples of numbers; `None` if all values are equal.
pub(super) fn number_histogram(samples: [Vec<f64>; 2]) -> Option<Histogram> {
    let mut pooled: Vec<f64> = samples.iter().flatten().copied().filter(|value| !value.is_nan()).collect();
    pooled.sort_by(f64::total_cmp);
    let quantile = |fraction: f64| pooled[((pooled.len() - 1) as f64 * fraction).round() as usize];
    let (low, high) = match (quantile(TAIL), quantile(1.0 - TAIL)) {
        (low, high) if low < high => (low, high),
        _ => (pooled[0], pooled[pooled.len() - 1]),
    };
    if low >= high {
        return None;
    }
    let edges = (0..=BINS).map(|i| low + (high - low) * i as f64 / BINS as f64).collect();
    let fractions = samples.map(|values| {
        let mut counts = vec![0.0; BINS];
        let present = values.iter().filter(|value| !value.is_nan());
        let total = present.clone().count().max(1) as f64;
        for value in present.filter(|value| (low..=high).contains(*value)) {
            counts[(((value - low) / (high - low) * BINS as f64) as usize).min(BINS - 1)] += 1.0 / total;
        }
        counts
    });
    Some(Histogram { edges, levels: Vec::new(), fractions })
}

/// Returns the histogram of the most frequent levels of a category.
pub(super) fn level_histogram(levels: &[(usize, String)], counts: &[Vec<f64>; 2]) -> Histogram {
    let totals = [0, 1].map(|side: usize| counts[side].iter().sum::<f64>().max(1.0));
    let fraction = |side: usize, i: usize| counts[side][i] / totals[side];
    let mut order: Vec<usize> = (0..levels.len()).collect();
    order.sort_by(|a, b| (fraction(0, *b) + fraction(1, *b)).total_cmp(&(fraction(0, *a) + fraction(1, *a))));
    order.truncate(BINS);
    Histogram {
        edges: Vec::new(),
        levels: order.iter().map(|i| levels[*i].1.clone()).collect(),
        fractions: [0, 1].map(|side| order.iter().map(|i| fraction(side, *i)).collect()),
    }
}
