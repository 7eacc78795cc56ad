//! A compressed sparse row matrix, for solvers that learn a weight per column.

use faer::Mat;
use kapprox::Real;
use kstore::sparse::{NO_INDEX, entries};

/// Sparse rows in CSR format.
#[derive(Debug)]
pub struct SparseMatrix {
    row_starts: Vec<usize>,
    column_indices: Vec<u32>,
    values: Vec<f64>,
    pub column_count: usize,
}

impl SparseMatrix {
    /// Converts rows of `d` numbers each, in the layout of [`kstore::sparse`] (column indices, then
    /// values), to a matrix with `column_count` columns.
    pub fn from_rows<T: Real>(x: &[T], d: usize, column_count: usize) -> Self {
        let mut matrix = Self { row_starts: vec![0], column_indices: Vec::new(), values: Vec::new(), column_count };
        for row in x.chunks_exact(d.max(1)) {
            let (columns, values) = entries(row);
            matrix.column_indices.extend(columns.iter().map(|column| column.to_f64() as u32));
            matrix.values.extend(values.iter().map(|value| value.to_f64()));
            matrix.row_starts.push(matrix.column_indices.len());
        }
        matrix
    }

    /// Returns an upper bound on the bytes for n rows of d numbers.
    pub fn bytes(n: usize, d: usize) -> usize {
        n.saturating_mul(6 * d + 8)
    }

    fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let row_range = self.row_starts[i]..self.row_starts[i + 1];
        self.column_indices[row_range.clone()]
            .iter()
            .map(|column| *column as usize)
            .zip(self.values[row_range].iter().copied())
    }

    /// Returns the inner product of row x_i with `w`.
    pub fn dot(&self, i: usize, w: &[f64]) -> f64 {
        self.row(i).map(|(column, value)| value * w[column]).sum()
    }

    /// Adds `factor`·x_i to `w`.
    pub fn add_scaled_row(&self, i: usize, factor: f64, w: &mut [f64]) {
        self.row(i).for_each(|(column, value)| w[column] += factor * value);
    }

    /// Returns ‖x_i‖².
    pub fn squared_norm(&self, i: usize) -> f64 {
        self.row(i).map(|(_, value)| value * value).sum()
    }
}

/// Expresses linear functions x·w as sums of inner products of x with sparse points, each in the
/// layout of a row of `d` numbers. The entries of a weight vector w are divided among as many
/// points as they need. Returns the points, and the coefficient (1 or 0) of each point in each
/// function.
pub fn as_inner_products<T: Real>(weights: &[Vec<f64>], d: usize) -> (Vec<T>, Mat<f64>) {
    let (mut points, mut function_of_point, entries_per_point) = (Vec::new(), Vec::new(), (d / 2).max(1));
    for (function_index, w) in weights.iter().enumerate() {
        let nonzeros: Vec<(usize, f64)> = w.iter().copied().enumerate().filter(|(_, value)| *value != 0.0).collect();
        // a function whose weights are all 0 gets one empty point
        for chunk in nonzeros.chunks(entries_per_point).chain(nonzeros.is_empty().then_some(&nonzeros[..])) {
            let padding = entries_per_point - chunk.len();
            points.extend(chunk.iter().map(|(column, _)| T::from_f64(*column as f64)));
            points.extend(std::iter::repeat_n(T::from_f64(NO_INDEX), padding));
            points.extend(chunk.iter().map(|(_, value)| T::from_f64(*value)));
            points.extend(std::iter::repeat_n(T::default(), padding));
            function_of_point.push(function_index);
        }
    }
    (
        points,
        Mat::from_fn(function_of_point.len(), weights.len(), |i, j| f64::from(u8::from(function_of_point[i] == j))),
    )
}
