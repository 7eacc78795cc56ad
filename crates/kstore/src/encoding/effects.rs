//! Target encoding of text columns with many values: one feature for each output instead of
//! thousands.
//!
//! The effect of a value is the mean of the target over its rows minus the mean over all rows,
//! shrunk towards 0 if the value has few rows, and divided by the standard deviation of the target
//! (Micci-Barreca, "A preprocessing scheme for high-cardinality categorical attributes", SIGKDD
//! Explorations 3, 2001). The amount of shrinkage is estimated from the variance between and within
//! the values, as for a random effect in one-way analysis of variance (Searle, Casella, McCulloch,
//! "Variance components", 1992, section 3.6). Effects are not rescaled: a feature with standard
//! deviation 0.1 keeps it in the kernel, so that an uninformative column has little influence.
//!
//! The effect in a training row must not use the row's own target: the row number assigns each row
//! to a fold, and a row gets the effects that the other folds estimate, as in the cross-fitting of
//! scikit-learn's `TargetEncoder`. New rows get the effects of all rows.

use super::{Code, CodedColumn, ColumnNote, Distinct, Encoding, Search};
use crate::KeptValues;
use crate::key::{Purpose, Stream};
use crate::select::Selected;
use crate::{Digest, Error, Fold, Label, Merge, Missing, Reading, Result, RowBlock, TableRows, TextLimit, Workers};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, sync::Arc};

const EFFECT_LIMIT: usize = 1 << 16;

const FOLDS: usize = 5;

/// Maximum number of outputs whose effects become features: targets, or classes except the most
/// frequent one.
const MOST_OUTPUTS: usize = 15;

const MISSING: u64 = u64::MAX;

/// The F statistic must exceed 1 by this many of its standard deviations under the hypothesis of no
/// effect.
const BEYOND_CHANCE: f64 = 4.0;

/// The effects of the values of a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effects {
    /// Suffix of the column's name for each output: empty for a single output, otherwise the
    /// target's name or the label of the class.
    pub(super) outputs: Vec<String>,
    /// Digests of the texts of the values, in ascending order.
    pub(super) values: Vec<u64>,
    /// Effect of each value on each output, row-major.
    pub(super) effects: Vec<f64>,
    /// Effects that are estimated without the rows of each fold, for the training rows; not stored
    /// in a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) folds: Vec<Vec<f64>>,
}

impl Effects {
    pub(super) fn bytes(&self) -> usize {
        let numbers = self.effects.len() + self.folds.iter().map(Vec::len).sum::<usize>();
        8 * numbers + 32 * self.values.len()
    }

    /// Returns the effects of a value on the outputs, for a stored row.
    pub(super) fn of(&self, value: usize, row: u64) -> &[f64] {
        let t = self.outputs.len();
        let effects = self.folds.get(fold_of(row)).unwrap_or(&self.effects);
        &effects[value * t..][..t]
    }

    pub(super) fn is_sound(&self) -> bool {
        let whole = self.outputs.len() * self.values.len();
        let finite = |effects: &Vec<f64>| effects.len() == whole && effects.iter().all(|effect| effect.is_finite());
        self.values.windows(2).all(|pair| pair[0] < pair[1])
            && finite(&self.effects)
            && self.folds.iter().all(finite)
            && [0, FOLDS].contains(&self.folds.len())
    }
}

fn fold_of(row: u64) -> usize {
    Stream::new(0, Purpose::Effects, 0).below(row, FOLDS as u64) as usize
}

/// Weights and weighted targets of some rows, for each fold: `[weight, target, …]`, concatenated.
type Sums = Box<[f64]>;

/// The state of an [`EffectSearch`]: sums of weights and targets.
#[derive(Clone, Debug)]
pub struct FoundEffects {
    /// For each column, the sums of each value; `None` if there are too many values.
    values: Vec<Option<HashMap<u64, Sums>>>,
    all: Sums,
    squares: Vec<f64>,
    rows: u64,
    /// Whether any weight is not an integer, so that weights do not count rows.
    fractional: bool,
}

