//! Files that are read as one table.

use crate::lags::Lags;
use crate::pattern::expand_path;
use crate::schema::{Column, Kind, Schema};
use crate::source::hive_partitions;
use crate::source::remote::{self, RemoteObject};
use crate::source::union_schema;
use crate::source::{
    self, AbsentRows, AddedColumn, BatchTable, ColumnType, ExtendedFile, Identity, RECORD_BATCHES, SparseRule,
    TABLE_IN_MEMORY, TableFile, TextOptions, TextReadOptions,
};
use crate::sparse::SparseShape;
use crate::{Error, Float, MemoryPlan, Result, RowDigests};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{collections::BTreeMap, ops::Range};

/// A file of a table, and the position of its rows among all rows.
#[derive(Clone, Debug)]
pub(crate) struct TablePart {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn TableFile>,
    pub(crate) first_row: u64,
    /// Identity of the file when it was opened. If there is a target file, its identity follows.
    identities: Vec<Identity>,
}

impl TablePart {
    pub(crate) fn end(&self) -> u64 {
        self.first_row + self.file.metadata().row_count
    }

    /// Returns true if this file was read with the column types of `reading`, or need not be read
    /// again. The latter holds for every file with default options: it is not a CSV file, whose
    /// options include at least the delimiter, so its own format determines the types.
    fn agrees_with(&self, reading: &TextReadOptions) -> bool {
        let (schema, file_reading) = (self.file.metadata().schema, self.file.reading());
        let has_same_type = |(name, column_type): (&String, _)| {
            file_reading.types.get(name) == Some(column_type) || schema.position(name).is_none()
        };
        file_reading.is_default() || reading.types.iter().all(has_same_type)
    }

    /// Checks that the files of this part have not changed since they were opened.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        self.identities.iter().try_for_each(Identity::check_unchanged)
    }

    /// Returns the error to report after a failed read: [`Error::FileChanged`] if the file changed
    /// since it was opened, otherwise `error`.
    pub(crate) fn or_file_changed(&self, error: Error) -> Error {
        let error = if source::url_scheme(&self.path).is_some() { remote::or_interrupted(error) } else { error };
        self.check_unchanged().err().unwrap_or(error)
    }
}

/// Opens a file and returns it with its identity. Returns an error if the identity changes while
/// the file is opened: another process is then writing to the file.
pub(crate) fn open(path: &Path, options: &TextOptions) -> Result<(Arc<dyn TableFile>, Identity)> {
    let identity = Identity::of_file(path)?;
    let file = source::open(path, options).map_err(|error| identity.check_unchanged().err().unwrap_or(error))?;
    identity.check_unchanged()?;
    Ok((file, identity))
}

/// One or more files, read one after the other in the order of their paths.
///
/// Columns of several files are matched by name. If the types of a column differ between files, the
/// column has the wider numeric type or the finer time unit. If a file does not have the column,
/// its rows have missing values. Files without rows contribute no columns.
///
/// Opening reads only headers and footers. A text file has neither, and is read once to find its
/// rows. A clone of a table shares the files and the counter of bytes read.
#[derive(Clone, Debug)]
pub struct Table {
    parts: Arc<Vec<TablePart>>,
    schema: Arc<Schema>,
    /// A remark on the files, if their columns differ.
    schema_difference: Option<String>,
    pub(crate) target_path: Option<PathBuf>,
    pub(crate) bytes_read: Arc<AtomicU64>,
    pub(crate) digests: Option<Arc<RowDigests>>,
    /// The lags among the columns, if there are any, and the memory plan of the pass that computed
    /// them.
    pub(crate) lags: Option<Arc<(Lags, MemoryPlan)>>,
}

