//! Expressions as sums of products of kernels of single columns.
//!
//! A Gaussian kernel of d columns is the product of d Gaussian kernels of one column each; a linear
//! kernel is the sum of d products of two numbers. Sums and products of such kernels are sums of
//! such products again. Other kernels, such as the Matérn kernels of the Euclidean distance, have
//! no such form.

use super::input_scale::InputScale;
use super::node::{BaseKernel, Node};
use super::{AnyKernel, Kernel, family::Value};
use kpass::quantiles::KNOTS_PER_INPUT;
use std::sync::Arc;

/// Maximum number of products. A product of two linear kernels of 16 columns has this many.
const MAX_PRODUCTS: usize = 256;

/// How a kernel of several columns consists of the same kernel of each column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Separation {
    /// k(x, z) = Π_j k(x_j, z_j).
    Product,
    /// k(x, z) = Σ_j k(x_j, z_j).
    Sum,
}

/// A number times a product of kernels of one column each.
#[derive(Clone, Debug)]
pub struct ColumnProduct {
    /// The number.
    pub weight: f64,
    /// The column of each factor, and its kernel on points of one feature. A column may have
    /// several factors.
    pub factors: Vec<(usize, Arc<dyn AnyKernel>)>,
}

impl ColumnProduct {
    fn multiply(&self, other: &Self) -> Self {
        Self {
            weight: (self.weight * other.weight).min(f64::MAX),
            factors: [&self.factors[..], &other.factors].concat(),
        }
    }
}

impl Kernel {
    /// Returns products of kernels of single columns whose sum is the kernel, for points with `d`
    /// features. Returns `None` if the kernel has no such form, if there are more than 256
    /// products, or if a column or a length scale has not been resolved.
    #[doc(hidden)]
    pub fn column_products(&self, d: usize) -> Option<Vec<ColumnProduct>> {
        self.0.column_products(d)
    }
}

impl Node {
    fn column_products(&self, d: usize) -> Option<Vec<ColumnProduct>> {
        let products = match self {
            Self::Base(base_kernel) => base_kernel.column_products(d)?,
            Self::Scaled(factor, node) => {
                let scaled = ColumnProduct { weight: *factor, factors: Vec::new() };
                node.column_products(d)?.iter().map(|product| scaled.multiply(product)).collect()
            }
            Self::Sum(nodes) => {
                let products = nodes.iter().map(|node| node.column_products(d)).collect::<Option<Vec<_>>>()?;
                products.concat()
            }
            Self::Product(nodes) => {
                let mut products = vec![ColumnProduct { weight: 1.0, factors: Vec::new() }];
                for node in nodes {
                    let others = node.column_products(d)?;
                    if products.len() * others.len() > MAX_PRODUCTS {
                        return None;
                    }
                    let expanded = products.iter().flat_map(|p| others.iter().map(|other| p.multiply(other)));
                    products = expanded.collect();
                }
                products
            }
            Self::Transformed(..) => return None,
        };
        (products.len() <= MAX_PRODUCTS).then_some(products)
    }
}

impl BaseKernel {
    fn column_products(&self, d: usize) -> Option<Vec<ColumnProduct>> {
        let separation = self.family.separation.filter(|_| self.sparse_column_count.is_none())?;
        if self.has_unresolved_columns() || self.check_feature_count(d).is_err() {
            return None;
        }
        let columns: Vec<usize> = self.column_indices().map_or_else(|| (0..d).collect(), |c| c.iter().collect());
        let factor = |(position, column): (usize, &usize)| {
            Some((*column, Kernel(Node::Base(self.of_one_column(position))).build().ok()?))
        };
        let factors = columns.iter().enumerate().map(factor).collect::<Option<Vec<_>>>()?;
        let product = |factors| ColumnProduct { weight: 1.0, factors };
        Some(match separation {
            Separation::Product => vec![product(factors)],
            Separation::Sum => factors.into_iter().map(|factor| product(vec![factor])).collect(),
        })
    }

