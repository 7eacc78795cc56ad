//! The compared methods, and the runs that measure them.

use crate::{Error, Result};
use kapprox::landmark::{self, Scheme, SelectionCost};
use kapprox::map::{self, MapSpec};
use std::{fmt, str::FromStr};

/// A method that computes features: a landmark scheme with the Nyström map, or another map.
#[derive(Clone, Debug)]
pub enum Method {
    /// The Nyström map on landmarks of this scheme.
    Scheme(&'static Scheme),
    /// A map of the registry.
    Map(MapSpec),
}

impl Method {
    /// Returns the error for the exact kernel, which has no approximation error to compare.
    pub(super) fn exact_kernel_error(name: &str) -> Error {
        Error::option("methods", format!("{name:?}"), "the exact kernel has no approximation error; leave it out")
    }

    /// Returns true if one run covers every rank.
    pub(crate) fn is_nested(&self) -> bool {
        matches!(self, Self::Scheme(scheme) if scheme.is_nested)
    }

    /// Returns true if the result depends on the seed.
    pub(crate) fn is_seeded(&self) -> bool {
        match self {
            Self::Scheme(scheme) => scheme.depends_on_seed,
            Self::Map(_) => true,
        }
    }

    /// Returns true if the method supports sparse rows. Schemes that compute with distances to
    /// means do not.
    #[doc(hidden)]
    pub fn supports_sparse(&self) -> bool {
        match self {
            Self::Scheme(scheme) => scheme.cost != SelectionCost::Distances,
            Self::Map(spec) => spec.family().supports_sparse,
        }
    }

    pub(super) fn map_spec(&self) -> MapSpec {
        match self {
            Self::Scheme(_) => MapSpec::default(),
            Self::Map(spec) => spec.clone(),
        }
    }
}

impl PartialEq for Method {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme(scheme) => f.write_str(scheme.name),
            Self::Map(spec) => spec.fmt(f),
        }
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.split('(').next().unwrap_or_default().trim();
        if let Some(scheme) = landmark::by_name(text.trim()) {
            return Ok(Self::Scheme(scheme));
        }
        if map::by_name(name).is_some() {
            let spec: MapSpec = text.parse()?;
            return if spec.is_exact_kernel() {
                Err(Self::exact_kernel_error(text.trim()))
            } else {
                Ok(Self::Map(spec))
            };
        }
        let schemes = landmark::registry().into_iter().map(|scheme| scheme.name);
        let names: Vec<&str> = schemes.chain(map::registry().into_iter().map(|family| family.name)).collect();
        let why = format!("unknown landmark scheme or map; expected one of {}", names.join(", "));
        Err(Error::option("methods", format!("{:?}", text.trim()), why))
    }
}

/// A run: one method with one seed. If the landmarks are nested, one run covers every rank;
/// otherwise a run has one rank.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CurveRun {
    /// The scheme or map.
    pub method: Method,
    /// Index of the repetition, from 0; it is added to the seed of the options.
    pub repeat: u64,
    /// Ranks, ascending.
    pub ranks: Vec<usize>,
}

impl fmt::Display for CurveRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, repeat {}, ", self.method, self.repeat + 1)?;
        match &self.ranks[..] {
            [first, .., last] => write!(f, "ranks {first} to {last}"),
            [rank] => write!(f, "rank {rank}"),
            [] => f.write_str("no rank"),
        }
    }
}

impl super::CurveOptions {
    /// Returns every run: first all methods with the first seed, then all methods with the next
    /// seed, and so on. An interrupted curve then has some results of each method. A deterministic
    /// method runs once.
    #[doc(hidden)]
    pub fn runs(&self) -> Vec<CurveRun> {
        let mut runs = Vec::new();
        for repeat in 0..self.repeats {
            for method in self.methods.iter().filter(|method| repeat == 0 || method.is_seeded()) {
                let ranks_per_run = if method.is_nested() { self.ranks.len().max(1) } else { 1 };
                let build_run = |ranks: &[usize]| CurveRun { method: method.clone(), repeat, ranks: ranks.to_vec() };
                runs.extend(self.ranks.chunks(ranks_per_run).map(build_run));
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_and_maps_are_methods_and_nothing_else_is() {
        let method = |text: &str| text.parse::<Method>();
        assert!(method("rpcholesky").unwrap().is_nested() && method("greedy").unwrap().is_nested());
        assert!(!method("kmeans").unwrap().is_nested() && !method("fourier").unwrap().is_nested());
        assert_eq!(method(" ensemble(parts=8)").unwrap().to_string(), "ensemble(parts=8)");
        assert!(method("ensemble(part=8)").unwrap_err().to_string().contains("has no parameter"));
        let error = method("rpcholsky").unwrap_err().to_string();
        assert!(error.starts_with("`methods` \"rpcholsky\"") && error.contains("rpcholesky, uniform"), "{error}");
    }
    #[test]
    fn every_run_comes_once_and_chance_alone_repeats_it() {
        let options = crate::curve::CurveOptions {
            methods: ["uniform", "greedy", "kmeans", "fourier"].map(|name| name.parse().unwrap()).to_vec(),
            ranks: vec![10, 20],
            repeats: 3,
            landmark_scheme: landmark::by_name("uniform").unwrap(),
            sample_rows: None,
            scaling: crate::request::Scaling::Standard,
            kernel: kapprox::Kernel::parse("linear()").unwrap(),
            task: crate::Task::Regression,
            lambda: 1e-6,
            intercept: crate::Intercept::Free,
            seed: 0,
        };
        let runs = options.runs();
        let runs_of = |name: &str| {
            let named_runs = runs.iter().filter(|run| run.method.to_string() == name);
            named_runs.map(|run| (run.repeat, run.ranks.len())).collect::<Vec<_>>()
        };
        assert_eq!(runs_of("uniform"), [(0, 2), (1, 2), (2, 2)]);
        assert_eq!(runs_of("greedy"), [(0, 2)]);
        assert_eq!(runs_of("kmeans"), [(0, 1), (0, 1), (1, 1), (1, 1), (2, 1), (2, 1)]);
        assert_eq!(runs_of("fourier").len(), 6);
        assert!(runs.windows(2).all(|pair| pair[0].repeat <= pair[1].repeat));
    }
}
