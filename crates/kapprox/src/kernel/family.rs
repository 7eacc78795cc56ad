//! What a kernel by name is: its facts, its parameters, and how it is made of their values.

use super::AnyKernel;
use kpass::named::Named;
use std::{fmt, sync::Arc};

/// A family of kernels: its name, its parameters and the function that builds it.
#[derive(Debug)]
pub struct KernelFamily {
    /// The name in expressions.
    pub name: &'static str,
    /// The definition, in plain characters.
    pub formula: &'static str,
    /// The parameters, in the order in which expressions are printed.
    pub parameters: &'static [KernelParameter],
    /// The distance that the median heuristic takes; `None` where there is no length scale.
    pub metric: Option<Distance>,
    /// The length scale that a rate gamma stands for, of kernels that are often written with one: expressions may give `gamma` in its place.
    pub rate: Option<fn(f64) -> f64>,
    /// Whether k is positive definite for every allowed parameter.
    pub positive_definite: bool,
    /// What else is known of k.
    pub facts: Facts,
    /// What its explicit features are made of; `None` where no map but those of its spectrum and of landmarks knows any.
    pub explicit: Option<Explicit>,
    /// The values its features may have.
    pub domain: Domain,
    /// Whether so many features suit the parameters' values; what is wrong where they do not, as `which are no square`.
    pub fits: fn(values: &[f64], features: usize) -> Result<(), String>,
    /// An expression that gives every parameter.
    pub example: &'static str,
    /// The kernel `text` with the parameters' values, in their order and in range.
    pub build: Build,
    /// The kernel whose only parameter is a list, with a number for each feature; `None` where that has no meaning.
    pub each: Option<Build>,
}

/// Makes the kernel `text` of its parameters' values.
pub type Build = fn(text: String, values: &[f64]) -> Arc<dyn AnyKernel>;

impl KernelFamily {
    /// A positive definite kernel without parameters, defined for every number. Other facts are fields to set.
    ///
    /// `build` is given the expression, which [`KernelFunction::spec`](super::KernelFunction::spec) must give back, and the values of the
    /// parameters.
    pub const fn new(name: &'static str, formula: &'static str, example: &'static str, build: Build) -> Self {
        Self {
            name,
            formula,
            parameters: &[],
            metric: None,
            rate: None,
            positive_definite: true,
            facts: Facts::NONE,
            explicit: None,
            domain: Domain::Any,
            fits: |_, _| Ok(()),
            example,
            build,
            each: None,
        }
    }
}

/// Forms of kernels whose features can be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Explicit {
    /// x·z: the exponential of it is universal.
    Linear,
    /// (γ x·z + c₀)^q, with the parameters q, γ and c₀.
    Polynomial,
    /// Σ k(x_c, z_c) with a homogeneous kernel of two numbers.
    Additive(Homogeneous),
    /// Π 1/cosh of half the difference of ln(x + skew), with the parameter skew.
    Skewed,
}

/// A homogeneous kernel of two numbers, k(ax, az) = a k(x, z); κ is the Fourier transform of k(x, z)/√(xz) as a function of ln(z/x).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Homogeneous {
    /// 2xz/(x + z), κ(λ) = 1/cosh πλ.
    ChiSquared,
    /// min(x, z), κ(λ) = 2/(π(1 + 4λ²)).
    Intersection,
}

/// Properties of a kernel, for every allowed parameter and all values of its domain; false where they do not hold, or are not known to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// |k| has an upper bound on all points.
    pub bounded: bool,
    /// k(x, z) is a function of x − z.
    pub translation_invariant: bool,
    /// k(x, z) comes again and again as x goes away from z.
    pub repeats: bool,
    /// Sums of kernel functions come near every continuous function on a compact set of points.
    pub universal: bool,
    /// Different laws have different means in feature space, so that a test with k sees every difference.
    pub characteristic: bool,
    /// What points or laws the last two hold for, such as `discrete sets`; empty for all.
    pub of: &'static str,
}

impl Facts {
    /// Nothing that is known.
    pub const NONE: Self = Self {
        bounded: false,
        translation_invariant: false,
        repeats: false,
        universal: false,
        characteristic: false,
        of: "",
    };
    pub(crate) const BOUNDED: Self = Self { bounded: true, ..Self::NONE };
    pub(crate) const RICH: Self = Self { universal: true, characteristic: true, ..Self::BOUNDED };
    pub(crate) const INVARIANT: Self = Self { translation_invariant: true, ..Self::BOUNDED };
    /// All of them: functions of the difference whose spectrum is positive everywhere (Sriperumbudur, Gretton, Fukumizu,
    /// Schölkopf, Lanckriet, JMLR 11, 2010).
    pub const ALL: Self = Self { translation_invariant: true, ..Self::RICH };
}

