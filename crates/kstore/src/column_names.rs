//! Resolves column names and patterns; a leading `!` excludes columns.

use crate::schema::{Kind, Schema};
use crate::{Error, Result, encoding::Wanted, table::Table};
use std::collections::{HashMap, HashSet};

/// The pattern of all columns that are features by default.
const ALL: &str = "*";

type Places<'s> = HashMap<&'s str, usize>;

impl Table {
    /// Returns the column names of a comma-separated list, joining pieces that together are a name
    /// with commas.
    ///
    /// ```
    /// let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("rows.csv");
    /// std::fs::write(&path, "\"lat, lon\",y\n1,2\n").unwrap();
    /// let table = kstore::Table::open(&[path])?;
    /// assert_eq!(table.names(&["lat", " lon", "y"].map(String::from)), ["lat, lon", "y"]);
    /// # Ok::<(), kstore::Error>(())
    /// ```
    #[doc(hidden)]
    pub fn names(&self, given: &[String]) -> Vec<String> {
        const PIECES: usize = 8;
        let (places, mut rest, mut names) = (self.schema().places(), given, Vec::new());
        while !rest.is_empty() {
            let mut pieces = 1..=rest.len().min(PIECES);
            let pieces = pieces.find(|most| places.contains_key(&*rest[..*most].join(","))).unwrap_or(1);
            names.push(rest[..pieces].join(","));
            rest = &rest[pieces..];
        }
        names
    }

    /// Returns the names of the columns that match names and patterns, each once, without the ones
    /// after `!`. The columns may have any type, unlike features. If there are only exclusions,
    /// returns all other columns.
    ///
    /// # Errors
    /// A name or pattern that matches no column.
    #[doc(hidden)]
    pub fn columns_like(&self, patterns: &[String]) -> Result<Vec<String>> {
        let (columns, places) = (&self.schema().columns, self.schema().places());
        let patterns = &self.names(patterns);
        let (wanted, mut known) = self.without(patterns, &places)?;
        let found = match wanted[..] {
            [] if !patterns.is_empty() => (0..columns.len()).collect(),
            _ => wanted.into_iter().map(|text| self.like(text, &places)).collect::<Result<Vec<_>>>()?.concat(),
        };
        Ok(found.into_iter().filter(|at| known.insert(*at)).map(|at| columns[at].name.clone()).collect())
    }

    /// Returns the columns of a name, of a list column, or of a pattern.
    fn like(&self, text: &str, places: &Places<'_>) -> Result<Vec<usize>> {
        let schema = self.schema();
        if let Some(column) = places.get(text) {
            return Ok(vec![*column]);
        }
        let block = schema.block(text);
        if !block.is_empty() {
            return Ok(block);
        }
        let pattern = glob::Pattern::new(text).map_err(|_| self.no_such_column(text))?;
        let names = schema.columns.iter().enumerate();
        let found: Vec<usize> = names.filter(|(_, column)| pattern.matches(&column.name)).map(|(at, _)| at).collect();
        if found.is_empty() { Err(self.no_such_column(text)) } else { Ok(found) }
    }

    /// Splits names into the included names and patterns, and the excluded columns. A column whose
    /// own name begins with `!` is included by that name.
    fn without<'n>(&self, names: &'n [String], places: &Places<'_>) -> Result<(Vec<&'n str>, HashSet<usize>)> {
        let (mut wanted, mut out) = (Vec::new(), HashSet::new());
        for name in names {
            match name.strip_prefix('!').filter(|_| !places.contains_key(name.as_str())) {
                Some(unwanted) => out.extend(self.like(unwanted, places)?),
                None => wanted.push(name.as_str()),
            }
        }
        Ok((wanted, out))
    }

    /// Returns the columns to carry along. A column that no output can hold is skipped if it
    /// matches a pattern, and an error if it is named.
    pub(crate) fn kept(&self, names: &[String]) -> Result<Vec<usize>> {
        let columns = &self.schema().columns;
        let held = |at: usize| !matches!(columns[at].kind, Kind::Other(_));
        let (places, names) = (self.schema().places(), self.names(names));
        let (wanted, mut taken) = self.without(&names, &places)?;
        let mut kept = Vec::new();
        for text in wanted {
            let found = match places.get(text) {
                Some(at) if held(*at) => vec![*at],
                Some(at) => {
                    let expected = "only numbers, booleans, times, text, bytes and sparse rows can be kept; remove the column from `keep`";
                    return Err(self.wrong_type(*at, expected));
                }
                None => {
                    let usual = |at: &usize| held(*at) && self.schema().sparse(*at).is_none();
                    self.like(text, &places)?.into_iter().filter(usual).collect()
                }
            };
            kept.extend(found.into_iter().filter(|at| taken.insert(*at)));
        }
        Ok(kept)
    }

    /// Returns the feature columns of names and patterns. A name selects its column even if it has
    /// another role, except a target.
    pub(crate) fn named_features(&self, roles: &[usize], targets: &[usize], asked: &Wanted<'_>) -> Result<Vec<usize>> {
        let (names, places) = (self.names(&asked.selection.features), self.schema().places());
        let (wanted, mut taken) = self.without(&names, &places)?;
        let wanted = if wanted.is_empty() { vec![ALL] } else { wanted };
        let mut features = Vec::new();
        for name in wanted {
            let columns = match places.get(name).copied() {
                Some(column) if targets.contains(&column) => {
                    let expected =
                        "it is the target, which cannot be a feature too; remove it from `features`".to_string();
                    return Err(Error::Syntax { what: "`features`", text: name.to_string(), expected });
                }
                Some(column) => {
                    if !asked.takes(self, column) {
                        self.expect_numbers(column, "a feature must be numeric; remove the column from `features`")?;
                    }
                    vec![column]
                }
                None if name == ALL => self.other_features(roles, asked)?,
                None => match self.schema().block(name) {
                    block if block.is_empty() => self.matching(name, roles, &places, asked)?,
                    block => block.into_iter().filter(|column| !roles.contains(column)).collect(),
                },
            };
            features.extend(columns.into_iter().filter(|column| taken.insert(*column)));
        }
        if features.is_empty() {
            let why = format!("`features` {} selects no column; name at least one feature", names.join(","));
            return Err(self.empty(why));
        }
        Ok(features)
    }

    /// Returns the columns that match a pattern, have no other role, and are numeric or requested
    /// categories.
    fn matching(
        &self,
        name: &str,
        roles: &[usize],
        places: &Places<'_>,
        categories: &Wanted<'_>,
    ) -> Result<Vec<usize>> {
        let Schema { columns, label, .. } = self.schema();
        let fits = |at: &usize| *label != Some(*at) && (columns[*at].kind.is_numeric() || categories.takes(self, *at));
        let found = self.like(name, places)?.into_iter().filter(|at| fits(at) && !roles.contains(at));
        let found: Vec<usize> = found.collect();
        if found.is_empty() { Err(self.no_such_column(name)) } else { Ok(found) }
    }
}
