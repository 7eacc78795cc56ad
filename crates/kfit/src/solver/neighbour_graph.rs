//! The nearest-neighbour graph of a sample of rows, the nodes of an embedding.

use super::parameter::{EMBEDDED, NEIGHBOURS, Settings};
use crate::neighbours::{Graph, Neighbour, Nodes, Reconstruction, neighbours_of_nodes};
use crate::{Error, Result, request::Resources};
use faer::Mat;
use kapprox::{Real, landmark::LandmarkSet};

/// Options of embeddings of a neighbour graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct NeighbourOptions {
    /// Number of coordinates q, less than the number of landmarks, or of nodes if all are
    /// landmarks.
    pub(super) components: usize,
    /// Number k of nearest nodes that each node is connected to, less than N; `None` selects the
    /// default, which grows until the graph is connected.
    pub(super) neighbours: Option<usize>,
}

impl NeighbourOptions {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { components: settings.required(&EMBEDDED, Settings::count), neighbours: settings.count(&NEIGHBOURS) }
    }
}

/// The default number of neighbours of a node, and its maximum: the number grows by half until the
/// graph is connected.
const DEFAULT: usize = 10;
const MOST: usize = 40;

/// Nodes with their k nearest neighbours, which form a connected graph.
pub(super) struct NeighbourGraph {
    pub(super) k: usize,
    pub(super) nodes: Nodes,
    /// N x k.
    pub(super) lists: Vec<Neighbour>,
    pub(super) graph: Graph,
}

impl NeighbourGraph {
    /// Maximum number of neighbours of a node.
    pub(super) fn most(nodes: usize, requested: Option<usize>) -> usize {
        requested.unwrap_or(MOST).min(nodes.saturating_sub(1))
    }

    pub(super) fn bytes(nodes: usize, d: usize, requested: Option<usize>) -> usize {
        let k = Self::most(nodes, requested);
        Nodes::bytes(nodes, d).saturating_add(Graph::bytes(nodes, k))
    }

    /// Finds the neighbours of every node.
    ///
    /// # Errors
    /// [`Error::Option`] for as many neighbours as nodes or more, and for a disconnected graph;
    /// [`Error::NoVariance`] if all nodes are equal.
    pub(super) fn new<T: Real>(
        set: &LandmarkSet<T>,
        requested: Option<usize>,
        resources: &Resources<'_>,
    ) -> Result<Self> {
        if let Some(k) = requested.filter(|k| *k >= set.len()) {
            let why =
                format!("each node has {} others; lower `neighbours`, or raise `nodes`", set.len().saturating_sub(1));
            return Err(Error::option(NEIGHBOURS.name, k, why));
        }
        let _stage = resources.stages.stage("neighbours", None);
        let nodes = Nodes::new(&set.points, set.d);
        if nodes.alike() {
            return Err(Error::NoVariance);
        }
        let most = Self::most(set.len(), requested);
        let mut k = requested.unwrap_or(DEFAULT).min(most);
        loop {
            let more = (k + k / 2).min(most);
            let lists = neighbours_of_nodes(&nodes, k, resources.workers);
            let graph = Graph::new(&lists, k);
            match graph.components().len() {
                1 => return Ok(Self { k, nodes, lists, graph }),
                _ if k == most => return Err(graph.apart(k)),
                parts => resources.stages.warn(format!(
                    "with {k} neighbours the graph has {parts} connected components; trying {more} neighbours"
                )),
            }
            k = more;
        }
    }

    /// Computes M = (I − W)ᵀ(I − W), N x N, where the rows of W are the weights of each node's
    /// neighbours. 2Nk² flops.
    pub(super) fn alignment(&self) -> Mat<f64> {
        let (nodes, lists, k) = (&self.nodes, &self.lists, self.k);
        let (mut m, mut weights, mut buffers) =
            (Mat::zeros(nodes.count(), nodes.count()), Vec::new(), Reconstruction::default());
        for (i, list) in lists.chunks_exact(k).enumerate() {
            buffers.weights(nodes, &nodes.point(i), list, &mut weights);
            // row i of I − W is 1 at i and −w at the neighbours
            let row = || std::iter::once((i, 1.0)).chain(list.iter().zip(&weights).map(|((_, j), w)| (*j, -w)));
            for (a, left) in row() {
                row().for_each(|(b, right)| m[(b, a)] += left * right);
            }
        }
        m
    }
}
