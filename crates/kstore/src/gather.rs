//! Reads rows of a table by row number, in any order.

use crate::{Float, MemoryRows, Result, RowBuf, RowSource, TableRows};

/// The longest gap between two requested rows that is read instead of skipped. Restarting in the
/// middle of a file costs about as much as reading this many rows.
const MAX_GAP_ROWS: u64 = 256;
/// Maximum number of rows that are read at once, before the requested rows among them are copied.
const GATHER_TILE_ROWS: usize = 1024;

impl<T: Float> TableRows<T> {
    /// Copies some stored rows into memory, in the requested order; a row may be requested several
    /// times.
    ///
    /// Files are read in row order, and each run of neighbouring rows is read once. From `.npy` and
    /// uncompressed Arrow IPC files, little more than the requested rows is read; from Parquet
    /// files, the pages that contain them. *Memory*: the result, and a few bytes for each requested
    /// row. Labels are not copied.
    ///
    /// # Errors
    /// [`Empty`](crate::Error::Empty) for a row outside the selection; the errors of reading.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("rows.npy");
    /// # let mut out = kstore::sink::create(
    /// #     &path,
    /// #     &[kstore::OutputColumn::new("a", kstore::OutputKind::F64)],
    /// # )?;
    /// # out.write(&[kstore::OutputValues::F64(&[10.0, 11.0, 12.0])])?;
    /// # out.finish()?;
    /// let rows = kstore::Table::open(&[path])?.select(&kstore::Selection::default())?;
    /// let gathered = rows.rows::<f64>(kstore::ReadSettings::default())?.gather(&[2, 0, 2])?;
    /// assert_eq!(gathered.x(), [12.0, 10.0, 12.0]);
    /// # Ok::<(), kstore::Error>(())
    /// ```
    pub fn gather(&self, row_numbers: &[u64]) -> Result<MemoryRows<T>> {
        let mut sorted_rows = row_numbers.to_vec();
        sorted_rows.sort_unstable();
        sorted_rows.dedup();
        let (shape, tile_rows) = (RowSource::<T>::shape(self), GATHER_TILE_ROWS as u64);
        let (d, t) = (shape.input_count, shape.target_count);
        let mut gathered = MemoryRows::empty(d, t);
        for run in runs(&sorted_rows) {
            let (first, last) = (run[0], run[run.len() - 1]);
            let mut cursor = self.open(first..last.saturating_add(1))?;
            let mut buf = RowBuf::new(tile_rows.min(last - first + 1) as usize);
            while cursor.next(&mut buf)? {
                let block = buf.block(&shape);
                let requested_rows = (0..block.len()).filter(|i| run.binary_search(&block.row_numbers[*i]).is_ok());
                requested_rows.for_each(|i| gathered.push(&block, i));
            }
        }
        let is_missing =
            |position: &usize| *position >= gathered.len() || gathered.row_number(*position) != sorted_rows[*position];
        if let Some(position) = (0..sorted_rows.len()).find(is_missing) {
            let why = format!("row {} is not among the selected rows", sorted_rows[position]);
            return Err(self.selected().table().empty_error(why));
        }
        // every requested row was found, and both lists are sorted
        let positions: Vec<usize> =
            row_numbers.iter().map(|row| sorted_rows.partition_point(|number| number < row)).collect();
        let x = positions.iter().flat_map(|position| &gathered.x()[position * d..][..d]).copied().collect();
        let y = positions.iter().flat_map(|position| &gathered.y()[position * t..][..t]).copied().collect();
        let weight = gathered.weights().map(|weights| positions.iter().map(|position| weights[*position]).collect());
        MemoryRows::new(x, d)?.with_targets(y, t)?.with_weights(weight)?.with_row_numbers(row_numbers.to_vec())
    }
}

/// Splits ascending rows into runs, within which gaps have at most [`MAX_GAP_ROWS`] rows.
fn runs(row_numbers: &[u64]) -> impl Iterator<Item = &[u64]> {
    row_numbers.chunk_by(|a, b| b - a <= MAX_GAP_ROWS)
}
