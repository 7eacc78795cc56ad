//! The builders of the solvers.

use super::inputs::Inputs;
use super::setup::Setup;
use super::targets::{LabelTarget, NumberTarget};
use super::trained::{Clustering, OutlierDetector, Trained, Transformer};
use crate::job::{ElementType, Fit};
use crate::request::{LandmarkSource, Scaling};
use crate::{Kernel, Result};
use kapprox::MapSpec;
use std::marker::PhantomData;

/// An estimator: a solver with its options and resources. This type has the setters that all
/// solvers share.
///
/// [`Ridge`], [`Svm`], [`Svr`], [`OneClassSvm`], [`Logistic`], [`KernelPca`], [`Fisher`] and
/// [`KernelKMeans`] are estimators, each with its own setters and its own `fit`.
#[derive(Clone, Debug)]
pub struct Estimator<S> {
    setup: Setup,
    solver: PhantomData<S>,
}

impl<S: SolverName> Estimator<S> {
    fn from_registry() -> Self {
        Self { setup: Setup::new(Fit::solver(S::NAME).expect("a solver of the registry")), solver: PhantomData }
    }
}

impl<S> Estimator<S> {
    fn map_fit(self, change: impl FnOnce(Fit) -> Fit) -> Self {
        Self { setup: self.setup.map_fit(change), solver: PhantomData }
    }

    /// Sets the kernel; by default `gaussian(sigma=auto)`, whose length scale the fit
    /// chooses.
    #[must_use]
    pub fn kernel(self, kernel: Kernel) -> Self {
        self.map_fit(|fit| fit.kernel(kernel))
    }

    /// Sets the number of features and of landmarks; 1,000 by default.
    #[must_use]
    pub fn rank(self, rank: usize) -> Self {
        self.map_fit(|fit| fit.rank(rank))
    }

    /// Sets the scheme that chooses the landmarks, a name of
    /// [`kapprox::landmark::registry`].
    #[must_use]
    pub fn landmarks(self, scheme: &str) -> Self {
        self.map_fit(|fit| fit.landmarks(LandmarkSource::Scheme(scheme.to_string())))
    }

    /// Sets the feature map, such as `MapSpec::exact()` for the exact kernel; Nyström by
    /// default.
    #[must_use]
    pub fn map(self, map: MapSpec) -> Self {
        self.map_fit(|fit| fit.map(map))
    }

    /// Sets how the columns are scaled; to mean 0 and deviation 1 by default.
    #[must_use]
    pub fn scaling(self, scaling: Scaling) -> Self {
        self.map_fit(|fit| fit.scaling(scaling))
    }

    /// Sets the seed of every random choice; 0 by default.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.map_fit(|fit| fit.seed(seed))
    }

    /// Sets the type of rows and features; f32 by default.
    #[must_use]
    pub fn precision(self, precision: ElementType) -> Self {
        self.map_fit(|fit| fit.precision(precision))
    }

    /// Sets another parameter of the solver, with the syntax of the command:
    /// `set("folds", "blocks:6")`.
    #[must_use]
    pub fn set(self, parameter: &str, value: impl ToString) -> Self {
        self.map_fit(|fit| fit.set(parameter, value))
    }

    /// Sets the memory budget of the whole process in bytes; half of the machine's memory by
    /// default. The result is bit-identical for every budget.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.setup.resources.memory = Some(bytes);
        self
    }

    /// Sets the number of threads; one per core by default. The result is bit-identical for
    /// every number.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.setup.resources.threads = Some(threads);
        self
    }

    /// Returns the fit that this builder describes.
    pub fn into_fit(self) -> Fit {
        self.setup.fit
    }
}

/// The name of a solver in the registry.
#[doc(hidden)]
pub trait SolverName {
    /// Name of the solver.
    const NAME: &'static str;
}

