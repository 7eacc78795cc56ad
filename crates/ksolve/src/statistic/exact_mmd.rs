//! Maximum mean discrepancy with the exact kernel: `map` exact.
//!
//! The first sample has the m rows x_1, …, x_m, the second sample the rows z_1, z_2, …. K (N x N)
//! is the kernel matrix of the N rows of both samples. The vector a has the entry 1 for each row of
//! the first sample and 0 for each row of the second sample; 1 is the vector of N ones. The
//! products K a and K 1 give every double sum of the statistic. They are computed from tiles of K
//! that are discarded after use:
//!
//! ```text
//! ΣΣ k(x, x') = aᵀKa,   ΣΣ k(x, z) = aᵀK1 − aᵀKa,   ΣΣ k(z, z') = 1ᵀK1 − 2 aᵀK1 + aᵀKa
//! ```
//!
//! *Passes*: one, which loads the rows. *Flops*: N²d kernel flops for every 64 permutations (d
//! features), and 2N² for each permutation. *Bytes*: the rows, and a kilobyte for each row: its
//! labels in 64 permutations, and their products with K. The spectral null distribution needs the
//! spectrum of K, and is available only with feature maps.
//!
//! Reference: Gretton, Borgwardt, Rasch, Schölkopf, Smola, "A kernel two-sample test", JMLR 13,
//! 2012, equations 3 and 5.

use super::random_labels::{RandomSubsets, p_value};
use super::{PValues, TestStatistic, require_rows};
use crate::linalg::kernel_tiles::KernelTiles;
use crate::prepare::{candidates, stage_plans};
use crate::request::{PassShape, ProblemSize, Resources, tile_rows};
use crate::{Certificate, Result};
use faer::{Mat, MatRef};
use kapprox::Real;
use kapprox::kernel::Kernel;
use kapprox::landmark::{TableScan, uniform_sample};
use kstore::key::Purpose;
use kstore::{MemoryPlan, Pass, RowSource};

/// Number of permutations that share each computed kernel value. With 64 permutations, the products
/// cost more than the kernel evaluations.
const LABEL_BATCH: usize = 64;

const ROWS_REMEDY: &str = "compare fewer rows (`rows`), or approximate the kernel (`map` nystrom)";

pub(super) fn plan(size: &ProblemSize, budget: usize, permutation_count: usize) -> MemoryPlan {
    let n = usize::try_from(size.n).unwrap_or(usize::MAX);
    let vector_bytes = 2 * 8 * LABEL_BATCH.min(permutation_count.saturating_add(2));
    // the pass collects the rows in key order; sorting them into row order needs a copy
    let row_bytes = 3 * (size.d * size.element_bytes + 40);
    let tile_bytes = KernelTiles::<f64>::buffer_bytes(size.threads, LABEL_BATCH);
    stage_plans::base_plan("mmd", size, budget)
        .term("rows", n.saturating_mul(row_bytes), ROWS_REMEDY)
        .term("labels and their products", n.saturating_mul(vector_bytes + 8), ROWS_REMEDY)
        .term("keys of the rows", RandomSubsets::scratch_bytes(n, size.threads), "set `permutations` 0")
        .term("kernel blocks", tile_bytes, "lower `threads`")
        .term(
            "decoders and tiles",
            size.cursor_footprint.bytes_for(tile_rows(size.d, size.map.p, size.element_bytes)) * 4,
            ROWS_REMEDY,
        )
}

