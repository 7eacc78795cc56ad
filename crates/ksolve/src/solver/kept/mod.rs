//! The features of all rows, for solvers that read them many times.
//!
//! They are kept in memory where the plan leaves room, else in the scratch folder where there is one with room, else they
//! are computed anew in every pass. A solver sees the same tiles of rows in the same order in all three cases, with the same
//! bits: the map works on the same tiles, and what is kept is what it gave.
//!
//! *Bytes*: n·p elements in memory or on disk; beside them two tiles of features. *Cost of a pass*: nothing from memory, the
//! rate of the disk from scratch, the map otherwise.

mod fold;
mod only;
mod place;
mod sample;
mod tile;
mod wide;

pub(crate) use fold::{STATES, values_bytes};
pub use fold::{Sums, Values};
use only::Only;
pub(crate) use only::bytes as only_bytes;
pub use place::Place;
pub use tile::Tile;
use wide::Widen;

use super::Features;
use crate::certificate::CertificateState;
use crate::gram::{GramScratch, GramState};
use crate::strips::for_each_strip;
use crate::train::{Cut, Resources, Shape};
use crate::{Error, Result, Targets};
use faer::{MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::pass::Observer;
use kstore::scratch::{Cache, CacheWriter};
use kstore::{Coded, Pass, RowBlock, RowSource, TableShape, Workers};
use std::ops::Range;

/// Rows that are transposed by one thread at a time.
const TURNED: usize = 64;

/// The features of all rows, by the place where they are kept.
enum Phi<'a, T: Real> {
    /// The features in memory, n x p, row-major.
    Memory(Vec<T>),
    Scratch(Cache<T>),
    Recomputed {
        source: &'a dyn RowSource<T>,
        map: &'a dyn FeatureMap<T>,
    },
    /// Some of the rows of other kept features.
    Only(Only<'a, T>),
    /// The features of another type, converted when they are read.
    Wide(&'a dyn Widen<T>),
}

/// A function that is called with every tile.
type Work<'w, T> = &'w mut (dyn FnMut(&Tile<'_, T>) -> Result<()> + Send);

/// The means of visiting the features: cut, resources and seed.
#[derive(Clone, Copy)]
struct Ways<'a> {
    cut: Cut,
    resources: &'a Resources<'a>,
    seed: u64,
    /// Bytes for copies that only save time.
    spare: usize,
}

/// The sums that the pass that keeps the features is to compute beside them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// True for the second moments of the features.
    pub moments: bool,
    /// True for the squared length of every row in feature space.
    pub squares: bool,
}

/// The sums that the pass that keeps the features computed beside them.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Residuals of the map at every rank, where it is a projection.
    pub certificate: Option<CertificateState>,
    /// Second moments, where they were asked for.
    pub moments: Option<GramState>,
    /// k(x, x) of every row, or ‖φ‖² for maps that are no projection, n numbers; empty where they were not asked for.
    pub squares: Vec<f64>,
}

/// The features of all rows, and their targets.
pub struct Kept<'a, T: Real> {
    ways: Ways<'a>,
    phi: Phi<'a, T>,
    /// Number of rows, n.
    pub n: usize,
    /// Number of features of a row, p.
    pub p: usize,
    /// Codes of the classes of the rows, n numbers; empty for numeric targets.
    pub codes: Vec<u32>,
    /// Numeric targets, n x t row-major, as they are in the table.
    pub y: Vec<f64>,
    /// Folds of the rows, n numbers; empty where there is only one.
    pub folds: Vec<u16>,
    /// Position of the first row of every tile, and n.
    starts: Vec<usize>,
    /// Position of the first row of every segment that has rows, and its number among all of the stored rows.
    segments: Vec<(usize, u64)>,
    /// The stored rows.
    range: Range<u64>,
    /// True for features of the rows of the run, false for some of them that were picked out.
    own: bool,
}

impl<T: Real> std::fmt::Debug for Kept<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("n", &self.n).field("p", &self.p).finish_non_exhaustive()
    }
}

/// Bytes that every pass over the features holds: decoded rows or stored features, two tiles of features, and some in
/// f64.
pub(crate) fn pass_bytes(shape: &Shape, cut: Cut) -> usize {
    let row = (shape.d.max(shape.map.p)) * shape.element + (shape.t + 2) * 8;
    let features = 2 * shape.map.p * shape.element + 8;
    let map = shape.map.footprint.at(cut.tile) - shape.map.footprint.fixed;
    let wide = wide::bytes(shape.map.p);
    shape.cursor.at(cut.tile) + (cut.prefetch + 2) * cut.tile * row + cut.tile * features + map + wide
}

