//! Rows of a table by their numbers, in any order.

use crate::{MemoryRows, Real, Result, RowBuf, RowSource, TableRows};

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
    /// [`Empty`](crate::Error::Empty) for a row that is not among the selected ones; the errors of reading.
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
        let (shape, tile) = (RowSource::<T>::shape(self), TILE as u64);
        let (d, t) = (shape.features, shape.targets);
        let mut found = MemoryRows::empty(d, t);
        for run in runs(&wanted) {
            let (first, last) = (run[0], run[run.len() - 1]);
            let mut cursor = self.open(first..last.saturating_add(1))?;
            let mut buf = RowBuf::new(tile.min(last - first + 1) as usize);
            while cursor.next(&mut buf)? {
                let block = buf.block(&shape);
                let rows = (0..block.len()).filter(|i| run.binary_search(&block.rows[*i]).is_ok());
                rows.for_each(|i| found.push(&block, i));
            }
        }
        let missing = |place: &usize| *place >= found.len() || found.row(*place) != wanted[*place];
        if let Some(place) = (0..wanted.len()).find(missing) {
            let why = format!("row {} is not among the selected rows", wanted[place]);
            return Err(self.selected().table().empty(why));
        }
        // every row is there and both lists ascend
        let places: Vec<usize> = rows.iter().map(|row| wanted.partition_point(|have| have < row)).collect();
        let x = places.iter().flat_map(|place| &found.x()[place * d..][..d]).copied().collect();
        let y = places.iter().flat_map(|place| &found.y()[place * t..][..t]).copied().collect();
        let weight = found.weights().map(|weights| places.iter().map(|place| weights[*place]).collect());
        MemoryRows::new(x, d)?.with_targets(y, t)?.with_weights(weight)?.numbered(rows.to_vec())
    }
}

/// Splits ascending rows into runs wherever more than [`GAP`] are missing.
fn runs(rows: &[u64]) -> impl Iterator<Item = &[u64]> {
    rows.chunk_by(|a, b| b - a <= GAP)
}
