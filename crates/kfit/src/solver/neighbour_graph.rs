//! The nearest-neighbour graph of a sample of rows, the nodes of an embedding.

use super::parameter::{EMBEDDING_COMPONENTS, NEIGHBOURS, Settings};
use crate::neighbours::{Graph, Neighbour, Nodes, Reconstruction, neighbours_of_nodes};
use crate::{Error, Result, request::Resources};
use faer::Mat;
use kapprox::{Real, landmark::LandmarkSet};

/// Options of embeddings of a neighbour graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct NeighbourOptions {
    /// Number of coordinates q. It is less than the number of landmarks, or, if all nodes are
    /// landmarks, less than the number of nodes.
    pub(super) component_count: usize,
    /// Number k of nearest nodes to which each node is connected, less than the number N of nodes.
    /// `None` selects the default, which grows until the graph is connected.
    pub(super) neighbour_count: Option<usize>,
}

impl NeighbourOptions {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            component_count: settings.required(&EMBEDDING_COMPONENTS, Settings::count),
            neighbour_count: settings.count(&NEIGHBOURS),
        }
    }
}

/// Default number of neighbours of a node. It grows by half until the graph is connected.
const DEFAULT_NEIGHBOURS: usize = 10;
/// Maximum to which the default number of neighbours grows.
const MAX_NEIGHBOURS: usize = 40;

/// The nodes (a sample of the rows) and the k nearest neighbours of each node. The graph that
/// connects the nodes with their neighbours is connected.
pub(super) struct NeighbourGraph {
    pub(super) k: usize,
    pub(super) nodes: Nodes,
    /// The neighbours of each node, N x k.
    pub(super) neighbours: Vec<Neighbour>,
    pub(super) graph: Graph,
}

impl NeighbourGraph {
    /// Returns the maximum number of neighbours of a node.
    pub(super) fn max_neighbours(node_count: usize, requested_k: Option<usize>) -> usize {
        requested_k.unwrap_or(MAX_NEIGHBOURS).min(node_count.saturating_sub(1))
    }

    pub(super) fn bytes(node_count: usize, d: usize, requested_k: Option<usize>) -> usize {
        let k = Self::max_neighbours(node_count, requested_k);
        Nodes::bytes(node_count, d).saturating_add(Graph::bytes(node_count, k))
    }

    /// Finds the neighbours of every node.
    ///
    /// # Errors
    /// [`Error::Option`] if there are at least as many neighbours as nodes, or if the graph is
    /// disconnected; [`Error::NoVariance`] if all nodes are equal.
    pub(super) fn new<T: Real>(
        landmark_set: &LandmarkSet<T>,
        requested_k: Option<usize>,
        resources: &Resources<'_>,
    ) -> Result<Self> {
        if let Some(k) = requested_k.filter(|k| *k >= landmark_set.len()) {
            let why = format!(
                "each node has {} others; lower `neighbours`, or raise `nodes`",
                landmark_set.len().saturating_sub(1)
            );
            return Err(Error::option(NEIGHBOURS.name, k, why));
        }
        let _stage = resources.stage_observer.start_stage("neighbours", None);
        let nodes = Nodes::new(&landmark_set.points, landmark_set.d);
        if nodes.all_equal() {
            return Err(Error::NoVariance);
        }
        let max_k = Self::max_neighbours(landmark_set.len(), requested_k);
        let mut k = requested_k.unwrap_or(DEFAULT_NEIGHBOURS).min(max_k);
        loop {
            let next_k = (k + k / 2).min(max_k);
            let neighbours = neighbours_of_nodes(&nodes, k, resources.workers);
            let graph = Graph::new(&neighbours, k);
            match graph.component_sizes().len() {
                1 => return Ok(Self { k, nodes, neighbours, graph }),
                _ if k == max_k => return Err(graph.disconnected_error(k)),
                component_count => resources.stage_observer.warn(format!(
                    "with {k} neighbours the graph has {component_count} connected components; trying {next_k} neighbours"
                )),
            }
            k = next_k;
        }
    }

    /// Computes M = (I − W)ᵀ(I − W), N x N. Row i of W contains the weights that reconstruct node i
    /// from its neighbours. Takes 2Nk² flops.
    pub(super) fn alignment(&self) -> Mat<f64> {
        let (nodes, neighbours, k) = (&self.nodes, &self.neighbours, self.k);
        let (mut m, mut weights, mut buffers) =
            (Mat::zeros(nodes.count(), nodes.count()), Vec::new(), Reconstruction::default());
        for (i, node_neighbours) in neighbours.chunks_exact(k).enumerate() {
            buffers.compute_weights(nodes, &nodes.point(i), node_neighbours, &mut weights);
            // row i of I − W is 1 at i and −w at the neighbours
            let row = || {
                std::iter::once((i, 1.0))
                    .chain(node_neighbours.iter().zip(&weights).map(|(neighbour, w)| (neighbour.node, -w)))
            };
            for (a, weight_a) in row() {
                row().for_each(|(b, weight_b)| m[(b, a)] += weight_a * weight_b);
            }
        }
        m
    }
}