impl Named for KernelFamily {
    const WHAT: &'static str = "kernel";
    fn name(&self) -> &'static str {
        self.name
    }
}

/// The values that features may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Domain {
    /// Every finite number.
    Any,
    /// 0 or above.
    NotNegative,
    /// 0 or 1.
    Binary,
}

impl Domain {
    /// Whether `value` lies in it.
    pub fn contains(self, value: f64) -> bool {
        match self {
            Self::Any => value.is_finite(),
            Self::NotNegative => value.is_finite() && value >= 0.0,
            Self::Binary => value == 0.0 || value == 1.0,
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "finite",
            Self::NotNegative => ">= 0",
            Self::Binary => "0 or 1",
        })
    }
}

/// A distance between points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// Σ |x − z|.
    L1,
    /// √Σ (x − z)².
    L2,
    /// Σ (x − z)² / (x + z).
    ChiSquared,
}

/// A named number of a kernel or of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelParameter {
    /// The name in expressions.
    pub name: &'static str,
    /// The value where the expression gives none.
    pub default: Value,
    /// The numbers that are allowed.
    pub range: Range,
    /// Why other numbers are refused, for messages.
    pub reason: &'static str,
}

impl KernelParameter {
    /// A parameter with a number for a default; `reason` says why others than those of `range` are refused.
    pub const fn number(name: &'static str, default: f64, range: Range, reason: &'static str) -> Self {
        Self { name, default: Value::Number(default), range, reason }
    }

    /// True for a length scale: only those have a median.
    pub(crate) fn is_length(&self) -> bool {
        matches!(self.default, Value::Median | Value::Auto)
    }
}

/// A parameter as written: a number, a list of numbers, or one of the words `median` and `auto`.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A finite number.
    Number(f64),
    /// A finite number for each feature.
    Each(Vec<f64>),
    /// This number over the number of features that the kernel looks at, such as 1/d; in the place of a length scale a
    /// [rate](KernelFamily::rate).
    Share(f64),
    /// The median distance between the points of a sample.
    Median,
    /// A length that predicts well, found from a target as a multiple of the median; the median where there is no target.
    Auto,
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// A length scale for each column.
impl<const D: usize> From<[f64; D]> for Value {
    fn from(numbers: [f64; D]) -> Self {
        Self::Each(numbers.to_vec())
    }
}

/// A length scale for each column.
impl From<Vec<f64>> for Value {
    fn from(numbers: Vec<f64>) -> Self {
        Self::Each(numbers)
    }
}

/// The numbers a parameter may be. All are finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// Any finite number.
    Any,
    /// Above 0.
    Positive,
    /// 0 or above.
    NotNegative,
    /// A whole number between the two, which are allowed themselves.
    Whole {
        /// The smallest.
        from: u32,
        /// The largest.
        to: u32,
    },
    /// One of a few numbers.
    OneOf(&'static [f64]),
}

impl Range {
    /// Whether `value` is allowed.
    pub fn contains(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Self::Any => true,
                Self::Positive => value > 0.0,
                Self::NotNegative => value >= 0.0,
                Self::Whole { from, to } => value.fract() == 0.0 && (f64::from(from)..=f64::from(to)).contains(&value),
                Self::OneOf(values) => values.contains(&value),
            }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => write!(f, "finite"),
            Self::Positive => write!(f, "> 0"),
            Self::NotNegative => write!(f, ">= 0"),
            Self::Whole { from, to } => write!(f, "a whole number from {from} to {to}"),
            Self::OneOf(values) => {
                let values: Vec<_> = values.iter().map(f64::to_string).collect();
                write!(f, "one of {}", values.join(", "))
            }
        }
    }
}

/// The name of the [rate](KernelFamily::rate) that stands for a length scale.
pub(super) const GAMMA: &str = "gamma";

pub(super) const SIGMA: KernelParameter = KernelParameter {
    name: "sigma",
    default: Value::Auto,
    range: Range::Positive,
    reason: "it is a length that distances are divided by",
};
