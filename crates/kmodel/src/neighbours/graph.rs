//! The graph of k nearest neighbours, and shortest paths in it.

use super::{Neighbour, Nodes, find_nearest};
use crate::Error;
use kstore::Workers;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of nodes whose neighbours one thread searches at a time.
const STRIP_NODES: usize = 64;

/// Returns the k nearest other nodes of every node, N x k row-major. Takes 3N²d flops for N nodes
/// of d features.
pub fn neighbours_of_nodes(nodes: &Nodes, k: usize, workers: &Workers) -> Vec<Neighbour> {
    let mut neighbours_by_node = vec![Neighbour { squared_distance: 0.0, node: 0 }; nodes.count() * k];
    crate::linalg::strips::for_each_strip(workers, &mut neighbours_by_node, STRIP_NODES * k, |strip, lists| {
        let (mut squared_distances, mut neighbours) = (vec![0.0; nodes.count()], Vec::new());
        for (i, list) in lists.chunks_exact_mut(k).enumerate() {
            let node = strip * STRIP_NODES + i;
            nodes.squared_distances(&nodes.point(node), &mut squared_distances);
            find_nearest(&squared_distances, k, Some(node), &mut neighbours);
            list.copy_from_slice(&neighbours);
        }
    });
    neighbours_by_node
}

/// An undirected graph: two nodes share an edge if one of them is among the nearest neighbours of
/// the other node. The length of an edge is the distance between its nodes.
#[derive(Debug)]
pub struct Graph {
    /// The edges of node i are `edges[starts[i]..starts[i + 1]]`.
    starts: Vec<usize>,
    edges: Vec<Edge>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    length: f64,
    /// The other end.
    node: usize,
}

impl Graph {
    /// Returns the bytes of the graph and of the lists of k neighbours from which it is made.
    pub fn bytes(node_count: usize, k: usize) -> usize {
        node_count.saturating_mul(k.saturating_mul(3 * size_of::<Neighbour>()) + 8)
    }

    /// Returns the graph of the neighbours `lists` from [`neighbours_of_nodes`], k for each node.
    pub fn new(lists: &[Neighbour], k: usize) -> Self {
        let node_count = lists.len() / k.max(1);
        let mut starts = vec![0; node_count + 1];
        for (entry, neighbour) in lists.iter().enumerate() {
            starts[entry / k + 1] += 1;
            starts[neighbour.node + 1] += 1;
        }
        (0..node_count).for_each(|i| starts[i + 1] += starts[i]);
        let (mut next_slot, mut edges) = (starts.clone(), vec![Edge { length: 0.0, node: 0 }; 2 * lists.len()]);
        for (entry, Neighbour { squared_distance, node }) in lists.iter().enumerate() {
            for (end, other_end) in [(entry / k, *node), (*node, entry / k)] {
                edges[next_slot[end]] = Edge { length: squared_distance.sqrt(), node: other_end };
                next_slot[end] += 1;
            }
        }
        Self { starts, edges }
    }

    fn edges(&self, node: usize) -> &[Edge] {
        &self.edges[self.starts[node]..self.starts[node + 1]]
    }

    /// Returns the sizes of the connected components, largest first.
    pub fn component_sizes(&self) -> Vec<usize> {
        let mut visited = vec![false; self.starts.len() - 1];
        let (mut sizes, mut stack) = (Vec::new(), Vec::new());
        for start in 0..visited.len() {
            if std::mem::replace(&mut visited[start], true) {
                continue;
            }
            let mut size = 0;
            stack.push(start);
            while let Some(node) = stack.pop() {
                size += 1;
                let neighbouring_nodes = self.edges(node).iter().map(|edge| edge.node);
                stack.extend(neighbouring_nodes.filter(|end| !std::mem::replace(&mut visited[*end], true)));
            }
            sizes.push(size);
        }
        sizes.sort_unstable_by_key(|size| Reverse(*size));
        sizes
    }

    /// Returns the error for a graph with several connected components.
    pub fn disconnected_error(&self, k: usize) -> Error {
        let sizes = self.component_sizes();
        let why = format!(
            "the graph of {} nodes has {} connected components, the largest with {} nodes; raise `neighbours` or `nodes`, or fit \
             the rows of one component",
            self.starts.len() - 1,
            sizes.len(),
            sizes[0]
        );
        Error::option("neighbours", k, why)
    }

    /// Sets `lengths[i]` to the length of the shortest path from node `source` to node i, by
    /// Dijkstra's algorithm. It is infinite if no path exists.
    ///
    /// Reference: Dijkstra, "A note on two problems in connexion with graphs", Numerische
    /// Mathematik 1, 1959.
    pub fn shortest_paths(&self, source: usize, lengths: &mut [f64]) {
        lengths.fill(f64::INFINITY);
        lengths[source] = 0.0;
        // floats that are not negative compare like the integers with the same bits
        let mut queue = BinaryHeap::from([Reverse((0f64.to_bits(), source))]);
        while let Some(Reverse((bits, node))) = queue.pop() {
            let length = f64::from_bits(bits);
            if length > lengths[node] {
                continue;
            }
            for edge in self.edges(node) {
                let path_length = length + edge.length;
                if path_length < lengths[edge.node] {
                    lengths[edge.node] = path_length;
                    queue.push(Reverse((path_length.to_bits(), edge.node)));
                }
            }
        }
    }
}
