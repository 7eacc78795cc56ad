//! The pass that stores the features. All its other results form a state that can be merged, so
//! that several processes can share the pass.

use super::context::{FeatureBuffers, VisitContext};
use crate::features::reduction::SegmentStates;
use crate::features::stored::{FeatureStore, FeatureWriter};
use crate::features::{FeatureTier, FitData, PhiSource, SegmentStart, StoredFeatures};
use crate::gram::{GramScratch, GramState};
use crate::row_weights::{self, RowWeights};
use crate::{Error, Result, Targets, certificate::CertificateState};
use faer::MatRef;
use kapprox::Real;
use kstore::pass::{Deliver, reduce_lots};
use kstore::{LabelCodes, RowBlock};
use std::ops::Range;

/// Which additional sums the pass that stores the features computes.
#[derive(Clone, Copy, Debug, Default)]
pub struct GatherOptions {
    /// True to sum the second moments of the features.
    pub needs_moments: bool,
    /// True to compute the squared norm of every row in feature space.
    pub needs_squared_norms: bool,
    /// True to store the group of every row.
    pub needs_groups: bool,
}

/// Sums computed by the pass that stores the features.
#[derive(Debug, Default)]
pub struct GatheredSums {
    /// Residuals at every rank, for a map that projects the kernel onto a subspace, such as
    /// Nyström; `None` for any other map.
    pub certificate: Option<CertificateState>,
    /// Second moments; `None` if not requested.
    pub moments: Option<GramState>,
    /// k(x, x) of every row if the map is a projection, otherwise ‖φ(x)‖²; n numbers. Empty if not
    /// requested.
    pub squared_norms: Vec<f64>,
}

/// State of the pass: the sums, and the values of the rows that the table provides (targets,
/// weights, codes).
#[derive(Default)]
struct GatherState {
    class_codes: Vec<u32>,
    y: Vec<f64>,
    group_codes: Vec<u32>,
    row_folds: Vec<u16>,
    weights: RowWeights,
    tile_row_counts: Vec<u32>,
    /// For every nonempty segment its number, then its number of rows.
    segments: Vec<u64>,
    sums: GatheredSums,
}

kstore::summed!(GatherState {
    read "codes": class_codes,
    read "y": y,
    read "groups": group_codes,
    read "folds": row_folds,
    read "weights": weights.0,
    read "tiles": tile_row_counts,
    read "segments": segments,
    read "squares": sums.squared_norms,
    some "certificate": sums.certificate,
    some "moments": sums.moments,
});

