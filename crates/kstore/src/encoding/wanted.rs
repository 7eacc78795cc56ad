//! Resolves the columns of a selection, before and after the values of its categories are known.

use super::coding::{Asked, Categories, Coding, Role, Wanted};
use super::entries::{Entries, Weighing};
use super::{BUCKET_LIMIT, CATEGORY_LIMIT, Code, CodedColumn, Encoding, Lookups, TimeForm, TimeReader, grams};
use crate::missing::Missing;
use crate::schema::Kind;
use crate::select::{Selected, Selection};
use crate::sparse::SparseShape;
use crate::statistics::LABEL_LIMIT;
use crate::table::Table;
use crate::{Error, Result, Scaler};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Table {
    /// Resolves the columns that a selection requests as categories, except columns with another
    /// role, and as counted texts.
    pub(crate) fn wanted<'s>(&self, selection: &'s Selection, roles: &[usize]) -> Result<Wanted<'s>> {
        if let Some(buckets) = selection.hash.filter(|buckets| !(1..=BUCKET_LIMIT).contains(buckets)) {
            let expected = format!("a number of buckets from 1 to {BUCKET_LIMIT}, such as 256");
            return Err(Error::Syntax { what: "`hash`", text: buckets.to_string(), expected });
        }
        let columns = match &selection.categories {
            Categories::Named(names) => {
                let places = self.schema().places();
                let found: Vec<usize> =
                    self.columns_like(names)?.iter().filter_map(|name| places.get(name.as_str()).copied()).collect();
                found.into_iter().filter(|column| !roles.contains(column)).collect()
            }
            _ => Vec::new(),
        };
        for column in &columns {
            if matches!(self.schema().columns[*column].kind, Kind::Binary | Kind::Sparse(_) | Kind::Other(_)) {
                return Err(self.wrong_type(*column, "categories must be integers, booleans or text"));
            }
        }
        let mut counted = Vec::new();
        for text in &selection.text {
            let (name, grams) = grams::column_of(text)?;
            let column = self.column(name)?;
            if !grams.reads(&self.schema().columns[column].kind) {
                return Err(
                    self.wrong_type(column, "`text` counts words of text columns; remove the column from `text`")
                );
            }
            if roles.contains(&column) || columns.contains(&column) {
                return Err(
                    self.wrong_type(column, "it has another role in addition to `text`; remove it from one of them")
                );
            }
            counted.push((column, grams));
        }
        Ok(Wanted { selection, counted, named: columns.iter().copied().collect(), columns })
    }

    /// Returns what is known about the values of `features`.
    ///
    /// # Errors
    /// [`Error::WrongType`] for sparse rows combined with other columns.
    pub(crate) fn coding(&self, wanted: &Wanted<'_>, features: &[usize]) -> Result<Coding> {
        let selection = wanted.selection;
        let roles: Vec<Role> = features.iter().map(|column| wanted.role(self, *column)).collect();
        if features.is_empty() {
            return Ok(Coding::Plain(None));
        }
        if let Some(columns) = self.entry_columns(wanted, features)? {
            return Ok(Coding::known(Encoding::new(columns), self, features));
        }
        let dense_places = wanted
            .counted
            .iter()
            .filter_map(|(column, grams)| Some((*column, grams.places()?)))
            .max_by_key(|(_, places)| *places);
        if let Some((column, places)) = dense_places.filter(|(_, places)| *places > BUCKET_LIMIT as usize) {
            let expected = format!(
                "its {places} hash buckets would be features of dense rows, because there are other features; set hash={BUCKET_LIMIT} \
                 or fewer, or exclude the other features (`features`)"
            );
            return Err(self.wrong_type(column, &expected));
        }
        let entries = |(place, column): (usize, &usize)| Some((place, wanted.entries(*column)?.dense()));
        let counted = features.iter().enumerate().filter_map(entries).collect();
        let all = !matches!(selection.categories, Categories::Few);
        let name = |column: &usize| &self.schema().columns[*column].name;
        // an excluding pattern names no column
        let takes = |text: &String| text != "*" && !text.starts_with('!');
        let chosen = selection.features.iter().any(takes) && !selection.features.iter().any(|text| text == "*");
        let asked = |(column, role): (&usize, &Role)| match role {
            Role::Number => chosen,
            // text that is only searched for times was not requested as a category
            _ => all && *role != Role::Time || selection.features.contains(name(column)),
        };
        let named = features.iter().zip(&roles).map(asked).collect();
        // a column that can be hashed should not become ten thousand features
        let limit = if all && selection.hash.is_none() { LABEL_LIMIT } else { CATEGORY_LIMIT };
        let numbers = roles.iter().all(|role| *role == Role::Number) && selection.missing != Missing::Indicator;
        let Selection { hash, times, categories: wanted, .. } = selection.clone();
        let asked = Arc::new(Asked { roles, named, times, hash, limit, wanted, counted });
        Ok(if numbers { Coding::Plain(Some(asked)) } else { Coding::Asked(asked) })
    }

    /// Returns the columns if all of them produce entries (sparse rows or counted texts); `None` if
    /// there are others, or if rows must be dense.
    fn entry_columns(&self, wanted: &Wanted<'_>, features: &[usize]) -> Result<Option<Vec<CodedColumn>>> {
        let selection = wanted.selection;
        if let (Some((text, _)), Some(Weighing::Maxabs)) = (wanted.counted.first(), selection.weighing) {
            return Err(
                self.wrong_type(*text, "`scale` maxabs does not apply to counts of words; choose tf-idf, unit or none")
            );
        }
        let weighing = selection.weighing.unwrap_or_default();
        let of = |column: &usize| {
            let code = match (wanted.entries(*column), self.schema().sparse(*column)) {
                (Some(entries), _) => Code::Entries(entries),
                (None, Some(shape)) if weighing == Weighing::None => Code::Sparse(shape),
                (None, shape) => Code::Entries(Entries::unlearned(shape?, None, weighing)),
            };
            Some(CodedColumn { name: self.schema().columns[*column].name.clone(), code, missing: false })
        };
        let sparse = features.iter().find(|column| self.schema().sparse(**column).is_some());
        if let Some((sparse, other)) = sparse.zip(features.iter().find(|column| Some(*column) != sparse)) {
            let other = &self.schema().columns[*other].name;
            let expected =
                format!("sparse rows cannot be combined with other features; exclude {other:?} (`features`)");
            return Err(self.wrong_type(*sparse, &expected));
        }
        Ok(features.iter().map(of).collect::<Option<_>>().filter(|_| selection.sparse))
    }

    /// Resolves the columns of an encoding. A column may have any type whose values can be looked
    /// up.
    pub(crate) fn encoded_columns(&self, encoding: &Encoding) -> Result<Vec<usize>> {
        let places = self.schema().places();
        let of = |coded: &CodedColumn| {
            let column = *places.get(coded.name.as_str()).ok_or_else(|| self.no_such_column(&coded.name))?;
            let kind = &self.schema().columns[column].kind;
            let blank = self.parts().iter().all(|part| part.file.is_blank(column));
            match &coded.code {
                // a column without values is missing in every row, for every type that its file
                // assigns
                Code::Number | Code::Values(_) | Code::Buckets(_) | Code::Effects(_) if blank => {}
                Code::Number => {
                    self.expect_numbers(column, "the model expects numbers; write the column as numbers")?;
                }
                // pandas writes text that is missing throughout as NaN
                Code::Entries(Entries { text: Some(grams), .. })
                    if !grams.reads(kind)
                        && (matches!(kind, Kind::Other(_))
                            || self.blank_among(&(0..self.stored_rows()), vec![column])?.is_empty()) =>
                {
                    return Err(self.wrong_type(
                        column,
                        "the model expects text, whose words it counts; write the column as text",
                    ));
                }
                Code::Entries(Entries { text: Some(_), .. }) => {}
                Code::Sparse(room) | Code::Entries(Entries { shape: room, .. }) => match self.schema().sparse(column) {
                    Some(shape) if shape.longest <= room.longest => {}
                    Some(shape) => {
                        let (has, room) = (shape.longest, room.longest);
                        let expected = format!(
                            "one row has {has} entries, and the rows of the fit have at most {room}; remove the row"
                        );
                        return Err(self.wrong_type(column, &expected));
                    }
                    None => {
                        let expected = "the model expects sparse rows; open the table with `sparse`";
                        return Err(self.wrong_type(column, expected));
                    }
                },
                Code::Time(code) if TimeReader::new(code.form, kind).is_none() => {
                    let expected = match code.form {
                        TimeForm::HourMinute => "the model expects hours x 100 + minutes, like 517 for 5:17",
                        TimeForm::YearMonthDay => "the model expects a date, like 20240131 or 2024-01-31",
                        _ => "the model expects a date or time; write it like 2024-01-31",
                    };
                    return Err(self.wrong_type(column, expected));
                }
                _ if matches!(kind, Kind::Binary | Kind::Sparse(_) | Kind::Other(_)) => {
                    return Err(self.wrong_type(column, "categories must be integers, booleans or text"));
                }
                _ => {}
            }
            Ok(column)
        };
        encoding.columns().iter().map(of).collect()
    }
}

