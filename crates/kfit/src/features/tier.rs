//! Storage of the features between passes.

use crate::request::{ProblemSize, Resources};
use kstore::MemoryPlan;

/// Number of states that a reduction holds in memory: the state of the current segment, the state
/// of the current reduction block (a range of consecutive segments), and the merged state of all
/// earlier blocks.
pub const STATES_PER_REDUCTION: usize = 3;

/// Returns the bytes of row values in the states of a reduction. Together the states contain the
/// values of all rows, and a vector that grows doubles its capacity.
pub(crate) fn row_values_bytes(count: usize, element_bytes: usize) -> usize {
    count.saturating_mul(3 * element_bytes)
}

/// Bytes of features that processes of a shared run exchange at once.
const EXCHANGED_BYTES: usize = 16 << 20;

/// Returns the number of rows whose features are exchanged at once.
pub(super) fn exchange_row_count(p: usize, element_bytes: usize) -> usize {
    (EXCHANGED_BYTES / (p * element_bytes).max(1)).max(256)
}

fn exchange_bytes(p: usize, element_bytes: usize) -> usize {
    row_values_bytes(exchange_row_count(p, element_bytes) * p, element_bytes)
}

/// Where the features are stored between passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeatureTier {
    /// In memory.
    Memory,
    /// In the scratch folder.
    Scratch,
    /// Not stored: every pass recomputes the features.
    #[default]
    Recomputed,
}

impl FeatureTier {
    /// Chooses the tier for the features of a problem of this size from the memory that `plan`
    /// leaves. Returns the tier and the plan with the features added.
    pub fn select(plan: MemoryPlan, size: &ProblemSize, resources: &Resources<'_>) -> (Self, MemoryPlan) {
        let plan = match resources.journal.is_some_and(|journal| journal.is_shared()) {
            true => plan.term("features that processes exchange", exchange_bytes(size.map.p, size.element_bytes), ""),
            false => plan,
        };
        let rows = usize::try_from(size.n).unwrap_or(usize::MAX);
        let feature_bytes = rows.saturating_mul(size.map.p).saturating_mul(size.element_bytes);
        if plan.bytes().saturating_add(feature_bytes) <= plan.budget {
            return (Self::Memory, plan.term("features of all rows", feature_bytes, ""));
        }
        // a cached row has a row number and two codes in addition to its features
        let scratch_bytes = (feature_bytes as u64).saturating_add(16 * size.n);
        match resources.scratch {
            Some(scratch) if scratch_bytes <= scratch.remaining() => (Self::Scratch, plan),
            _ => (Self::Recomputed, plan),
        }
    }

    /// Returns a warning if every pass recomputes the features; else `None`.
    pub fn warning(self, size: &ProblemSize) -> Option<String> {
        let rows = usize::try_from(size.n).unwrap_or(usize::MAX);
        let bytes = kstore::budget::format_bytes(rows.saturating_mul(size.map.p).saturating_mul(size.element_bytes));
        match self {
            Self::Memory | Self::Scratch => None,
            Self::Recomputed => Some(format!(
                "the features ({bytes}) fit neither `memory` nor a scratch folder and are recomputed in every pass; \
                 give `scratch` DIR or raise `memory`"
            )),
        }
    }
}
