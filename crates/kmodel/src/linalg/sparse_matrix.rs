//! Sparse rows as a compressed sparse row matrix, for solvers that learn weights of their columns.

use faer::Mat;
use kapprox::Real;
use kstore::sparse::{NO_PLACE, entries};

/// Sparse rows, each with its entries one after the other.
#[derive(Debug)]
pub struct SparseMatrix {
    starts: Vec<usize>,
    places: Vec<u32>,
    values: Vec<f64>,
    pub width: usize,
}

impl SparseMatrix {
    /// Rows of `d` numbers each in the layout of blocks, of so many columns.
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

    /// Bytes of the entries of n rows of d numbers at most.
    pub fn bytes(n: usize, d: usize) -> usize {
        n.saturating_mul(6 * d + 8)
    }

    fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let row = self.starts[i]..self.starts[i + 1];
        self.places[row.clone()].iter().map(|place| *place as usize).zip(self.values[row].iter().copied())
    }

    /// x_i·w.
    pub fn dot(&self, i: usize, w: &[f64]) -> f64 {
        self.row(i).map(|(place, value)| value * w[place]).sum()
    }

    /// w += by x_i.
    pub fn add(&self, i: usize, by: f64, w: &mut [f64]) {
        self.row(i).for_each(|(place, value)| w[place] += by * value);
    }

    /// ‖x_i‖².
    pub fn square(&self, i: usize) -> f64 {
        self.row(i).map(|(_, value)| value * value).sum()
    }
}

/// Functions of the weights of columns as those of sparse points with as much room as rows of `d` numbers have: x·w is the sum of the inner
/// products with its points. Returns these, and the coefficients of each function, 1 or 0.
pub fn functions<T: Real>(weights: &[Vec<f64>], d: usize) -> (Vec<T>, Mat<f64>) {
    let (mut points, mut owners, room) = (Vec::new(), Vec::new(), (d / 2).max(1));
    for (owner, w) in weights.iter().enumerate() {
        let some: Vec<(usize, f64)> = w.iter().copied().enumerate().filter(|(_, value)| *value != 0.0).collect();
        // a function without weights has a point without entries
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
