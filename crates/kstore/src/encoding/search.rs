//! The pass that finds the values of the columns of categories, and which columns have missing values.
//!
//! The state is a set of values for each column: merging takes the union, and the values are sorted at the end, so that the result does
//! not depend on how the rows were cut. A column with more values than its limit holds none: its set is dropped where the limit is
//! passed, in a segment or in a sum of segments, and the union passes the limit in every order.

use super::{Code, CodedColumn, Encoding};
use crate::kept_column::KeptValues;
use crate::missing::Missing;
use crate::select::Selected;
use crate::shown;
use crate::statistics::LABEL_LIMIT;
use crate::{Error, Fold, KeptColumn, Label, Merge, Reading, Result, RowBlock, TableRows, TextLimit, Workers};
use std::collections::HashSet;
use std::sync::Arc;

/// Bytes of the texts of a column's values, for each value that it may have: longer texts are no names of categories.
const TEXT_PER_VALUE: usize = 256;

/// Fewest values of a column that may be numbers with a word among them.
const FEWEST_NUMBERS: usize = 20;

/// Bytes of a value in a set, beside its text.
const IN_SET: usize = 64;

/// How many values a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinct {
    /// So many.
    Exactly(usize),
    /// More than a limit, or too long ones.
    More {
        /// The limit.
        than: usize,
        /// False where all that was seen before the limit was passed was different.
        repeat: bool,
    },
}

impl std::fmt::Display for Distinct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(values) => f.write_str(&shown::count(*values as u64)),
            Self::More { than, .. } => write!(f, "more than {}", shown::count(*than as u64)),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Found {
    values: HashSet<Label>,
    texts: HashSet<Arc<str>>,
    bytes: usize,
    more: bool,
    repeat: bool,
    missing: u64,
}

impl Found {
    fn text(&mut self, text: &str, limit: usize) {
        if self.more {
            return;
        }
        if self.texts.contains(text) {
            self.repeat = true;
            return;
        }
        self.bytes += text.len();
        self.texts.insert(text.into());
        self.settle(limit);
    }

    fn value(&mut self, value: Label, limit: usize) {
        if !self.more {
            self.repeat |= !self.values.insert(value);
            self.settle(limit);
        }
    }

    /// Drops the values where there are too many.
    fn settle(&mut self, limit: usize) {
        if self.values.len() + self.texts.len() > limit || self.bytes > limit * TEXT_PER_VALUE {
            (self.more, self.values, self.texts) = (true, HashSet::new(), HashSet::new());
        }
    }

    fn merge(&mut self, later: &Self, limit: usize) {
        self.missing += later.missing;
        self.repeat |= later.repeat;
        if later.more {
            (self.more, self.values, self.texts) = (true, HashSet::new(), HashSet::new());
            return;
        }
        later.texts.iter().for_each(|text| self.text(text, limit));
        later.values.iter().for_each(|value| self.value(value.clone(), limit));
    }

    fn sorted(&self) -> Vec<Label> {
        let texts = self.texts.iter().map(|text| Label::Text(Arc::clone(text)));
        let mut values: Vec<Label> = self.values.iter().cloned().chain(texts).collect();
        values.sort_unstable();
        values
    }

    fn distinct(&self, limit: usize) -> Distinct {
        match self.more {
            true => Distinct::More { than: limit, repeat: self.repeat },
            false => Distinct::Exactly(self.values.len() + self.texts.len()),
        }
    }
}

/// What a pass has found of the columns of a selection.
#[derive(Clone, Debug)]
pub struct FoundColumns {
    limit: usize,
    /// Rows that were looked at.
    pub rows: u64,
    categories: Vec<Found>,
    /// For each column of numbers, the rows without a value.
    numbers: Vec<u64>,
}

impl FoundColumns {
    /// How many values each column of categories has, in the order of [`ColumnSearch::columns`], and how many rows have none.
    pub fn distinct(&self) -> Vec<(Distinct, u64)> {
        self.categories.iter().map(|found| (found.distinct(self.limit), found.missing)).collect()
    }
}

impl Merge for FoundColumns {
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        let limit = self.limit;
        self.categories.iter_mut().zip(&later.categories).for_each(|(found, later)| found.merge(later, limit));
        self.numbers.iter_mut().zip(&later.numbers).for_each(|(count, later)| *count += later);
    }
}

