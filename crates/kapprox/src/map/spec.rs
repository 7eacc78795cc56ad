//! Maps as expressions: `nystrom`, `ensemble(parts=4)`.

use super::family::MapFamily;
use super::nystrom;
use super::registry::{by_name, families};
use crate::{Error, Result};
use kstore::shown::{number, short};
use std::fmt;
use std::str::FromStr;

/// A map of [`registry`](super::registry()) with a value for each of its parameters.
///
/// Written as its name, with the parameters in parentheses where there are some; reading that gives an equal value.
///
/// ```
/// use kapprox::map::MapSpec;
/// let spec: MapSpec = "ensemble( parts = 8 )".parse()?;
/// assert_eq!(spec.to_string(), "ensemble(parts=8)");
/// assert_eq!(MapSpec::default().to_string(), "nystrom");
/// # Ok::<(), kapprox::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MapSpec {
    family: &'static MapFamily,
    values: Vec<f64>,
}

impl PartialEq for MapSpec {
    fn eq(&self, other: &Self) -> bool {
        self.family.name == other.family.name && self.values == other.values
    }
}

impl Default for MapSpec {
    /// The map `nystrom`.
    fn default() -> Self {
        Self::of(&nystrom::FAMILY)
    }
}

impl MapSpec {
    fn of(family: &'static MapFamily) -> Self {
        Self { family, values: family.parameters.iter().map(|parameter| parameter.default).collect() }
    }

    /// The entry of the registry.
    pub fn family(&self) -> &'static MapFamily {
        self.family
    }

    /// The value of a parameter; NaN for a name that the family does not have, which is a mistake of its file.
    pub fn value(&self, name: &str) -> f64 {
        let at = self.family.parameters.iter().position(|parameter| parameter.name == name);
        at.map_or(f64::NAN, |at| self.values[at])
    }
}

impl FromStr for MapSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |at: usize, message: String| Error::Spec { text: text.to_string(), at, message };
        let (name, rest) = text.split_at(text.find('(').unwrap_or(text.len()));
        let Some(family) = by_name(name.trim()) else {
            let known: Vec<&str> = families().map(|family| family.name).collect();
            return Err(refuse(0, format!("no map is called {:?}; name one of {}", name.trim(), known.join(", "))));
        };
        let mut spec = Self::of(family);
        if rest.is_empty() {
            return Ok(spec);
        }
        let Some(inner) = rest.trim_end().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
            return Err(refuse(text.len(), "a parenthesis is not closed".to_string()));
        };
        for part in inner.split(',').filter(|part| !part.trim().is_empty()) {
            let at = part.as_ptr() as usize - text.as_ptr() as usize;
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let (key, value) = (key.trim(), value.trim());
            let Some(index) = family.parameters.iter().position(|parameter| parameter.name == key) else {
                let known: Vec<&str> = family.parameters.iter().map(|parameter| parameter.name).collect();
                let takes = if known.is_empty() { "no parameters".to_string() } else { known.join(", ") };
                return Err(refuse(at, format!("{} has no parameter {key:?}; it takes {takes}", family.name)));
            };
            let parameter = &family.parameters[index];
            spec.values[index] = match value.parse::<f64>() {
                Ok(value) if parameter.range.contains(value) => value,
                _ => {
                    let why =
                        format!("{key} is {:?}, it must be {}: {}", short(value), parameter.range, parameter.reason);
                    return Err(refuse(at, why));
                }
            };
        }
        Ok(spec)
    }
}

impl fmt::Display for MapSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.family.name)?;
        for (i, (parameter, value)) in self.family.parameters.iter().zip(&self.values).enumerate() {
            write!(f, "{}{}={}", if i > 0 { ", " } else { "(" }, parameter.name, number(*value))?;
        }
        f.write_str(if self.values.is_empty() { "" } else { ")" })
    }
}
