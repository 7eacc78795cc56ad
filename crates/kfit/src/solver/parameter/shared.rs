//! Parameters that several solvers read.

use super::{Interval, Parameter, ParameterKind};

/// A regularisation parameter, in one of two conventions: lambda or C.
///
/// The two are related by lambda = 1/(2nC), where n is the number (or total weight) of the training
/// rows; in cross-validation, of the training rows of the fold. So one lambda means the same
/// penalty relative to the mean loss for any n, and one C the same cost of each row.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Regularisation {
    /// The factor lambda of (1/n) Σ loss + lambda ‖w‖².
    Lambda(f64),
    /// The factor C of ½‖w‖² + C Σ loss.
    C(f64),
}

impl Regularisation {
    /// Returns the parameter as lambda, for rows of total weight n: lambda = 1/(2nC).
    pub fn lambda(self, total_weight: f64) -> f64 {
        match self {
            Self::Lambda(lambda) => lambda,
            Self::C(c) => 0.5 / (c * total_weight),
        }
    }

    /// Returns the parameter as C, for rows of total weight n: C = 1/(2n lambda).
    pub fn c(self, total_weight: f64) -> f64 {
        match self {
            Self::Lambda(lambda) => 0.5 / (lambda * total_weight),
            Self::C(c) => c,
        }
    }
}

/// The parameter `lambda` of a solver that takes one value.
pub const LAMBDA: Parameter = Parameter {
    name: "lambda",
    kind: ParameterKind::Regularisations { accepts_grid: false, accepts_zero: false },
    default: Some("1e-6"),
    help: "Regularisation parameter, per row: (1/n) sum loss + lambda |w|^2; a number such as \
        1e-6; a solver that cross-validates also accepts a list 1e-8,1e-6 or a range 1e-9..1e-3 \
        (two values per decade); ridge also accepts 0, the minimum-norm solution",
};

/// The parameter `lambda` of a solver that compares several values.
pub const LAMBDA_GRID: Parameter =
    Parameter { kind: ParameterKind::Regularisations { accepts_grid: true, accepts_zero: false }, ..LAMBDA };

/// The parameter `lambda` of a solver for which no single default is good. The default is a grid of
/// four values; cross-validation chooses one.
pub const DEFAULT_LAMBDA_GRID: Parameter = Parameter { default: Some("1e-6,1e-5,1e-4,1e-3"), ..LAMBDA_GRID };

/// The parameter `C`, the regularisation parameter of LIBSVM.
pub const C: Parameter = Parameter {
    name: "C",
    kind: ParameterKind::Regularisations { accepts_grid: false, accepts_zero: false },
    default: None,
    help: "Regularisation parameter of LIBSVM, instead of lambda: C = 1/(2 n lambda); a solver \
        that cross-validates also accepts 0.1,1,10 or 0.01..100",
};

/// The parameter `C` of a solver that compares several values.
pub const C_GRID: Parameter =
    Parameter { kind: ParameterKind::Regularisations { accepts_grid: true, accepts_zero: false }, ..C };

/// The parameter `task`: regression or classification.
pub const TASK: Parameter = Parameter {
    name: "task",
    kind: ParameterKind::Choice(&["regression", "classification"]),
    default: Some("regression"),
    help: "Task: regression, or classification (one-vs-rest, with the labels of the table)",
};

/// The parameter `probabilities`: whether validation rows calibrate the map from scores to
/// probabilities.
pub const PROBABILITIES: Parameter =
    Parameter::flag("probabilities", "Calibrate class probabilities on validation rows, for predict `probabilities`");

/// The parameter `tolerance`: the rank is the smallest whose relative trace error is below this.
/// Every solver that works on a feature map reads it.
pub const TOLERANCE: Parameter = Parameter {
    name: "tolerance",
    kind: ParameterKind::Number(Interval::PositiveBelowOne),
    default: None,
    help: "Use the smallest rank with a relative trace error below this, up to rank (then 4000 \
        by default)",
};

