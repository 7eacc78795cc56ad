//! Criterion benches, one subject per file: `cargo bench -p kmill-benches -- gram`. The reading
//! benches share this table of random numbers and the cheapest fold over it.

use kstore::key::{Purpose, Stream};
use kstore::{Error, Merge, Reduction, RowBlock, Workers};

/// Number of columns of the table.
pub const FEATURES: usize = 32;

/// Number of rows that stay in the first-level cache while their columns are summed.
pub const STRIP_ROWS: usize = 128;

/// Returns the given rows of the table, column by column.
pub fn columns(rows: std::ops::Range<usize>) -> Vec<Vec<f32>> {
    let random = Stream::new(0, Purpose::Data, 0);
    let value = |row: usize, column: usize| random.uniform((row * FEATURES + column) as u64) as f32;
    (0..FEATURES).map(|c| rows.clone().map(|row| value(row, c)).collect()).collect()
}

/// Sum of every column.
#[derive(Debug)]
pub struct Sums(pub Vec<f64>);

impl Merge for Sums {
    fn merge(&mut self, later: &Self) {
        self.0.iter_mut().zip(&later.0).for_each(|(sum, more)| *sum += more);
    }
}

/// A fold that sums the columns.
#[derive(Debug)]
pub struct ColumnSums;

impl Reduction<f32> for ColumnSums {
    type State = Sums;
    type Scratch = ();
    type Error = Error;
    fn init(&self) -> Sums {
        Sums(vec![0.0; FEATURES])
    }
    fn scratch(&self) {}
    fn step(&self, state: &mut Sums, (): &mut (), block: &RowBlock<'_, f32>, _: &Workers) -> kstore::Result<()> {
        block.x.chunks(STRIP_ROWS * FEATURES).for_each(|rows| add_rows(rows, &mut state.0));
        Ok(())
    }
}

/// Adds row-major rows to the sums. Sixteen columns at a time stay in registers.
pub fn add_rows(x: &[f32], sums: &mut [f64]) {
    const STRIP: usize = 16;
    let (strips, _) = sums.as_chunks_mut::<STRIP>();
    for (i, sums) in strips.iter_mut().enumerate() {
        let mut local = *sums;
        for row in x.chunks_exact(FEATURES) {
            let (row, _) = row[i * STRIP..].as_chunks::<STRIP>();
            local.iter_mut().zip(&row[0]).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        *sums = local;
    }
}

/// Returns true under `cargo bench`. In a test, benches with their own `main` run on little data.
pub fn measuring() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}