/// Measures the statistic between the first `first_rows` of `total_rows` rows and the remaining
/// rows.
pub(super) fn measure<T: Real>(
    kernel: &Kernel,
    source: &dyn RowSource<T>,
    total_rows: u64,
    first_rows: u64,
    pass_shape: PassShape,
    seed: u64,
    permutation_count: usize,
    resources: &Resources<'_>,
) -> Result<TestStatistic> {
    require_rows("mmd of a sample", 2, first_rows.min(total_rows - first_rows))?;
    let observer = resources.start_stage_over("rows to memory", source.range());
    let scan = TableScan {
        source,
        pass: Pass { journal: None, ..pass_shape.pass(1, resources, &*observer) },
        row_count: total_rows,
    };
    let sample_size = usize::try_from(total_rows).unwrap_or(usize::MAX);
    let memory_rows = candidates::sort_by_row_number(uniform_sample(&scan, sample_size, Purpose::Candidates, seed)?)?;
    drop(observer);
    let (total_rows, m) = (memory_rows.len(), usize::try_from(first_rows).unwrap_or(usize::MAX));
    let kernel = kernel.build()?.typed::<T>();
    let x = MatRef::from_row_major_slice(memory_rows.x(), total_rows, source.shape().input_count);
    let mut diag = vec![0.0; total_rows];
    kernel.diag(x, &mut diag);
    kapprox::kernel::check_finite::<T>("of this test", &diag)?;
    let subsets = RandomSubsets::new(seed, permutation_count, m, total_rows, resources.workers);
    // label vectors: number 0 is the vector 1, number 1 has the observed labels a, and all others
    // have random labels
    let has_label = |j: usize, row: usize| match j {
        0 => true,
        1 => row < m,
        j => subsets.contains(j - 2, row),
    };
    let label_count = permutation_count + 2;
    let mut label_products = Vec::with_capacity(label_count);
    let tiles = KernelTiles::new(&*kernel, x, resources.workers);
    let observer = resources.stage_observer.start_stage("kernel values", None);
    for first_label in (0..label_count).step_by(LABEL_BATCH) {
        if observer.should_stop() {
            return Err(kstore::Error::Interrupted.into());
        }
        let batch_len = LABEL_BATCH.min(label_count - first_label);
        let v = Mat::from_fn(total_rows, batch_len, |row, j| f64::from(u8::from(has_label(first_label + j, row))));
        let product = tiles.product(v.as_ref());
        label_products.extend((0..batch_len).map(|j| LabelProducts {
            within: v.col(j).transpose() * product.col(j),
            with_all: product.col(j).iter().sum(),
            diag: diag.iter().zip(v.col(j).iter()).map(|(diag, label)| diag * label).sum(),
        }));
    }
    let statistic = |j: usize| label_products[j].statistic(&label_products[0], m as f64, (total_rows - m) as f64);
    let (biased, unbiased) = statistic(1);
    let permuted: Vec<f64> = (2..label_count).map(|j| statistic(j).0).collect();
    let p_values = PValues { permutation: p_value(biased, &permuted), ..PValues::default() };
    // the exact kernel has no approximation error
    let certificate = Some(Certificate { trace_error: 0.0, overshoot: 0.0, floor: 0.0 });
    Ok(TestStatistic { biased, unbiased, p_values, permuted, certificate, ..TestStatistic::default() })
}

/// The products of K with a vector v of 0/1 labels of the rows.
struct LabelProducts {
    /// vᵀKv.
    within: f64,
    /// vᵀK1.
    with_all: f64,
    /// Σ v_i k_ii.
    diag: f64,
}

impl LabelProducts {
    /// Returns the biased and the unbiased statistic for samples of `m` and `n` rows; `total` has
    /// the products for v = 1.
    fn statistic(&self, total: &Self, m: f64, n: f64) -> (f64, f64) {
        let (within, cross) = (self.within, self.with_all - self.within);
        let second_within = total.within - self.with_all - cross;
        let biased = within / (m * m) + second_within / (n * n) - 2.0 * cross / (m * n);
        let (within, second_within) = (within - self.diag, second_within - (total.diag - self.diag));
        // a negative value is rounding error
        (biased.max(0.0), within / (m * (m - 1.0)) + second_within / (n * (n - 1.0)) - 2.0 * cross / (m * n))
    }
}