impl Selected {
    /// Returns the request for the columns whose values are not known; `None` if rows can be read.
    pub(crate) fn asked(&self) -> Option<&Asked> {
        match &self.coding {
            Coding::Asked(asked) => Some(asked),
            _ => None,
        }
    }

    /// Returns whether the values of its columns were not inspected yet.
    #[doc(hidden)]
    pub fn is_new(&self) -> bool {
        matches!(self.coding, Coding::Plain(Some(_)) | Coding::Asked(_))
    }

    /// Returns how columns become features; `None` if all features are numeric columns, or if the
    /// values are not found yet.
    #[doc(hidden)]
    pub fn encoding(&self) -> Option<&Encoding> {
        self.coded().map(|coded| &coded.encoding)
    }

    pub(crate) fn coded(&self) -> Option<&Arc<Lookups>> {
        match &self.coding {
            Coding::Known(coded, _) => Some(coded),
            _ => None,
        }
    }

    /// Returns the shape of its rows if they are sparse.
    #[doc(hidden)]
    pub fn sparse(&self) -> Option<SparseShape> {
        self.encoding()?.sparse()
    }

    /// Returns the weighting of the entries of its rows if they are sparse.
    #[doc(hidden)]
    pub fn weighing(&self) -> Weighing {
        match self.encoding().and_then(|encoding| encoding.columns().first()).map(|column| &column.code) {
            Some(Code::Entries(entries)) => entries.weighing(),
            _ => Weighing::None,
        }
    }

