//! Storage of the features between passes.

use crate::request::{ProblemSize, Resources};
use kstore::Plan;

/// States of a fold: of the segment, of the reduction block, and of the blocks before.
pub const STATES: usize = 3;

/// Bytes of row values in the states of a fold. The states together have the values of all rows,
/// and their memory doubles as it grows.
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
    /// Nowhere: every pass recomputes the features.
    #[default]
    Recomputed,
}

impl FeatureTier {
    /// Chooses the tier for the features of `shape` given the memory of `plan`, and adds them to
    /// the plan.
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
        // like the cache: a row number and two codes in addition to the features
        let on_disk = (needed as u64).saturating_add(16 * shape.n);
        match resources.scratch {
            Some(scratch) if on_disk <= scratch.left() => (Self::Scratch, plan),
            _ => (Self::Recomputed, plan),
        }
    }

    /// A warning if every pass recomputes the features; else `None`.
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
