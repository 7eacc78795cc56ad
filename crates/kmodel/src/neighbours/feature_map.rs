//! The basis functions of graph models, which are computed from the nodes nearest to a row, as a
//! feature map.

use super::{Neighbour, Nodes, Reconstruction, find_nearest};
use crate::linalg::strips::row_strips;
use faer::{Mat, MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{Footprint, Workers};

/// Number of rows that one thread evaluates at a time.
const NEIGHBOUR_STRIP_ROWS: usize = 64;

/// Functions of the k nearest nodes of a row x.
///
/// Without paths, function j is the weight of node j in the reconstruction of x; it is 0 unless
/// node j is among the k neighbours of x. With paths, function l is the squared length of the
/// shortest path from x to landmark l: the minimum over the neighbours j of (‖x − x_j‖ + g_lj)²,
/// where g_lj is the length of the path from node j to landmark l. *Cost* per row, for N nodes of d
/// features: 3Nd flops, plus k³/3 + k²d without paths, or km for m landmarks with paths.
#[derive(Debug)]
pub struct NeighbourFunctions {
    nodes: Nodes,
    neighbour_count: usize,
    /// Path lengths g, m x N; `None` for reconstruction weights.
    path_lengths: Option<Mat<f64>>,
}

impl NeighbourFunctions {
    /// Returns the functions of the nodes `points` (N x d row-major).
    pub fn new<T: Real>(points: &[T], d: usize, neighbour_count: usize, path_lengths: Option<Mat<f64>>) -> Self {
        Self { nodes: Nodes::new(points, d), neighbour_count, path_lengths }
    }

    /// Calls `set_value(j, value)` with the value of every function j at the row x.
    fn evaluate_row<T: Real>(&self, x: &[f64], buffers: &mut Buffers, mut set_value: impl FnMut(usize, T)) {
        self.nodes.squared_distances(x, &mut buffers.squared_distances);
        find_nearest(&buffers.squared_distances, self.neighbour_count, None, &mut buffers.neighbours);
        let Some(paths) = &self.path_lengths else {
            (0..self.nodes.count()).for_each(|j| set_value(j, T::ZERO));
            buffers.reconstruction.compute_weights(&self.nodes, x, &buffers.neighbours, &mut buffers.function_values);
            buffers
                .neighbours
                .iter()
                .zip(&buffers.function_values)
                .for_each(|(neighbour, w)| set_value(neighbour.node, T::from_f64(*w)));
            return;
        };
        buffers.function_values.clear();
        buffers.function_values.resize(paths.nrows(), f64::INFINITY);
        for Neighbour { squared_distance, node } in &buffers.neighbours {
            let (distance, paths) = (squared_distance.sqrt(), paths.col_as_slice(*node));
            buffers
                .function_values
                .iter_mut()
                .zip(paths)
                .for_each(|(shortest, path)| *shortest = shortest.min(distance + path));
        }
        buffers.function_values.iter().enumerate().for_each(|(l, length)| set_value(l, T::from_f64(length * length)));
    }
}

struct Buffers {
    squared_distances: Vec<f64>,
    neighbours: Vec<Neighbour>,
    function_values: Vec<f64>,
    reconstruction: Reconstruction,
}

impl Buffers {
    fn new(node_count: usize) -> Self {
        let (neighbours, function_values) = (Vec::new(), Vec::new());
        Self {
            squared_distances: vec![0.0; node_count],
            neighbours,
            function_values,
            reconstruction: Reconstruction::for_rows(),
        }
    }
}

impl<T: Real> FeatureMap<T> for NeighbourFunctions {
    fn dims(&self) -> (usize, usize) {
        (self.nodes.d, self.path_lengths.as_ref().map_or(self.nodes.count(), Mat::nrows))
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        workers.for_each(row_strips(out, NEIGHBOUR_STRIP_ROWS), |(first_row, mut out)| {
            let mut buffers = Buffers::new(self.nodes.count());
            for i in 0..out.nrows() {
                let x: Vec<f64> = x.row(first_row + i).iter().map(|v| v.to_f64()).collect();
                self.evaluate_row(&x, &mut buffers, |j, value| out[(i, j)] = value);
            }
        });
    }

    fn footprint(&self) -> Footprint {
        let path_bytes = self.path_lengths.as_ref().map_or(0, |paths| 8 * paths.nrows() * paths.ncols());
        Footprint { fixed: Nodes::bytes(self.nodes.count(), self.nodes.d) + path_bytes, per_row: 0 }
    }
}
