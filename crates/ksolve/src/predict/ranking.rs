//! The scores of a ranking on a table that has the grades.

use super::{Extras, Predictor};
use crate::score::{RankingRows, RankingScores};
use crate::{Error, Result, job::Run};
use kstore::{Selected, budget::Term};
use std::collections::HashMap;

/// Places of a group that are looked at, unless others are asked for.
const TOP: u64 = 10;

impl Predictor {
    /// Scores the order in which a model of one number puts the rows of every group of `selected`, beside the grades in its target; `top` places of
    /// each group are looked at, 10 unless given. Without a column of groups all rows are one.
    ///
    /// *Cost*: one pass, a row's prediction each, and n ln n. *Bytes*: those of [`Predictor::scores`], and 60 for each row.
    ///
    /// # Errors
    /// A model of several numbers, or of classes; several targets; errors of [`Predictor::scores`].
    pub fn ranking(&self, selected: &Selected, top: Option<u64>, run: &Run<'_>) -> Result<RankingScores> {
        let names = selected.target_names();
        if !self.card().task.has_target() || self.outputs() != 1 || self.classes().is_some() || names.len() != 1 {
            let why = "a model of one number for each row is compared with one column of grades; take another model, or evaluate without groups";
            return Err(Error::option("target", names.join(","), why));
        }
        let range = selected.range();
        let rows = selected.known_rows().unwrap_or(range.end - range.start);
        let held = Term::new(
            "rows to be ranked",
            RankingRows::bytes(usize::try_from(rows).unwrap_or(usize::MAX)),
            "evaluate fewer rows at a time",
        );
        // a digest of 64 bits in the place of a label, which may be long: two of a million are equal by a chance of one in thirty million
        let (mut found, mut codes) = (RankingRows::default(), HashMap::<u64, u32>::new());
        self.scores(selected, Extras::default(), vec![held], run, |block| {
            for (i, (score, grade)) in block.scores.iter().zip(&block.y).enumerate() {
                let next = codes.len() as u32;
                let group = block.groups.get(i).map_or(0, |label| *codes.entry(label.digest()).or_insert(next));
                found.push(group, *score, *grade);
            }
            Ok(())
        })?;
        Ok(found.scores(top.unwrap_or(TOP), run.workers()))
    }
}