/// Defines the type of a solver and its setters. A setter is given by the name of the method, the
/// type of the value, and the parameter of the solver.
macro_rules! estimator {
    ($(#[$doc:meta])* $name:ident, $solver:literal; $($(#[$about:meta])* $method:ident: $type:ty => $parameter:literal),* $(,)?) => {
        $(#[$doc])*
        pub type $name = Estimator<solver::$name>;

        impl SolverName for solver::$name {
            const NAME: &'static str = $solver;
        }

        impl $name {
            $($(#[$about])*
            #[must_use]
            pub fn $method(self, $method: $type) -> Self {
                self.set($parameter, $method)
            })*
        }
    };
}

/// Marker types of the solvers.
#[doc(hidden)]
pub(super) mod solver {
    macro_rules! solvers {
        ($($name:ident),*) => { $(#[derive(Clone, Copy, Debug)] pub enum $name {})* };
    }
    solvers!(Ridge, Svm, Svr, OneClassSvm, Logistic, KernelPca, Fisher, KernelKMeans);
}

/// Defines `new` without arguments, and `Default`.
macro_rules! impl_new {
    ($($name:ident),*) => {
        $(impl $name {
            /// Returns the solver with its default parameters.
            pub fn new() -> Self {
                Self::from_registry()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        })*
    };
}

impl_new!(Ridge, Svm, Svr, OneClassSvm, Logistic, Fisher);

estimator!(
    /// Kernel ridge regression: min (1/n) Σ (f(x_i) − y_i)² + lambda ‖f‖², with f in the span of
    /// the kernel sections at the landmarks.
    ///
    /// Ranks and lambdas are cross-validated in one pass over the rows unless `lambda` is set; see
    /// [`crate::solver::ridge`].
    ///
    /// ```
    /// use ksolve::{Kernel, Ridge};
    /// let x: Vec<f64> = (0..1000).map(|i| f64::from(i) / 100.0).collect(); // one column
    /// let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
    /// let ridge = Ridge::new().kernel(Kernel::gaussian(0.5)).rank(100).memory(512 << 20);
    /// let model = ridge.fit(&x, &y)?;
    /// assert!((model.predict(&[1.0, 2.0])?[1] - 2f64.sin()).abs() < 1e-3);
    /// assert!(model.report().train.unwrap().mse < 1e-6);
    /// # Ok::<(), ksolve::Error>(())
    /// ```
    Ridge, "ridge";
    /// Sets the regularisation parameter lambda, relative to the mean loss of a row;
    /// cross-validated by default.
    lambda: f64 => "lambda",
    /// Sets the number of folds of cross-validation; 5 by default.
    folds: usize => "folds",
    /// Sets whether the model also predicts standard deviations.
    std: bool => "std",
);

estimator!(
    /// Support vector classification: min ½ ‖f‖² + C Σ max(0, 1 − y_i f(x_i)), one-vs-rest for more
    /// than two classes.
    ///
    /// ```
    /// use ksolve::{Kernel, Svm};
    /// let x: Vec<[f64; 2]> = (0..200).map(|i| [f64::from(i % 20), f64::from(i / 20)]).collect();
    /// let radius = |[a, b]: &[f64; 2]| (a - 10.0).hypot(2.0 * b - 9.0);
    /// let inside: Vec<bool> = x.iter().map(|x| radius(x) < 6.0).collect();
    /// let model = Svm::new().c(10.0).kernel(Kernel::laplacian(1.0)).rank(100).fit(&x, &inside)?;
    /// assert_eq!(model.predict(&[[10.0, 4.5], [0.0, 0.0]])?, [true, false]);
    /// # Ok::<(), ksolve::Error>(())
    /// ```
    Svm, "svm";
    /// Sets the cost C of a margin violation, as in LIBSVM and scikit-learn; cross-validated by
    /// default.
    c: f64 => "C",
    /// Sets whether the model predicts probabilities, by Platt scaling.
    probabilities: bool => "probabilities",
);

estimator!(
    /// Support vector regression: min ½ ‖f‖² + C Σ max(0, |f(x_i) − y_i| − epsilon).
    Svr, "svr";
    /// Sets the cost C of an error above epsilon; cross-validated by default.
    c: f64 => "C",
    /// Sets the largest error without cost, in the unit of the target.
    epsilon: f64 => "epsilon",
);

estimator!(
    /// One-class support vector machine: learns a region that contains about a fraction 1 − nu of
    /// the rows.
    OneClassSvm, "oneclass";
    /// Sets the fraction of rows outside the region, between 0 and 1.
    nu: f64 => "nu",
);

estimator!(
    /// Kernel logistic regression: predicts the probabilities of two or more classes.
    Logistic, "logistic";
    /// Sets the regularisation parameter lambda, relative to the mean loss of a row;
    /// cross-validated by default.
    lambda: f64 => "lambda",
    /// Sets the number of folds of cross-validation; 5 by default.
    folds: usize => "folds",
);

estimator!(
    /// Kernel principal component analysis: coordinates along the directions of largest variance in
    /// feature space.
    KernelPca, "kpca";
    /// Sets whether the coordinates are divided by their standard deviations.
    whiten: bool => "whiten",
);

estimator!(
    /// Kernel Fisher discriminants: the directions of feature space that separate the classes best.
    Fisher, "fisher";
    /// Sets the regularisation parameter that is added to the diagonal of the within-class
    /// covariance (a mean over rows); cross-validated by default.
    lambda: f64 => "lambda",
);

estimator!(
    /// Kernel k-means: clusters around means in feature space.
    KernelKMeans, "kmeans";
    /// Sets the number of random starts; the best start is the result.
    starts: usize => "starts",
);

impl Ridge {
    /// Fits numeric targets, in memory or in columns of a table; see [the list of
    /// types](crate::estimator).
    ///
    /// # Errors
    /// The number of targets differs from the number of rows; an invalid value (the error names its
    /// row and column); a fit that exceeds the memory budget.
    pub fn fit<X: Inputs + ?Sized, Y: NumberTarget<X::Kind> + ?Sized>(
        &self,
        x: &X,
        y: &Y,
    ) -> Result<Trained<Y::Predicted>> {
        self.setup.fit_numbers(x, |rows| y.attach(rows))
    }
}

impl Svr {
    /// Fits numeric targets; see [`Ridge::fit`].
    ///
    /// # Errors
    /// The errors of [`Ridge::fit`].
    pub fn fit<X: Inputs + ?Sized, Y: NumberTarget<X::Kind> + ?Sized>(
        &self,
        x: &X,
        y: &Y,
    ) -> Result<Trained<Y::Predicted>> {
        self.setup.fit_numbers(x, |rows| y.attach(rows))
    }
}

/// Defines `fit` for classifiers.
macro_rules! classifiers {
    ($($name:ident),*) => {
        $(impl $name {
            /// Fits labels, in memory or in a column of a table; see [the list of
            /// types](crate::estimator).
            ///
            /// # Errors
            /// The number of labels differs from the number of rows; fewer than two classes; the
            /// errors of [`Ridge::fit`].
            pub fn fit<X: Inputs + ?Sized, Y: LabelTarget<X::Kind> + ?Sized>(
                &self,
                x: &X,
                y: &Y,
            ) -> Result<Trained<Y::Predicted>> {
                self.setup.fit(x, |rows| y.attach(rows))
            }
        })*
    };
}

classifiers!(Svm, Logistic, Fisher);

impl OneClassSvm {
    /// Fits the region that contains most rows.
    ///
    /// # Errors
    /// The errors of [`Ridge::fit`].
    pub fn fit<X: Inputs + ?Sized>(&self, x: &X) -> Result<OutlierDetector> {
        Ok(OutlierDetector(self.setup.fit_rows(x)?))
    }
}

impl KernelPca {
    /// Returns kernel PCA with this many components.
    pub fn new(components: usize) -> Self {
        Self::from_registry().set("components", components)
    }

    /// Computes the principal components of the rows.
    ///
    /// # Errors
    /// The errors of [`Ridge::fit`].
    pub fn fit<X: Inputs + ?Sized>(&self, x: &X) -> Result<Transformer> {
        Ok(Transformer(self.setup.fit_rows(x)?))
    }
}

impl KernelKMeans {
    /// Returns kernel k-means with this many clusters.
    pub fn new(clusters: usize) -> Self {
        Self::from_registry().set("clusters", clusters)
    }

    /// Computes the clusters of the rows.
    ///
    /// # Errors
    /// The errors of [`Ridge::fit`].
    pub fn fit<X: Inputs + ?Sized>(&self, x: &X) -> Result<Clustering> {
        Ok(Clustering(self.setup.fit_rows(x)?))
    }
}