impl<'a, T: Real> Kept<'a, T> {
    /// Computes the features of all rows in one pass, in the order of the rows, and keeps them where `data` says.
    ///
    /// # Errors
    /// Errors of reading the rows and of the scratch folder; [`Error::NotFinite`] for a kernel that overflows.
    pub fn gather(data: &'a Features<'a, T>, wanted: Wanted) -> Result<(Self, Gathered)> {
        let (d, p) = data.map.dims();
        let n = usize::try_from(data.rows).unwrap_or(usize::MAX);
        let origin = vec![T::default(); d];
        let projects = data.map.kernel_diag(MatRef::from_row_major_slice(&origin, 1, d), &mut [0.0]).is_some();
        let mut gather = Gather {
            data,
            buffers: Buffers::default(),
            // zeros that nobody wrote: the threads that fill the pages are the first to touch them
            memory: vec![T::ZERO; if data.keep == Place::Memory { n * p } else { 0 }],
            writer: writer(data, p)?,
            codes: Vec::new(),
            y: Vec::new(),
            folds: Vec::new(),
            starts: vec![0],
            segments: Vec::new(),
            certificate: projects.then(|| CertificateState::new(p)),
            moments: wanted.moments.then(|| (GramState::new(p, 0, 1), GramScratch::default())),
            squares: wanted.squares.then(Vec::new),
        };
        let name = match data.keep {
            Place::Memory => "features to memory",
            Place::Scratch => "features to scratch",
            Place::Recomputed => "features",
        };
        let range = data.source.range();
        let observer = data.resources.stages.stage(name, Some(range.end - range.start));
        let ways = Ways { cut: data.cut, resources: data.resources, seed: data.options.seed, spare: data.spare };
        ways.pass(&*observer).visit(data.source, |block| gather.add(block))?;
        let Gather { mut memory, writer, codes, y, folds, starts, segments, certificate, moments, squares, .. } =
            gather;
        let n = starts.last().copied().unwrap_or(0);
        memory.truncate(n * p);
        let phi = match (data.keep, writer) {
            (Place::Memory, _) => Phi::Memory(memory),
            (_, Some(writer)) => Phi::Scratch(writer.finish()?),
            (_, None) => Phi::Recomputed { source: data.source, map: data.map },
        };
        let (moments, squares) = (moments.map(|(state, _)| state), squares.unwrap_or_default());
        let gathered = Gathered { certificate, moments, squares };
        Ok((Self { ways, phi, n, p, codes, y, folds, starts, segments, range, own: true }, gathered))
    }

    /// Calls `work` with every tile of features, in the order of the rows.
    ///
    /// # Errors
    /// Errors of reading the rows, of the scratch folder and of `work`; [`kstore::Error::Interrupted`].
    pub fn visit(
        &self,
        observer: &dyn Observer,
        mut work: impl FnMut(&Tile<'_, T>) -> Result<()> + Send,
    ) -> Result<()> {
        self.visit_lot(None, observer, &mut work)
    }

    /// [`Kept::visit`] of some segments, or of all, compiled once for all kinds of work. Rows that were picked out are visited whole.
    fn visit_lot(&self, lot: Option<&Range<u64>>, observer: &dyn Observer, work: Work<'_, T>) -> Result<()> {
        match &self.phi {
            Phi::Memory(phi) => self.visit_memory(phi, lot, observer, work),
            Phi::Only(only) => only.visit(observer, work),
            Phi::Scratch(cache) => self.visit_rows(cache, None, lot, observer, work),
            Phi::Recomputed { source, map } => self.visit_rows(*source, Some(*map), lot, observer, work),
            Phi::Wide(of) => of.widen(lot, observer, work),
        }
    }

    /// The rows of a source, which are features or become them by `map`.
    fn visit_rows(
        &self,
        source: &dyn RowSource<T>,
        map: Option<&dyn FeatureMap<T>>,
        lot: Option<&Range<u64>>,
        observer: &dyn Observer,
        work: Work<'_, T>,
    ) -> Result<()> {
        let (mut buffers, mut first) = (Buffers::default(), lot.map_or(0, |lot| self.position(lot.start)));
        let pass = self.ways.pass(observer);
        let tile = |block: &RowBlock<'_, T>| {
            let phi = match map {
                Some(map) => {
                    buffers.fill(map, block, self.workers());
                    &buffers.rows[..]
                }
                None => block.x,
            };
            work(&Tile { first, phi, p: self.p })?;
            first += block.len();
            Ok(())
        };
        match lot {
            Some(lot) => pass.visit_lot(source, lot, tile).map(drop),
            None => pass.visit(source, tile).map(drop),
        }
    }

