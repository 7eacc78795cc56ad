//! The selected columns and rows of a table, and the roles of columns.

mod blank;
mod column_names;
mod encoded_columns;
mod ordered_value;
mod request;
mod resolve;
mod selected_table;
mod test_rows;

pub(crate) use blank::INSPECTED_TILE_ROWS;
#[doc(hidden)]
pub use ordered_value::OrderedValue;
use request::ColumnRequest;
pub(crate) use request::{EncodingRequest, EncodingState, Role};
#[doc(hidden)]
pub use test_rows::{Fraction, Part, TestRows, TestRule, TestSpec};

use test_rows::BoundPart;

use crate::condition::{BoundCondition, Condition, format_rows};
use crate::encoding::{Categories, Encoding, TimeFeatures, Weighting};
use crate::lags::Lags;
use crate::missing::{Missing, MissingTarget};
use crate::schema::{Kind, QUERY_COLUMN, Schema};
use crate::table::Table;
use crate::{Error, Result};
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
    /// Column whose values name the groups of group K-fold or of a ranking.
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
    pub requires_kept_values: bool,
    /// Range of stored rows; `None` for all. An end beyond the table is clipped.
    #[serde(with = "crate::condition::rows_text")]
    pub rows: Option<Range<u64>>,
    /// Condition on one column.
    #[serde(rename = "where")]
    pub filter: Option<Condition>,
    /// One part of a table with test rows; `None` for all rows.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// How missing values are treated.
    pub missing: Missing,
    /// How rows without a target are treated. `None` drops them if `missing` drops rows; otherwise
    /// they are an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_target: Option<MissingTarget>,
    /// Columns that are categories.
    pub categories: Categories,
    /// Number of hash buckets for a text column with too many values for categories. `None`
    /// replaces such a column by the effects of its values on the target or, without a target,
    /// omits the column.
    pub hash: Option<u32>,
    /// Features that columns of dates and times become.
    #[serde(skip_serializing_if = "TimeFeatures::is_default")]
    pub times: TimeFeatures,
    /// Whether sparse rows are features.
    #[serde(skip)]
    pub sparse: bool,
    /// Text columns whose words are counted. Each entry is the name of a column, optionally with
    /// what is counted, such as `comment` or `comment:char(3,5)`: see [`crate::encoding::NGrams`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
    /// Weighting of the entries of sparse rows and of word counts. `None` selects the default: no
    /// weighting for sparse rows, and tf-idf for word counts.
    #[serde(skip)]
    pub weighting: Option<Weighting>,
    /// Lags that the table must have. The features are selected after they were computed.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lags: Option<Lags>,
    /// Known encoding of the columns; it replaces `features`, `categories`, `hash` and `times`.
    pub encoding: Option<Arc<Encoding>>,
}

/// A selection that was resolved for its table.
#[derive(Clone, Debug)]
pub struct SelectedTable {
    pub(crate) table: Table,
    /// The columns from which the features are computed.
    pub(crate) features: Vec<usize>,
    pub(crate) encoding_state: EncodingState,
    /// Columns that are not features because they have no value in any row.
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
    /// The rule of the selected part, unless the part is a range of rows.
    pub(crate) part: Option<BoundPart>,
    /// The rule of the test rows if they are the selected rows.
    pub(crate) test_rows: Option<Arc<TestRows>>,
    pub(crate) row_range: Range<u64>,
    pub(crate) missing: Missing,
    pub(crate) missing_target: MissingTarget,
}

impl Selection {
    /// Returns true if the group column orders the rows, as the last rows or as lags do: folds are
    /// then blocks of its values, and the column stays a feature by default.
    fn is_ordered_by_group(&self) -> bool {
        let order_of_test_rows = match self.part.as_ref().map(|part| &part.test_rows().spec) {
            Some(TestSpec::Last { column, .. }) => column.as_ref(),
            _ => None,
        };
        let order_of_lags = self.lags.as_ref().and_then(|lags| lags.order.as_ref());
        self.group.is_some() && [order_of_test_rows, order_of_lags].contains(&self.group.as_ref())
    }
}

