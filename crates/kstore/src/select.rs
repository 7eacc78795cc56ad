//! The selected columns and rows of a table, and the roles of columns.

use crate::condition::{BoundCondition, Condition, format_rows};
use crate::encoding::{Categories, Coding, ColumnRequest, Encoding, TimeFeatures, Weighting};
use crate::missing::{Missing, MissingTarget};
use crate::rows::TableShape;
use crate::schema::{Kind, Schema};
use crate::source::{QUERY_COLUMN, TextReading};
use crate::table::Table;
use crate::{Error, OutputColumn, Result, RowDigests, Statistics};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A selection of columns and rows of a table, by name.
///
/// `features` lists exact names, patterns with `*` and `?`, and names of list columns; the name of
/// a list column means all its columns `name[0]`, `name[1]`, …. The features are in the order of
/// the list and, within a pattern, in the order of the file. A column that is named twice counts
/// once. An empty list or `*` selects, in the order of the file, every column of numbers, booleans,
/// text, dates or times that has no other role. Three kinds of columns are features only if they
/// are named: the index of a pandas table, the label in formats whose rows have a label, and a
/// column `qid` of groups. `!` before a name or pattern excludes its columns. If a list has only
/// exclusions, they are excluded from `*`.
///
/// By default, text columns are categories with a feature for each value; `categories` changes
/// this. `times` selects the features of dates and times: see [`crate::encoding`]. If a selection
/// has text or time columns, a pass must find their values before its rows can be used
/// ([`SelectedTable::column_search`]).
///
/// In JSON, `rows` and `where` are written as on the command line: `"rows": "0..284217"`, `"where":
/// "fold != 3"`. Fields that are only set in code, such as `weight`, are not part of the JSON.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Selection {
    /// Names or patterns of features.
    pub features: Vec<String>,
    /// Names of targets; empty for prediction.
    pub targets: Vec<String>,
    /// Whether the single target is a column of classes instead of a number.
    #[serde(skip)]
    pub class_target: bool,
    /// Column of row weights.
    #[serde(skip)]
    pub weight: Option<String>,
    /// Column whose values name folds.
    #[serde(skip)]
    pub group: Option<String>,
    /// Names or patterns of columns that are copied to the output. They are not features unless
    /// `features` names them.
    pub keep: Vec<String>,
    /// Whether there are no features: only the kept columns are read.
    #[serde(skip)]
    pub without_features: bool,
    /// Whether numbers in kept columns must be present, like numbers in features. In this case
    /// [`Missing::Error`] and [`Missing::Drop`] apply to kept columns too, and [`Missing::Mean`] is
    /// an error.
    #[serde(skip)]
    pub kept_complete: bool,
    /// Range of stored rows; `None` for all. An end beyond the table is clipped.
    #[serde(with = "crate::condition::rows_text")]
    pub rows: Option<Range<u64>>,
    /// Condition on one column.
    #[serde(rename = "where")]
    pub filter: Option<Condition>,
    /// How missing values are treated.
    pub missing: Missing,
    /// How rows without a target are treated. `None` drops them if `missing` drops rows; otherwise
    /// they are an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_target: Option<MissingTarget>,
    /// Columns that are categories.
    pub categories: Categories,
    /// Number of hash buckets for a text column with too many values for categories. If it is
    /// `None`, such a column is replaced by the effects of its values on the target or, without a
    /// target, omitted.
    pub hash: Option<u32>,
    /// Features that columns of dates and times become.
    #[serde(skip_serializing_if = "TimeFeatures::is_default")]
    pub times: TimeFeatures,
    /// Whether sparse rows are features.
    #[serde(skip)]
    pub sparse: bool,
    /// Text columns whose words are counted. Each entry is the name of a column, optionally with
    /// what is counted, such as `comment` or `comment:char(3,5)`: see [`crate::encoding::Grams`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
    /// Weighting of the entries of sparse rows and of word counts. `None` selects the default: no
    /// weighting for sparse rows, and tf-idf for word counts.
    #[serde(skip)]
    pub weighting: Option<Weighting>,
    /// Known encoding of the columns; it replaces `features`, `categories`, `hash` and `times`.
    pub encoding: Option<Arc<Encoding>>,
}

