//! Rows as nodes of a graph: nearest neighbours, shortest paths, and weights that reconstruct a row
//! from its neighbours.
//!
//! Distances are Euclidean, between scaled rows (after the metric, if any). They are computed from
//! sums of squared differences in f64, which avoid the cancellation of formulas with inner
//! products. Every search compares a row with all N nodes, in 3Nd flops, and finds the same
//! neighbours for any number of threads. If two nodes are equally near, the one with the smaller
//! index counts as nearer.

mod feature_map;
mod graph;
mod reconstruction;

pub use feature_map::NeighbourFunctions;
pub use graph::{Graph, neighbours_of_nodes};
pub use reconstruction::Reconstruction;

use kapprox::Real;

/// A node near a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    pub squared_distance: f64,
    pub node: usize,
}

/// N nodes of d features, in f64.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// Features, N x d column-major.
    columns: Vec<f64>,
    count: usize,
    d: usize,
}

impl Nodes {
    /// Returns the nodes with the features `points`, N x d row-major.
    pub fn new<T: Real>(points: &[T], d: usize) -> Self {
        let count = points.len() / d.max(1);
        let columns = (0..d).flat_map(|c| points.iter().skip(c).step_by(d).map(|v| v.to_f64())).collect();
        Self { columns, count, d }
    }

    /// Returns the bytes of the features.
    pub fn bytes(node_count: usize, d: usize) -> usize {
        node_count.saturating_mul(8 * d)
    }

    /// Returns the number of nodes, N.
    pub fn count(&self) -> usize {
        self.count
    }

    fn value(&self, i: usize, c: usize) -> f64 {
        self.columns[c * self.count + i]
    }

    /// Returns the features of node i.
    pub fn point(&self, i: usize) -> Vec<f64> {
        (0..self.d).map(|c| self.value(i, c)).collect()
    }

    /// Returns true if all nodes have equal features.
    pub fn all_equal(&self) -> bool {
        self.columns.chunks(self.count.max(1)).all(|column| column.iter().all(|value| *value == column[0]))
    }

    /// Computes `out[i]` = ‖x − x_i‖² for every node.
    pub fn squared_distances(&self, x: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        kapprox::vectorised!({
            for (column, x) in self.columns.chunks_exact(self.count.max(1)).zip(x) {
                out.iter_mut().zip(column).for_each(|(sum, z)| *sum += (x - z) * (x - z));
            }
        });
    }
}

/// Writes to `neighbours` the k nodes with the smallest `squared_distances`, the nearest first.
/// Skips the node `excluded_node`, if any.
pub fn find_nearest(
    squared_distances: &[f64],
    k: usize,
    excluded_node: Option<usize>,
    neighbours: &mut Vec<Neighbour>,
) {
    neighbours.clear();
    let mut farthest = f64::INFINITY;
    for (i, squared_distance) in squared_distances.iter().enumerate() {
        if neighbours.len() == k && *squared_distance >= farthest || excluded_node == Some(i) {
            continue;
        }
        let position = neighbours.partition_point(|neighbour| neighbour.squared_distance <= *squared_distance);
        neighbours.insert(position, Neighbour { squared_distance: *squared_distance, node: i });
        neighbours.truncate(k);
        if let (true, Some(last)) = (neighbours.len() == k, neighbours.last()) {
            farthest = last.squared_distance;
        }
    }
}
