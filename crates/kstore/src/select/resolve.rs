//! Resolves the columns of a selection as features: requested categories and texts, or the columns
//! of a known encoding.

use super::{ColumnRequest, EncodingRequest, EncodingState, Role, Selection};
use crate::encoding::{
    Categories, ColumnEncoding, EncodedColumn, Encoding, Entries, MAX_BUCKETS, MAX_CATEGORIES, TimeForm, TimeReader,
    Weighting, grams,
};
use crate::missing::Missing;
use crate::schema::Kind;
use crate::statistics::MAX_CLASS_LABELS;
use crate::table::Table;
use crate::{Error, Result};
use std::sync::Arc;

impl Table {
    /// Resolves the columns that a selection requests as categories or as counted texts. A column
    /// that has another role is not a category.
    pub(crate) fn resolve_categories<'s>(
        &self,
        selection: &'s Selection,
        role_columns: &[usize],
    ) -> Result<ColumnRequest<'s>> {
        if let Some(buckets) = selection.hash.filter(|buckets| !(1..=MAX_BUCKETS).contains(buckets)) {
            let expected = format!("a number of buckets from 1 to {MAX_BUCKETS}, such as 256");
            return Err(Error::Syntax { what: "`hash`", text: buckets.to_string(), expected });
        }
        let category_columns = match &selection.categories {
            Categories::Named(names) => {
                let index_by_name = self.schema().index_by_name();
                let named_columns: Vec<usize> = self
                    .matching_columns(names)?
                    .iter()
                    .filter_map(|name| index_by_name.get(name.as_str()).copied())
                    .collect();
                named_columns.into_iter().filter(|column| !role_columns.contains(column)).collect()
            }
            _ => Vec::new(),
        };
        for column in &category_columns {
            if matches!(self.schema().columns[*column].kind, Kind::Binary | Kind::Sparse(_) | Kind::Other(_)) {
                return Err(self.wrong_type_error(*column, "categories must be integers, booleans or text"));
            }
        }
        let mut counted_texts = Vec::new();
        for text in &selection.text {
            let (name, grams) = grams::parse_text_column(text)?;
            let column = self.column_index(name)?;
            if !grams.accepts(&self.schema().columns[column].kind) {
                return Err(
                    self.wrong_type_error(column, "`text` counts words of text columns; remove the column from `text`")
                );
            }
            if role_columns.contains(&column) || category_columns.contains(&column) {
                return Err(self.wrong_type_error(
                    column,
                    "it has another role in addition to `text`; remove it from one of them",
                ));
            }
            counted_texts.push((column, grams));
        }
        Ok(ColumnRequest {
            selection,
            counted_texts,
            category_set: category_columns.iter().copied().collect(),
            category_columns,
        })
    }

    /// Returns what is known about the values of `features`.
    ///
    /// # Errors
    /// [`Error::WrongType`] for sparse rows combined with other columns.
    pub(crate) fn encoding_state(&self, request: &ColumnRequest<'_>, features: &[usize]) -> Result<EncodingState> {
        let selection = request.selection;
        let roles: Vec<Role> = features.iter().map(|column| request.role(self, *column)).collect();
        if features.is_empty() {
            return Ok(EncodingState::Numeric(None));
        }
        if let Some(columns) = self.entry_columns(request, features)? {
            return Ok(EncodingState::from_encoding(Encoding::new(columns), self, features));
        }
        let dense_buckets = request
            .counted_texts
            .iter()
            .filter_map(|(column, grams)| Some((*column, grams.bucket_count()?)))
            .max_by_key(|(_, buckets)| *buckets);
        if let Some((column, buckets)) = dense_buckets.filter(|(_, buckets)| *buckets > MAX_BUCKETS as usize) {
            let expected = format!(
                "its {buckets} hash buckets would be features of dense rows, because there are other features; set hash={MAX_BUCKETS} \
                 or fewer, or exclude the other features (`features`)"
            );
            return Err(self.wrong_type_error(column, &expected));
        }
        let dense_entries =
            |(index, column): (usize, &usize)| Some((index, request.counted_entries(*column)?.into_dense()));
        let counted_texts = features.iter().enumerate().filter_map(dense_entries).collect();
        let categories_are_set = !matches!(selection.categories, Categories::Few);
        let name_of = |column: &usize| &self.schema().columns[*column].name;
        // a pattern that excludes columns does not name any column
        let selects_columns = |text: &String| text != "*" && !text.starts_with('!');
        let lists_features =
            selection.features.iter().any(selects_columns) && !selection.features.iter().any(|text| text == "*");
        let is_named_column = |(column, role): (&usize, &Role)| match role {
            Role::Number => lists_features,
            // a text column that is only inspected for times was not requested as a category
            _ => categories_are_set && *role != Role::Time || selection.features.contains(name_of(column)),
        };
        let is_named = features.iter().zip(&roles).map(is_named_column).collect();
        // with `hash`, a column with more than `MAX_CATEGORIES` values is hashed instead of
        // becoming thousands of features
        let max_categories =
            if categories_are_set && selection.hash.is_none() { MAX_CLASS_LABELS } else { MAX_CATEGORIES };
        let all_numeric = roles.iter().all(|role| *role == Role::Number) && selection.missing != Missing::Indicator;
        let Selection { hash, times, categories, .. } = selection.clone();
        let request = Arc::new(EncodingRequest {
            roles,
            is_named,
            times,
            hash_buckets: hash,
            max_categories,
            categories,
            counted_texts,
        });
        Ok(if all_numeric { EncodingState::Numeric(Some(request)) } else { EncodingState::Pending(request) })
    }

    /// Returns the encoding of the columns if each of them holds sparse rows or texts that are
    /// counted, so that all features are entries. Returns `None` if there are other columns, or if
    /// rows must be dense.
    fn entry_columns(&self, request: &ColumnRequest<'_>, features: &[usize]) -> Result<Option<Vec<EncodedColumn>>> {
        let selection = request.selection;
        if let (Some((text, _)), Some(Weighting::Maxabs)) = (request.counted_texts.first(), selection.weighting) {
            return Err(self.wrong_type_error(
                *text,
                "`scale` maxabs does not apply to counts of words; choose tf-idf, unit or none",
            ));
        }
        let weighting = selection.weighting.unwrap_or_default();
        let encoded_column = |column: &usize| {
            let encoding = match (request.counted_entries(*column), self.schema().sparse_shape(*column)) {
                (Some(entries), _) => ColumnEncoding::Entries(entries),
                (None, Some(shape)) if weighting == Weighting::None => ColumnEncoding::Sparse(shape),
                (None, shape) => ColumnEncoding::Entries(Entries::unlearned(shape?, None, weighting)),
            };
            Some(EncodedColumn { name: self.schema().columns[*column].name.clone(), encoding, has_indicator: false })
        };
        let sparse_column = features.iter().find(|column| self.schema().sparse_shape(**column).is_some());
        if let Some((sparse_column, other_column)) =
            sparse_column.zip(features.iter().find(|column| Some(*column) != sparse_column))
        {
            let other = &self.schema().columns[*other_column].name;
            let expected =
                format!("sparse rows cannot be combined with other features; exclude {other:?} (`features`)");
            return Err(self.wrong_type_error(*sparse_column, &expected));
        }
        Ok(features.iter().map(encoded_column).collect::<Option<_>>().filter(|_| selection.sparse))
    }

    /// Resolves the columns of an encoding. A column may have any type in which its values can be
    /// looked up.
    pub(crate) fn resolve_encoding(&self, encoding: &Encoding) -> Result<Vec<usize>> {
        let index_by_name = self.schema().index_by_name();
        let column_index = |encoded_column: &EncodedColumn| {
            let column = *index_by_name
                .get(encoded_column.name.as_str())
                .ok_or_else(|| self.no_such_column_error(&encoded_column.name))?;
            let kind = &self.schema().columns[column].kind;
            let is_blank = self.parts().iter().all(|part| part.file.is_all_missing(column));
            match &encoded_column.encoding {
                // a column without values may have any type that its file assigns: it is missing in
                // every row
                ColumnEncoding::Number
                | ColumnEncoding::Values(_)
                | ColumnEncoding::Buckets(_)
                | ColumnEncoding::Effects(_)
                    if is_blank => {}
                ColumnEncoding::Number => {
                    self.expect_numbers(column, "the model expects numbers; write the column as numbers")?;
                }
                // pandas writes text that is missing throughout as NaN
                ColumnEncoding::Entries(Entries { grams: Some(grams), .. })
                    if !grams.accepts(kind)
                        && (matches!(kind, Kind::Other(_))
                            || self.blank_columns_among(&(0..self.stored_rows()), vec![column])?.is_empty()) =>
                {
                    return Err(self.wrong_type_error(
                        column,
                        "the model expects text, whose words it counts; write the column as text",
                    ));
                }
                ColumnEncoding::Entries(Entries { grams: Some(_), .. }) => {}
                ColumnEncoding::Sparse(fit_shape) | ColumnEncoding::Entries(Entries { shape: fit_shape, .. }) => {
                    match self.schema().sparse_shape(column) {
                        Some(shape) if shape.max_row_entries <= fit_shape.max_row_entries => {}
                        Some(shape) => {
                            let (entry_count, max_entries) = (shape.max_row_entries, fit_shape.max_row_entries);
                            let expected = format!(
                                "one row has {entry_count} entries, and the rows of the fit have at most {max_entries}; remove the row"
                            );
                            return Err(self.wrong_type_error(column, &expected));
                        }
                        None => {
                            let expected = "the model expects sparse rows; open the table with `sparse`";
                            return Err(self.wrong_type_error(column, expected));
                        }
                    }
                }
                ColumnEncoding::Time(time) if TimeReader::new(time.form, kind).is_none() => {
                    let expected = match time.form {
                        TimeForm::HourMinute => "the model expects hours x 100 + minutes, like 517 for 5:17",
                        TimeForm::YearMonthDay => "the model expects a date, like 20240131 or 2024-01-31",
                        _ => "the model expects a date or time; write it like 2024-01-31",
                    };
                    return Err(self.wrong_type_error(column, expected));
                }
                _ if matches!(kind, Kind::Binary | Kind::Sparse(_) | Kind::Other(_)) => {
                    return Err(self.wrong_type_error(column, "categories must be integers, booleans or text"));
                }
                _ => {}
            }
            Ok(column)
        };
        encoding.columns().iter().map(column_index).collect()
    }
}
