//! The selection before and after the values of its categories are known.

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
    /// The columns that a selection wants as categories; those with another role are not.
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
                return Err(self.wrong_type(*column, "categories are whole numbers, truth values or text"));
            }
        }
        let mut counted = Vec::new();
        for text in &selection.text {
            let (name, grams) = grams::column_of(text)?;
            let column = self.column(name)?;
            if !grams.reads(&self.schema().columns[column].kind) {
                return Err(self.wrong_type(column, "words are counted of text"));
            }
            if roles.contains(&column) || columns.contains(&column) {
                return Err(self.wrong_type(column, "it is in `text`, and has another role too"));
            }
            counted.push((column, grams));
        }
        Ok(Wanted { selection, counted, named: columns.iter().copied().collect(), columns })
    }

    /// What is known of the values of `features`.
    ///
    /// # Errors
    /// [`Error::WrongType`] for sparse rows with other columns beside them.
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
                "its {places} places would be features of dense rows, since there are other features: give hash={BUCKET_LIMIT} or fewer, \
                 or leave the others out (`features`)"
            );
            return Err(self.wrong_type(column, &expected));
        }
        let entries = |(place, column): (usize, &usize)| Some((place, wanted.entries(*column)?.dense()));
        let counted = features.iter().enumerate().filter_map(entries).collect();
        let all = !matches!(selection.categories, Categories::Few);
        let name = |column: &usize| &self.schema().columns[*column].name;
        // a pattern that takes columns away names none
        let takes = |text: &String| text != "*" && !text.starts_with('!');
        let chosen = selection.features.iter().any(takes) && !selection.features.iter().any(|text| text == "*");
        let asked = |(column, role): (&usize, &Role)| match role {
            Role::Number => chosen,
            // text that is only looked at for times was not asked for as a category
            _ => all && *role != Role::Time || selection.features.contains(name(column)),
        };
        let named = features.iter().zip(&roles).map(asked).collect();
        // of a column that can be hashed nobody wants ten thousand features
        let limit = if all && selection.hash.is_none() { LABEL_LIMIT } else { CATEGORY_LIMIT };
        let numbers = roles.iter().all(|role| *role == Role::Number) && selection.missing != Missing::Indicator;
        let Selection { hash, times, categories: wanted, .. } = selection.clone();
        let asked = Arc::new(Asked { roles, named, times, hash, limit, wanted, counted });
        Ok(if numbers { Coding::Plain(Some(asked)) } else { Coding::Asked(asked) })
    }

    /// The columns of rows of entries, sparse ones or those of texts; `None` where there are others, or the rows are to be dense.
    fn entry_columns(&self, wanted: &Wanted<'_>, features: &[usize]) -> Result<Option<Vec<CodedColumn>>> {
        let selection = wanted.selection;
        if let (Some((text, _)), Some(Weighing::Maxabs)) = (wanted.counted.first(), selection.weighing) {
            return Err(
                self.wrong_type(*text, "largest counts do not weigh words; take tf-idf, unit or none (`scale`)")
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
            let expected = format!("such a column is the only feature; leave out {other:?} (`features`)");
            return Err(self.wrong_type(*sparse, &expected));
        }
        Ok(features.iter().map(of).collect::<Option<_>>().filter(|_| selection.sparse))
    }

    /// The columns of an encoding, which may hold what they like as long as it can be looked up.
    pub(crate) fn encoded_columns(&self, encoding: &Encoding) -> Result<Vec<usize>> {
        let places = self.schema().places();
        let of = |coded: &CodedColumn| {
            let column = *places.get(coded.name.as_str()).ok_or_else(|| self.no_such_column(&coded.name))?;
            let kind = &self.schema().columns[column].kind;
            let blank = self.parts().iter().all(|part| part.file.is_blank(column));
            match &coded.code {
                // a column without a value is missing in every row, whatever the file takes it for
                Code::Number | Code::Values(_) | Code::Buckets(_) | Code::Effects(_) if blank => {}
                Code::Number => {
                    self.expect_numbers(column, "the model knows it as a number; write numbers into it")?;
                }
                // pandas writes text that is missing throughout as NaN
                Code::Entries(Entries { text: Some(grams), .. })
                    if !grams.reads(kind)
                        && (matches!(kind, Kind::Other(_))
                            || self.blank_among(&(0..self.stored_rows()), vec![column])?.is_empty()) =>
                {
                    return Err(self.wrong_type(column, "the model counts its words; write text into it"));
                }
                Code::Entries(Entries { text: Some(_), .. }) => {}
                Code::Sparse(room) | Code::Entries(Entries { shape: room, .. }) => match self.schema().sparse(column) {
                    Some(shape) if shape.longest <= room.longest => {}
                    Some(shape) => {
                        let (has, room) = (shape.longest, room.longest);
                        let expected =
                            format!("one has {has} entries, those of the fit have at most {room}; leave it out");
                        return Err(self.wrong_type(column, &expected));
                    }
                    None => {
                        let expected = "the model knows it as sparse rows; open the table with `sparse`";
                        return Err(self.wrong_type(column, expected));
                    }
                },
                Code::Time(code) if TimeReader::new(code.form, kind).is_none() => {
                    let expected = match code.form {
                        TimeForm::HourMinute => "the model knows it as hours x 100 + minutes, like 517 for 5:17",
                        TimeForm::YearMonthDay => "the model knows it as a date, like 20240131 or 2024-01-31",
                        _ => "the model knows it as a date or time; write it as such, like 2024-01-31",
                    };
                    return Err(self.wrong_type(column, expected));
                }
                _ if matches!(kind, Kind::Binary | Kind::Sparse(_) | Kind::Other(_)) => {
                    return Err(self.wrong_type(column, "categories are whole numbers, truth values or text"));
                }
                _ => {}
            }
            Ok(column)
        };
        encoding.columns().iter().map(of).collect()
    }
}

