//! The pass that computes the lags of a table, and the forecast of several steps after it.
//!
//! The pass reads the rows once, in the order of the table, and writes the new columns to a
//! temporary file ([`ComputedColumns`]). Rows of several series may be interleaved. The state of a
//! series is the last values of its lagged columns, as many as the longest lag. A mean is summed
//! anew for every row, from the oldest value on: it depends on the values of its window only, and
//! rounding errors do not accumulate.

use crate::budget::MemoryPlan;
use crate::dates::{self, TimeForm};
use crate::future_rows::FutureRows;
use crate::lags::{LagColumn, Lags};
use crate::missing::Missing;
use crate::schema::Kind;
use crate::select::{OrderedValue, SelectedTable, Selection};
use crate::series::{NewColumn, SERIES_BYTES, Series, ValueColumn};
use crate::source::{AddedColumn, ComputedColumns};
use crate::table::Table;
use crate::text_limit::TextLimit;
use crate::{Error, KeptColumn, KeptValues, ReadSettings, Result, RowBlock, TableRows};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

const DAY_MICROSECONDS: i64 = 86_400_000_000;

/// The pass over a table that computes its lags.
#[derive(Debug)]
pub struct LagPass {
    lags: Lags,
    /// The columns of the series, of their order and of the values, as kept columns.
    selected: SelectedTable,
    by_slots: Vec<usize>,
    order_slot: Option<usize>,
    values: Vec<ValueColumn>,
    new_columns: Vec<NewColumn>,
    computed: ComputedColumns,
    series_by_name: HashMap<Vec<u8>, usize>,
    series: Vec<Series>,
    series_bytes: usize,
    /// Values of the new columns for the rows of a block.
    buffers: Vec<Vec<f64>>,
}

impl LagPass {
    /// Prepares the lags of a table. `targets` are the columns of a forecast: after the last row of
    /// a series in which one of them has a value, their values are not missing, but
    /// [`FutureRows`].
    ///
    /// # Errors
    /// Columns that do not exist or have the wrong type; lags without a column; a new column whose
    /// name is in use; a temporary file that cannot be created.
    pub fn new(table: &Table, lags: &Lags, targets: &[String]) -> Result<Self> {
        let syntax_error =
            |text: String, expected: &str| Error::Syntax { what: "`lags`", text, expected: expected.to_string() };
        let names = lags.names();
        if names.is_empty() {
            let expected = "`by` and `order` describe the rows of `lags` and `rolling`; name a column with its lags, such as count:1,24";
            return Err(syntax_error(lags.to_string(), expected));
        }
        if let Some(difference) = lags.difference.as_ref().filter(|difference| difference.rows.len() != 1) {
            let expected = "the target and one number of rows, such as count:1";
            return Err(Error::Syntax {
                what: "`difference`",
                text: difference.to_string(),
                expected: expected.into(),
            });
        }
        let mut used_names: HashSet<&str> = table.schema().columns.iter().map(|column| &*column.name).collect();
        if let Some(name) = names.iter().find(|name| !used_names.insert(name)) {
            let expected =
                "a new column has this name, which is in use; rename the existing column, or name each lag once";
            return Err(syntax_error(name.clone(), expected));
        }
        let mut keep = Vec::new();
        let mut slot = |name: &str| match keep.iter().position(|other| other == name) {
            Some(slot) => slot,
            None => {
                keep.push(name.to_string());
                keep.len() - 1
            }
        };
        for name in lags.by.iter().chain(&lags.order) {
            let column = table.column_index(name)?;
            if matches!(table.schema().columns[column].kind, Kind::Binary | Kind::Sparse(_) | Kind::Other(_)) {
                return Err(table.wrong_type_error(
                    column,
                    "series are named and ordered by texts, numbers or times; name another column with `by` or `order`",
                ));
            }
        }
        let by_slots: Vec<usize> = lags.by.iter().map(|name| slot(name)).collect();
        let order_slot = lags.order.as_deref().map(&mut slot);
        let (mut values, mut value_names) = (Vec::<ValueColumn>::new(), Vec::new());
        let mut new_columns = Vec::new();
        for LagColumn { column: name, past, base_rows, .. } in lags.columns() {
            let value = match value_names.iter().position(|other| *other == name) {
                Some(value) => value,
                None => {
                    let column = table.column_index(name)?;
                    table.expect_numbers(column, "past values must be numbers; name another column with `lags`")?;
                    value_names.push(name);
                    let target = targets.iter().position(|target| target == name);
                    values.push(ValueColumn { slot: slot(name), capacity: 0, target });
                    values.len() - 1
                }
            };
            values[value].capacity = values[value].capacity.max(past.rows_back()).max(base_rows.unwrap_or(0));
            new_columns.push(NewColumn { value, past, base_rows });
        }
        // a missing value is a past value too
        let selection = Selection { keep, without_features: true, missing: Missing::Mean, ..Selection::default() };
        Ok(Self {
            lags: lags.clone(),
            selected: table.select(&selection)?,
            by_slots,
            order_slot,
            values,
            buffers: vec![Vec::new(); new_columns.len()],
            new_columns,
            computed: ComputedColumns::create(table.stored_rows())?,
            series_by_name: HashMap::new(),
            series: Vec::new(),
            series_bytes: 0,
        })
    }