    /// Returns how missing values are treated.
    #[doc(hidden)]
    pub fn missing(&self) -> Missing {
        self.missing
    }

    /// Returns whether a condition selects rows.
    #[doc(hidden)]
    pub fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns the names of the columns from which the features are computed, in the order of the
    /// features.
    #[doc(hidden)]
    pub fn feature_columns(&self) -> Vec<String> {
        self.names(&self.features)
    }

    /// Returns the names of the features that are computed from the columns that match names and
    /// patterns, in the order of the columns.
    ///
    /// # Errors
    /// Names of columns that do not exist; patterns that match no feature column.
    #[doc(hidden)]
    pub fn features_of(&self, columns: &[String]) -> Result<Vec<String>> {
        let (names, places) = (self.feature_names(), self.table.schema().places());
        let owners = self.encoding().map_or_else(|| (0..names.len()).collect(), Encoding::owners);
        let mut found = Vec::new();
        for column in self.table.columns_like(columns)? {
            let place = self.features.iter().position(|at| places.get(column.as_str()) == Some(at));
            let own = |(name, owner): (&String, &usize)| (Some(*owner) == place).then(|| name.clone());
            found.extend(names.iter().zip(&owners).filter_map(own));
        }
        if found.is_empty() { Err(self.table.no_such_column(&columns.join(","))) } else { Ok(found) }
    }

