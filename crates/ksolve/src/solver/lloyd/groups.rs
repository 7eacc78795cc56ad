//! The sums of the points of every cluster: the state of an iteration.

use super::FAR;
use kstore::Merge;
use kstore::checkpoint::{Arrays, Persist, Stored};

/// Sums over the points of each cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Groups {
    /// Sums of the points of each cluster, k x q, row-major.
    pub(super) sums: Vec<f64>,
    pub(super) sizes: Vec<u64>,
    pub(super) squares: f64,
    /// The points farthest from their centroid, farthest first; of equals the earlier row.
    pub(super) far: Vec<(f64, Vec<f64>)>,
}

impl Groups {
    pub(super) fn new(k: usize, q: usize) -> Self {
        Self { sums: vec![0.0; k * q], sizes: vec![0; k], squares: 0.0, far: Vec::new() }
    }

    pub(super) fn push_far(&mut self, distance: f64, point: &[f64]) {
        let full = self.far.len() == FAR;
        if distance <= 0.0 || full && self.far.last().is_some_and(|last| distance <= last.0) {
            return;
        }
        let at = self.far.partition_point(|(other, _)| *other >= distance);
        self.far.insert(at, (distance, point.to_vec()));
        self.far.truncate(FAR);
    }
}

impl Merge for Groups {
    fn merge(&mut self, later: &Self) {
        self.sums.iter_mut().zip(&later.sums).for_each(|(mine, theirs)| *mine += theirs);
        self.sizes.iter_mut().zip(&later.sizes).for_each(|(mine, theirs)| *mine += theirs);
        self.squares += later.squares;
        later.far.iter().for_each(|(distance, point)| self.push_far(*distance, point));
    }
}

impl Persist for Groups {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put("sums", &self.sums);
        out.put("sizes", &self.sizes);
        out.one("squares", self.squares);
        out.own("far", self.far.iter().map(|(distance, _)| *distance).collect());
        out.own("points", self.far.iter().flat_map(|(_, point)| point).copied().collect());
    }

    fn load(&mut self, from: &mut Stored<'_>) -> kstore::Result<()> {
        from.fill("sums", &mut self.sums)?;
        from.fill("sizes", &mut self.sizes)?;
        self.squares = from.one("squares")?;
        let (far, points): (Vec<f64>, Vec<f64>) = (from.read("far")?, from.read("points")?);
        let q = self.sums.len() / self.sizes.len().max(1);
        self.far = far.into_iter().zip(points.chunks(q.max(1)).map(<[f64]>::to_vec)).collect();
        Ok(())
    }
}