    /// Returns the rows that the pass reads.
    ///
    /// # Errors
    /// The errors of [`SelectedTable::rows`].
    pub fn rows(&self, text_limit: TextLimit) -> Result<TableRows<f64>> {
        self.selected.rows(ReadSettings { text_limit, ..ReadSettings::default() })
    }

    /// Returns the bytes of the new columns for a block of rows.
    pub fn block_bytes(&self, rows: usize) -> usize {
        // a growing vector may have twice the capacity that it needs
        2 * rows * self.new_columns.len() * size_of::<f64>()
    }

    /// Reads a block. The blocks must be consecutive. `plan` has the other memory of the pass.
    ///
    /// # Errors
    /// A row whose series or position in the order is missing; a row that is not later than the
    /// earlier rows of its series; [`Error::OverBudget`] if the values of the series do not fit
    /// into the memory; errors of writing.
    pub fn push(&mut self, block: &RowBlock<'_, f64>, plan: &MemoryPlan) -> Result<()> {
        let Some(first_row) = block.row_numbers.first() else { return Ok(()) };
        self.buffers.iter_mut().for_each(Vec::clear);
        let (mut name, mut numbers) = (Vec::new(), vec![f64::NAN; self.values.len()]);
        for (i, row) in block.row_numbers.iter().enumerate() {
            name.clear();
            for slot in &self.by_slots {
                if !append_name(&mut name, &block.kept_columns[*slot], i) {
                    let remedy = "name the series of every row, or remove the row from the table";
                    return Err(self.row_error(*row, *slot, "missing", remedy));
                }
            }
            let index = match self.series_by_name.get(&name) {
                Some(index) => *index,
                None => self.add_series(&name, plan)?,
            };
            if let Some(slot) = self.order_slot {
                let value = self.order_value(&block.kept_columns[slot], slot, i)?;
                let Some(value) = value else {
                    let remedy = "write the position of every row, or remove the row from the table";
                    return Err(self.row_error(*row, slot, "missing", remedy));
                };
                if self.series[index].last.as_ref().is_some_and(|last| *last >= value) {
                    let remedy = "sort the table by `order`, name all columns that identify a series with `by`, and sum up rows of the same time";
                    return Err(self.row_error(*row, slot, "not later than in an earlier row of its series", remedy));
                }
                self.series[index].last = Some(value);
            }
            for (number, column) in numbers.iter_mut().zip(&self.values) {
                let kept_column = &block.kept_columns[column.slot];
                let value = kept_column.values().number(i).filter(|value| value.is_finite() && !kept_column.is_null(i));
                *number = value.unwrap_or(f64::NAN);
            }
            let bytes_before = self.series[index].future_rows.capacity();
            self.push_row(index, *row, &numbers);
            let new_rows = self.series[index].future_rows.capacity() - bytes_before;
            if new_rows > 0 {
                self.add_bytes(new_rows * size_of::<u64>(), plan)?;
            }
        }
        for (column, buffer) in self.buffers.iter().enumerate() {
            self.computed.write(column, *first_row, buffer)?;
        }
        Ok(())
    }

    fn push_row(&mut self, index: usize, row: u64, numbers: &[f64]) {
        let Self { series, values, new_columns, buffers, .. } = self;
        let series = &mut series[index];
        let has_targets = values.iter().any(|column| column.target.is_some());
        let is_future = has_targets
            && values.iter().zip(numbers).all(|(column, number)| column.target.is_none() || number.is_nan());
        for (new_column, buffer) in new_columns.iter().zip(buffers) {
            let gap = if values[new_column.value].target.is_some() { series.future_rows.len() } else { 0 };
            buffer.push(new_column.number(&series.histories[new_column.value], gap, numbers[new_column.value]));
        }
        for (value, (column, number)) in values.iter().zip(numbers).enumerate() {
            if column.target.is_some() {
                if is_future {
                    continue;
                }
                // rows without a target before this row are gaps of the past
                for _ in 0..series.future_rows.len().min(column.capacity) {
                    series.push(value, column.capacity, f64::NAN);
                }
            }
            series.push(value, column.capacity, *number);
        }
        if is_future { series.future_rows.push(row) } else { series.future_rows.clear() }
    }

