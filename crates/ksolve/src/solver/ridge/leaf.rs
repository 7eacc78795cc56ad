//! The rows of a leaf, with what the features leave of their targets.

use faer::Mat;
use kapprox::Real;

/// Most rows of a leaf, in those that were asked for.
pub(super) const LARGEST: usize = 2;

/// Share of the rows that is held out: those of a fold, or each fifth row where there are no folds.
const HELD_OUT: f64 = 0.2;

/// The rows of a leaf.
#[derive(Default)]
pub(super) struct Leaf<T> {
    /// As the kernel sees them, d each.
    pub(super) x: Vec<T>,
    /// What the features leave of the targets, t each.
    pub(super) left: Vec<f64>,
    /// Their shares in the leaf.
    pub(super) shares: Vec<f64>,
    /// Their folds.
    pub(super) folds: Vec<usize>,
    pub(super) t: usize,
}

impl<T: Real> Leaf<T> {
    pub(super) fn len(&self) -> usize {
        self.folds.len()
    }

    /// Keeps `most` rows, evenly chosen: rows that are equal are all on one side of a node.
    pub(super) fn thin(&mut self, most: usize) {
        let (n, d) = (self.len(), self.x.len() / self.len().max(1));
        if n <= most {
            return;
        }
        let kept: Vec<usize> = (0..most).map(|i| i * n / most).collect();
        self.x = kept.iter().flat_map(|i| &self.x[i * d..(i + 1) * d]).copied().collect();
        self.left = kept.iter().flat_map(|i| &self.left[i * self.t..(i + 1) * self.t]).copied().collect();
        self.shares = kept.iter().map(|i| self.shares[*i]).collect();
        self.folds = kept.iter().map(|i| self.folds[*i]).collect();
    }

    /// Whether a row is held out in a trial: of the fold whose share is nearest to [`HELD_OUT`], or every fifth where all are of one fold.
    pub(super) fn apart(&self) -> impl Fn(usize) -> bool + '_ {
        let folds = self.folds.iter().copied().max().unwrap_or(0) + 1;
        let off = |fold: usize| {
            let share = self.folds.iter().filter(|of| **of == fold).count() as f64 / self.len().max(1) as f64;
            (share - HELD_OUT).abs()
        };
        let held = (0..folds).min_by(|a, b| off(*a).total_cmp(&off(*b))).filter(|fold| off(*fold) < 1.0 - HELD_OUT);
        let every = (1.0 / HELD_OUT) as usize;
        move |i| held.map_or(i.is_multiple_of(every), |fold| self.folds[i] == fold)
    }

    pub(super) fn rows(&self, take: impl Fn(usize) -> bool) -> (Mat<f64>, Mat<f64>) {
        let (d, places) = (self.x.len() / self.len().max(1), (0..self.len()).filter(|i| take(*i)).collect::<Vec<_>>());
        let x = Mat::from_fn(d, places.len(), |j, i| self.x[places[i] * d + j].to_f64());
        let left = Mat::from_fn(places.len(), self.t, |i, j| self.left[places[i] * self.t + j]);
        (x, left)
    }
}
