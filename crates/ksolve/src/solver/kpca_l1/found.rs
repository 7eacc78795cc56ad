//! Components that were found, and how a run that is resumed finds them again.

use kstore::checkpoint::{Arrays, Persist, Stored};

#[derive(Default)]
pub(super) struct SoFar {
    pub(super) directions: Vec<f64>,
    pub(super) iterations: Vec<f64>,
    /// Squared length of the row that the first component began with.
    pub(super) first: Option<f64>,
    pub(super) passes: u64,
}

/// A component: its direction and iterations, and the squared length of the row it began with.
pub(super) struct Component {
    pub(super) direction: Vec<f64>,
    pub(super) iterations: usize,
    pub(super) squared: f64,
}

impl SoFar {
    pub(super) fn push(&mut self, Component { direction, iterations, squared }: Component, passes: u64) {
        self.directions.extend(direction);
        self.iterations.push(iterations as f64);
        self.first = self.first.or(Some(squared));
        self.passes = passes;
    }
}

impl Persist for SoFar {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put("directions", &self.directions);
        out.put("iterations", &self.iterations);
        out.own("first", self.first.into_iter().collect::<Vec<f64>>());
        out.one("passes", self.passes);
    }

    fn load(&mut self, from: &mut Stored<'_>) -> kstore::Result<()> {
        self.directions = from.read("directions")?;
        self.iterations = from.read("iterations")?;
        self.first = from.read("first")?.first().copied();
        self.passes = from.one("passes")?;
        Ok(())
    }
}
