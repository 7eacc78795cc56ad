//! The multithreaded dense routines give the same bits for any number of threads.
//!
//! The streaming code partitions its own strips and panels and calls faer sequentially, so only the
//! factorisations between passes rely on this. Eigenvalue decompositions are *not* invariant and
//! are called with `Par::Seq`.

use faer::linalg::matmul::{matmul, triangular};
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Accum, Mat, Par};
use kapprox::Real;
use kapprox::map::factor::factor;
use kstore::Workers;
use triangular::BlockStructure::{Rectangular, TriangularLower};

const THREADS: [usize; 4] = [1, 2, 3, 8];

fn matrix<T: Real>(rows: usize, columns: usize) -> Mat<T> {
    Mat::from_fn(rows, columns, |i, j| {
        let v = (i as u64 * 2_654_435_761 + j as u64 * 40_503 + 17) % 10_007;
        T::from_f64(v as f64 / 10_007.0 - 0.5)
    })
}

fn spd<T: Real>(n: usize) -> Mat<T> {
    let one = T::from_f64(1.0);
    Mat::from_fn(n, n, |i, j| {
        let off = T::from_f64(0.3 / (1.0 + (i as f64 - j as f64).abs()).powi(2));
        if i == j { one + one } else { off }
    })
}

/// Compares the results of `work` bit by bit for each number of threads, on pools of that size.
fn same<T: Real>(what: &str, work: impl Fn(Par) -> Mat<T> + Sync) {
    let results: Vec<Mat<T>> = THREADS
        .iter()
        .map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(*threads).build().unwrap();
            let par = if *threads == 1 { Par::Seq } else { Par::rayon(*threads) };
            pool.install(|| work(par))
        })
        .collect();
    for (threads, result) in THREADS.iter().zip(&results).skip(1) {
        let first = &results[0];
        let differ = (0..first.ncols()).any(|j| (0..first.nrows()).any(|i| first[(i, j)] != result[(i, j)]));
        assert!(!differ, "{what}: {threads} threads give other bits than one");
    }
}

fn sweep<T: Real>() {
    let one = T::from_f64(1.0);
    for n in [33, 127, 256, 513, 1000, 2100] {
        let (a, b) = (matrix::<T>(n, 300), matrix::<T>(n, 70));
        same(&format!("{} matmul {n}", T::NAME), |par| {
            let mut out = Mat::<T>::zeros(300, 70);
            matmul(out.as_mut(), Accum::Replace, a.transpose(), b.as_ref(), one, par);
            out
        });
        let thin = matrix::<T>(97, n);
        same(&format!("{} triangular matmul {n}", T::NAME), |par| {
            let mut out = Mat::<T>::zeros(n, n);
            triangular::matmul(
                out.as_mut(),
                TriangularLower,
                Accum::Replace,
                thin.transpose(),
                Rectangular,
                thin.as_ref(),
                Rectangular,
                one,
                par,
            );
            out
        });
        let k = spd::<T>(n);
        same(&format!("{} Cholesky and solves {n}", T::NAME), |par| {
            let mut l = k.clone();
            let need = faer::linalg::cholesky::llt::factor::cholesky_in_place_scratch::<T>(n, par, Default::default());
            let mut memory = faer::dyn_stack::MemBuffer::new(need);
            let stack = faer::dyn_stack::MemStack::new(&mut memory);
            faer::linalg::cholesky::llt::factor::cholesky_in_place(
                l.as_mut(),
                Default::default(),
                par,
                stack,
                Default::default(),
            )
            .unwrap();
            let mut x = b.clone();
            solve_lower_triangular_in_place(l.as_ref(), x.as_mut(), par);
            solve_upper_triangular_in_place(l.transpose(), x.as_mut(), par);
            x
        });
    }
}

#[test]
fn products_solves_and_cholesky_in_f32() {
    sweep::<f32>();
}

#[test]
fn products_solves_and_cholesky_in_f64() {
    sweep::<f64>();
    for n in [33, 577, 1000, 2100] {
        let k = spd::<f64>(n);
        let lower = factor(k.clone(), 1e-14, &Workers::sequential()).unwrap().lower;
        for threads in THREADS {
            assert_eq!(lower, factor(k.clone(), 1e-14, &Workers::new(threads)).unwrap().lower, "factor {n}");
        }
    }
}