/// The parameter `intercept`: treatment of the constant.
pub const INTERCEPT: Parameter = Parameter {
    name: "intercept",
    kind: ParameterKind::Choice(&["free", "penalised", "none"]),
    default: Some("free"),
    help: "Intercept: free, penalised or none",
};

/// The parameter `intercept` of a solver that learns row by row. The solver learns the intercept in
/// the same way as the weights, or omits it.
pub const ONLINE_INTERCEPT: Parameter = Parameter { kind: ParameterKind::Choice(&["free", "none"]), ..INTERCEPT };

/// The parameter `folds`: the folds of cross-validation.
pub const FOLDS: Parameter = Parameter {
    name: "folds",
    kind: ParameterKind::Folds,
    default: None,
    help: "Folds of cross-validation, such as 5; 5 makes random folds, blocks:6 contiguous \
        blocks (blocks:6:NAME in the order of a column), column:NAME one fold per value, \
        groups:5:NAME keeps all rows of a value in one of 5 folds, forward:5 predicts each of 5 \
        blocks from the rows before it (forward:5+1 leaves a gap of one block, forward:5:NAME \
        orders the rows by a column; ridge and tune only), none turns it off [default, if there \
        is something to choose: 5; blocks or groups if the test rows are later rows or groups, or \
        features are past values]",
};

/// The parameter `steps`: maximum number of iterations.
pub const STEPS: Parameter = Parameter {
    name: "steps",
    kind: ParameterKind::Count { max: 1_000_000, reason: "a solver that needs more steps does not converge" },
    default: Some("200"),
    help: "Maximum number of iterations, such as Newton steps, or epochs for the perceptron",
};

/// The parameter `ranks`: ranks that are compared in one pass.
pub const RANKS: Parameter = Parameter {
    name: "ranks",
    kind: ParameterKind::Ranks,
    default: None,
    help: "Ranks to compare in one pass: 250,500,1000 or 50..2000 (doubling) [default: only rank]",
};

/// The parameter `std`: whether the model stores the data that predictive standard deviations need.
pub const STD: Parameter = Parameter::flag(
    "std",
    "Store in the model the data for predict --std and kmill update: 16 bytes for each pair of \
        landmarks (numeric targets; ridge direct, online rls)",
);

/// The parameter `interval`: levels of prediction intervals, or of prediction sets for classes.
pub const INTERVAL: Parameter = Parameter {
    name: "interval",
    kind: ParameterKind::Levels,
    default: None,
    help: "Store in the model the data for predict --interval: prediction intervals that contain \
        this fraction of new values, such as 0.9, or sets of classes; comma-separated for several \
        levels; from held-out rows, so it needs folds (one more pass; not with the exact kernel)",
};

/// The parameter `with`: the columns of the second view.
pub const SECOND_VIEW: Parameter = Parameter {
    name: "with",
    kind: ParameterKind::Columns,
    default: None,
    help: "Columns of the second view, as names or globs, comma-separated; the first view has \
        the other columns; required",
};

/// The parameter `with_kernel`: the kernel on the second view.
pub const SECOND_KERNEL: Parameter = Parameter {
    name: "with_kernel",
    kind: ParameterKind::Kernel,
    default: None,
    help: "Kernel on the second view [default: the kernel of the first view]",
};

/// The parameter `gap`: the relative duality gap at which the solver stops.
pub const GAP: Parameter = Parameter {
    name: "gap",
    kind: ParameterKind::Number(Interval::Positive),
    default: Some("1e-3"),
    help: "Relative duality gap at which the solver stops",
};

/// The parameter `nu`: the fraction of the rows that may be outliers.
pub const NU: Parameter = Parameter {
    name: "nu",
    kind: ParameterKind::Number(Interval::PositiveUpToOne),
    // 0.05 is one row in twenty, a common level in statistics. scikit-learn's default 0.5 would
    // call half of all rows anomalies. If nu is below the fraction of anomalies among the rows, the
    // model also fits anomalies.
    default: Some("0.05"),
    help: "Fraction of outliers, above 0 and up to 1; oneclass: an upper bound on the training \
        rows with a negative score; mean: the fraction of rows farthest from the mean, which have \
        a negative score",
};