impl Table {
    /// Resolves the columns of a selection and checks their types.
    ///
    /// # Errors
    /// Names or patterns that match no column; columns of the wrong type, with two roles that
    /// exclude each other, or with the same name as another column; a row range without rows.
    pub fn select(&self, selection: &Selection) -> Result<SelectedTable> {
        if let Some(lags) = selection.lags.as_ref().filter(|lags| self.lags() != Some(lags)) {
            let expected = "only the verbs fit, tune, plan, predict, evaluate, update and convert compute lags; for others write the columns with convert first";
            return Err(Error::Syntax { what: "`lags`", text: lags.to_string(), expected: expected.to_string() });
        }
        let targets = self.join_names(&selection.targets);
        // the target of a difference is the column of its changes
        let change = self.lags().and_then(Lags::change);
        let target_index = |name: &String| match &change {
            Some((column, change)) if name == column => self.column_index(change),
            _ => self.column_index(name),
        };
        let targets: Vec<usize> = targets.iter().map(target_index).collect::<Result<_>>()?;
        if let Some(duplicate) = (1..targets.len()).find(|i| targets[..*i].contains(&targets[*i])) {
            let expected = format!("{} is named twice", selection.targets[duplicate]);
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
        let weight = selection.weight.as_deref().map(|name| self.column_index(name)).transpose()?;
        if let Some(weight) = weight {
            self.expect_numbers(weight, "weights must be numeric; name another column")?;
            if targets.contains(&weight) || class == Some(weight) {
                let (text, expected) =
                    (selection.weight.clone().unwrap_or_default(), "it is the target; name another column".to_string());
                return Err(Error::Syntax { what: "`weights`", text, expected });
            }
        }
        let group = selection.group.as_deref().map(|name| self.column_index(name)).transpose()?;
        group.map(|group| self.expect_labels(group)).transpose()?;
        let filter = selection.filter.as_ref().map(|condition| self.bind_condition(condition)).transpose()?;
        let group_role = group.filter(|_| !selection.is_ordered_by_group());
        let mut role_columns: Vec<usize> =
            targets.iter().copied().chain(weight).chain(class).chain(group_role).collect();
        role_columns.extend(filter.iter().map(|(column, _)| *column));
        if let Some(part) = &selection.part {
            role_columns.extend(self.part_role_column(part)?);
        }
        let level_columns = self.lags().map_or(Vec::new(), Lags::level_columns);
        let level_columns = level_columns.iter().map(|name| self.column_index(name)).collect::<Result<Vec<_>>>()?;
        role_columns.extend(level_columns.iter().filter(|column| !targets.contains(column)));
        let keep = self.resolve_kept_columns(&selection.keep)?;
        role_columns.extend(&keep);
        let request = self.resolve_categories(selection, &role_columns)?;
        let never_features: Vec<usize> =
            targets.iter().copied().chain(weight).chain(class).chain(level_columns).collect();
        let mut features = match &selection.encoding {
            _ if selection.without_features => Vec::new(),
            Some(encoding) => self.resolve_encoding(encoding)?,
            None if selection.features.is_empty() => self.default_features(&role_columns, &request)?,
            None => self.resolve_features(&role_columns, &never_features, &request)?,
        };
        if selection.encoding.is_none() && !selection.without_features {
            let category_columns = request.category_columns.iter().filter(|column| !features.contains(column));
            let category_columns: Vec<usize> = category_columns.copied().collect();
            features.extend(category_columns);
        }
        let encoding_state = match &selection.encoding {
            Some(encoding) if !selection.without_features => {
                EncodingState::from_encoding((**encoding).clone(), self, &features)
            }
            _ => self.encoding_state(&request, &features)?,
        };
        self.expect_unique_names(features.iter().chain(&role_columns))?;
        let rows = self.row_range(selection.rows.as_ref())?;
        let (rows, part) = match &selection.part {
            Some(part) => self.bind_part(part, rows)?,
            None => (rows, None),
        };
        let is_numeric = |column: &usize| self.schema().columns[*column].kind.is_numeric();
        let kept_required = keep.iter().map(|column| selection.requires_kept_values && is_numeric(column)).collect();
        Ok(SelectedTable {
            table: self.clone(),
            features,
            encoding_state,
            blank_columns: Vec::new(),
            targets,
            weight,
            class,
            group,
            keep,
            kept_required,
            filter,
            part,
            test_rows: match &selection.part {
                Some(Part::Test(test_rows)) => Some(Arc::clone(test_rows)),
                _ => None,
            },
            row_range: rows,
            missing: selection.missing,
            missing_target: selection.missing_target.unwrap_or(match selection.missing {
                Missing::Drop => MissingTarget::Drop,
                _ => MissingTarget::Error,
            }),
        })
    }

    /// Returns an error if a used column shares its name with another column, because models
    /// identify columns by name.
    fn expect_unique_names<'a>(&self, used_columns: impl Iterator<Item = &'a usize>) -> Result<()> {
        let columns = &self.schema().columns;
        let mut name_counts = HashMap::<&str, usize>::new();
        columns.iter().for_each(|column| *name_counts.entry(&column.name).or_default() += 1);
        for column in used_columns {
            let name = &columns[*column].name;
            if name_counts[name.as_str()] > 1 {
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
        let column = self.column_index(&condition.column)?;
        Ok((column, condition.bind(&self.schema().columns[column], &self.first_path())?))
    }

    pub(crate) fn expect_numbers(&self, column: usize, expected: &str) -> Result<()> {
        if self.schema().columns[column].kind.is_numeric() {
            Ok(())
        } else {
            Err(self.wrong_type_error(column, expected))
        }
    }

    /// Rejects a feature column that holds neither numbers nor requested categories.
    pub(crate) fn expect_feature(&self, column: usize) -> Result<()> {
        self.expect_numbers(
            column,
            match self.schema().sparse_shape(column) {
                Some(_) => {
                    "this command computes with columns; read an svmlight file without `sparse`, or write the rows to a .svm file \
                     first, whose rows are read as dense rows"
                }
                None => "a feature must be numeric; remove the column from `features`",
            },
        )
    }

    fn expect_labels(&self, column: usize) -> Result<()> {
        match self.schema().columns[column].kind {
            Kind::Binary | Kind::Sparse(_) | Kind::Other(_) => {
                Err(self.wrong_type_error(column, "labels must be integers, booleans or text"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn wrong_type_error(&self, column: usize, expected: &str) -> Error {
        let column = &self.schema().columns[column];
        Error::wrong_type(&self.first_path(), &column.name, column.kind.to_string(), expected)
    }

    /// Returns every column that has no other role, and is numeric or a requested category.
    pub(crate) fn default_features(&self, role_columns: &[usize], request: &ColumnRequest<'_>) -> Result<Vec<usize>> {
        let Schema { columns, row_id_columns, label_column } = self.schema();
        let needs_explicit_name =
            |i: &usize| row_id_columns.contains(i) || *label_column == Some(*i) || columns[*i].name == QUERY_COLUMN;
        let has_no_role = |i: &usize| !role_columns.contains(i) && !needs_explicit_name(i);
        let is_default_feature =
            |i: &usize| has_no_role(i) && (columns[*i].kind.is_direct_feature() || request.encodes(self, *i));
        let features: Vec<_> = (0..columns.len()).filter(is_default_feature).collect();
        if let Some(column) = (0..columns.len())
            .find(|i| has_no_role(i) && self.schema().sparse_shape(*i).is_some() && !is_default_feature(i))
        {
            let expected = "only fit, tune, plan, prepare, stats, features, predict, evaluate, curve, herd, plot and test read sparse rows; for other subcommands select other `features`, or do not set `sparse`";
            return Err(self.wrong_type_error(column, expected));
        }
        if features.is_empty() {
            let remedy = self.schema_difference().unwrap_or("name feature columns with `features`");
            return Err(self.empty_error(format!("no numeric column remains as a feature; {remedy}")));
        }
        Ok(features)
    }

    fn row_range(&self, rows: Option<&Range<u64>>) -> Result<Range<u64>> {
        let stored_rows = self.stored_rows();
        let range = rows.map_or(0..stored_rows, |rows| rows.start.min(stored_rows)..rows.end.min(stored_rows));
        if !range.is_empty() {
            return Ok(range);
        }
        let why = match rows {
            Some(rows) if stored_rows > 0 => {
                format!(
                    "`rows` {} selects none of its {stored_rows} rows; choose rows below {stored_rows}",
                    format_rows(rows)
                )
            }
            _ => "it has no rows; name a table with rows".to_string(),
        };
        Err(self.empty_error(why))
    }
}