/// The fold that finds the values of the columns of categories of a selection, by a pass over [`ColumnSearch::rows`].
///
/// *Cost*: one pass over the columns of categories alone, unless rows with missing values are dropped or missing values of numbers become
/// features. *Bytes*: [`ColumnSearch::state_bytes`] for a state.
#[derive(Clone, Debug)]
pub struct ColumnSearch {
    selected: Selected,
    /// The rows as this pass reads them: categories are kept columns.
    read: Selected,
    /// Places of the categories, and of the numbers, among the columns of the selection.
    categories: Vec<usize>,
    numbers: Vec<usize>,
    limit: usize,
}

impl Selected {
    /// The search for the values of its columns of categories; `None` where its rows can be read as they are.
    pub fn search(&self) -> Option<ColumnSearch> {
        let asked = self.asked()?;
        let (categories, numbers): (Vec<usize>, Vec<usize>) =
            (0..self.features.len()).partition(|i| asked.categories[*i]);
        let drops = self.missing == Missing::Drop;
        let numbers = if self.missing == Missing::Indicator { numbers } else { Vec::new() };
        // rows that are dropped for a missing number have no say in the values of others
        let features = match drops {
            true => (0..self.features.len()).filter(|i| !asked.categories[*i]).collect(),
            false => numbers.clone(),
        };
        let read = Self {
            features: features.into_iter().map(|i| self.features[i]).collect(),
            targets: if drops { self.targets.clone() } else { Vec::new() },
            weighted: drops && self.weighted,
            class: self.class.filter(|_| drops),
            group: self.group.filter(|_| drops),
            keep: categories.iter().map(|i| self.features[*i]).collect(),
            complete: vec![drops; categories.len()],
            missing: if drops { Missing::Drop } else { Missing::Mean },
            ..self.plain()
        };
        Some(ColumnSearch { selected: self.clone(), read, categories, numbers, limit: asked.limit })
    }
}

impl ColumnSearch {
    /// Names of the columns of categories.
    pub fn columns(&self) -> Vec<String> {
        self.categories.iter().map(|i| self.selected.column_name(*i)).collect()
    }

    /// The rows that the pass goes over. A row's texts are limited by `texts`.
    ///
    /// # Errors
    /// Those of opening the table.
    pub fn rows(&self, texts: TextLimit) -> Result<TableRows<f64>> {
        self.read.rows::<f64>(Reading { texts, ..Reading::default() })
    }

    /// Bytes of a state at most.
    pub fn state_bytes(&self) -> usize {
        self.categories.len() * self.limit * (TEXT_PER_VALUE + IN_SET) + 8 * self.selected.features.len()
    }

    /// The selection with the values that were found, and the columns that have too many.
    ///
    /// # Errors
    /// [`Error::TooManyValues`] for a column that was named and has too many; [`Error::Empty`] where no feature is left.
    pub fn finish(&self, found: &FoundColumns) -> Result<(Selected, Vec<LeftOut>)> {
        let (mut columns, mut places, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        let Some(asked) = self.selected.asked() else { return Ok((self.selected.clone(), left_out)) };
        for place in 0..self.selected.features.len() {
            let name = self.selected.column_name(place);
            let column = match self.categories.iter().position(|at| *at == place) {
                None => {
                    let at = self.numbers.iter().position(|at| *at == place);
                    CodedColumn { name, code: Code::Number, missing: at.is_some_and(|at| found.numbers[at] > 0) }
                }
                Some(at) => {
                    let values = &found.categories[at];
                    if asked.is_usual() {
                        self.refuse_odd_numbers(place, values)?;
                    }
                    let code = match (values.more, asked.hash) {
                        (false, _) => Code::Values(values.sorted()),
                        (true, Some(buckets)) => Code::Buckets(buckets),
                        (true, None) if asked.named[place] => {
                            return Err(Error::TooManyValues { column: name, limit: self.limit });
                        }
                        (true, None) => {
                            left_out.push(LeftOut { column: name, values: values.distinct(self.limit) });
                            continue;
                        }
                    };
                    if code.features() == 0 && values.missing == 0 {
                        continue;
                    }
                    CodedColumn { name, code, missing: values.missing > 0 }
                }
            };
            columns.push(column);
            places.push(self.selected.features[place]);
        }
        if columns.is_empty() {
            let what = self.selected.table.first_path().display().to_string();
            let told: Vec<String> = left_out.iter().map(ToString::to_string).collect();
            return Err(Error::Empty { what, why: format!("no column is left to be a feature; {}", told.join("; ")) });
        }
        Ok((self.selected.encoded(places, Encoding::new(columns))?, left_out))
    }

    /// Refuses text that is mostly numbers: a column of measurements with a word among them, which nobody meant as categories.
    fn refuse_odd_numbers(&self, place: usize, found: &Found) -> Result<()> {
        let odd: Vec<&Arc<str>> = found.texts.iter().filter(|text| text.trim().parse::<f64>().is_err()).collect();
        let (all, numbers) = (found.texts.len(), found.texts.len() - odd.len());
        let Some(word) = odd.into_iter().min().filter(|_| all >= FEWEST_NUMBERS && 10 * numbers > 9 * all) else {
            return Ok(());
        };
        let (all, numbers) = (shown::count(all as u64), shown::count(numbers as u64));
        let word = shown::short(word);
        let expected = format!(
            "{numbers} of its {all} values are numbers, and {word:?} is none; mend it, or name the column in `categories`"
        );
        Err(self.selected.table.wrong_type(self.selected.features[place], &expected))
    }

    /// The error for a row without a value.
    #[cold]
    fn missing(&self, column: usize, row: u64) -> Error {
        let remedy = match self.selected.missing {
            Missing::Mean => "only numbers have a mean: choose `missing` indicator or `missing` drop",
            _ => "clean the data or choose `missing` indicator or `missing` drop",
        };
        self.selected.bad_category(self.categories[column], row, "missing".to_string(), remedy)
    }
}

impl Fold<f64> for ColumnSearch {
    type State = FoundColumns;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> FoundColumns {
        let categories = vec![Found::default(); self.categories.len()];
        FoundColumns { limit: self.limit.min(LABEL_LIMIT), rows: 0, categories, numbers: vec![0; self.numbers.len()] }
    }

