//! Memory budgets: the bytes that each consumer needs, the available bytes, and the plan that
//! compares them before work starts.

mod machine;

pub use machine::{address_space_limit, allowed_threads, available_memory, default_memory, peak_rss, rss};

pub use crate::display::format_bytes;
use crate::{Error, Result};

/// Bytes that a consumer needs: `fixed`, plus `per_row` for each row of a tile (the rows that a
/// pass processes at once).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes that do not depend on the number of rows in a tile.
    pub fixed: usize,
    /// Bytes for each row of the tile.
    pub per_row: usize,
}

impl Footprint {
    /// Returns the bytes needed for a tile of `tile_rows` rows.
    pub fn bytes_for(self, tile_rows: usize) -> usize {
        self.fixed.saturating_add(self.per_row.saturating_mul(tile_rows))
    }
}

impl std::ops::Add for Footprint {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { fixed: self.fixed.saturating_add(other.fixed), per_row: self.per_row.saturating_add(other.per_row) }
    }
}

/// One line of a [`MemoryPlan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryTerm {
    /// Purpose of the bytes, as the report shows it.
    pub name: String,
    /// Number of bytes.
    pub bytes: usize,
    /// Advice for reducing the bytes, as the end of a sentence: "lower `rank`"; empty if only more
    /// memory helps.
    pub remedy: &'static str,
}

impl MemoryTerm {
    /// Returns a term with its purpose, its bytes and its remedy.
    pub fn new(name: impl Into<String>, bytes: usize, remedy: &'static str) -> Self {
        Self { name: name.into(), bytes, remedy }
    }
}

/// Bytes that a process uses before it reads rows: code, free pages of the allocator, buffers of
/// the terminal. If the program file was just written, the system maps 3 to 4 MiB more code than in
/// later runs (measured for the same run: 65.5 and 61.5 MiB).
const PROCESS_BYTES: usize = 29 << 20;

/// Bytes that each thread adds to [`PROCESS_BYTES`]: the touched part of its stack and of its
/// arena. Measured with 64 threads, with the program file in large pages of the page cache: 128 KiB
/// per thread, and 3.7 MiB in addition.
const THREAD_BYTES: usize = 192 << 10;

/// The memory of one stage of a run: the parts that exist at the same time, compared with a budget.
///
/// ```
/// use kpass::MemoryPlan;
/// let plan = MemoryPlan::new("ridge at rank 1000", 1 << 20)
///     .term("Gram matrix", 8_000_000, "lower `rank`");
/// let refused = plan.check().unwrap_err().to_string();
/// assert!(refused.contains("Gram matrix") && refused.contains("lower `rank`"), "{refused}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Name of the planned stage, as messages show it.
    pub stage: String,
    /// Allowed bytes.
    pub budget: usize,
    /// Parts of the memory that exist at the same time.
    pub terms: Vec<MemoryTerm>,
    /// Values that the stage stores as far as the budget allows, with the most bytes that they can
    /// use. The stage also runs without them.
    #[doc(hidden)]
    pub optional_terms: Vec<MemoryTerm>,
}

impl MemoryPlan {
    /// Returns an empty plan.
    pub fn new(stage: impl Into<String>, budget: usize) -> Self {
        Self { stage: stage.into(), budget, terms: Vec::new(), optional_terms: Vec::new() }
    }

    /// Returns a plan with the terms of every run: the process with its threads, and the metadata
    /// of the open files ([`crate::RowSource::metadata_bytes`]).
    pub fn for_process(stage: impl Into<String>, budget: usize, threads: usize, metadata_bytes: usize) -> Self {
        let thread_bytes = threads.saturating_mul(THREAD_BYTES);
        Self::new(stage, budget).term("the program itself", PROCESS_BYTES.saturating_add(thread_bytes), "").term(
            "metadata of the open files",
            metadata_bytes,
            "read fewer files, or files with fewer row groups",
        )
    }

    /// Adds a term.
    #[must_use]
    pub fn term(mut self, name: impl Into<String>, bytes: usize, remedy: &'static str) -> Self {
        self.terms.push(MemoryTerm { name: name.into(), bytes, remedy });
        self
    }

    /// Adds a term if a condition holds.
    #[must_use]
    pub fn term_if(self, condition: bool, name: impl Into<String>, bytes: usize, remedy: &'static str) -> Self {
        if condition { self.term(name, bytes, remedy) } else { self }
    }

    /// Adds values that the stage stores as far as the budget allows, with at most this many bytes.
    #[doc(hidden)]
    #[must_use]
    pub fn optional_term(mut self, name: impl Into<String>, bytes: usize) -> Self {
        self.optional_terms.push(MemoryTerm::new(name, bytes, ""));
        self
    }

    /// Returns the most bytes that the optional terms use within the budget.
    #[doc(hidden)]
    pub fn optional_bytes(&self) -> usize {
        let bytes = self.optional_terms.iter().fold(0usize, |sum, term| sum.saturating_add(term.bytes));
        bytes.min(self.budget.saturating_sub(self.bytes()))
    }

    /// Returns the sum of all terms, without the optional terms.
    pub fn bytes(&self) -> usize {
        self.terms.iter().fold(0, |sum, term| sum.saturating_add(term.bytes))
    }

    /// Returns the plan if it fits into the budget.
    ///
    /// # Errors
    /// [`Error::OverBudget`] with the largest term, if the plan does not fit. If this term has no
    /// remedy, the error has the remedy of the largest other term that exceeds the missing bytes.
    pub fn check(self) -> Result<Self> {
        let needed_bytes = self.bytes();
        if needed_bytes <= self.budget {
            return Ok(self);
        }
        let Some(largest) = self.terms.iter().max_by_key(|term| term.bytes) else { return Ok(self) };
        let missing_bytes = needed_bytes - self.budget;
        let reducible = self.terms.iter().filter(|term| !term.remedy.is_empty() && term.bytes > missing_bytes);
        let reducible = if largest.remedy.is_empty() { reducible.max_by_key(|term| term.bytes) } else { None };
        Err(Error::OverBudget {
            what: self.stage.clone(),
            needed: needed_bytes,
            budget: self.budget,
            largest: largest.name.clone(),
            largest_bytes: largest.bytes,
            remedy: reducible.unwrap_or(largest).remedy,
        })
    }
}

/// Parses `512MiB`, `2GiB`, `800MB`, `1.5g`, or plain bytes.
///
/// ```
/// assert_eq!(kpass::budget::parse_bytes("1.5GiB").unwrap(), 3 << 29);
/// assert!(kpass::budget::parse_bytes("much").is_err());
/// ```
///
/// # Errors
/// [`Error::Syntax`] for any other text.
pub fn parse_bytes(text: &str) -> Result<usize> {
    let syntax_error = || Error::Syntax {
        what: "size",
        text: text.to_string(),
        expected: "a number and a unit, such as 512MiB or 2GiB".to_string(),
    };
    let trimmed = text.trim();
    let unit_start = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let value: f64 = trimmed[..unit_start].parse().map_err(|_| syntax_error())?;
    let unit_bytes = match trimmed[unit_start..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024f64.powi(3),
        "t" | "tib" => 1024f64.powi(4),
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(syntax_error()),
    };
    Ok((value * unit_bytes) as usize)
}