    fn visit_memory(
        &self,
        phi: &[T],
        lot: Option<&Range<u64>>,
        observer: &dyn Observer,
        work: Work<'_, T>,
    ) -> Result<()> {
        let rows = lot.map_or(0..self.n, |lot| self.position(lot.start)..self.position(lot.end));
        for bounds in self.starts.windows(2).filter(|bounds| rows.contains(&bounds[0])) {
            if observer.stop() {
                return Err(kstore::Error::Interrupted.into());
            }
            let (first, end) = (bounds[0], bounds[1]);
            work(&Tile { first, phi: &phi[first * self.p..end * self.p], p: self.p })?;
            observer.advance((end - first) as u64);
        }
        Ok(())
    }

    /// The features of all rows, n x p row-major, where they are in memory.
    pub fn memory(&self) -> Option<&[T]> {
        match &self.phi {
            Phi::Memory(phi) => Some(phi),
            Phi::Scratch(_) | Phi::Recomputed { .. } | Phi::Only(_) | Phi::Wide(_) => None,
        }
    }

    /// The seed of random choices.
    pub fn seed(&self) -> u64 {
        self.ways.seed
    }

    /// The pool of threads.
    pub fn workers(&self) -> &'a Workers {
        self.ways.resources.workers
    }
}

impl<'a> Ways<'a> {
    /// A pass that gives tiles one after the other in row order, with all threads on each: solvers do not merge states.
    fn pass<'p>(&self, observer: &'p dyn Observer) -> Pass<'p>
    where
        'a: 'p,
    {
        Pass { journal: None, ..self.cut.pass(1, self.resources, observer) }
    }
}

/// A cache for the features of all rows, where they go to scratch.
fn writer<T: Real>(data: &Features<'_, T>, p: usize) -> Result<Option<CacheWriter<T>>> {
    match (data.keep, data.resources.scratch) {
        (Place::Scratch, Some(scratch)) => {
            let shape = TableShape { features: p, targets: 0, weighted: false, ..data.source.shape() };
            Ok(Some(scratch.cache(shape, data.source.range())?))
        }
        _ => Ok(None),
    }
}

/// Features of a tile, column-major as the map gives them and row-major as they are kept.
#[derive(Default)]
struct Buffers<T> {
    columns: Vec<T>,
    rows: Vec<T>,
    diag: Vec<f64>,
    partial: Vec<f64>,
}

impl<T: Real> Buffers<T> {
    /// Computes the features of a block, column-major in `columns` and row-major in `rows`.
    fn fill(&mut self, map: &dyn FeatureMap<T>, block: &RowBlock<'_, T>, workers: &Workers) {
        let size = block.len() * map.dims().1;
        let mut rows = std::mem::take(&mut self.rows);
        rows.resize(size, T::ZERO);
        self.fill_into(&mut rows, map, block, workers);
        self.rows = rows;
    }

    /// Computes the features of a block, column-major in `columns` and row-major in `rows` (b x p).
    fn fill_into(&mut self, rows: &mut [T], map: &dyn FeatureMap<T>, block: &RowBlock<'_, T>, workers: &Workers) {
        let (b, p) = (block.len(), map.dims().1);
        self.columns.resize(b * p, T::ZERO);
        let x = MatRef::from_row_major_slice(block.x, b, block.d);
        map.apply(x, MatMut::from_column_major_slice_mut(&mut self.columns, b, p), workers);
        let columns = &self.columns;
        for_each_strip(workers, rows, TURNED * p, |strip, rows| {
            let first = strip * TURNED;
            for j in 0..p {
                let column = &columns[j * b + first..][..rows.len() / p];
                column.iter().enumerate().for_each(|(i, value)| rows[i * p + j] = *value);
            }
        });
    }
}