    fn add_series(&mut self, name: &[u8], plan: &MemoryPlan) -> Result<usize> {
        let histories = self.values.iter().map(|column| VecDeque::with_capacity(column.capacity)).collect();
        self.series.push(Series { last: None, histories, future_rows: Vec::new() });
        self.series_by_name.insert(name.to_vec(), self.series.len() - 1);
        let value_count: usize = self.values.iter().map(|column| column.capacity).sum();
        self.add_bytes(SERIES_BYTES + 2 * name.len() + value_count * size_of::<f64>(), plan)?;
        Ok(self.series.len() - 1)
    }

    fn add_bytes(&mut self, bytes: usize, plan: &MemoryPlan) -> Result<()> {
        self.series_bytes += bytes;
        if plan.bytes().saturating_add(self.series_bytes) > plan.budget {
            self.plan_with_series(plan).check()?;
        }
        Ok(())
    }

    /// Returns the position of a row in the order; `None` if it is missing.
    fn order_value(&self, column: &KeptColumn, slot: usize, row: usize) -> Result<Option<OrderedValue>> {
        let KeptValues::Text(texts) = column.values() else { return Ok(OrderedValue::of_row(column, row)) };
        let text = texts.text(row);
        if column.is_null(row) || text.is_empty() {
            return Ok(None);
        }
        match dates::parse_instant(text, TimeForm::YearFirst) {
            Some(instant) => Ok(Some(OrderedValue::Integer(instant.to_units(DAY_MICROSECONDS).0))),
            None => {
                let expected = format!(
                    "{text:?} is not a date like 2024-01-31, which orders rows; name a column of dates or numbers with `order`, or read \
                     the column as dates with `types`"
                );
                Err(self.selected.table().wrong_type_error(self.selected.keep[slot], &expected))
            }
        }
    }

    #[cold]
    fn row_error(&self, row: u64, slot: usize, value: &str, remedy: &'static str) -> Error {
        let table = self.selected.table();
        let column = table.schema().columns[self.selected.keep[slot]].name.clone();
        let (path, line, row) = match table.parts().iter().find(|part| (part.first_row..part.end()).contains(&row)) {
            Some(part) => (part.path.clone(), part.file.line_of_row(row - part.first_row), row - part.first_row),
            None => (table.first_path(), None, row),
        };
        Error::BadValue { path, row, line, column, value: value.to_string(), remedy }
    }

    fn plan_with_series(&self, plan: &MemoryPlan) -> MemoryPlan {
        let name = format!("the past values of {} series", self.series.len());
        plan.clone().term(name, self.series_bytes, "name smaller `lags`, or fewer series (`by`)")
    }

    /// Returns the table with the new columns, and the rows to forecast. `plan` is the plan of
    /// [`LagPass::push`].
    pub fn finish(self, plan: &MemoryPlan) -> (Table, FutureRows) {
        let plan = self.plan_with_series(plan);
        let Self { lags, selected, values, new_columns, computed, series, .. } = self;
        let names = lags.names();
        let columns_from = |first_row: u64| {
            let added = |column: usize| AddedColumn::Computed { columns: computed.clone(), column, first_row };
            names.iter().enumerate().map(|(column, name)| (name.clone(), added(column))).collect()
        };
        let mut table = selected.table().clone().with_number_columns(columns_from, None);
        table.lags = Some(Arc::new((lags, plan)));
        let forecast_columns = new_columns.into_iter().enumerate();
        let new_columns: Vec<_> =
            forecast_columns.filter(|(_, column)| values[column.value].target.is_some()).collect();
        let steps_per_round = new_columns.iter().map(|(_, column)| column.past.nearest_row()).min().unwrap_or(1);
        let series: Vec<Series> = series.into_iter().filter(|series| !series.future_rows.is_empty()).collect();
        (table, FutureRows { values, new_columns, computed, series, next_step: 0, steps_per_round })
    }
}

/// Appends the value of a row to the name of its series; returns false if the value is missing.
fn append_name(name: &mut Vec<u8>, column: &KeptColumn, row: usize) -> bool {
    if column.is_null(row) {
        return false;
    }
    match column.values() {
        KeptValues::Text(texts) => {
            // the length separates the texts of several columns
            name.extend_from_slice(&(texts.bytes(row).len() as u64).to_le_bytes());
            name.extend_from_slice(texts.bytes(row));
            !texts.bytes(row).is_empty()
        }
        values => match (values.integer(row), values.number(row)) {
            (Some(integer), _) => {
                name.extend_from_slice(&integer.to_le_bytes());
                true
            }
            (None, Some(number)) if !number.is_nan() => {
                // 0 and -0 are the same number
                name.extend_from_slice(&(number + 0.0).to_bits().to_le_bytes());
                true
            }
            _ => false,
        },
    }
}