/// A selection that was resolved for its table.
#[derive(Clone, Debug)]
pub struct SelectedTable {
    pub(crate) table: Table,
    /// The columns from which the features are computed.
    pub(crate) features: Vec<usize>,
    pub(crate) coding: Coding,
    /// Columns that are not features because no row has a value there.
    pub(crate) blank_columns: Vec<usize>,
    /// Numeric targets.
    pub(crate) targets: Vec<usize>,
    pub(crate) weight: Option<usize>,
    pub(crate) class: Option<usize>,
    pub(crate) group: Option<usize>,
    pub(crate) keep: Vec<usize>,
    /// Whether each kept column holds numbers that must be present.
    pub(crate) kept_required: Vec<bool>,
    pub(crate) filter: Option<(usize, BoundCondition)>,
    pub(crate) rows: Range<u64>,
    pub(crate) missing: Missing,
    pub(crate) missing_target: MissingTarget,
}

impl Table {
    /// Resolves the columns of a selection and checks their types.
    pub fn select(&self, selection: &Selection) -> Result<SelectedTable> {
        let targets = self.names(&selection.targets);
        let targets: Vec<usize> = targets.iter().map(|name| self.column(name)).collect::<Result<_>>()?;
        if let Some(twice) = (1..targets.len()).find(|i| targets[..*i].contains(&targets[*i])) {
            let expected = format!("{} is named twice", selection.targets[twice]);
            return Err(Error::Syntax { what: "`target`", text: selection.targets.join(","), expected });
        }
        let class = match &targets[..] {
            _ if !selection.class_target => None,
            [class] => Some(*class),
            _ => {
                let expected = "classification needs exactly one target; name one column".to_string();
                return Err(Error::Syntax { what: "`target`", text: selection.targets.join(","), expected });
            }
        };
        class.map(|class| self.expect_labels(class)).transpose()?;
        let targets = if class.is_some() { Vec::new() } else { targets };
        for target in &targets {
            self.expect_numbers(
                *target,
                "a target of regression must be numeric; for labels choose `task` classification",
            )?;
        }
        let weight = selection.weight.as_deref().map(|name| self.column(name)).transpose()?;
        if let Some(weight) = weight {
            self.expect_numbers(weight, "weights must be numeric; name another column")?;
            if targets.contains(&weight) || class == Some(weight) {
                let (text, expected) =
                    (selection.weight.clone().unwrap_or_default(), "it is the target; name another column".to_string());
                return Err(Error::Syntax { what: "`weights`", text, expected });
            }
        }
        let group = selection.group.as_deref().map(|name| self.column(name)).transpose()?;
        group.map(|group| self.expect_labels(group)).transpose()?;
        let filter = selection.filter.as_ref().map(|condition| self.bind_condition(condition)).transpose()?;
        let mut role_columns: Vec<usize> = targets.iter().copied().chain(weight).chain(class).chain(group).collect();
        role_columns.extend(filter.iter().map(|(column, _)| *column));
        let keep = self.kept_columns(&selection.keep)?;
        role_columns.extend(&keep);
        let request = self.resolve_categories(selection, &role_columns)?;
        let never_features: Vec<usize> = targets.iter().copied().chain(weight).chain(class).collect();
        let mut features = match &selection.encoding {
            _ if selection.without_features => Vec::new(),
            Some(encoding) => self.resolve_encoding(encoding)?,
            None if selection.features.is_empty() => self.default_features(&role_columns, &request)?,
            None => self.named_features(&role_columns, &never_features, &request)?,
        };
        if selection.encoding.is_none() && !selection.without_features {
            let more = request.category_columns.iter().filter(|column| !features.contains(column));
            let more: Vec<usize> = more.copied().collect();
            features.extend(more);
        }
        let coding = match &selection.encoding {
            Some(encoding) if !selection.without_features => {
                Coding::from_encoding((**encoding).clone(), self, &features)
            }
            _ => self.coding(&request, &features)?,
        };
        self.expect_unique_names(features.iter().chain(&role_columns))?;
        let rows = self.row_range(selection.rows.as_ref())?;
        let numeric = |column: &usize| self.schema().columns[*column].kind.is_numeric();
        let kept_required = keep.iter().map(|column| selection.kept_complete && numeric(column)).collect();
        Ok(SelectedTable {
            table: self.clone(),
            features,
            coding,
            blank_columns: Vec::new(),
            targets,
            weight,
            class,
            group,
            keep,
            kept_required,
            filter,
            rows,
            missing: selection.missing,
            missing_target: selection.missing_target.unwrap_or(match selection.missing {
                Missing::Drop => MissingTarget::Drop,
                _ => MissingTarget::Error,
            }),
        })
    }