    fn scratch(&self) {}

    fn step(&self, state: &mut FoundColumns, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> Result<()> {
        state.rows += block.len() as u64;
        if !self.numbers.is_empty() {
            for row in block.x.chunks_exact(block.d) {
                let counts = state.numbers.iter_mut().zip(row);
                counts.filter(|(_, value)| !value.is_finite()).for_each(|(count, _)| *count += 1);
            }
        }
        let allowed = self.selected.missing == Missing::Indicator;
        for (at, (found, column)) in state.categories.iter_mut().zip(block.kept).enumerate() {
            for (i, row) in block.rows.iter().enumerate() {
                if column.is_null(i) || is_nan(column, i) {
                    if !allowed {
                        return Err(self.missing(at, *row));
                    }
                    found.missing += 1;
                } else if let KeptValues::Text(texts) = column.values() {
                    found.text(texts.text(i), self.limit);
                } else {
                    let value = label(column.values(), i).ok_or_else(|| {
                        let remedy =
                            "a category is a whole number, a truth value or text; leave the column out of `categories`";
                        self.selected.bad_category(self.categories[at], *row, "no whole number".to_string(), remedy)
                    })?;
                    found.value(value, self.limit);
                }
            }
        }
        Ok(())
    }
}

fn is_nan(column: &KeptColumn, row: usize) -> bool {
    match column.values() {
        KeptValues::F64(values) => values[row].is_nan(),
        KeptValues::F32(values) => values[row].is_nan(),
        _ => false,
    }
}

/// The value of a row of numbers or truth values; `None` for a fraction and for bytes.
fn label(values: &KeptValues, row: usize) -> Option<Label> {
    let whole = |value: f64| crate::labels::whole_number(value).map(Label::Int);
    match values {
        KeptValues::I64(values) => Some(Label::Int(values[row])),
        KeptValues::Bool(values) => Some(Label::Bool(values[row])),
        KeptValues::F64(values) => whole(values[row]),
        KeptValues::F32(values) => whole(values[row].into()),
        KeptValues::Text(_) | KeptValues::Binary(_) => None,
    }
}

/// A column of text with more values than are taken as categories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the column.
    pub column: String,
    /// What was found of its values.
    pub values: Distinct,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { column, values } = self;
        let like = match values {
            Distinct::More { repeat: false, .. } => ", and no two rows share one, as in an identifier or a comment",
            _ => "",
        };
        write!(
            f,
            "column {column} is left out: it has {values} values{like}; give `hash` 256 for features of its text, or \
             `categories` {column} for a feature of each value"
        )
    }
}
