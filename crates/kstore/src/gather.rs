//! Rows of a table by their numbers, in any order.

use crate::{Error, Real, Result, RowBuf, RowSource, TableRows, source::memory::MemoryRows};
use std::ops::Range;

/// Longest gap between rows that is read rather than skipped: starting anew in the middle of a file costs about as much
/// as reading so many rows.
const GAP: u64 = 256;
const TILE: usize = 1024;

impl<T: Real> TableRows<T> {
    /// Copies some stored rows into memory, in the order asked for; a row may be asked for several times.
    ///
    /// Files are read in row order, each run of neighbouring rows once: of `.npy` and uncompressed Arrow IPC little
    /// more than the rows themselves, of Parquet the pages that hold them. Holds the result, and a few bytes for each
    /// row asked for. Labels are not carried along.
    ///
    /// # Errors
    /// [`Error::Empty`] for a row that is not among the selected ones; the errors of reading.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("rows.npy");
    /// # let mut out = kstore::sink::create(&path, &[kstore::OutputColumn::new("a", kstore::OutputKind::F64)])?;
    /// # out.write(&[kstore::Output::F64(&[10.0, 11.0, 12.0])])?;
    /// # out.finish()?;
    /// let rows = kstore::Table::open(&[path])?.select(&kstore::Selection::default())?;
    /// let gathered = rows.rows::<f64>(kstore::Reading::default())?.gather(&[2, 0, 2])?;
    /// assert_eq!(gathered.x(), [12.0, 10.0, 12.0]);
    /// # Ok::<(), kstore::Error>(())
    /// ```
    pub fn gather(&self, rows: &[u64]) -> Result<MemoryRows<T>> {
        let mut wanted = rows.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let mut found = Gathered::default();
        for run in runs(&wanted) {
            self.gather_run(&wanted[run], &mut found)?;
        }
        if let Some(row) = found.rows.iter().zip(&wanted).find(|(have, row)| have != row).map(|(_, row)| row) {
            return Err(self.not_selected(*row));
        }
        if let Some(row) = wanted.get(found.rows.len()) {
            return Err(self.not_selected(*row));
        }
        // every row is there and both lists ascend
        let places = rows.iter().map(|row| wanted.partition_point(|have| have < row));
        found.arranged(places.collect(), &RowSource::<T>::shape(self), rows)
    }

    fn gather_run(&self, wanted: &[u64], found: &mut Gathered<T>) -> Result<()> {
        let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return Ok(()) };
        let shape = RowSource::<T>::shape(self);
        let (d, t) = (shape.features, shape.targets);
        let mut cursor = self.open(*first..last.saturating_add(1))?;
        let mut buf = RowBuf::new(TILE.min((last - first) as usize + 1));
        while cursor.next(&mut buf)? {
            for (i, row) in buf.rows.iter().enumerate().filter(|(_, row)| wanted.binary_search(row).is_ok()) {
                found.rows.push(*row);
                found.x.extend_from_slice(&buf.x[i * d..][..d]);
                found.y.extend_from_slice(&buf.y[i * t..][..t]);
            }
        }
        Ok(())
    }

    fn not_selected(&self, row: u64) -> Error {
        let why = format!("row {row} is not among the selected rows");
        Error::Empty { what: self.selected().table().first_path().display().to_string(), why }
    }
}

/// The rows found so far, in ascending order.
#[derive(Default)]
struct Gathered<T> {
    rows: Vec<u64>,
    x: Vec<T>,
    y: Vec<f64>,
}

impl<T: Real> Gathered<T> {
    /// Returns the rows at `places` as a source in memory, with the row numbers `rows`.
    fn arranged(self, places: Vec<usize>, shape: &crate::TableShape, rows: &[u64]) -> Result<MemoryRows<T>> {
        let (d, t) = (shape.features, shape.targets);
        let x = places.iter().flat_map(|place| &self.x[place * d..][..d]).copied().collect();
        let y = places.iter().flat_map(|place| &self.y[place * t..][..t]).copied().collect();
        MemoryRows::new(x, d)?.with_targets(y, t)?.weighted(shape.weighted)?.numbered(rows.to_vec())
    }
}

/// Splits ascending rows into runs wherever more than [`GAP`] are missing; returns ranges of places in `rows`.
fn runs(rows: &[u64]) -> Vec<Range<usize>> {
    let mut cuts = vec![0];
    cuts.extend((1..rows.len()).filter(|i| rows[*i] - rows[*i - 1] > GAP));
    cuts.push(rows.len());
    cuts.windows(2).map(|cut| cut[0]..cut[1]).collect()
}