fn add(sums: &mut [f64], more: &[f64]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

impl Merge for FoundEffects {
    fn merge(&mut self, later: &Self) {
        add(&mut self.all, &later.all);
        add(&mut self.squares, &later.squares);
        self.rows += later.rows;
        self.fractional |= later.fractional;
        for (mine, later) in self.values.iter_mut().zip(&later.values) {
            *mine = mine.take().zip(later.as_ref()).and_then(|(mut mine, later)| {
                later.iter().for_each(|(value, sums)| match mine.get_mut(value) {
                    Some(mine) => add(mine, sums),
                    None => _ = mine.insert(*value, sums.clone()),
                });
                (mine.len() <= EFFECT_LIMIT).then_some(mine)
            });
        }
    }
}

/// The fold that learns effects, in a pass over [`EffectSearch::rows`].
#[derive(Clone, Debug)]
pub struct EffectSearch {
    selected: Selected,
    read: Selected,
    places: Vec<usize>,
    classes: Option<Arc<Vec<Label>>>,
    outputs: Vec<String>,
}

impl Selected {
    /// Returns the names of the columns that become effects.
    #[doc(hidden)]
    pub fn effect_columns(&self) -> Vec<String> {
        let columns = self.encoding().into_iter().flat_map(Encoding::columns);
        columns.filter(|column| matches!(column.code, Code::Effects(_))).map(|column| column.name.clone()).collect()
    }

    /// Returns the search for effects on the targets, or on the frequencies of `classes` except the
    /// first; limited to the first `MAX_OUTPUTS` outputs.
    #[doc(hidden)]
    pub fn effects(&self, classes: Option<Arc<Vec<Label>>>) -> Option<EffectSearch> {
        let encoding = self.encoding()?;
        let unlearned = encoding.columns().iter().enumerate().filter(|(_, column)| column.is_unlearned());
        let places: Vec<usize> = unlearned.map(|(place, _)| place).collect();
        if places.is_empty() {
            return None;
        }
        let names = match &classes {
            Some(labels) => labels.iter().skip(1).map(|label| format!("={label}")).collect(),
            None => self.target_names().iter().map(|name| format!(".{name}")).collect::<Vec<_>>(),
        };
        let outputs =
            if names.len() == 1 { vec![String::new()] } else { names.into_iter().take(MOST_OUTPUTS).collect() };
        // rows that are dropped for a missing value in another column do not count
        let drops = self.missing == Missing::Drop;
        let others = (0..self.features.len()).filter(|place| drops && !places.contains(place));
        let (numbers, others): (Vec<usize>, Vec<usize>) =
            others.partition(|place| encoding.columns()[*place].code == Code::Number);
        let keep: Vec<usize> = places.iter().chain(&others).map(|place| self.features[*place]).collect();
        let numbers = numbers.into_iter().map(|place| self.features[place]).collect();
        let Self { targets, weight, class, .. } = self.clone();
        let read = Self { targets, weight, class, group: None, ..self.searched(numbers, keep, Missing::Error) };
        Some(EffectSearch { selected: self.clone(), read, places, classes, outputs })
    }
}

impl Search for EffectSearch {
    fn rows(&self, texts: TextLimit) -> Result<TableRows<f64>> {
        self.read.rows::<f64>(Reading { texts, classes: self.classes.clone(), ..Reading::default() })
    }

    fn state_bytes(&self) -> usize {
        self.places.len() * EFFECT_LIMIT * (64 + 8 * self.width())
    }

    fn finish(&self, found: &FoundEffects) -> Result<(Selected, Vec<ColumnNote>)> {
        let (mut columns, mut features, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let all = self.selected.encoding().into_iter().flat_map(Encoding::columns).enumerate();
        for ((place, column), feature) in all.zip(&self.selected.features) {
            let learned = match self.places.iter().position(|at| *at == place) {
                None => Some(column.clone()),
                Some(at) => {
                    let effects = found.values[at].as_ref().and_then(|sums| self.learned(sums, found));
                    effects.map(|effects| CodedColumn { code: Code::Effects(effects), ..column.clone() })
                }
            };
            match learned {
                Some(column) => {
                    columns.push(column);
                    features.push(*feature);
                }
                None => {
                    let too_many =
                        self.places.iter().position(|at| *at == place).is_some_and(|at| found.values[at].is_none());
                    let values = Distinct::More { than: EFFECT_LIMIT, repeat: true };
                    let column = column.name.clone();
                    notes.push(match too_many {
                        true => ColumnNote::LeftOut { column, values },
                        false => ColumnNote::NoEffect { column },
                    });
                }
            }
        }
        if columns.is_empty() {
            return Err(self.selected.table.empty("no column remains as a feature"));
        }
        Ok((self.selected.encoded(features, Encoding::new(columns))?, notes))
    }
}

impl EffectSearch {
    /// Returns the number of sums for a value: for each fold a weight, and a sum for each output.
    fn width(&self) -> usize {
        FOLDS * (1 + self.outputs.len())
    }

    /// Estimates the effects of the values with these sums; `None` if chance alone explains them.
    fn learned(&self, sums: &HashMap<u64, Sums>, found: &FoundEffects) -> Option<Effects> {
        let t = self.outputs.len();
        let all = Total::of(&found.all, t, None);
        let rows = if found.fractional { found.rows as f64 } else { all.weight };
        let unit = rows / all.weight;
        let mut values: Vec<u64> = sums.keys().copied().collect();
        values.sort_unstable();
        let groups = values.len() as f64;
        let (mut between, mut within, mut sizes) = (0.0, 0.0, 0.0);
        let mut deviations = Vec::with_capacity(t);
        for (o, squares) in found.squares.iter().enumerate() {
            let level = all.sums[o] * all.sums[o] / all.weight;
            let explained: f64 = values.iter().map(|value| Total::of(&sums[value], t, None).squared(o)).sum();
            let whole = squares - level;
            // the variance of a constant is rounding error
            if whole.is_nan() || whole <= 1e-12 * squares {
                return None;
            }
            between += (explained - level) / whole;
            within += (squares - explained).max(0.0) / whole;
            deviations.push((whole / all.weight).sqrt());
        }
        values.iter().for_each(|value| sizes += (unit * Total::of(&sums[value], t, None).weight).powi(2));
        let freedom = (t as f64 * (groups - 1.0), t as f64 * (rows - groups));
        if freedom.0 <= 0.0 || freedom.1 <= 0.0 {
            return None;
        }
        let (between, within) = (between / freedom.0, within / freedom.1);
        let chance = within * (1.0 + BEYOND_CHANCE * (2.0 / freedom.0 + 2.0 / freedom.1).sqrt());
        if chance.is_nan() || between <= chance {
            return None;
        }
        let per_value = (rows - sizes / rows) / (groups - 1.0);
        // weight of the overall mean, in units of row weights
        let prior = within * per_value / (between - within) / unit;
        // an outlier makes values differ by more than chance, but does not help to predict the
        // other folds
        if self.gain((&values, sums), found, prior) <= 0.0 {
            return None;
        }
        let of = |without: Option<usize>| -> Vec<f64> {
            let all = Total::of(&found.all, t, without);
            let effects = |value: &u64| all.effects(&Total::of(&sums[value], t, without), prior);
            values.iter().flat_map(effects).zip(deviations.iter().cycle()).map(|(effect, d)| effect / d).collect()
        };
        let folds = (0..FOLDS).map(|fold| of(Some(fold))).collect();
        Some(Effects { outputs: self.outputs.clone(), effects: of(None), folds, values })
    }

    /// Returns the reduction of the squared errors of each fold's rows by the effects that the
    /// other folds estimate, relative to the sum of squares of each output.
    fn gain(&self, (values, sums): (&[u64], &HashMap<u64, Sums>), found: &FoundEffects, prior: f64) -> f64 {
        let t = self.outputs.len();
        let mut gain = 0.0;
        for fold in 0..FOLDS {
            let all = Total::of(&found.all, t, Some(fold));
            for sums in values.iter().map(|value| &sums[value]) {
                let own = &sums[fold * (1 + t)..(fold + 1) * (1 + t)];
                let effects = all.effects(&Total::of(sums, t, Some(fold)), prior);
                for ((effect, sum), (mean, squares)) in
                    effects.iter().zip(&own[1..]).zip(all.sums.iter().zip(&found.squares))
                {
                    let left = sum - own[0] * mean / all.weight.max(f64::MIN_POSITIVE);
                    gain += effect * (2.0 * left - effect * own[0]) / squares;
                }
            }
        }
        gain
    }
}

/// Sums over all folds, or over all folds but one.
struct Total {
    weight: f64,
    sums: Vec<f64>,
}

impl Total {
    fn of(sums: &[f64], t: usize, without: Option<usize>) -> Self {
        let mut total = vec![0.0; 1 + t];
        let folds = sums.chunks_exact(1 + t).enumerate().filter(|(fold, _)| Some(*fold) != without);
        folds.for_each(|(_, sums)| add(&mut total, sums));
        let sums = total.split_off(1);
        Self { weight: total[0], sums }
    }

    fn squared(&self, o: usize) -> f64 {
        if self.weight > 0.0 { self.sums[o] * self.sums[o] / self.weight } else { 0.0 }
    }

    /// Returns the smoothed means of a value minus the means of all rows; 0 if the weights are 0.
    fn effects(&self, value: &Self, prior: f64) -> Vec<f64> {
        let all = self.sums.iter().map(|sum| if self.weight > 0.0 { sum / self.weight } else { 0.0 });
        let weight = value.weight + prior;
        let of = |(sum, mean): (&f64, f64)| if weight > 0.0 { (sum - value.weight * mean) / weight } else { 0.0 };
        value.sums.iter().zip(all).map(of).collect()
    }
}

impl Fold<f64> for EffectSearch {
    type State = FoundEffects;
    type Scratch = Vec<f64>;
    type Error = Error;

    fn init(&self) -> FoundEffects {
        let all = vec![0.0; self.width()].into_boxed_slice();
        let values = vec![Some(HashMap::new()); self.places.len()];
        FoundEffects { values, all, squares: vec![0.0; self.outputs.len()], rows: 0, fractional: false }
    }

    fn scratch(&self) -> Vec<f64> {
        vec![0.0; 1 + self.outputs.len()]
    }

    fn step(&self, state: &mut FoundEffects, own: &mut Vec<f64>, block: &RowBlock<'_, f64>, _: &Workers) -> Result<()> {
        for (i, row) in block.rows.iter().enumerate() {
            own[0] = block.weight(i).unwrap_or(1.0);
            if own[0] <= 0.0 {
                continue;
            }
            let code = block.classes.map(|classes| classes.codes[i] as usize);
            for o in 0..self.outputs.len() {
                let target = match code {
                    Some(code) => f64::from(u8::from(code == o + 1)),
                    None => block.y[i * block.t + o],
                };
                own[1 + o] = own[0] * target;
                state.squares[o] += own[1 + o] * target;
            }
            let place = fold_of(*row) * own.len();
            state.rows += 1;
            state.fractional |= own[0].fract() != 0.0;
            add(&mut state.all[place..], own);
            for (values, column) in state.values.iter_mut().zip(block.kept) {
                let (KeptValues::Text(texts), Some(found)) = (column.values(), values.as_mut()) else { continue };
                let value = if column.is_null(i) { MISSING } else { Digest::word_of(texts.text(i).as_bytes()) };
                let width = state.all.len();
                let sums = found.entry(value).or_insert_with(|| vec![0.0; width].into_boxed_slice());
                add(&mut sums[place..], own);
                if found.len() > EFFECT_LIMIT {
                    *values = None;
                }
            }
        }
        Ok(())
    }
}