/// Returns the start positions of consecutive parts with these numbers of rows, followed by the
/// total number of rows.
fn start_positions(row_counts: impl Iterator<Item = u64>) -> Vec<usize> {
    let ends = row_counts.scan(0, |end, row_count| {
        *end += row_count as usize;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

impl<'a, T: Real> StoredFeatures<'a, T> {
    /// Computes the features of all rows in one pass and stores them in the tier of `data`. A
    /// process that shares the run stores the features of its own rows only.
    ///
    /// # Errors
    /// Errors of reading the rows and of the scratch folder; [`Error::NotFinite`] for a kernel that
    /// overflows.
    pub fn gather(data: &'a FitData<'a, T>, options: GatherOptions) -> Result<(Self, GatheredSums)> {
        let p = data.map.dims().1;
        let is_projection = data.map.is_projection();
        let init = || GatherState {
            sums: GatheredSums {
                certificate: is_projection.then(|| CertificateState::new(p)),
                moments: options.needs_moments.then(|| GramState::new(p, 0, 1)),
                squared_norms: Vec::new(),
            },
            ..GatherState::default()
        };
        let name = match data.tier {
            FeatureTier::Memory => "features to memory",
            FeatureTier::Scratch => "features to scratch",
            FeatureTier::Recomputed => "features",
        };
        let store = FeatureStore::new(data);
        let observer = data.resources.start_stage_over(name, data.source.range());
        let context = VisitContext {
            pass_shape: data.pass_shape,
            resources: data.resources,
            seed: data.options.seed,
            spare_bytes: data.spare_bytes,
        };
        let mut gatherer =
            FeatureGatherer { data, options, buffers: FeatureBuffers::default(), scratch: GramScratch::default() };
        let mut reduce_unit = |unit: Range<u64>, deliver: Deliver<'_, GatherState, Error>| {
            let (mut writer, mut segments) = (store.writer(unit.clone())?, SegmentStates::new(deliver));
            context.pass(&*observer).visit_lot(data.source, &unit, |block| {
                let state = segments.state_mut(
                    block.row_numbers[0] / data.pass_shape.segment_rows,
                    block.len() as u64,
                    &init,
                )?;
                gatherer.add_tile(block, &mut writer, state)
            })?;
            writer.finish()?;
            segments.finish()
        };
        let (state, _) = reduce_lots(context.engine(), "features", store.cut, &*observer, &init, &mut reduce_unit)?;
        let tile_starts = start_positions(state.tile_row_counts.iter().map(|rows| u64::from(*rows)));
        let (segment_numbers, segment_row_counts): (Vec<u64>, Vec<u64>) =
            state.segments.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip();
        let segment_starts = start_positions(segment_row_counts.into_iter()).into_iter().zip(segment_numbers);
        let segments = segment_starts.map(|(position, number)| SegmentStart { position, number }).collect();
        let (n, range) = (tile_starts.last().copied().unwrap_or(0), data.source.range());
        let GatherState { class_codes, y, group_codes, row_folds, weights, sums, .. } = state;
        let features = Self::without_targets(context, PhiSource::Stored(store), (n, p), range, true);
        Ok((Self { class_codes, y, group_codes, row_folds, weights, tile_starts, segments, ..features }, sums))
    }
}

struct FeatureGatherer<'a, T: Real> {
    data: &'a FitData<'a, T>,
    options: GatherOptions,
    buffers: FeatureBuffers<T>,
    scratch: GramScratch<T>,
}

impl<T: Real> FeatureGatherer<'_, T> {
    /// Adds a tile: stores its features, updates the sums, and appends the row values that the
    /// table provides.
    fn add_tile(
        &mut self,
        block: &RowBlock<'_, T>,
        writer: &mut FeatureWriter<'_, T>,
        state: &mut GatherState,
    ) -> Result<()> {
        let (b, p) = (block.len(), self.data.map.dims().1);
        writer.add(block, &mut self.buffers, self.data.resources.workers)?;
        if !T::all_finite(&self.buffers.column_major[..b * p]) {
            let remedy = "scale the features, choose another kernel or use `precision` f64";
            return Err(Error::NotFinite { what: "a feature of a row", remedy });
        }
        self.add_sums(block, &mut state.sums)?;
        self.add_row_values(block, state)?;
        state.tile_row_counts.push(b as u32);
        match &mut state.segments[..] {
            [_, segment_rows] => *segment_rows += b as u64,
            _ => state.segments = vec![block.row_numbers[0] / self.data.pass_shape.segment_rows, b as u64],
        }
        Ok(())
    }

    /// Updates residuals, squared norms and moments from the features in the buffers.
    fn add_sums(&mut self, block: &RowBlock<'_, T>, sums: &mut GatheredSums) -> Result<()> {
        let (b, map, buffers) = (block.len(), self.data.map, &mut self.buffers);
        let workers = self.data.resources.workers;
        let phi = MatRef::from_column_major_slice(&buffers.column_major, b, map.dims().1);
        if let Some(certificate) = &mut sums.certificate {
            buffers.kernel_diag.resize(b, 0.0);
            map.kernel_diag(MatRef::from_row_major_slice(block.x, b, block.d), &mut buffers.kernel_diag);
            let weights = row_weights::block_weights(block)?;
            certificate.update(phi, &buffers.kernel_diag, weights.as_deref(), &mut buffers.partial_sums, workers);
        }
        if self.options.needs_squared_norms {
            match sums.certificate {
                Some(_) => sums.squared_norms.extend_from_slice(&buffers.kernel_diag[..b]),
                None => {
                    let squared_norm =
                        |row: faer::RowRef<'_, T>| row.iter().map(|v| v.to_f64() * v.to_f64()).sum::<f64>();
                    sums.squared_norms.extend(phi.row_iter().map(squared_norm));
                }
            }
        }
        if let Some(moments) = &mut sums.moments {
            let no_targets = MatRef::from_column_major_slice(&[], b, 0);
            moments.update(0, phi, no_targets, &mut self.scratch, workers)?;
        }
        Ok(())
    }

    /// Adds classes or numeric targets. If the rows have weights, adds the weights; if there are
    /// several folds, adds the folds.
    fn add_row_values(&self, block: &RowBlock<'_, T>, state: &mut GatherState) -> Result<()> {
        match (self.data.targets, block.classes) {
            (Targets::Classes(classes), Some(LabelCodes { codes, .. })) => {
                let first_unknown = codes.iter().position(|code| *code as usize >= classes.labels().len());
                if let Some(i) = first_unknown {
                    return Err(Error::UnknownClass { row: block.row_numbers[i] });
                }
                state.class_codes.extend_from_slice(codes);
            }
            (Targets::Classes(_), None) => return Err(Error::UnknownClass { row: block.row_numbers[0] }),
            (Targets::Numeric { .. }, _) => state.y.extend_from_slice(block.y),
        }
        let group_code_of = |i: usize| block.groups.map_or(LabelCodes::UNKNOWN, |groups| groups.codes[i]);
        for i in (0..block.len()).filter(|_| self.options.needs_groups) {
            let group_code = Some(group_code_of(i)).filter(|group| *group != LabelCodes::UNKNOWN);
            state.group_codes.push(group_code.ok_or(Error::UnknownGroup { row: block.row_numbers[i] })?);
        }
        for i in 0..block.len() {
            state.weights.0.extend(row_weights::block_weight(block, i)?.map(|weight| weight * self.data.weight_unit));
        }
        if self.data.folds.count() > 1 {
            for (i, row) in block.row_numbers.iter().enumerate() {
                // there are at most a thousand folds
                state.row_folds.push(self.data.folds.fold_of(*row, group_code_of(i))? as u16);
            }
        }
        Ok(())
    }
}