impl Selected {
    /// The columns of categories whose values are not known; `None` where rows can be read.
    pub(crate) fn asked(&self) -> Option<&Asked> {
        match &self.coding {
            Coding::Asked(asked) => Some(asked),
            _ => None,
        }
    }

    /// True where nothing was found of its columns yet.
    #[doc(hidden)]
    pub fn is_new(&self) -> bool {
        matches!(self.coding, Coding::Plain(Some(_)) | Coding::Asked(_))
    }

    /// How columns become features; `None` where all features are columns of numbers, or the values are not found yet.
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

    /// The shape of its rows, where these are sparse.
    #[doc(hidden)]
    pub fn sparse(&self) -> Option<SparseShape> {
        self.encoding()?.sparse()
    }

    /// How the entries of its rows are weighed, where these are sparse.
    #[doc(hidden)]
    pub fn weighing(&self) -> Weighing {
        match self.encoding().and_then(|encoding| encoding.columns().first()).map(|column| &column.code) {
            Some(Code::Entries(entries)) => entries.weighing(),
            _ => Weighing::None,
        }
    }

    /// How missing values are treated.
    #[doc(hidden)]
    pub fn missing(&self) -> Missing {
        self.missing
    }

    /// True where a condition chooses rows.
    #[doc(hidden)]
    pub fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// Names of the columns that the features are made of, in the order of the features.
    #[doc(hidden)]
    pub fn feature_columns(&self) -> Vec<String> {
        self.names(&self.features)
    }

    /// Names of the features that are made of the columns of some names and patterns, in the order of these.
    ///
    /// # Errors
    /// Names of no column; patterns of no column that is a feature.
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

    /// A selection that takes the same features from other rows: the same columns, and the same values of them where they are known.
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

    /// Columns with values that were read and that no feature stands for, each with the number of such rows, over all passes since it was
    /// selected.
    #[doc(hidden)]
    pub fn unseen(&self) -> Vec<(String, u64)> {
        let Coding::Known(coded, counts) = &self.coding else { return Vec::new() };
        let counts = counts.iter().map(|count| count.load(Ordering::Relaxed));
        let columns = coded.encoding.columns().iter().map(|column| column.name.clone()).zip(counts);
        columns.filter(|(_, count)| *count > 0).collect()
    }

    /// Sets the scaling of features that are 0 or 1 by their nature, and of effects, so that they stay what they are.
    #[doc(hidden)]
    pub fn keep_flags(&self, scaler: &mut Scaler) {
        let flags = self.encoding().map_or(Vec::new(), Encoding::fixed);
        flags.iter().enumerate().filter(|(_, flag)| **flag).for_each(|(i, _)| scaler.keep(i));
    }

    /// The selection of these of its columns, with values that are known.
    pub(crate) fn encoded(&self, features: Vec<usize>, encoding: Encoding) -> Result<Self> {
        if let Some(fault) = encoding.fault() {
            return Err(Error::Malformed { path: self.table.first_path(), format: "one table", detail: fault });
        }
        let coding = Coding::known(encoding, &self.table, &features);
        Ok(Self { features, coding, ..self.clone() })
    }

    /// The rows with these columns, of which some are kept as they are, for a search for values. Rows that are dropped for a missing value of
    /// another column have no say; else targets and labels are not read, and missing numbers are treated as `otherwise` says.
    pub(super) fn searched(&self, features: Vec<usize>, keep: Vec<usize>, otherwise: Missing) -> Self {
        if self.missing == Missing::Drop {
            return Self { features, complete: vec![true; keep.len()], keep, ..self.plain() };
        }
        // nor have rows that are dropped for a missing target
        let rows = if self.drops_targets() { Self { group: None, ..self.plain() } } else { self.alone() };
        Self { features, complete: vec![false; keep.len()], keep, missing: otherwise, ..rows }
    }

    pub(crate) fn plain(&self) -> Self {
        Self { coding: Coding::Plain(None), ..self.clone() }
    }

    /// The rows without targets and all else that stands beside features, before any values are known. Their weights stay: a row of
    /// weight 0 has no value.
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
