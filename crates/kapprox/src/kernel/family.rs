//! Families of kernels by name: their properties, their parameters, and how they are built.

use super::{AnyKernel, Separation};
use kpass::registry::RegistryEntry;
use std::{fmt, sync::Arc};

/// A family of kernels: its name, its parameters and the function that builds it.
#[derive(Debug)]
pub struct KernelFamily {
    /// Name in expressions.
    pub name: &'static str,
    /// Formula of the definition, in ASCII.
    pub formula: &'static str,
    /// Parameters, in the order in which expressions print them.
    pub parameters: &'static [NumericParameter],
    /// Distance for the median heuristic; `None` if the kernel has no length scale.
    pub distance: Option<Distance>,
    /// Function that converts a rate gamma to the length scale, for kernels that are often written
    /// with a rate. If it is present, expressions may give `gamma` instead of the length scale.
    pub rate_to_length_scale: Option<fn(f64) -> f64>,
    /// Whether k is positive definite for every allowed parameter.
    pub is_positive_definite: bool,
    /// Further properties of k.
    pub properties: KernelProperties,
    /// Form of the explicit feature map; `None` if the kernel has no explicit map, so that features
    /// come from its spectrum or from landmarks.
    pub explicit_form: Option<ExplicitForm>,
    /// How k consists of kernels of single columns; `None` if it does not.
    #[doc(hidden)]
    pub separation: Option<Separation>,
    /// Allowed values of the features.
    pub domain: Domain,
    /// Check of the number of features against the parameter values; the error says what is wrong,
    /// such as `but this is not a square number`.
    pub check_input_count: fn(values: &[f64], features: usize) -> Result<(), String>,
    /// Example expression that gives every parameter.
    pub example: &'static str,
    /// Constructor of the kernel `text` from parameter values, which are in order and in range.
    pub build: BuildFn,
    /// Constructor of the kernel with a length scale per feature; `None` if the kernel does not
    /// support a list of length scales.
    pub build_list: Option<BuildListFn>,
}

/// A function that builds the kernel `text` from the values of its parameters.
pub type BuildFn = fn(text: String, values: &[f64]) -> Arc<dyn AnyKernel>;

/// A function that builds the kernel `text` with a length scale per feature. `values` holds the
/// values of the other parameters, in order, and 1 for the length scale.
pub type BuildListFn = fn(text: String, values: &[f64], lengths: &[f64]) -> Arc<dyn AnyKernel>;

impl KernelFamily {
    /// Returns the family of a positive definite kernel without parameters, defined for every
    /// number. Set fields to declare anything else.
    ///
    /// `build` receives the expression, which [`spec`](super::KernelFunction::spec) must return,
    /// and the values of the parameters.
    pub const fn new(name: &'static str, formula: &'static str, example: &'static str, build: BuildFn) -> Self {
        Self {
            name,
            formula,
            parameters: &[],
            distance: None,
            rate_to_length_scale: None,
            is_positive_definite: true,
            properties: KernelProperties::NONE,
            explicit_form: None,
            separation: None,
            domain: Domain::Any,
            check_input_count: |_, _| Ok(()),
            example,
            build,
            build_list: None,
        }
    }
}

/// The form of a kernel with an explicit feature map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExplicitForm {
    /// x·z; its exponential is universal.
    Linear,
    /// (γ x·z + c₀)^q, with the parameters q, γ and c₀.
    Polynomial,
    /// Σ_c k(x_c, z_c), the sum over the features c of a homogeneous kernel k of two numbers.
    Additive(Homogeneous),
    /// Π 1/cosh((u − v)/2), the product over the features, with u = ln(x + skew), v = ln(z + skew)
    /// and the parameter skew.
    Skewed,
}

/// A homogeneous kernel of two numbers, k(ax, az) = a k(x, z).
///
/// κ is the Fourier transform of k(x, z)/√(xz) as a function of ln(z/x).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Homogeneous {
    /// 2xz/(x + z), κ(λ) = 1/cosh πλ.
    ChiSquared,
    /// min(x, z), κ(λ) = 2/(π(1 + 4λ²)).
    Intersection,
}

/// Properties of a kernel. A flag is true if the property holds for every allowed parameter and all
/// values of the kernel's domain, and false if it does not hold or is not known to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelProperties {
    /// |k| is bounded.
    pub bounded: bool,
    /// k(x, z) is a function of x − z.
    pub translation_invariant: bool,
    /// k(x, z) is periodic in x.
    pub periodic: bool,
    /// Sums of kernel sections approximate every continuous function on a compact set of points.
    pub universal: bool,
    /// Different distributions have different means in feature space, so a test with k detects
    /// every difference.
    pub characteristic: bool,
    /// Points or distributions for which `universal` and `characteristic` hold, such as `discrete
    /// sets`; empty if they hold for all.
    pub scope: &'static str,
}

