//! Candidate rows for landmark selection.

use crate::{Error, Result};
use std::str::FromStr;

/// Default number of candidate rows for each landmark. With this number the selection of landmarks
/// costs less than the fit.
const CANDIDATES_PER_RANK: u64 = 20;
/// Minimum of the default number of candidate rows.
const MIN_CANDIDATES: u64 = 50_000;

/// Candidate rows for the landmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Candidates {
    /// Every row; each round of the scheme is a pass over the table.
    All,
    /// A uniform sample of this many rows, in memory.
    Rows(u64),
}

impl std::fmt::Display for Candidates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Rows(n) => write!(f, "{n}"),
        }
    }
}

impl FromStr for Candidates {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse_count =
            || text.replace('_', "").parse().ok().filter(|n: &f64| *n >= 1.0 && n.fract() == 0.0 && *n <= 9e15);
        match text {
            "all" => Ok(Self::All),
            _ => parse_count()
                .map(|n| Self::Rows(n as u64))
                .ok_or_else(|| Error::option("candidates", text, "expected a number of rows, or all")),
        }
    }
}

impl Candidates {
    /// Returns the default number of candidates, max(20·rank, 50,000).
    #[doc(hidden)]
    pub fn default_for_rank(rank: usize) -> Self {
        Self::Rows(CANDIDATES_PER_RANK.saturating_mul(rank as u64).max(MIN_CANDIDATES))
    }

    /// Returns the number of rows; `None` for all rows.
    #[doc(hidden)]
    pub fn row_count(self) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Rows(n) => Some(usize::try_from(n).unwrap_or(usize::MAX)),
        }
    }
}