/// The parameter `class_weight`: weights of the classes.
pub const CLASS_WEIGHT: Parameter = Parameter {
    name: "class_weight",
    kind: ParameterKind::ClassWeights,
    default: None,
    help: "Class weights: balanced (inversely proportional to the class size), or one weight per \
        label, as in spam=5,ham=1",
};

/// The parameter `components`: number of components of a decomposition.
pub const COMPONENTS: Parameter = Parameter {
    name: "components",
    kind: ParameterKind::Count { max: 1_000_000, reason: "there are never more components than features" },
    default: Some("10"),
    help: "Number of components",
};

/// The parameter `components` of an embedding: few, for pictures.
pub const EMBEDDING_COMPONENTS: Parameter = Parameter { default: Some("2"), ..COMPONENTS };

/// The parameter `nodes`: number of rows that the neighbour graph connects.
pub const NODES: Parameter = Parameter {
    name: "nodes",
    kind: ParameterKind::Count { max: 1_000_000, reason: "neighbours are searched among all nodes" },
    default: None,
    help: "Number of nodes of the neighbour graph, a sample of rows that the model stores; lle \
        uses rank by default",
};

/// The parameter `neighbours`: number of nearest nodes to which a row is connected.
pub const NEIGHBOURS: Parameter = Parameter {
    name: "neighbours",
    kind: ParameterKind::Count { max: 1000, reason: "more neighbours are not local" },
    default: None,
    help: "Number of nearest nodes to which a node, or a new row, is connected [default: 10, \
        increased up to 40 until the graph is connected]",
};

/// The parameter `uncentred`: whether to keep the mean of the features instead of subtracting it.
pub const UNCENTRED: Parameter = Parameter::flag("uncentred", "Do not subtract the mean of the features");

/// The parameter `novelty`. If it is set, the model stores the data from which `predict` computes
/// the distance of a row from the span of the components.
pub const NOVELTY: Parameter = Parameter::flag(
    "novelty",
    "Store in the model the data for predict `novelty` and `preimage`: 16 bytes for each pair of \
        landmarks",
);

/// The parameter `clusters`: number of clusters.
pub const CLUSTERS: Parameter = Parameter {
    name: "clusters",
    kind: ParameterKind::Counts { max: 1_000_000, reason: "every cluster needs rows" },
    default: None,
    help: "Number of clusters, required; a range 2..8 or a list 2,4,8 tries each number on a sample \
        and keeps the number with the largest silhouette",
};

/// The parameter `starts`: number of starts of a search.
pub const STARTS: Parameter = Parameter {
    name: "starts",
    // each start runs k-means on a sample of at least 2,000 rows; a thousand starts take minutes
    kind: ParameterKind::Count {
        max: 1000,
        reason: "more starts rarely help; use a larger sample, or another number of clusters",
    },
    default: Some("10"),
    help: "Number of starts of the search; the best result is used",
};

/// The parameter `group`: the column of the groups in which rows are ranked.
pub const GROUP: Parameter = Parameter {
    name: "group",
    kind: ParameterKind::Column,
    default: None,
    help: "Column of the groups in which rows are ranked, such as queries; rows of different \
        groups are never compared [default: all rows are one group]",
};

/// The parameter `exposure`: the column of the exposures of the rows.
pub const EXPOSURE: Parameter = Parameter {
    name: "exposure",
    kind: ParameterKind::Column,
    default: None,
    help: "Column of exposures, 0 or more, such as the days that a row counts: the mean of the target \
        is proportional to it, predictions are per unit of exposure, and rows of exposure 0 are skipped",
};

/// The parameter `weights`: the column of the row weights.
pub const WEIGHTS: Parameter = Parameter {
    name: "weights",
    kind: ParameterKind::Column,
    default: None,
    help: "Column of row weights, 0 or more: weight 2 counts a row twice, weight 0 skips it, and \
        weights that are not all integers are divided by their mean",
};