impl Table {
    /// Opens files, folders and glob patterns as one table. A folder stands for all files of known
    /// formats in it and in its subfolders at any depth. If the name of a subfolder has the form
    /// `year=2026`, its value becomes a column. Files and folders whose names begin with `_` or `.`
    /// are skipped unless they are named. Folders of a lakehouse are rejected: see
    /// [`source::unsupported`]. A file that is named twice is read once. `-` alone stands for
    /// standard input, which is first written to a temporary file. Addresses such as
    /// `s3://bucket/rows/*.parquet` need a registered store: see [`source::remote`].
    ///
    /// # Errors
    /// A path, pattern or address without files; an unknown or damaged format; an invalid row of a
    /// text file; columns that cannot be united; a file that changes while it is opened; errors of
    /// reading and of a store.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self> {
        Self::open_with(paths, &TextOptions::default())
    }

    /// Opens files like [`Table::open`], with options for reading text files.
    ///
    /// # Errors
    /// The errors of [`Table::open`]; options that do not fit the files, such as the type of a
    /// column that does not exist.
    pub fn open_with<P: AsRef<Path>>(paths: &[P], options: &TextOptions) -> Result<Self> {
        let mut files: BTreeMap<PathBuf, Option<RemoteObject>> = BTreeMap::new();
        for path in paths.iter().map(AsRef::as_ref) {
            match source::url_scheme(path) {
                // standard input is supported only if it is the single file
                None if paths.len() == 1 && path == Path::new(source::STDIN) => _ = files.insert(path.into(), None),
                None => files.extend(expand_path(path)?.into_iter().map(|path| (path, None))),
                Some(scheme) => files.extend(
                    remote::find_objects(scheme, path)?
                        .into_iter()
                        .map(|object| (PathBuf::from(&object.address), Some(object))),
                ),
            }
        }
        let (mut parts, mut start, mut bytes_scanned) = (Vec::<TablePart>::new(), 0, 0);
        let has_only_empty_files =
            files.iter().all(|(path, remote_object)| remote_object.is_none() && is_empty_text_file(path));
        for (path, remote_object) in files {
            let address = remote_object.as_ref().map(|object| PathBuf::from(remote::redact(&object.address)));
            let (file, identity) = match remote_object {
                // an empty text file has no rows to add
                None if !has_only_empty_files && is_empty_text_file(&path) => (
                    Arc::new(AbsentRows::new(Schema::default(), 0..0)) as Arc<dyn TableFile>,
                    Identity::of_file(&path)?,
                ),
                None if path == Path::new(source::STDIN) && paths.len() == 1 => source::open_standard_input(options)?,
                None => open(&path, options)?,
                Some(object) => source::open_remote(&object, options).map_err(remote::or_interrupted)?,
            };
            let path = address.unwrap_or(path);
            let part = TablePart { path, file, first_row: start, identities: vec![identity] };
            bytes_scanned += part.file.metadata().bytes_scanned;
            start = part.end();
            parts.push(part);
        }
        let partition_values: Vec<_> = parts.iter().map(|part| hive_partitions::partition_values(&part.path)).collect();
        for (part, added_columns) in parts
            .iter_mut()
            .zip(hive_partitions::partition_columns(&partition_values))
            .filter(|(_, added_columns)| !added_columns.is_empty())
        {
            part.file = Arc::new(ExtendedFile::new(&part.path, Arc::clone(&part.file), added_columns));
        }
        // all files are read with the same column types
        let mut reading = TextReadOptions::default();
        parts.iter().for_each(|part| reading.fill_from(&part.file.reading()));
        let has_new_types =
            reading.types.iter().any(|(name, column_type)| options.reading.types.get(name) != Some(column_type));
        if has_new_types && parts.iter().any(|part| !part.agrees_with(&reading)) {
            return Self::open_with(paths, &options.clone().with_reading(reading));
        }
        let has_sparse = |part: &TablePart| part.file.metadata().schema.has_sparse();
        if options.sparse_rule == SparseRule::IfSmaller && parts.iter().any(has_sparse) && !parts.iter().all(has_sparse)
        {
            // a table has one kind of rows: if the rows of one file are sparse, the rows of all
            // files are
            return Self::open_with(paths, &options.clone().sparse());
        }
        if parts.is_empty() {
            return Err(Error::Empty {
                what: "table".to_string(),
                why: "no file was named; name at least one file, folder or pattern".to_string(),
            });
        }
        let files: Vec<_> = parts.iter().map(|part| (part.path.as_path(), &part.file)).collect();
        let (schema, difference) = union_schema::union_schema(&files, options.without_header)?;
        // a column that is text in one of the files is read as text in all of them
        let has_default_type =
            |name: &&str| !options.types.contains_key(*name) && !options.reading.types.contains_key(*name);
        let text_columns = union_schema::mixed_text_columns(&files, &schema).into_iter().filter(has_default_type);
        let types: BTreeMap<_, _> = text_columns.map(|name| (name.to_string(), ColumnType::Text)).collect();
        if !types.is_empty() {
            let options = options.clone().with_reading(TextReadOptions { types, ..TextReadOptions::default() });
            return Ok(Self { schema_difference: difference, ..Self::open_with(paths, &options)? });
        }
        let schema = Arc::new(schema);
        parts.iter_mut().for_each(|part| part.file = ExtendedFile::with_schema(&part.path, &part.file, &schema));
        let table = Self {
            schema_difference: difference,
            bytes_read: Arc::new(bytes_scanned.into()),
            ..Self::new(parts, schema)
        };
        table.check_types(options).map(|()| table)
    }

    fn new(parts: Vec<TablePart>, schema: Arc<Schema>) -> Self {
        let (bytes_read, schema_difference, target_path, digests, lags) = Default::default();
        Self { parts: Arc::new(parts), schema, schema_difference, target_path, bytes_read, digests, lags }
    }

    /// Rejects a requested type if the column does not exist, or if the column has another type
    /// that its file stores (only text files can be read with a requested type).
    fn check_types(&self, options: &TextOptions) -> Result<()> {
        for (name, column_type) in &options.types {
            let column = self.column_index(name)?;
            let has_requested_type = match (column_type, &self.schema.columns[column].kind) {
                (ColumnType::Text, kind) => *kind == Kind::Text,
                (ColumnType::Number(_), kind) => matches!(kind, Kind::Float { .. } | Kind::Int { .. }),
                (ColumnType::Date(_), kind) => matches!(kind, Kind::Time(_)),
            };
            if !has_requested_type {
                return Err(self.wrong_type_error(column, "`types` applies to .csv only, because other files store their types; remove the column from `types`"));
            }
        }
        Ok(())
    }

    /// Returns a table from any implementation of [`TableFile`], such as rows in memory. In
    /// messages, `name` stands for its path.
    ///
    /// Every read must return the same rows.
    pub fn from_file(name: &str, file: Arc<dyn TableFile>) -> Self {
        let schema = Arc::new(file.metadata().schema.clone());
        let part = TablePart { path: name.into(), file, first_row: 0, identities: Vec::new() };
        Self::new(vec![part], schema)
    }

    /// Returns a table of n rows in memory. `x` is n x d, row-major, and becomes the columns `x0`,
    /// `x1`, …. `y` is empty, or has one target for each row (column `y`), or is n x t, row-major
    /// (columns `y0`, `y1`, …).
    ///
    /// ```
    /// let table = kstore::Table::from_rows(&[1.0f32, 2.0, 3.0, 4.0], 2, &[5.0, 6.0])?;
    /// assert_eq!((table.stored_rows(), table.schema().columns.len()), (2, 3));
    /// # Ok::<(), kstore::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Syntax`] for slices whose lengths do not match.
    pub fn from_rows<T: Float>(x: &[T], d: usize, y: &[f64]) -> Result<Self> {
        Ok(Self::from_file("memory", Arc::new(BatchTable::from_rows(x, d, y)?)))
    }

    /// Returns a table of sparse rows in memory, in one column `x`, and of targets as in
    /// [`Table::from_rows`]. `x` has the layout of [`crate::sparse`] in blocks.
    ///
    /// # Errors
    /// [`Error::Syntax`] for slices whose lengths do not match.
    #[doc(hidden)]
    pub fn from_sparse_rows<T: Float>(x: &[T], shape: SparseShape, y: &[f64]) -> Result<Self> {
        Ok(Self::from_file("memory", Arc::new(BatchTable::from_sparse_rows(x, shape, y)?)))
    }

    /// Returns a table of Arrow record batches in memory, without copying.
    ///
    /// # Errors
    /// [`Error::Empty`] without rows; [`Error::Malformed`] for batches with different
    /// columns.
    pub fn from_batches(batches: Vec<crate::arrow::array::RecordBatch>) -> Result<Self> {
        Ok(Self::from_file(TABLE_IN_MEMORY, Arc::new(BatchTable::new(batches)?)))
    }

    /// Returns a table of `row_count` rows that another process stores. The job describes the
    /// columns of the table. Reading a row returns [`Error::NotInShard`].
    #[doc(hidden)]
    pub fn absent(schema: Schema, row_count: u64) -> Self {
        Self::from_file("the table of the shards", Arc::new(AbsentRows::new(schema, 0..row_count)))
    }

    /// Returns the whole table of `total_rows` rows, of which this table is the shard that begins
    /// at row `first_row`. The other rows are absent: reading one returns [`Error::NotInShard`].
    ///
    /// ```
    /// let shard = kstore::Table::from_rows(&[1.0f32, 2.0], 1, &[])?.part_of(10, 4)?;
    /// assert_eq!(shard.stored_rows(), 10);
    /// # Ok::<(), kstore::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Syntax`] if the shard extends beyond the whole table.
    pub fn part_of(self, total_rows: u64, first_row: u64) -> Result<Self> {
        let end = first_row.saturating_add(self.stored_rows());
        if end > total_rows {
            let expected = format!(
                "the {} rows of the shard from this row on must end within the {total_rows} rows of the whole table",
                self.stored_rows()
            );
            return Err(Error::Syntax { what: "`first_row`", text: first_row.to_string(), expected });
        }
        let absent_part = |rows: Range<u64>| TablePart {
            path: self.first_path(),
            first_row: rows.start,
            file: Arc::new(AbsentRows::new(self.schema().clone(), rows)),
            identities: Vec::new(),
        };
        let shifted_parts =
            self.parts.iter().map(|part| TablePart { first_row: part.first_row + first_row, ..part.clone() });
        let (part_before, part_after) = (
            (first_row > 0).then(|| absent_part(0..first_row)),
            (end < total_rows).then(|| absent_part(end..total_rows)),
        );
        Ok(Self { parts: Arc::new(part_before.into_iter().chain(shifted_parts).chain(part_after).collect()), ..self })
    }

    /// Adds columns of numbers. `columns_from` returns them for the file whose first row has this
    /// number. `identity` is the identity of their own file.
    pub(crate) fn with_number_columns(
        self,
        columns_from: impl Fn(u64) -> Vec<(String, AddedColumn)>,
        identity: Option<&Identity>,
    ) -> Self {
        let with_columns = |part: &TablePart| {
            let file = ExtendedFile::new(&part.path, Arc::clone(&part.file), columns_from(part.first_row));
            let identities = part.identities.iter().chain(identity).cloned().collect();
            TablePart { file: Arc::new(file), identities, ..part.clone() }
        };
        let parts = self.parts.iter().map(with_columns).collect();
        let mut schema = Schema::clone(&self.schema);
        let float_column = |(name, _)| Column { name, kind: Kind::Float { bits: 64 } };
        schema.columns.extend(columns_from(0).into_iter().map(float_column));
        Self { parts: Arc::new(parts), schema: Arc::new(schema), ..self }
    }

    /// Returns the columns.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the lags among the columns, if there are any.
    #[doc(hidden)]
    pub fn lags(&self) -> Option<&Lags> {
        self.lags.as_ref().map(|lags| &lags.0)
    }

    /// Returns the memory plan of the pass that computed the lags.
    #[doc(hidden)]
    pub fn lag_plan(&self) -> Option<&MemoryPlan> {
        self.lags.as_ref().map(|lags| &lags.1)
    }

    /// Returns the number of rows in all files.
    pub fn stored_rows(&self) -> u64 {
        self.parts.last().map_or(0, TablePart::end)
    }

    /// Returns the files without the target file, in the order of reading.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// Returns the file of the column `y`, if there is one.
    #[doc(hidden)]
    pub fn target_file(&self) -> Option<&Path> {
        self.target_path.as_deref()
    }

    /// Returns the identities of the files when they were opened, each once, the target file last.
    #[doc(hidden)]
    pub fn identities(&self) -> Vec<Identity> {
        let file_identities = self.parts.iter().filter_map(|part| part.identities.first());
        let target_identity = self.parts.first().and_then(|part| part.identities.get(1));
        file_identities.chain(target_identity).cloned().collect()
    }

    /// Returns the bytes on disk, without the target file.
    pub fn file_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.file.metadata().file_bytes).sum()
    }

    /// Returns the bytes of memory for metadata about rows and columns of the open files.
    #[doc(hidden)]
    pub fn metadata_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.file.resident_bytes()).sum()
    }

    /// Returns remarks on how the values are read: a remark on the differences between the columns
    /// of the files, and the first remark of any file.
    #[doc(hidden)]
    pub fn note(&self) -> Option<String> {
        let file_note = self.parts.iter().find_map(|part| part.file.note());
        let notes: Vec<String> = self.schema_difference.iter().cloned().chain(file_note).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Returns the non-default options with which the columns of the text files are read. Related
    /// files, such as a test set, must be read the same way.
    #[doc(hidden)]
    pub fn text_read_options(&self) -> TextReadOptions {
        let mut reading = TextReadOptions::default();
        self.parts.iter().for_each(|part| reading.fill_from(&part.file.reading()));
        reading
    }

    /// Returns the name of the format. If the files have different formats, it is the format of the
    /// first file.
    pub fn format(&self) -> &'static str {
        self.parts.first().map_or("", |part| part.file.metadata().format)
    }

    /// Returns whether the rows are record batches in memory, which no option reads differently.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.format() == RECORD_BATCHES
    }

    /// Returns the bytes that were read from the files so far, over all sources made from this
    /// table. Headers and footers do not count. The pass that finds the rows of a text file counts.
    #[doc(hidden)]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    pub(crate) fn with_new_byte_counter(&self) -> Self {
        Self { bytes_read: Arc::default(), digests: None, ..self.clone() }
    }

    /// Returns a copy that adds its rows to `digests` as they are read, until the digests are
    /// closed.
    pub(crate) fn with_digests(&self, digests: &Arc<RowDigests>) -> Self {
        Self { digests: Some(Arc::clone(digests)), ..self.clone() }
    }

    pub(crate) fn without_digests(&self) -> Self {
        Self { digests: None, ..self.clone() }
    }

    /// Returns the file that contains a stored row, and the row number within that file.
    #[doc(hidden)]
    pub fn locate(&self, row: u64) -> Option<(&Path, u64)> {
        let part = self.parts.iter().find(|part| (part.first_row..part.end()).contains(&row))?;
        Some((&part.path, row - part.first_row))
    }

    pub(crate) fn schema_difference(&self) -> Option<&str> {
        self.schema_difference.as_deref()
    }

    pub(crate) fn parts(&self) -> &[TablePart] {
        &self.parts
    }

    pub(crate) fn first_path(&self) -> PathBuf {
        self.parts.first().map(|part| part.path.clone()).unwrap_or_default()
    }

    /// Returns the index of a column, or an error that suggests another name.
    pub(crate) fn column_index(&self, name: &str) -> Result<usize> {
        self.schema.position(name).ok_or_else(|| self.no_such_column_error(name))
    }

    pub(crate) fn empty_error(&self, why: impl Into<String>) -> Error {
        Error::Empty { what: self.first_path().display().to_string(), why: why.into() }
    }

    pub(crate) fn no_such_column_error(&self, name: &str) -> Error {
        Error::NoSuchColumn { path: self.first_path(), name: name.to_string(), hint: self.schema.hint(name) }
    }
}

fn is_empty_text_file(path: &Path) -> bool {
    let is_text = source::format_by_extension(path).is_some_and(source::Format::is_text);
    is_text && std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0)
}
