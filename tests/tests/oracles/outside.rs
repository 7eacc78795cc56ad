//! A kernel and a landmark scheme of somebody who only uses the crates, as the README says.

use faer::{Mat, MatMut, MatRef, Par};
use kapprox::landmark::{LandmarkSet, Landmarks, Rows, RpCholesky};
use kapprox::{AnyKernel, Kernel, Nystrom, Real, Spec};
use kmill_tests::dense;
use kmill_tests::fit::{WHOLE, certify_kernel, rows_of, select_for};
use kmill_tests::points::Lcg;
use kmill_tests::source::Points;
use kstore::{Fold, Merge, RowBlock, Workers};
use std::sync::Arc;

/// The inverse multiquadric, 1 / √(1 + ‖x − z‖²): positive definite in every dimension (Micchelli 1986).
#[derive(Debug)]
struct InverseMultiquadric;

fn inverse_multiquadric(x: &[f64], z: &[f64]) -> f64 {
    (1.0 + x.iter().zip(z).map(|(a, b)| (a - b).powi(2)).sum::<f64>()).sqrt().recip()
}

impl<T: Real> Kernel<T> for InverseMultiquadric {
    fn spec(&self) -> String {
        "inverse_multiquadric()".to_string()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        let wide = |points: MatRef<'_, T>, i: usize| -> Vec<f64> {
            points.row(i).iter().map(|value| kstore::Real::to_f64(*value)).collect()
        };
        for i in 0..x.nrows() {
            for j in 0..z.nrows() {
                out[(i, j)] = kstore::Real::from_f64(inverse_multiquadric(&wide(x, i), &wide(z, j)));
            }
        }
    }

    fn diag(&self, _: MatRef<'_, T>, out: &mut [f64]) {
        out.fill(1.0);
    }
}

/// Rows whose number is a multiple of `stride`, the first of them first.
#[derive(Debug)]
struct Every {
    stride: u64,
}

/// The rows a pass has met.
#[derive(Default)]
struct Met<T> {
    points: Vec<T>,
    rows: Vec<u64>,
}

impl<T: Real> Merge for Met<T> {
    fn merge(&mut self, later: &Self) {
        self.points.extend_from_slice(&later.points);
        self.rows.extend_from_slice(&later.rows);
    }
}

impl<T: Real> Fold<T> for Every {
    type State = Met<T>;
    type Scratch = ();
    type Error = kapprox::Error;

    fn init(&self) -> Met<T> {
        Met { points: Vec::new(), rows: Vec::new() }
    }
    fn scratch(&self) {}
    fn step(&self, met: &mut Met<T>, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> kapprox::Result<()> {
        for (row, x) in block.rows.iter().zip(block.x.chunks(block.d)).filter(|(row, _)| *row % self.stride == 0) {
            met.rows.push(*row);
            met.points.extend_from_slice(x);
        }
        Ok(())
    }
}

impl<T: Real> Landmarks<T> for Every {
    fn select(&self, data: &Rows<'_, T>, _: &Arc<dyn AnyKernel>, m: usize, _: u64) -> kapprox::Result<LandmarkSet<T>> {
        let (met, _) = data.pass.fold(data.source, self)?;
        let d = data.source.shape().features;
        let set = LandmarkSet { points: met.points, rows: met.rows, d, passes: 1, evaluations: 0 };
        let first: Vec<usize> = (0..m.min(set.len())).collect();
        Ok(set.keep(&first))
    }
}

/// The certificate of a kernel from outside, on landmarks of a scheme from outside and of one from inside, against the
/// dense matrix.
#[test]
fn a_kernel_and_a_scheme_from_outside_are_certified() {
    let rows = Lcg(11).normals(900, 5);
    let (points, kernel) = (Points::<f64>::new(&rows), Arc::new(InverseMultiquadric) as Arc<dyn AnyKernel>);
    let schemes: [&dyn Landmarks<f64>; 2] = [&Every { stride: 11 }, &RpCholesky];
    let errors = schemes.map(|scheme| {
        let set = select_for(&points, scheme, &kernel, 60, 3, WHOLE);
        let chosen: Vec<_> = set.rows.iter().map(|row| rows[*row as usize].clone()).collect();
        assert_eq!(chosen.len(), 60);
        let exact = dense::trace_error(&rows, &chosen, &inverse_multiquadric, 1e-15);
        let (certificate, rank) = certify_kernel(&points, set, &kernel);
        assert!(rank == 60 && (certificate.trace_error - exact).abs() < 1e-12, "{certificate:?}, dense {exact:e}");
        exact
    });
    assert!(errors[1] < errors[0], "chosen landmarks are better than any: {errors:?}");
}

/// The same scheme in f32 with a kernel of the registry: any chunking finds the same landmarks.
#[test]
fn a_scheme_from_outside_works_with_any_kernel_and_chunking() {
    let points = Points::<f32>::new(&Lcg(12).normals(500, 4));
    let kernel = Spec::parse("gaussian(sigma=1, on=x0..x2)*delta(on=x3) + linear()").unwrap();
    let kernel = kernel.resolve_columns(&["x0", "x1", "x2", "x3"]).unwrap().build().unwrap();
    let workers = Workers::new(2);
    let one = Landmarks::<f32>::select(&Every { stride: 7 }, &rows_of(&points, &workers), &kernel, 40, 0).unwrap();
    let other = select_for(&points, &Every { stride: 7 }, &kernel, 40, 0, (33, 99, 3));
    assert_eq!(one, other);
    assert_eq!(one.rows, (0..40).map(|i| 7 * i).collect::<Vec<u64>>());
    let map = Nystrom::new(&kernel, one, Par::Seq).unwrap();
    let mut phi = Mat::<f32>::zeros(500, map.rank());
    let x = MatRef::from_row_major_slice(&points.x, 500, 4);
    kapprox::FeatureMap::apply(&map, x, phi.as_mut(), &workers);
    // a landmark's kernel values are exact
    let mut k = Mat::<f32>::zeros(500, 1);
    Kernel::<f32>::block(&*kernel, x, x.subrows(14, 1), k.as_mut());
    let got = &phi * phi.row(14).transpose();
    assert!((0..500).all(|i| (got[i] - k[(i, 0)]).abs() < 1e-3 * k[(14, 0)]), "the landmark of row 14");
}
