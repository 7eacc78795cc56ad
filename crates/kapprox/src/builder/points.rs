//! Points in memory, in the layouts that callers use.

use crate::{Error, Real, Result};
use faer::{Mat, MatRef};

/// Points in memory, one per row: a faer matrix, arrays of rows, or a slice of numbers as a single
/// column.
///
/// ```
/// use kapprox::Points;
/// assert_eq!([[1.0, 2.0], [3.0, 4.0]].row_major()?, (vec![1.0, 2.0, 3.0, 4.0], 2));
/// assert_eq!(vec![1.0f32, 2.0].row_major()?, (vec![1.0, 2.0], 1)); // two rows of one column
/// # Ok::<(), kapprox::Error>(())
/// ```
pub trait Points {
    /// Returns the values, row-major, and the number of columns.
    ///
    /// # Errors
    /// [`Error::Shape`] if rows have different lengths, or if rows or columns are missing.
    fn row_major(&self) -> Result<(Vec<f64>, usize)>;
}

fn collect_matrix<T: Real>(x: MatRef<'_, T>) -> Result<(Vec<f64>, usize)> {
    let (n, d) = (x.nrows(), x.ncols());
    collect_rows(n, (0..n).map(|i| (0..d).map(move |j| x[(i, j)].to_f64())))
}

/// Collects the values of `n` rows, which must all have as many columns as the first row.
fn collect_rows<R: ExactSizeIterator<Item = f64>>(
    n: usize,
    rows: impl Iterator<Item = R>,
) -> Result<(Vec<f64>, usize)> {
    let (mut values, mut column_count) = (Vec::new(), None);
    for row in rows {
        let d = *column_count.get_or_insert_with(|| {
            values.reserve_exact(n * row.len());
            row.len()
        });
        if row.len() != d {
            return Err(Error::Shape { what: "columns of a row", expected: d, got: row.len() });
        }
        values.extend(row);
    }
    match column_count {
        None => Err(Error::Shape { what: "rows of the points", expected: 1, got: 0 }),
        Some(0) => Err(Error::Shape { what: "columns of the points", expected: 1, got: 0 }),
        Some(d) => Ok((values, d)),
    }
}

impl<T: Real> Points for MatRef<'_, T> {
    fn row_major(&self) -> Result<(Vec<f64>, usize)> {
        collect_matrix(*self)
    }
}

impl<T: Real> Points for Mat<T> {
    fn row_major(&self) -> Result<(Vec<f64>, usize)> {
        collect_matrix(self.as_ref())
    }
}

impl<T: Real, const D: usize> Points for [[T; D]] {
    fn row_major(&self) -> Result<(Vec<f64>, usize)> {
        collect_rows(self.len(), self.iter().map(|row| row.iter().map(|v| v.to_f64())))
    }
}

impl<T: Real> Points for [Vec<T>] {
    fn row_major(&self) -> Result<(Vec<f64>, usize)> {
        collect_rows(self.len(), self.iter().map(|row| row.iter().map(|v| v.to_f64())))
    }
}

/// A single column.
impl<T: Real> Points for [T] {
    fn row_major(&self) -> Result<(Vec<f64>, usize)> {
        collect_rows(self.len(), self.iter().map(|v| std::iter::once(v.to_f64())))
    }
}

impl<E> Points for Vec<E>
where
    [E]: Points,
{
    fn row_major(&self) -> Result<(Vec<f64>, usize)> {
        self.as_slice().row_major()
    }
}

impl<E, const N: usize> Points for [E; N]
where
    [E]: Points,
{
    fn row_major(&self) -> Result<(Vec<f64>, usize)> {
        self.as_slice().row_major()
    }
}

#[cfg(feature = "ndarray")]
impl<T: Real, S: ndarray::Data<Elem = T>> Points for ndarray::ArrayBase<S, ndarray::Ix2> {
    fn row_major(&self) -> Result<(Vec<f64>, usize)> {
        collect_rows(
            self.nrows(),
            self.rows().into_iter().map(|row| row.into_iter().map(|v| v.to_f64()).collect::<Vec<_>>().into_iter()),
        )
    }
}
