//! The values of a job in JSON, as the texts that people type.

use crate::request::MetricSource;
use crate::solver::{self, SolverFamily};
use kapprox::metric::Metric;
use serde::{Deserialize, Deserializer, Serializer, de::Error};
use std::{fmt::Display, str::FromStr, sync::Arc};

pub(super) fn serialize<V: Display, S: Serializer>(value: &V, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// The value of a text; the default where there is none.
pub(super) fn deserialize<'de, V: FromStr<Err: Display> + Default, D: Deserializer<'de>>(
    from: D,
) -> Result<V, D::Error> {
    Ok(optional::deserialize(from)?.unwrap_or_default())
}

pub(super) mod optional {
    use super::{Deserialize, Deserializer, Display, Error, FromStr, Serializer};
    use serde::Serialize;

    pub(crate) fn serialize<V: Display, S: Serializer>(value: &Option<V>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(to)
    }

    pub(crate) fn deserialize<'de, V: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<V>, D::Error> {
        Option::<String>::deserialize(from)?.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

pub(super) mod family {
    use super::{Deserialize, Deserializer, Error, Serializer, SolverFamily, solver};

    pub(crate) fn serialize<S: Serializer>(family: &&'static SolverFamily, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(family.name)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<&'static SolverFamily, D::Error> {
        solver::named(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// A metric: its text, a factor for each feature, or the rows of a matrix.
pub(super) fn metric<'de, D: Deserializer<'de>>(from: D) -> Result<MetricSource, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Told {
        Text(Option<String>),
        Diagonal(Vec<f64>),
        Matrix(Vec<Vec<f64>>),
    }
    let known = |metric: kapprox::Result<Metric>| Ok(MetricSource::of(Arc::new(metric.map_err(D::Error::custom)?)));
    match Told::deserialize(from)? {
        Told::Text(None) => Ok(MetricSource::None),
        Told::Text(Some(text)) => text.parse().map_err(D::Error::custom),
        Told::Diagonal(factors) => known(Metric::diagonal(factors)),
        Told::Matrix(rows) => known(Metric::matrix(&rows.concat(), rows.len())),
    }
}
