//! A compressed sparse row matrix, for solvers that learn a weight per column.

use faer::Mat;
use kapprox::Real;
use kstore::sparse::{NO_PLACE, entries};

/// Sparse rows in CSR format.
#[derive(Debug)]
pub struct SparseMatrix {
    starts: Vec<usize>,
    places: Vec<u32>,
    values: Vec<f64>,
    pub width: usize,
}

impl SparseMatrix {
    /// Converts rows of `d` numbers each, in the sparse layout of blocks, to a matrix with `width`
    /// columns.
    pub fn of<T: Real>(x: &[T], d: usize, width: usize) -> Self {
        let mut all = Self { starts: vec![0], places: Vec::new(), values: Vec::new(), width };
        for row in x.chunks_exact(d.max(1)) {
            let (places, values) = entries(row);
            all.places.extend(places.iter().map(|place| place.to_f64() as u32));
            all.values.extend(values.iter().map(|value| value.to_f64()));
            all.starts.push(all.places.len());
        }
        all
    }

    /// Returns an upper bound on the bytes for n rows of d numbers.
    pub fn bytes(n: usize, d: usize) -> usize {
        n.saturating_mul(6 * d + 8)
    }

    fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let row = self.starts[i]..self.starts[i + 1];
        self.places[row.clone()].iter().map(|place| *place as usize).zip(self.values[row].iter().copied())
    }

    /// Returns x_i·w.
    pub fn dot(&self, i: usize, w: &[f64]) -> f64 {
        self.row(i).map(|(place, value)| value * w[place]).sum()
    }

    /// Computes w += `by`·x_i.
    pub fn add(&self, i: usize, by: f64, w: &mut [f64]) {
        self.row(i).for_each(|(place, value)| w[place] += by * value);
    }

    /// Returns ‖x_i‖².
    pub fn square(&self, i: usize) -> f64 {
        self.row(i).map(|(_, value)| value * value).sum()
    }
}

/// Expresses linear functions x·w as sums of inner products with sparse points in rows of `d`
/// numbers. Returns the points, and the coefficient (1 or 0) of each point in each function.
pub fn functions<T: Real>(weights: &[Vec<f64>], d: usize) -> (Vec<T>, Mat<f64>) {
    let (mut points, mut owners, room) = (Vec::new(), Vec::new(), (d / 2).max(1));
    for (owner, w) in weights.iter().enumerate() {
        let some: Vec<(usize, f64)> = w.iter().copied().enumerate().filter(|(_, value)| *value != 0.0).collect();
        // a function without weights gets one empty point
        for part in some.chunks(room).chain(some.is_empty().then_some(&some[..])) {
            let rest = room - part.len();
            points.extend(part.iter().map(|(place, _)| T::from_f64(*place as f64)));
            points.extend(std::iter::repeat_n(T::from_f64(NO_PLACE), rest));
            points.extend(part.iter().map(|(_, value)| T::from_f64(*value)));
            points.extend(std::iter::repeat_n(T::default(), rest));
            owners.push(owner);
        }
    }
    (points, Mat::from_fn(owners.len(), weights.len(), |i, j| f64::from(u8::from(owners[i] == j))))
}
