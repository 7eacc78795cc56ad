//! The fixed tree over stored rows along which the states of segments are merged.
//!
//! [`STRETCH_SEGMENTS`] segments form a stretch (a reduction block), whose states are merged in
//! order. The total merges the states of the stretches in order. Stretches begin at multiples of a
//! fixed number of stored rows. The bits of the state of a stretch, and of the total, therefore do
//! not depend on the machine, the threads or the lanes that compute it.

use super::Merge;
use crate::Result;
use crate::checkpoint::{Arrays, Persist, StoredArrays};

/// Number of segments of a stretch. Processes exchange the states of stretches, because
/// stretches are 32 times fewer than segments.
pub const STRETCH_SEGMENTS: u64 = 32;

/// The states merged so far: of all complete stretches, and of the stretch being filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree<S> {
    total: Option<S>,
    stretch_state: Option<S>,
    /// Number of the stretch that is being filled.
    stretch_index: u64,
}

impl<S> Default for Tree<S> {
    fn default() -> Self {
        Self { total: None, stretch_state: None, stretch_index: 0 }
    }
}

impl<S: Merge> Tree<S> {
    /// Returns a tree of states made by `init`, into which the states of an earlier run can be
    /// loaded.
    pub(super) fn for_loading(init: impl Fn() -> S) -> Self {
        Self { total: Some(init()), stretch_state: Some(init()), stretch_index: 0 }
    }

    /// Adds the state of a segment, by its number among all stored rows.
    pub(super) fn add(&mut self, segment: u64, state: S) {
        let index = segment / STRETCH_SEGMENTS;
        if index != self.stretch_index {
            self.close_stretch();
            self.stretch_index = index;
        }
        merge_into(&mut self.stretch_state, state);
    }

    /// Returns the state of all added segments; `None` if there are none.
    pub(super) fn finish(mut self) -> Option<S> {
        self.close_stretch();
        self.total
    }

    fn close_stretch(&mut self) {
        if let Some(stretch) = self.stretch_state.take() {
            merge_into(&mut self.total, stretch);
        }
    }
}

/// Merges a later state into `sum`, or makes it the sum if there is none.
pub(super) fn merge_into<S: Merge>(sum: &mut Option<S>, later: S) {
    match sum {
        Some(sum) => sum.merge(&later),
        None => *sum = Some(later),
    }
}

/// Returns the maximum number of states that a pass holds at once: one per lane, the stretch and,
/// in a pass of more than one stretch, the total.
pub fn state_count(lanes: usize, segments: u64) -> usize {
    let merged_states = if segments > STRETCH_SEGMENTS { 2 } else { 1 };
    usize::try_from(segments).unwrap_or(usize::MAX).clamp(1, lanes + merged_states)
}

impl<S: Persist> Persist for Tree<S> {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        let presence = [self.total.is_some(), self.stretch_state.is_some()].map(u64::from);
        out.put_owned("tree", vec![self.stretch_index, presence[0], presence[1]]);
        for (name, state) in [("total", &self.total), ("stretch", &self.stretch_state)] {
            state.iter().for_each(|state| out.put_part(name, |out| state.save(out)));
        }
    }

    fn load(&mut self, arrays: &mut StoredArrays<'_>) -> Result<()> {
        let mut header = [0u64; 3];
        arrays.fill("tree", &mut header)?;
        self.stretch_index = header[0];
        for (is_present, name, state) in
            [(header[1], "total", &mut self.total), (header[2], "stretch", &mut self.stretch_state)]
        {
            match state.as_mut().filter(|_| is_present != 0) {
                Some(state) => arrays.read_part(name, |arrays| state.load(arrays))?,
                None => *state = None,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which segments came together, as text.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Order(String);

    impl Merge for Order {
        fn merge(&mut self, later: &Self) {
            self.0 = format!("({} {})", self.0, later.0);
        }
    }

    fn merge_order(segments: impl Iterator<Item = u64>) -> String {
        let mut tree = Tree::default();
        segments.for_each(|segment| tree.add(segment, Order(segment.to_string())));
        tree.finish().unwrap().0
    }

    #[test]
    fn one_stretch_is_merged_from_left_to_right() {
        assert_eq!(merge_order(0..4), "(((0 1) 2) 3)");
        assert_eq!(merge_order(70..73), "((70 71) 72)");
    }

    #[test]
    fn the_total_merges_the_states_of_stretches() {
        let whole = merge_order(30..100);
        let parts = [merge_order(30..32), merge_order(32..64), merge_order(64..96), merge_order(96..100)];
        let [a, b, c, d] = parts;
        assert_eq!(whole, format!("((({a} {b}) {c}) {d})"));
    }

    #[test]
    fn states_of_lanes_stretch_and_total_are_counted() {
        assert_eq!(
            [state_count(2, 1), state_count(2, 2), state_count(2, 32), state_count(2, 33), state_count(1, 0)],
            [1, 2, 3, 4, 1]
        );
    }
}
