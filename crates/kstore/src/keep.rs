//! Columns that are carried along unchanged, such as an id beside a prediction.

use crate::schema::Kind;
use crate::sink::{Output, OutputColumn, OutputKind};
use crate::source::{FileCursor, Positions, View};
use crate::table::{Part, Table};
use crate::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Some columns of a table, to be copied row by row.
#[derive(Clone, Debug)]
pub struct Kept {
    table: Table,
    columns: Vec<usize>,
}

/// Values of a kept column.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum KeptValues {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
    Bool(Vec<bool>),
    Text(Vec<Arc<str>>),
}

impl KeptValues {
    /// The values as a sink takes them.
    pub fn as_output(&self) -> Output<'_> {
        match self {
            Self::F32(v) => Output::F32(v),
            Self::F64(v) => Output::F64(v),
            Self::I64(v) => Output::I64(v),
            Self::Bool(v) => Output::Bool(v),
            Self::Text(v) => Output::Text(v),
        }
    }

    fn empty(kind: OutputKind) -> Self {
        match kind {
            OutputKind::F32 => Self::F32(Vec::new()),
            OutputKind::F64 => Self::F64(Vec::new()),
            OutputKind::I64 => Self::I64(Vec::new()),
            OutputKind::Bool => Self::Bool(Vec::new()),
            OutputKind::Text => Self::Text(Vec::new()),
        }
    }

    /// Appends the value in `row`; what stands there instead of a value, if there is none.
    fn push(&mut self, view: &View<'_>, row: usize) -> Result<(), &'static str> {
        let mut number = [f64::NAN];
        if let Self::F32(_) | Self::F64(_) = self {
            view.load(Positions::From(row), &mut number);
        } else if view.is_null(row) {
            return Err("missing");
        }
        let whole = || view.integer(row).ok_or("no whole number");
        match self {
            Self::F32(values) => values.push(number[0] as f32),
            Self::F64(values) => values.push(number[0]),
            Self::I64(values) => values.push(i64::try_from(whole()?).map_err(|_| "too large for int64")?),
            Self::Bool(values) => values.push(whole()? != 0),
            Self::Text(values) => values.push(view.text(row).ok_or("no text")?.into()),
        }
        Ok(())
    }
}

impl Table {
    /// Columns to carry along, by name.
    pub fn keep(&self, names: &[String]) -> Result<Kept> {
        let columns = names.iter().map(|name| self.column(name)).collect::<Result<Vec<_>>>()?;
        for column in &columns {
            let column = &self.schema().columns[*column];
            if let Kind::Other(_) = column.kind {
                return Err(Error::WrongType {
                    path: self.first_path(),
                    column: column.name.clone(),
                    got: column.kind.to_string(),
                    expected: "only numbers, truth values and text can be carried along".to_string(),
                });
            }
        }
        Ok(Kept { table: self.clone(), columns })
    }
}

impl Kept {
    /// Names and kinds, as a sink takes them: integers of every size become int64.
    pub fn columns(&self) -> Vec<OutputColumn> {
        let columns = self.columns.iter().map(|column| &self.table.schema().columns[*column]);
        columns.map(|column| OutputColumn::new(&column.name, kind(&column.kind))).collect()
    }

    /// Bytes that an open cursor holds.
    pub fn footprint(&self) -> usize {
        self.table.parts().iter().map(|part| part.file.footprint(&self.columns)).max().unwrap_or(0)
    }

    /// A cursor that copies rows among these stored rows.
    pub fn open(&self, rows: Range<u64>) -> KeptCursor<'_> {
        KeptCursor { kept: self, end: rows.end, open: None }
    }
}

fn kind(kind: &Kind) -> OutputKind {
    match kind {
        Kind::Float { bits: 64 } => OutputKind::F64,
        Kind::Float { .. } => OutputKind::F32,
        Kind::Int { .. } => OutputKind::I64,
        Kind::Bool => OutputKind::Bool,
        Kind::Text | Kind::Other(_) => OutputKind::Text,
    }
}

/// A place in the kept columns; goes forward only.
pub struct KeptCursor<'a> {
    kept: &'a Kept,
    end: u64,
    open: Option<Open<'a>>,
}

/// A file being read, and the stored rows of the chunk at hand.
struct Open<'a> {
    cursor: Box<dyn FileCursor + 'a>,
    part: &'a Part,
    rows: Range<u64>,
}

impl std::fmt::Debug for KeptCursor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptCursor").field("kept", self.kept).finish_non_exhaustive()
    }
}

impl<'a> KeptCursor<'a> {
    /// The values of some stored rows, ascending and after those of the call before; one entry per column.
    pub fn take(&mut self, rows: &[u64]) -> Result<Vec<KeptValues>> {
        let kept = self.kept;
        let mut values: Vec<_> = kept.columns().iter().map(|column| KeptValues::empty(column.kind)).collect();
        let mut done = 0;
        while let Some(row) = rows.get(done) {
            let Some(open) = self.reach(*row)? else { return Err(kept.beyond(*row)) };
            let here = rows[done..].partition_point(|row| open.rows.contains(row));
            for (slot, values) in values.iter_mut().enumerate() {
                let view = open.cursor.view(slot)?;
                for row in &rows[done..done + here] {
                    let pushed = values.push(&view, (row - open.rows.start) as usize);
                    pushed.map_err(|value| kept.bad_value(slot, *row, value))?;
                }
            }
            done += here;
        }
        Ok(values)
    }

    /// Reads on to the chunk that holds `row`; `None` where no row of that number is left.
    fn reach(&mut self, row: u64) -> Result<Option<&Open<'a>>> {
        loop {
            match &mut self.open {
                Some(open) if open.rows.contains(&row) => break,
                Some(open) if row >= open.rows.end && row < open.part.end() => {
                    let more = open.cursor.advance()? as u64;
                    if more == 0 {
                        return Ok(None);
                    }
                    open.rows = open.rows.end..open.rows.end + more;
                }
                Some(open) if row < open.rows.start => return Ok(None),
                _ => match self.kept.start(row, self.end)? {
                    None => return Ok(None),
                    next => self.open = next,
                },
            }
        }
        Ok(self.open.as_ref())
    }
}

impl Kept {
    /// Opens the file that holds `row`, from there to `end`.
    fn start(&self, row: u64, end: u64) -> Result<Option<Open<'_>>> {
        let parts = self.table.parts();
        let Some(part) = parts.get(parts.partition_point(|part| part.end() <= row)).filter(|_| row < end) else {
            return Ok(None);
        };
        let rows = row - part.start..end.min(part.end()) - part.start;
        let cursor = part.file.open(&self.columns, rows, &self.table.read)?;
        Ok(Some(Open { cursor, part, rows: row..row }))
    }

    fn bad_value(&self, slot: usize, row: u64, value: &str) -> Error {
        let (path, row) = self.table.locate(row).map_or_else(Default::default, |(path, row)| (path.to_path_buf(), row));
        let line = None;
        let column = self.table.schema().columns[self.columns[slot]].name.clone();
        Error::BadValue {
            path,
            row,
            line,
            column,
            value: value.to_string(),
            remedy: "clean the data or leave the column out of --keep",
        }
    }

    fn beyond(&self, row: u64) -> Error {
        let why = format!("row {row} cannot be copied: it was passed already or lies beyond the range");
        Error::Empty { what: self.table.first_path().display().to_string(), why }
    }
}
