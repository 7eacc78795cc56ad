//! Products of many rows with a few columns, compared with the sums of the definition.

use kapprox::Real;
use kapprox::thin::{add_rows, add_transposed_product, multiply};

fn numbers<T: Real>(count: usize, seed: f64) -> Vec<T> {
    (0..count).map(|i| T::from_f64((seed + i as f64 * 0.731).sin())).collect()
}

fn agree<T: Real>() {
    for (b, p, c) in [
        (1, 1, 1),
        (7, 5, 2),
        (19, 33, 3),
        (64, 70, 19),
        (37, 100, 49),
        (9, 130, 6),
        (300, 64, 10),
        (21, 300, 1),
        (30, 290, 2),
    ] {
        let (x, w, right) = (numbers::<T>(b * p, 0.1), numbers::<T>(p * c, 0.2), numbers::<T>(b * c, 0.3));
        let mut out = vec![T::ONE; b * c];
        multiply(&x, &w, p, &mut out);
        let close = |got: f64, expected: f64, terms: usize| {
            let bound = 4.0 * T::EPSILON * terms as f64;
            assert!((got - expected).abs() <= bound, "{b} {p} {c}: {got} against {expected}");
        };
        for i in 0..b {
            for j in 0..c {
                let expected = (0..p).map(|k| x[i * p + k].to_f64() * w[k * c + j].to_f64()).sum();
                close(out[i * c + j].to_f64(), expected, p);
            }
        }
        // sums from the third feature on
        let first = 2.min(p - 1);
        let mut sums = vec![1.0; (p - first) * c];
        add_transposed_product(&x, p, first, &right, &mut sums);
        for k in first..p {
            for j in 0..c {
                let expected: f64 = (0..b).map(|i| x[i * p + k].to_f64() * right[i * c + j].to_f64()).sum();
                close(sums[(k - first) * c + j], 1.0 + expected, b);
            }
        }
    }
}

#[test]
fn products_are_those_of_the_definition() {
    agree::<f32>();
    agree::<f64>();
}

#[test]
fn a_row_has_the_bits_that_it_has_alone() {
    let (b, p) = (21, 77);
    for c in [1, 3, 16, 19, 35, 51] {
        let (x, w) = (numbers::<f32>(b * p, 0.1), numbers::<f32>(p * c, 0.2));
        let (mut all, mut one) = (vec![0.0; b * c], vec![0.0; c]);
        multiply(&x, &w, p, &mut all);
        for i in 0..b {
            multiply(&x[i * p..(i + 1) * p], &w, p, &mut one);
            assert_eq!(one, all[i * c..(i + 1) * c], "{c}");
        }
    }
}

fn sparse_and_dense<T: Real>() {
    for (b, p) in [(1, 1), (40, 7), (64, 130), (300, 300)] {
        let x = numbers::<T>(b * p, 0.4);
        let factor = |i: usize| if i % 5 == 1 || i + 1 == b { T::from_f64((i as f64).cos()) } else { T::ZERO };
        let right: Vec<T> = (0..b).map(factor).collect();
        let entries: Vec<(u32, T)> = (0..b).map(|i| (i as u32, right[i])).filter(|(_, v)| *v != T::ZERO).collect();
        let first = 2.min(p - 1);
        let (mut dense, mut sparse) = (vec![1.0; p - first], vec![1.0; p - first]);
        add_transposed_product(&x, p, first, &right, &mut dense);
        add_rows(&x, p, first, &entries, &mut sparse);
        assert_eq!(dense, sparse, "{b} x {p}");
    }
}

#[test]
fn sums_of_some_rows_have_the_bits_of_dense_sums() {
    sparse_and_dense::<f32>();
    sparse_and_dense::<f64>();
}

#[test]
fn nothing_times_nothing_is_nothing() {
    multiply::<f64>(&[], &[], 0, &mut []);
    add_transposed_product::<f64>(&[], 4, 0, &[], &mut [1.0; 8]);
}
