//! A statistic: the squared distance between the means of the features of two samples, without
//! p-values.

use kapprox::Real;
use kfit::features::{FitData, GatherOptions, StoredFeatures};
use ksolve::Result;
use ksolve::statistic::{MeasurePair, SampleKind, SplitPoint, StatisticFamily, TestStatistic};

pub(crate) static FAMILY: StatisticFamily = StatisticFamily {
    name: "shift",
    about: "the distance between two means",
    sample_kind: SampleKind::Samples,
    plan: |plan, size, _, _| plan.term("means", 2 * 8 * size.map.p, "lower `rank`"),
    stores_features: false,
    measure: MeasurePair(measure, measure),
};

fn measure<T: Real>(data: &FitData<'_, T>, first_rows: SplitPoint, _: usize) -> Result<TestStatistic> {
    let (features, _) = StoredFeatures::gather(data, GatherOptions::default())?;
    let sizes = [first_rows as f64, (features.n - first_rows) as f64];
    let mut difference = vec![0.0; features.p];
    let observer = data.resources.stage_observer.start_stage("means", None);
    features.visit(&*observer, |tile| {
        for i in 0..tile.row_count() {
            let factor = if tile.first_row + i < first_rows { 1.0 / sizes[0] } else { -1.0 / sizes[1] };
            difference.iter_mut().zip(tile.row(i)).for_each(|(sum, phi)| *sum += factor * phi.to_f64());
        }
        Ok(())
    })?;
    let biased = difference.iter().map(|v| v * v).sum();
    Ok(TestStatistic { biased, ..TestStatistic::default() })
}
