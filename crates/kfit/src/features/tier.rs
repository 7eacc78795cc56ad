//! Storage of the features between passes.

use crate::request::{ProblemSize, Resources};
use kstore::Plan;

/// Number of states that a fold has in memory: the segment's, the reduction block's, and the merged
/// state of earlier blocks.
pub const STATES: usize = 3;

/// Returns the bytes of row values in the states of a fold: the states together contain the values
/// of all rows, and a growing vector doubles its capacity.
pub fn values_bytes(numbers: usize, element: usize) -> usize {
    numbers.saturating_mul(3 * element)
}

/// Bytes of features that processes of a shared run exchange at once.
const EXCHANGED: usize = 16 << 20;

/// Number of rows whose features are exchanged at once.
pub(super) fn exchanged(p: usize, element: usize) -> usize {
    (EXCHANGED / (p * element).max(1)).max(256)
}

fn exchange_bytes(p: usize, element: usize) -> usize {
    values_bytes(exchanged(p, element) * p, element)
}

/// Where the features are between passes.
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
    /// Chooses the tier for the features of a problem of this size, given the memory that `plan`
    /// leaves, and adds the features to the plan.
    pub fn choose(plan: Plan, shape: &ProblemSize, resources: &Resources<'_>) -> (Self, Plan) {
        let plan = match resources.journal.is_some_and(|journal| journal.is_shared()) {
            true => plan.term("features that processes exchange", exchange_bytes(shape.map.p, shape.element), ""),
            false => plan,
        };
        let rows = usize::try_from(shape.n).unwrap_or(usize::MAX);
        let needed = rows.saturating_mul(shape.map.p).saturating_mul(shape.element);
        if plan.bytes().saturating_add(needed) <= plan.budget {
            return (Self::Memory, plan.term("features of all rows", needed, ""));
        }
        // a cached row has a row number and two codes in addition to its features
        let on_disk = (needed as u64).saturating_add(16 * shape.n);
        match resources.scratch {
            Some(scratch) if on_disk <= scratch.left() => (Self::Scratch, plan),
            _ => (Self::Recomputed, plan),
        }
    }

    /// Returns a warning if every pass recomputes the features; else `None`.
    pub fn warning(self, shape: &ProblemSize) -> Option<String> {
        let rows = usize::try_from(shape.n).unwrap_or(usize::MAX);
        let bytes = kstore::budget::bytes(rows.saturating_mul(shape.map.p).saturating_mul(shape.element));
        match self {
            Self::Memory | Self::Scratch => None,
            Self::Recomputed => Some(format!(
                "the features ({bytes}) fit neither `memory` nor a scratch folder and are recomputed in every pass; \
                 give `scratch` DIR or raise `memory`"
            )),
        }
    }
}