    /// Returns the kernel of the column at `position` among the columns of this kernel, on points
    /// that have only this column.
    fn of_one_column(&self, position: usize) -> Self {
        let value = |value: &Value| match value {
            Value::List(numbers) => Value::Number(numbers[position]),
            other => other.clone(),
        };
        let scale = self.scale.as_ref().map(|scale| match scale {
            InputScale::Knots(knots) => {
                InputScale::Knots(knots[position * KNOTS_PER_INPUT..][..KNOTS_PER_INPUT].into())
            }
            InputScale::Quantile => InputScale::Quantile,
        });
        Self { values: self.values.iter().map(value).collect(), columns: None, scale, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use crate::kernel::Kernel;
    use faer::{Mat, MatRef};

    /// Returns k(x, z) as the sum of products of kernels of single columns.
    fn value_by_columns(kernel: &Kernel, x: &[f64], z: &[f64]) -> Option<f64> {
        let factor = |(column, kernel): &(usize, std::sync::Arc<dyn crate::AnyKernel>)| {
            let mut value = Mat::zeros(1, 1);
            let point = |x: &[f64]| Mat::from_fn(1, 1, |_, _| x[*column]);
            kernel.typed::<f64>().block(point(x).as_ref(), point(z).as_ref(), value.as_mut());
            value[(0, 0)]
        };
        let products = kernel.column_products(x.len())?;
        Some(products.iter().map(|p| p.weight * p.factors.iter().map(factor).product::<f64>()).sum())
    }

    #[test]
    fn a_kernel_is_the_sum_of_its_column_products() {
        let (x, z) = ([0.3, 1.7, 0.4, 2.0], [1.1, 0.2, 0.4, 1.5]);
        let names = ["a", "b", "c", "d"];
        for text in [
            "gaussian(sigma=1.5)",
            "gaussian(sigma=[0.5, 1, 2, 3])",
            "laplacian(sigma=[0.5, 1, 2, 3])",
            "matern_product(nu=1.5, sigma=2)",
            "periodic(period=3, sigma=1.5)",
            "chi_squared(sigma=2)",
            "skewed_chi_squared(skew=0.5)",
            "delta(on=c)",
            "linear()",
            "intersection() + 3*additive_chi_squared()",
            "2*gaussian(sigma=[1, 2], on=[d, a])*delta(on=c) + 0.5*linear()*laplacian(sigma=2, on=b)",
        ] {
            let kernel = Kernel::parse(text).unwrap().resolve_columns(&names).unwrap();
            let mut expected = Mat::zeros(1, 1);
            let point = |x| MatRef::from_row_major_slice(x, 1, 4);
            kernel.build().unwrap().typed::<f64>().block(point(&x[..]), point(&z[..]), expected.as_mut());
            let value = value_by_columns(&kernel, &x, &z).unwrap();
            assert!((value - expected[(0, 0)]).abs() < 1e-14 * expected[(0, 0)].abs().max(1.0), "{text}: {value}");
        }
    }

    #[test]
    fn kernels_of_the_euclidean_distance_have_no_column_products() {
        for text in ["matern(nu=1.5, sigma=2)", "exponential(sigma=2)", "polynomial(degree=2)", "exp(linear())"] {
            let kernel = Kernel::parse(text).unwrap().resolve_columns(&["a", "b"]).unwrap();
            assert!(kernel.column_products(2).is_none(), "{text}");
        }
        assert!(Kernel::parse("gaussian(sigma=median)").unwrap().column_products(2).is_none());
    }

    #[test]
    fn a_sum_of_rescaled_parts_has_the_knots_of_each_column() {
        let knots = |step: usize| {
            let numbers = (0..kpass::quantiles::KNOTS_PER_INPUT).map(|i| (i * step).to_string());
            numbers.collect::<Vec<_>>().join(", ")
        };
        let text = format!("laplacian(sigma=[1, 2], scale=[{}, {}])", knots(1), knots(3));
        let kernel = Kernel::parse(&text).unwrap();
        let (x, z) = ([0.3, 17.0], [5.0, 40.0]);
        let mut expected = Mat::zeros(1, 1);
        let point = |x| MatRef::from_row_major_slice(x, 1, 2);
        kernel.build().unwrap().typed::<f64>().block(point(&x[..]), point(&z[..]), expected.as_mut());
        let value = value_by_columns(&kernel, &x, &z).unwrap();
        assert!((value - expected[(0, 0)]).abs() < 1e-14 && (0.01..0.99).contains(&value), "{value}");
    }
}
