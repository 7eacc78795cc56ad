//! Serialisation of the values of a job as the texts that users type.

use crate::request::{LandmarkSource, MetricSource};
use crate::solver::{self, SolverFamily};
use kapprox::metric::Metric;
use serde::{Deserialize, Deserializer, Serializer, de::Error};
use std::{fmt::Display, str::FromStr, sync::Arc};

pub(super) fn serialize<V: Display, S: Serializer>(value: &V, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Parses the value of a text; a missing text gives the default.
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

/// A list of values, each as a text.
pub(super) mod list {
    use super::{Deserialize, Deserializer, Display, Error, FromStr, Serializer};

    pub(crate) fn serialize<V: Display, S: Serializer>(values: &[V], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(ToString::to_string))
    }

    pub(crate) fn deserialize<'de, V: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<V>, D::Error> {
        Vec::<String>::deserialize(from)?.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

pub(super) mod family {
    use super::{Deserialize, Deserializer, Error, Serializer, SolverFamily, solver};

    pub(crate) fn serialize<S: Serializer>(family: &&'static SolverFamily, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(family.name)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<&'static SolverFamily, D::Error> {
        solver::solver_named(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// A metric: its name, one factor per input, or the rows of a matrix.
pub(super) mod metric {
    use super::{Arc, Deserialize, Deserializer, Error, Metric, MetricSource, Serializer};
    use serde::{Serialize, ser::Error as _};

    pub(crate) fn serialize<S: Serializer>(source: &MetricSource, to: S) -> Result<S::Ok, S::Error> {
        match source {
            MetricSource::Provided(provided) if provided.scaler.is_some() => {
                Err(S::Error::custom("the metric of a model is valid only with its scaling; name the model file"))
            }
            MetricSource::Provided(provided) if provided.metric.is_diagonal() => {
                provided.metric.to_row_major().serialize(to)
            }
            MetricSource::Provided(provided) => {
                to.collect_seq(provided.metric.to_row_major().chunks(provided.metric.input_count()))
            }
            MetricSource::File(path) => path.serialize(to),
            other => to.collect_str(other),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<MetricSource, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum MetricValue {
            Text(Option<String>),
            Diagonal(Vec<f64>),
            Matrix(Vec<Vec<f64>>),
        }
        let provided = |metric: kapprox::Result<Metric>| {
            Ok(MetricSource::from_metric(Arc::new(metric.map_err(D::Error::custom)?)))
        };
        match MetricValue::deserialize(from)? {
            MetricValue::Text(None) => Ok(MetricSource::None),
            MetricValue::Text(Some(text)) => text.parse().map_err(D::Error::custom),
            MetricValue::Diagonal(factors) => provided(Metric::diagonal(factors)),
            MetricValue::Matrix(rows) => provided(Metric::matrix(&rows.concat(), rows.len())),
        }
    }
}

/// Landmarks: the name of a scheme or of a file. Rows in memory cannot be written.
pub(super) fn landmarks<S: Serializer>(source: &Option<LandmarkSource>, to: S) -> Result<S::Ok, S::Error> {
    match source {
        Some(LandmarkSource::Rows(_)) => {
            Err(serde::ser::Error::custom("landmarks in memory cannot be written; name the file of their table"))
        }
        named => optional::serialize(named, to),
    }
}
