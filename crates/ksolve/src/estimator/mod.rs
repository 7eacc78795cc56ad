//! Solvers as types: [`Ridge`], [`Svm`], [`Svr`], [`OneClassSvm`], [`Logistic`], [`KernelPca`],
//! [`Fisher`] and [`KernelKMeans`].
//!
//! Each type is a builder of a [`Fit`](crate::job::Fit) with the defaults of the command. It
//! accepts rows in memory or tables:
//!
//! - Rows in memory are `[[f64; D]]`, `[Vec<f64>]`, `[f64]` (one column), faer `Mat` and `MatRef`,
//!   and ndarray arrays (feature `ndarray`). Numeric targets are `[f64]`, or a matrix with a column
//!   for each target; the predictions are then a `Vec<f64>` or `Mat<f64>`. Labels are `[&str]`,
//!   `[String]`, `[i64]` (or smaller integers) or `[bool]`; the predictions are then labels of the
//!   same type.
//! - Tables are [`Table`](kstore::Table) and Arrow `RecordBatch`. The target is the name of a
//!   column, or several names for numeric targets; the predictions are numbers or
//!   [`Label`](kstore::Label).
//!
//! Rows in memory need targets in memory, and tables need column names; any other combination does
//! not compile.
//!
//! ```compile_fail
//! // rows in memory have no column "y"
//! let y = ksolve::Ridge::new().fit(&[[1.0, 2.0], [3.0, 4.0]], "y");
//! ```
//!
//! ```compile_fail
//! let table = kstore::Table::open(&["rows.parquet"])?;
//! let model = ksolve::Svm::new().fit(&table, &["a", "b"])?; // labels in memory, rows in a table
//! # Ok::<(), ksolve::Error>(())
//! ```
//!
//! ```
//! use ksolve::{Kernel, KernelPca, Ridge, Svm};
//! let point = |i: i32| [f64::from(i % 20), f64::from(i / 20)].map(|v| v / 10.0);
//! let x: Vec<[f64; 2]> = (0..400).map(point).collect();
//! let y: Vec<f64> = x.iter().map(|x| x[0].sin() + x[1]).collect();
//! let model = Ridge::new().kernel(Kernel::gaussian(0.5)).rank(100).fit(&x, &y)?;
//! assert!((model.predict(&[[0.5, 0.5]])?[0] - 0.9794).abs() < 0.02);
//!
//! let labels: Vec<&str> = x.iter().map(|x| if x[0] < x[1] { "below" } else { "above" }).collect();
//! let model = Svm::new().c(10.0).kernel(Kernel::laplacian(1.0)).rank(100).fit(&x, &labels)?;
//! assert_eq!(model.predict(&[[0.2, 1.5], [1.5, 0.2]])?, ["below", "above"]);
//!
//! let z = KernelPca::new(3).rank(100).fit(&x)?.transform(&x)?; // 400 x 3
//! # assert_eq!((z.nrows(), z.ncols()), (400, 3));
//! # Ok::<(), ksolve::Error>(())
//! ```
//!
//! [`Fit::solver`](crate::job::Fit::solver) offers all other solvers, and every parameter as text.

mod inputs;
mod predictions;
mod setup;
mod solvers;
mod targets;
mod trained;

pub use inputs::{InMemory, InTable, Inputs};
pub use predictions::Predictions;
pub use solvers::{Estimator, Fisher, KernelKMeans, KernelPca, Logistic, OneClassSvm, Ridge, Svm, Svr};
pub use targets::{LabelTarget, LabelValue, NumberTarget};
pub use trained::{Clustering, OutlierDetector, Trained, Transformer};