impl KernelProperties {
    /// No property is known to hold.
    pub const NONE: Self = Self {
        bounded: false,
        translation_invariant: false,
        periodic: false,
        universal: false,
        characteristic: false,
        scope: "",
    };
    pub(crate) const BOUNDED: Self = Self { bounded: true, ..Self::NONE };
    pub(crate) const UNIVERSAL: Self = Self { universal: true, characteristic: true, ..Self::BOUNDED };
    pub(crate) const TRANSLATION_INVARIANT: Self = Self { translation_invariant: true, ..Self::BOUNDED };
    /// Bounded, translation invariant, universal and characteristic. These properties hold for
    /// functions of x − z whose spectrum is positive everywhere (Sriperumbudur, Gretton, Fukumizu,
    /// Schölkopf, Lanckriet, JMLR 11, 2010).
    pub const ALL: Self = Self { translation_invariant: true, ..Self::UNIVERSAL };
}

impl RegistryEntry for KernelFamily {
    const KIND: &'static str = "kernel";
    fn name(&self) -> &'static str {
        self.name
    }
}

/// The values that features may have, ordered from the largest domain to the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Domain {
    /// Every finite number.
    Any,
    /// 0 or above.
    NonNegative,
    /// 0 or 1.
    Binary,
}

impl Domain {
    /// Returns whether the domain contains `value`.
    pub fn contains(self, value: f64) -> bool {
        match self {
            Self::Any => value.is_finite(),
            Self::NonNegative => value.is_finite() && value >= 0.0,
            Self::Binary => value == 0.0 || value == 1.0,
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "finite",
            Self::NonNegative => ">= 0",
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

/// A named numeric parameter of a kernel or a feature map.
#[derive(Debug, Clone, PartialEq)]
pub struct NumericParameter {
    /// Name in expressions.
    pub name: &'static str,
    /// Default value.
    pub default: Value,
    /// Allowed numbers.
    pub range: ParameterRange,
    /// Reason why other numbers are rejected, for messages.
    pub reason: &'static str,
}

impl NumericParameter {
    /// Returns a parameter with a numeric default; `reason` says why numbers outside `range` are
    /// rejected.
    pub const fn number(name: &'static str, default: f64, range: ParameterRange, reason: &'static str) -> Self {
        Self { name, default: Value::Number(default), range, reason }
    }

    /// Returns whether this is a length scale; only length scales can be `median` or `auto`.
    pub(crate) fn is_length_scale(&self) -> bool {
        matches!(self.default, Value::Median | Value::Auto)
    }
}

/// A parameter value as written: a number, a list of numbers, a number divided by the number of
/// features, or one of the words `median` and `auto`.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A finite number.
    Number(f64),
    /// A finite number for each feature.
    List(Vec<f64>),
    /// This number divided by the number of features that the kernel uses, such as 1/d. As the
    /// value of a length scale it is a [rate](KernelFamily::rate_to_length_scale).
    OverInputCount(f64),
    /// The median distance between the points of a sample.
    Median,
    /// The multiple of the median distance that predicts a target well; without a target, the
    /// median distance.
    Auto,
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// One length scale per column.
impl<const D: usize> From<[f64; D]> for Value {
    fn from(numbers: [f64; D]) -> Self {
        Self::List(numbers.to_vec())
    }
}

/// One length scale per column.
impl From<Vec<f64>> for Value {
    fn from(numbers: Vec<f64>) -> Self {
        Self::List(numbers)
    }
}

/// The finite numbers that a parameter may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParameterRange {
    /// Any finite number.
    Any,
    /// Above 0.
    Positive,
    /// 0 or above.
    NonNegative,
    /// An integer from `min` to `max`, both included.
    Integer {
        /// Smallest allowed number.
        min: u32,
        /// Largest allowed number.
        max: u32,
    },
    /// One of the listed numbers.
    OneOf(&'static [f64]),
}

impl ParameterRange {
    /// Returns whether `value` is allowed.
    pub fn contains(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Self::Any => true,
                Self::Positive => value > 0.0,
                Self::NonNegative => value >= 0.0,
                Self::Integer { min: from, max: to } => {
                    value.fract() == 0.0 && (f64::from(from)..=f64::from(to)).contains(&value)
                }
                Self::OneOf(values) => values.contains(&value),
            }
    }
}

impl fmt::Display for ParameterRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => write!(f, "finite"),
            Self::Positive => write!(f, "> 0"),
            Self::NonNegative => write!(f, ">= 0"),
            Self::Integer { min: from, max: to } => write!(f, "a whole number from {from} to {to}"),
            Self::OneOf(values) => {
                let values: Vec<_> = values.iter().map(f64::to_string).collect();
                write!(f, "one of {}", values.join(", "))
            }
        }
    }
}

/// The name of the [rate](KernelFamily::rate) that replaces a length scale in expressions.
pub(super) const GAMMA: &str = "gamma";

pub(super) const SIGMA: NumericParameter = NumericParameter {
    name: "sigma",
    default: Value::Auto,
    range: ParameterRange::Positive,
    reason: "it is a length that distances are divided by",
};
