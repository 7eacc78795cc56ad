//! Landmark Isomap: coordinates whose distances are those along the sheet that the rows lie on.
//!
//! A sample of rows are the nodes of a graph, in which each is joined to its k nearest ones. The distance g_lj along the sheet of node j
//! from landmark l, one of m nodes, is the length of the shortest path between them. The landmarks are scaled as in [`mds`](super::mds) by
//! Δ_ll' = g_ll'², and the coordinates of a row are
//!
//! ```text
//! z_j(x) = −½ λ_j^(−½) v_jᵀ(δ(x) − δ̄),     δ_l(x) = min over the k nearest nodes j of (‖x − x_j‖ + g_lj)²
//! ```
//!
//! linear in δ(x), functions of nodes that the model keeps with g ([`crate::model::Form::Paths`]). Distances are Euclidean, of the scaled features.
//!
//! *Passes*: one that draws the nodes. *Time*: 3N²d flops for the neighbours, m searches of N(k + log N), 9m³ for the
//! eigenvectors. *Bytes*: 8Nm, 72Nk, and about 40m².
//!
//! References: Tenenbaum, de Silva, Langford, "A global geometric framework for nonlinear dimensionality reduction", Science 290,
//! 2000; de Silva, Tenenbaum, "Global versus local methods in nonlinear dimensionality reduction", NIPS 2002.

use super::mds::{Scaled, check_components, facts, landmarks};
use super::parameter::{EMBEDDED, NEIGHBOURS, NODES, Parameter};
use super::{Figure, Found, Settings, Solver, SolverFacts, SolverFamily};
use crate::model::{Basis, Form};
use crate::neighbours::{Graph, Neighbour, Nodes, neighbours_of_nodes};
use crate::request::{PassShape, ProblemSize, Resources};
use crate::{Error, Result, Task, features::FitData};
use faer::Mat;
use kapprox::{Real, landmark::LandmarkSet};
use kstore::Plan;

pub(super) const FAMILY: SolverFamily = SolverFamily {
    name: "isomap",
    about: "landmark Isomap: coordinates whose distances are those along the sheet that the rows lie on",
    task: Task::Components,
    parameters: &[EMBEDDED, NEIGHBOURS, Parameter { default: Some("5000"), ..NODES }],
    make: |settings| Ok(Box::new(LandmarkIsomap(NeighbourOptions::new(settings)))),
};

#[derive(Clone, Copy, Debug)]
struct LandmarkIsomap(NeighbourOptions);

#[derive(Clone, Copy, Debug)]
pub(super) struct NeighbourOptions {
    /// Number of coordinates q, below that of the landmarks, or of the nodes where all are.
    pub(super) components: usize,
    /// Number k of nearest nodes that each node is joined to, below N; `None` for [`USUAL`] or more, up to [`MOST`].
    pub(super) neighbours: Option<usize>,
}

impl NeighbourOptions {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { components: settings.required(&EMBEDDED, Settings::count), neighbours: settings.count(&NEIGHBOURS) }
    }
}

/// Neighbours of a node where none are asked for, and the most that they become, by halves more, while parts of the graph are apart.
const USUAL: usize = 10;
const MOST: usize = 40;

/// The nodes with the k nearest others of each, whose graph is connected.
pub(super) struct Joined {
    pub(super) k: usize,
    pub(super) nodes: Nodes,
    /// N x k.
    pub(super) lists: Vec<Neighbour>,
    pub(super) graph: Graph,
}

impl Joined {
    /// The largest number of neighbours of a node.
    pub(super) fn most(nodes: usize, asked: Option<usize>) -> usize {
        asked.unwrap_or(MOST).min(nodes.saturating_sub(1))
    }

    pub(super) fn bytes(nodes: usize, d: usize, asked: Option<usize>) -> usize {
        let k = Self::most(nodes, asked);
        Nodes::bytes(nodes, d).saturating_add(Graph::bytes(nodes, k))
    }