    /// Returns a selection of the same features of other rows: the same columns, and the same
    /// values if they are known.
    #[doc(hidden)]
    pub fn same_features(&self) -> Selection {
        let features = self.feature_columns();
        let known = |encoding| Selection {
            features: features.clone(),
            categories: Categories::None,
            encoding: Some(Arc::new(encoding)),
            ..Selection::default()
        };
        match &self.coding {
            Coding::Plain(_) => known(Encoding::of_numbers(&features)),
            Coding::Known(coded, _) => known(coded.encoding.clone().of_new_rows()),
            Coding::Asked(asked) => {
                let text =
                    |(place, entries): &(usize, Entries)| Some(format!("{}:{}", features[*place], entries.text()?));
                let (text, weighing) = (asked.counted.iter().filter_map(text).collect(), asked.counted.first());
                let weighing = weighing.map(|(_, entries)| entries.weighing());
                let (categories, hash, times) = (asked.wanted.clone(), asked.hash, asked.times);
                Selection { features, categories, hash, times, text, weighing, ..Selection::default() }
            }
        }
    }

    /// Returns the columns that had values without a feature, each with the number of such rows
    /// over all passes since the selection was made.
    #[doc(hidden)]
    pub fn unseen(&self) -> Vec<(String, u64)> {
        let Coding::Known(coded, counts) = &self.coding else { return Vec::new() };
        let counts = counts.iter().map(|count| count.load(Ordering::Relaxed));
        let columns = coded.encoding.columns().iter().map(|column| column.name.clone()).zip(counts);
        columns.filter(|(_, count)| *count > 0).collect()
    }

    /// Sets the scaling of 0/1 features and of effects so that these features stay unchanged.
    #[doc(hidden)]
    pub fn keep_flags(&self, scaler: &mut Scaler) {
        let flags = self.encoding().map_or(Vec::new(), Encoding::fixed);
        flags.iter().enumerate().filter(|(_, flag)| **flag).for_each(|(i, _)| scaler.keep(i));
    }

    /// Returns the selection with these feature columns and their encoding.
    pub(crate) fn encoded(&self, features: Vec<usize>, encoding: Encoding) -> Result<Self> {
        if let Some(fault) = encoding.fault() {
            return Err(Error::Malformed { path: self.table.first_path(), format: "one table", detail: fault });
        }
        let coding = Coding::known(encoding, &self.table, &features);
        Ok(Self { features, coding, ..self.clone() })
    }

    /// Returns the selection of these features and kept columns, for a search for values. With
    /// [`Missing::Drop`], rows with a missing value in any of these columns are skipped; otherwise
    /// targets and labels are not read, and missing numbers are treated as `missing` says.
    pub(super) fn searched(&self, features: Vec<usize>, keep: Vec<usize>, otherwise: Missing) -> Self {
        if self.missing == Missing::Drop {
            return Self { features, complete: vec![true; keep.len()], keep, ..self.plain() };
        }
        // rows that are dropped for a missing target do not count either
        let rows = if self.drops_targets() { Self { group: None, ..self.plain() } } else { self.alone() };
        Self { features, complete: vec![false; keep.len()], keep, missing: otherwise, ..rows }
    }

    pub(crate) fn plain(&self) -> Self {
        Self { coding: Coding::Plain(None), ..self.clone() }
    }

    /// Returns the selection without targets, labels and kept columns, before any values are known.
    /// Weights stay, because rows with weight 0 do not count.
    pub(crate) fn alone(&self) -> Self {
        let (keep, complete) = Default::default();
        let targets = Vec::new();
        Self { targets, keep, complete, class: None, group: None, ..self.plain() }
    }

    pub(crate) fn column_name(&self, place: usize) -> String {
        self.table.schema().columns[self.features[place]].name.clone()
    }

    #[cold]
    pub(crate) fn bad_category(&self, place: usize, row: u64, value: &str, remedy: &'static str) -> Error {
        let parts = self.table.parts();
        let part = parts.iter().find(|part| row < part.end()).or(parts.last());
        let (path, row) = part.map_or_else(Default::default, |part| (part.path.clone(), row - part.start));
        let line = part.and_then(|part| part.file.line(row));
        Error::BadValue { path, row, line, column: self.column_name(place), value: value.to_string(), remedy }
    }
}