/// The pass that keeps features: what it has found so far.
struct Gather<'a, T: Real> {
    data: &'a Features<'a, T>,
    buffers: Buffers<T>,
    memory: Vec<T>,
    writer: Option<CacheWriter<T>>,
    codes: Vec<u32>,
    y: Vec<f64>,
    folds: Vec<u16>,
    starts: Vec<usize>,
    segments: Vec<(usize, u64)>,
    certificate: Option<CertificateState>,
    moments: Option<(GramState, GramScratch<T>)>,
    squares: Option<Vec<f64>>,
}

impl<T: Real> Gather<'_, T> {
    /// Takes in a tile: its features, then what is learned of them, then what the table says of its rows.
    fn add(&mut self, block: &RowBlock<'_, T>) -> Result<()> {
        let (map, workers) = (self.data.map, self.data.resources.workers);
        let (b, p) = (block.len(), map.dims().1);
        let first = self.starts.last().copied().unwrap_or(0);
        if self.data.keep == Place::Memory {
            self.memory.resize(self.memory.len().max((first + b) * p), T::ZERO);
            self.buffers.fill_into(&mut self.memory[first * p..(first + b) * p], map, block, workers);
        } else {
            self.buffers.fill(map, block, workers);
        }
        if !self.buffers.columns[..b * p].iter().all(|value| value.to_f64().is_finite()) {
            let remedy = "scale the features, choose another kernel or use `precision` f64";
            return Err(Error::NotFinite { what: "a feature of a row", remedy });
        }
        self.learn(block, workers)?;
        self.targets(block)?;
        self.starts.push(first + b);
        let number = block.rows[0] / self.data.cut.segment;
        if self.segments.last().is_none_or(|(_, last)| *last != number) {
            self.segments.push((first, number));
        }
        if let Some(writer) = &mut self.writer {
            let block = RowBlock { x: &self.buffers.rows, d: p, y: &[], t: 0, classes: None, groups: None, ..*block };
            writer.push(&block)?;
        }
        Ok(())
    }

    /// Residuals, squared lengths and moments of the features in the buffers.
    fn learn(&mut self, block: &RowBlock<'_, T>, workers: &Workers) -> Result<()> {
        let (b, map, buffers) = (block.len(), self.data.map, &mut self.buffers);
        let phi = MatRef::from_column_major_slice(&buffers.columns, b, map.dims().1);
        if let Some(certificate) = &mut self.certificate {
            buffers.diag.resize(b, 0.0);
            map.kernel_diag(MatRef::from_row_major_slice(block.x, b, block.d), &mut buffers.diag);
            certificate.update(phi, &buffers.diag, &mut buffers.partial, workers);
        }
        if let Some(squares) = &mut self.squares {
            match self.certificate {
                Some(_) => squares.extend_from_slice(&buffers.diag[..b]),
                None => {
                    squares.extend(phi.row_iter().map(|row| row.iter().map(|v| v.to_f64() * v.to_f64()).sum::<f64>()))
                }
            }
        }
        if let Some((state, scratch)) = &mut self.moments {
            state.update(0, phi, MatRef::from_column_major_slice(&[], b, 0), scratch, workers)?;
        }
        Ok(())
    }

    /// Classes or numeric targets, and folds where there are several.
    fn targets(&mut self, block: &RowBlock<'_, T>) -> Result<()> {
        match (self.data.targets, block.classes) {
            (Targets::Classes(classes), Some(Coded { codes, .. })) => {
                let unknown = codes.iter().position(|code| *code as usize >= classes.labels().len());
                if let Some(i) = unknown {
                    return Err(Error::UnknownClass { row: block.rows[i] });
                }
                self.codes.extend_from_slice(codes);
            }
            (Targets::Classes(_), None) => return Err(Error::UnknownClass { row: block.rows[0] }),
            (Targets::Numeric { .. }, _) => self.y.extend_from_slice(block.y),
        }
        if self.data.folds.count() > 1 {
            for (i, row) in block.rows.iter().enumerate() {
                let group = block.groups.map_or(Coded::UNKNOWN, |groups| groups.codes[i]);
                // there are at most a thousand
                self.folds.push(self.data.folds.fold_of(*row, group)? as u16);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_in_scratch_takes_what_the_choice_counts() {
        let shape = TableShape { stored: 0, features: 10, targets: 0, weighted: false };
        assert_eq!((Cache::<f32>::row_bytes(&shape), Cache::<f64>::row_bytes(&shape)), (10 * 4 + 16, 10 * 8 + 16));
    }
}