    /// Returns an error if a used column shares its name with another column, because models
    /// identify columns by name.
    fn expect_unique_names<'a>(&self, used: impl Iterator<Item = &'a usize>) -> Result<()> {
        let columns = &self.schema().columns;
        let mut times = HashMap::<&str, usize>::new();
        columns.iter().for_each(|column| *times.entry(&column.name).or_default() += 1);
        for column in used {
            let name = &columns[*column].name;
            if times[name.as_str()] > 1 {
                let detail = format!(
                    "several of its columns are called {name:?}; rename them, exclude them with `features`, or read a text file by \
                                      the positions of its columns with `no_header` and `skip_lines` 1"
                );
                return Err(Error::Malformed { path: self.first_path(), format: "one table", detail });
            }
        }
        Ok(())
    }

    fn bind_condition(&self, condition: &Condition) -> Result<(usize, BoundCondition)> {
        let column = self.column(&condition.column)?;
        Ok((column, condition.bind(&self.schema().columns[column], &self.first_path())?))
    }

    pub(crate) fn expect_numbers(&self, column: usize, expected: &str) -> Result<()> {
        if self.schema().columns[column].kind.is_numeric() { Ok(()) } else { Err(self.wrong_type(column, expected)) }
    }

    fn expect_labels(&self, column: usize) -> Result<()> {
        match self.schema().columns[column].kind {
            Kind::Binary | Kind::Sparse(_) | Kind::Other(_) => {
                Err(self.wrong_type(column, "labels must be integers, booleans or text"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn wrong_type(&self, column: usize, expected: &str) -> Error {
        let column = &self.schema().columns[column];
        Error::wrong_type(&self.first_path(), &column.name, column.kind.to_string(), expected)
    }

    /// Returns every column that has no other role, and is numeric or a requested category.
    pub(crate) fn default_features(&self, roles: &[usize], request: &ColumnRequest<'_>) -> Result<Vec<usize>> {
        let Schema { columns, row_labels, label } = self.schema();
        let named_alone = |i: &usize| row_labels.contains(i) || *label == Some(*i) || columns[*i].name == QUERY_COLUMN;
        let free = |i: &usize| !roles.contains(i) && !named_alone(i);
        let takes = |i: &usize| free(i) && (columns[*i].kind.is_feature() || request.encodes(self, *i));
        let features: Vec<_> = (0..columns.len()).filter(takes).collect();
        if let Some(column) =
            (0..columns.len()).find(|i| free(i) && self.schema().sparse_shape(*i).is_some() && !takes(i))
        {
            let expected = "only the verbs fit, plan, prepare, features, predict and evaluate read sparse rows; for other verbs select other `features`, or do not set `sparse`";
            return Err(self.wrong_type(column, expected));
        }
        if features.is_empty() {
            let remedy = self.difference().unwrap_or("name feature columns with `features`");
            return Err(self.empty_error(format!("no numeric column remains as a feature; {remedy}")));
        }
        Ok(features)
    }

    fn row_range(&self, rows: Option<&Range<u64>>) -> Result<Range<u64>> {
        let stored = self.stored_rows();
        let range = rows.map_or(0..stored, |rows| rows.start.min(stored)..rows.end.min(stored));
        if !range.is_empty() {
            return Ok(range);
        }
        let why = match rows {
            Some(rows) if stored > 0 => {
                format!("`rows` {} selects none of its {stored} rows; choose rows below {stored}", format_rows(rows))
            }
            _ => "it has no rows; name a table with rows".to_string(),
        };
        Err(self.empty_error(why))
    }
}

impl SelectedTable {
    /// Returns the table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns a copy with its own counter of bytes read. It is for inspections that are not part
    /// of the main work.
    #[must_use]
    #[doc(hidden)]
    pub fn with_own_counter(&self) -> Self {
        Self { table: self.table.with_own_counter(), ..self.clone() }
    }

    /// Returns the names of the features, in the order of the columns of `x`. If the values of some
    /// columns are not known yet, returns the names of the columns.
    pub fn feature_names(&self) -> Vec<String> {
        self.lookups().map_or_else(|| self.names(&self.features), |coded| coded.feature_names.clone())
    }

    /// Returns the names of the columns that were omitted because no row has a value there.
    #[doc(hidden)]
    pub fn blank_columns(&self) -> Vec<String> {
        self.names(&self.blank_columns)
    }

    /// Returns the names of the numeric targets.
    pub fn target_names(&self) -> Vec<String> {
        self.names(&self.targets)
    }

    /// Returns whether rows have weights.
    pub fn is_weighted(&self) -> bool {
        self.weight.is_some()
    }

    /// Returns the index of the weights in [`columns`](Self::columns). Without weights, returns the
    /// index that they would have.
    pub(crate) fn weight_slot(&self) -> usize {
        self.features.len() + self.targets.len()
    }

    /// Returns the index of the class in [`columns`](Self::columns). Without a class, returns the
    /// index that it would have.
    pub(crate) fn class_slot(&self) -> usize {
        self.weight_slot() + usize::from(self.is_weighted())
    }

    /// Returns whether there is a target: a number or a class.
    pub(crate) fn has_target(&self) -> bool {
        self.class.is_some() || !self.targets.is_empty()
    }

    /// Returns the name of the class column.
    #[doc(hidden)]
    pub fn class_name(&self) -> Option<&str> {
        self.class.map(|column| self.table.schema().columns[column].name.as_str())
    }

    /// Returns the name of the fold column.
    #[doc(hidden)]
    pub fn group_name(&self) -> Option<&str> {
        self.group.map(|column| self.table.schema().columns[column].name.as_str())
    }

    /// Returns the names and types of the kept columns for a sink. uint64 stays uint64, and every
    /// other integer type becomes int64.
    #[doc(hidden)]
    pub fn kept_columns(&self) -> Vec<OutputColumn> {
        let columns = self.keep.iter().map(|column| &self.table.schema().columns[*column]);
        columns.map(|column| OutputColumn::for_kind(&column.name, &column.kind)).collect()
    }

    /// Returns whether a kept column holds text, bytes or sparse rows. The length of their values
    /// is not known in advance.
    #[doc(hidden)]
    pub fn keeps_text(&self) -> bool {
        self.kept_columns().iter().any(|column| column.kind.is_variable_size())
    }

    /// Returns the bytes per row of the kept columns, without the bytes of texts: a value and a
    /// validity flag for each column.
    #[doc(hidden)]
    pub fn kept_bytes_per_row(&self) -> usize {
        self.kept_columns().iter().map(|column| 1 + column.kind.bytes_per_value()).sum()
    }

    /// Marks the integer columns in statistics of these rows.
    #[doc(hidden)]
    pub fn mark_integers(&self, statistics: &mut Statistics) {
        let holds_integers = |column: &usize| {
            matches!(self.table.schema().columns[*column].kind, Kind::Int { .. } | Kind::Bool | Kind::Time(_))
        };
        let holds_times = |index: usize| self.lookups().is_some_and(|coded| coded.time_reader(index).is_some());
        let columns = self.encoding().map_or_else(|| (0..self.features.len()).collect(), Encoding::column_of_feature);
        let features = statistics.inputs.iter_mut().zip(columns);
        features.for_each(|(moments, index)| {
            moments.is_integer = !holds_times(index) && holds_integers(&self.features[index])
        });
        let targets = statistics.targets.iter_mut().zip(&self.targets);
        let weights = statistics.weights.iter_mut().zip(&self.weight);
        targets.chain(weights).for_each(|(moments, column)| moments.is_integer = holds_integers(column));
        let flags = self.encoding().map_or(Vec::new(), Encoding::flags);
        statistics.inputs.iter_mut().zip(flags).for_each(|(moments, flag)| moments.is_integer |= flag);
    }

    /// Returns a copy that keeps the rows that [`Missing::Drop`] would drop; a missing value is
    /// NaN. Sparse rows with a missing value are still dropped.
    #[must_use]
    #[doc(hidden)]
    pub fn with_incomplete_rows(self) -> Self {
        let keeps = self.missing == Missing::Drop && self.sparse().is_none();
        let missing = if keeps { Missing::Keep } else { self.missing };
        Self { missing, ..self }
    }

    /// Returns the range of stored rows that can be selected.
    pub fn range(&self) -> Range<u64> {
        self.rows.clone()
    }

    /// Returns the shape of the rows: the number of stored rows of the whole table, the numbers of
    /// features and of numeric targets, and whether rows have weights.
    #[doc(hidden)]
    pub fn shape(&self) -> TableShape {
        TableShape {
            stored_rows: self.table.stored_rows(),
            inputs: self.lookups().map_or(self.features.len(), |coded| coded.feature_names.len()),
            targets: self.targets.len(),
            has_weights: self.is_weighted(),
        }
    }

    /// Returns how the features and targets are read from text files, as far as it differs from the
    /// default.
    #[doc(hidden)]
    pub fn reading(&self) -> TextReading {
        let names =
            [self.feature_columns(), self.target_names(), self.class_name().into_iter().map(str::to_string).collect()];
        self.table.reading().restricted_to(&names.concat())
    }

    pub(crate) fn drops_missing_targets(&self) -> bool {
        self.has_target() && self.missing_target == MissingTarget::Drop
    }

    /// Returns the number of selected rows, including rows without a target. Returns `None` if the
    /// number is not known without reading: if there is a condition, if rows have weights, or if
    /// rows with missing features are dropped.
    #[doc(hidden)]
    pub fn row_count_if_known(&self) -> Option<u64> {
        self.selects_all_rows().then_some(self.rows.end - self.rows.start)
    }

    /// Returns whether every stored row of the range is selected, except rows without a target. If
    /// rows have weights, returns false, because rows with weight 0 are skipped.
    pub(crate) fn selects_all_rows(&self) -> bool {
        self.filter.is_none() && self.missing != Missing::Drop && !self.is_weighted()
    }

    /// Returns a copy that is restricted to a range of stored rows.
    #[must_use]
    #[doc(hidden)]
    pub fn restricted_to(&self, rows: &Range<u64>) -> Self {
        let Range { start, end } = self.rows;
        Self { rows: rows.start.clamp(start, end)..rows.end.clamp(start, end), ..self.clone() }
    }

    /// Returns a copy that adds its rows to `digests` as they are read, until the digests are
    /// closed.
    #[must_use]
    #[doc(hidden)]
    pub fn with_digests(&self, digests: &Arc<RowDigests>) -> Self {
        Self { table: self.table.with_digests(digests), ..self.clone() }
    }

    /// Returns a selection of the class and fold columns only; `None` if there are none. Its rows
    /// add nothing to digests, because a digest covers a whole row.
    #[doc(hidden)]
    pub fn labels(&self) -> Option<Self> {
        let Self { class, group, .. } = *self;
        let labels = || {
            let labels = Self {
                table: self.table.without_digests(),
                features: Vec::new(),
                class,
                group,
                ..self.features_only()
            };
            // the targets are needed to skip rows without a target
            if self.drops_missing_targets() { Self { targets: self.targets.clone(), ..labels } } else { labels }
        };
        (class.is_some() || group.is_some()).then(labels)
    }

    /// Returns the columns to decode: features, targets, weights, class, group, kept, filter.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns = self.features.clone();
        columns.extend(&self.targets);
        columns.extend(self.weight);
        columns.extend(self.class);
        columns.extend(self.group);
        columns.extend(&self.keep);
        columns.extend(self.filter.iter().map(|(column, _)| *column));
        columns
    }

    pub(crate) fn names(&self, columns: &[usize]) -> Vec<String> {
        columns.iter().map(|column| self.table.schema().columns[*column].name.clone()).collect()
    }
}
