//! All maps by name. The name is the value of the parameter `map`, and is stored in model files.
//!
//! To add a map, write one file here with its `FAMILY` and add one line to `FAMILIES`.

use super::family::{MAX_FEATURES, MapConstructor, MapConstructorPair, MapFamily, MapRequest, MapShape, MapSpec};
use super::{additive, ensemble, nystrom, projected, random, tensor_sketch};
use crate::{Error, Real, Result};
use kpass::display::truncate;
use kpass::registry::Registry;
use std::str::FromStr;

static FAMILIES: Registry<MapFamily> = Registry::new(&[
    nystrom::FAMILY,
    projected::EIGEN,
    projected::RANDOMISED,
    projected::DOUBLE,
    projected::TRUNCATED,
    ensemble::FAMILY,
    random::FOURIER,
    random::ORTHOGONAL,
    random::STRUCTURED,
    random::QUASI,
    tensor_sketch::FAMILY,
    additive::FAMILY,
    EXACT,
]);

/// No map: the exact kernel, for solvers that need no features.
const EXACT: MapFamily = MapFamily {
    name: "exact",
    summary: "no approximation: ridge, svm, svr, quantile and oneclass with the exact kernel on all rows; \
        `rank` is the rank of the preconditioner of ridge",
    parameters: &[],
    is_nested: false,
    supports_sparse: true,
    build_passes: 0,
    // the solver's preconditioner is a Nyström map
    shape: nystrom::FAMILY.shape,
    constructor: MapConstructorPair { single: MapConstructor::ExactKernel, double: MapConstructor::ExactKernel },
};

/// Returns every map, in the order in which help lists them: the maps of this crate, then the
/// [registered](register) maps.
pub fn registry() -> Vec<&'static MapFamily> {
    FAMILIES.entries()
}

/// Returns the map with this name, of this crate or [registered](register).
pub fn by_name(name: &str) -> Option<&'static MapFamily> {
    FAMILIES.by_name(name)
}

/// Registers a map of another crate by its name, for the rest of the process. Fits and curves then
/// accept the map, and models with the map can be saved and loaded.
///
/// A model file holds the name and parameters of the map and no code: register the map before
/// loading the model.
///
/// # Errors
/// [`kpass::Error::Register`] if a map has the name, or if the name is not valid.
pub fn register(family: &'static MapFamily) -> Result<()> {
    Ok(FAMILIES.register(family)?)
}

impl Default for MapSpec {
    /// The map `nystrom`.
    fn default() -> Self {
        Self::with_defaults(&FAMILIES.builtin()[0])
    }
}

impl FromStr for MapSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse_error = |at: usize, message: String| Error::Kernel { text: text.to_string(), position: at, message };
        let (name, parameter_text) = text.split_at(text.find('(').unwrap_or(text.len()));
        let Some(family) = by_name(name.trim()) else {
            let names: Vec<&str> = registry().into_iter().map(|family| family.name).collect();
            return Err(parse_error(0, format!("unknown map {:?}; choose one of {}", name.trim(), names.join(", "))));
        };
        let mut spec = Self::with_defaults(family);
        if parameter_text.is_empty() {
            return Ok(spec);
        }
        let Some(arguments) =
            parameter_text.trim_end().strip_prefix('(').and_then(|argument_text| argument_text.strip_suffix(')'))
        else {
            return Err(parse_error(text.len(), "expected a closing parenthesis".to_string()));
        };
        for argument in arguments.split(',').filter(|part| !part.trim().is_empty()) {
            let at = argument.as_ptr() as usize - text.as_ptr() as usize;
            let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
            let (key, value) = (key.trim(), value.trim());
            let Some(index) = family.parameters.iter().position(|parameter| parameter.name == key) else {
                let names: Vec<&str> = family.parameters.iter().map(|parameter| parameter.name).collect();
                let accepted_names = if names.is_empty() { "no parameters".to_string() } else { names.join(", ") };
                return Err(parse_error(
                    at,
                    format!("{} has no parameter {key:?}; it takes {accepted_names}", family.name),
                ));
            };
            let parameter = &family.parameters[index];
            spec.parameter_values[index] = match value.parse::<f64>() {
                Ok(value) if parameter.range.contains(value) => value,
                _ => {
                    let why = format!(
                        "{key} is {:?}, but must be {}: {}",
                        truncate(value),
                        parameter.range,
                        parameter.reason
                    );
                    return Err(parse_error(at, why));
                }
            };
        }
        Ok(spec)
    }
}

impl MapSpec {
    /// Computes the size and memory of the map. Only this function turns the requested rank into
    /// the rank of the map.
    ///
    /// # Errors
    /// [`Error::TooManyFeatures`] above [`MAX_FEATURES`].
    pub fn shape(&self, request: MapRequest) -> Result<MapShape> {
        let candidate_count = request.candidate_count.max(1);
        let max_rank = if self.is_data_independent() { usize::MAX } else { candidate_count };
        // a rank above the maximum is rejected below, but its square must not overflow before
        let rank = request.rank.min(max_rank).min(2 * MAX_FEATURES);
        let shape = (self.family().shape)(self, MapRequest { rank, candidate_count, ..request });
        match shape.p > MAX_FEATURES {
            true => Err(Error::TooManyFeatures { map: self.to_string(), max_count: MAX_FEATURES }),
            false => Ok(shape),
        }
    }

    /// Returns the number of passes over the rows to build the map, in addition to the passes that
    /// choose landmarks.
    pub fn build_passes(&self) -> u64 {
        self.family().build_passes
    }

    /// Returns true for a map that is built without rows.
    pub fn is_data_independent(&self) -> bool {
        matches!(self.constructor::<f64>(), MapConstructor::DataIndependent(_))
    }

    /// Returns true if the solver uses the exact kernel, without a map.
    pub fn is_exact_kernel(&self) -> bool {
        matches!(self.constructor::<f64>(), MapConstructor::ExactKernel)
    }

    /// Returns how the map is built in a precision.
    pub fn constructor<T: Real>(&self) -> MapConstructor<T> {
        T::pick(self.family().constructor)
    }
}
