//! Class weights, for unbalanced classes and errors of different cost.

use crate::{Classes, Error, Result, row_weights::RowWeights};
use std::fmt;

/// Weights of the classes in the loss. If a class has weight 2, the effect is the same as if every
/// row of the class were repeated.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum ClassWeight {
    /// 1 for every row.
    #[default]
    Equal,
    /// n / (k n_c) for a class of n_c rows, where k is the number of classes and n the number of
    /// all rows. All classes then have the same influence. If rows have weights, n and n_c are sums
    /// of these weights.
    Balanced,
    /// The given weights for the classes with these labels, and 1 for all others.
    PerLabel(Vec<(String, f64)>),
}

impl ClassWeight {
    /// Reads `balanced`, or labels with their weights: `spam=5,ham=1`. A label may contain any
    /// character but a comma.
    pub(super) fn parse(text: &str) -> std::result::Result<Self, String> {
        if text.trim() == "balanced" {
            return Ok(Self::Balanced);
        }
        let expected = "expected balanced, or labels with weights above 0, such as spam=5,ham=1";
        let parse_entry = |part: &str| {
            let (label, weight) = part.rsplit_once('=')?;
            let weight: f64 = weight.trim().parse().ok()?;
            (weight.is_finite() && weight > 0.0).then(|| (label.trim().to_string(), weight))
        };
        let weights: Option<Vec<_>> = text.split(',').map(parse_entry).collect();
        let mut weights = weights.ok_or(expected)?;
        weights.sort_by(|a, b| a.0.cmp(&b.0));
        match weights.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(format!("class {} has two weights; give one", pair[0].0)),
            None => Ok(Self::PerLabel(weights)),
        }
    }

    /// Returns the weight of each class, by code.
    ///
    /// # Errors
    /// [`Error::EmptyClass`]; [`Error::Option`] for a label that no row has.
    pub(super) fn weights_by_code(
        &self,
        codes: &[u32],
        row_weights: &RowWeights,
        classes: &Classes,
    ) -> Result<Vec<f64>> {
        let labels: Vec<String> = classes.labels().iter().map(ToString::to_string).collect();
        let mut class_totals = vec![0.0; labels.len()];
        codes.iter().enumerate().for_each(|(i, code)| class_totals[*code as usize] += row_weights.get(i));
        if let Some(class) = class_totals.iter().position(|count| *count <= 0.0) {
            return Err(Error::EmptyClass { class });
        }
        match self {
            Self::Equal => Ok(vec![1.0; labels.len()]),
            Self::Balanced => {
                let total_weight = row_weights.weight_sum(0..codes.len());
                Ok(class_totals.iter().map(|count| total_weight / (labels.len() as f64 * count)).collect())
            }
            Self::PerLabel(weights_by_label) => {
                let mut weights = vec![1.0; labels.len()];
                for (label, weight) in weights_by_label {
                    let code = labels.iter().position(|class_label| class_label == label).ok_or_else(|| {
                        let names = labels.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
                        let why = format!("no row is of class {label}; the classes are {names}");
                        Error::option("class_weight", self, why)
                    })?;
                    weights[code] = *weight;
                }
                Ok(weights)
            }
        }
    }
}

impl fmt::Display for ClassWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal => f.write_str("equal"),
            Self::Balanced => f.write_str("balanced"),
            Self::PerLabel(weights) => {
                let entries: Vec<String> = weights.iter().map(|(label, weight)| format!("{label}={weight}")).collect();
                f.write_str(&entries.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore::Label;

    #[test]
    fn weights_follow_labels() {
        let classes = |labels: &[i64]| Classes::new(labels.iter().map(|label| Label::Int(*label)).collect()).unwrap();
        let (codes, three) = ([0, 0, 0, 1, 2, 2], classes(&[-1, 4, 7]));
        let weights =
            |text: &str| ClassWeight::parse(text).unwrap().weights_by_code(&codes, &RowWeights::default(), &three);
        assert_eq!(weights("balanced").unwrap(), [6.0 / 9.0, 2.0, 1.0]);
        assert_eq!(ClassWeight::Equal.weights_by_code(&codes, &RowWeights::default(), &three).unwrap(), [1.0; 3]);
        assert_eq!(weights("7=0.5, -1=3").unwrap(), [3.0, 1.0, 0.5]);
        assert_eq!(ClassWeight::parse("7=0.5, -1=3").unwrap().to_string(), "-1=3,7=0.5");
        let message = weights("5=2").unwrap_err().to_string();
        assert!(message.contains("class 5") && message.contains("-1, 4, 7"), "{message}");
        let four = classes(&[0, 1, 2, 3]);
        assert!(matches!(
            ClassWeight::Balanced.weights_by_code(&codes, &RowWeights::default(), &four),
            Err(Error::EmptyClass { class: 3 })
        ));
        for wrong in ["", "heavy", "a=0", "a=x", "a=1,", "a=1,a=2", "a=inf"] {
            assert!(ClassWeight::parse(wrong).is_err(), "{wrong}");
        }
    }
}