    /// Finds the neighbours of every node. Errors: [`Error::Option`] for more neighbours than there are other nodes,
    /// and for a graph of several components; [`Error::NoVariance`] where all nodes are the same.
    pub(super) fn new<T: Real>(set: &LandmarkSet<T>, asked: Option<usize>, resources: &Resources<'_>) -> Result<Self> {
        if let Some(k) = asked.filter(|k| *k >= set.len()) {
            let why = format!("a node has {} others; lower it, or raise `nodes`", set.len().saturating_sub(1));
            return Err(Error::option(NEIGHBOURS.name, k, why));
        }
        let _stage = resources.stages.stage("neighbours", None);
        let nodes = Nodes::new(&set.points, set.d);
        if nodes.alike() {
            return Err(Error::NoVariance);
        }
        let most = Self::most(set.len(), asked);
        let mut k = asked.unwrap_or(USUAL).min(most);
        loop {
            let more = (k + k / 2).min(most);
            let lists = neighbours_of_nodes(&nodes, k, resources.workers);
            let graph = Graph::new(&lists, k);
            match graph.components().len() {
                1 => return Ok(Self { k, nodes, lists, graph }),
                _ if k == most => return Err(graph.apart(k)),
                parts => resources.stages.warn(format!(
                    "with {k} neighbours the nodes fall into {parts} parts with no path between them; {more} are tried"
                )),
            }
            k = more;
        }
    }
}

/// The lengths of the shortest paths from each of the first m nodes to all, m x N.
fn paths(graph: &Graph, m: usize, count: usize, resources: &Resources<'_>) -> Mat<f64> {
    let _stage = resources.stages.stage("shortest paths", None);
    let mut from = vec![0.0; m * count];
    crate::linalg::strips::for_each_strip(resources.workers, &mut from, count, |landmark, lengths| {
        graph.paths(landmark, lengths);
    });
    Mat::from_fn(m, count, |l, j| from[l * count + j])
}

impl<T: Real> Solver<T> for LandmarkIsomap {
    fn facts(&self) -> SolverFacts {
        facts(FAMILY.name)
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, _: PassShape) -> Plan {
        let (nodes, m) = (shape.map.landmarks.unwrap_or_default(), shape.landmarks);
        plan.term("nodes and their neighbours", Joined::bytes(nodes, shape.d, self.0.neighbours), "lower `nodes`")
            .term("shortest paths", nodes.saturating_mul(16 * m + 24 * shape.threads), "lower `nodes` or `rank`")
            .term("distances and their eigenvectors", Scaled::bytes(m), "lower `rank`")
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let set = landmarks(data)?;
        let m = data.options.landmark_count().min(set.len());
        check_components(self.0.components, m, "landmarks")?;
        let joined = Joined::new(set, self.0.neighbours, data.resources)?;
        let (neighbours, lengths) = (joined.k, paths(&joined.graph, m, set.len(), data.resources));
        drop(joined);
        let _stage = data.resources.stages.stage("eigenvectors", None);
        let squares = Mat::from_fn(m, m, |i, l| -0.5 * lengths[(i, l)].min(lengths[(l, i)]).powi(2));
        // −½ δ̄
        let means: Vec<f64> = squares.col_iter().map(|column| column.iter().sum::<f64>() / m as f64).collect();
        let scaled = Scaled::new(squares, self.0.components, data)?;
        let weights = &scaled.weights;
        let [nodes, landmarks] = [Figure::of("nodes", set.len() as f64), Figure::of("landmarks", m as f64)];
        let constant = |j: usize| -means.iter().enumerate().map(|(l, mean)| mean * weights[(l, j)]).sum::<f64>();
        Ok(Found {
            basis: Some(Basis::Landmarks { points: set.points.clone(), rows: set.rows.clone() }),
            form: Form::Paths { neighbours, lengths },
            intercept: (0..weights.ncols()).map(constant).collect(),
            weights: Mat::from_fn(m, weights.ncols(), |l, j| -0.5 * weights[(l, j)]),
            figures: [vec![nodes, landmarks], scaled.figures()].concat(),
            ..Found::default()
        })
    }
}
