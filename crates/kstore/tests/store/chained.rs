//! Several tables in sequence as one source.

use kstore::source::ChainedRows;
use kstore::{MemoryRows, RowBuf, RowSource};

#[test]
fn any_tiles_and_segments_give_the_rows_in_order() {
    let part = |from: i32, to: i32| {
        let x = (from..to).flat_map(|i| [f64::from(i), -f64::from(i)]).collect();
        let y = (from..to).map(|i| 2.0 * f64::from(i)).collect();
        MemoryRows::new(x, 2).unwrap().with_targets(y, 1).unwrap()
    };
    let parts = [part(0, 5), part(5, 5), part(5, 6), part(6, 17)];
    let all = ChainedRows::new(parts.iter().map(|part| part as &dyn RowSource<f64>).collect()).unwrap();
    assert_eq!(all.range(), 0..17);
    for capacity in [1, 2, 4, 7, 30] {
        for segment in [3, 17] {
            let (mut rows, mut x, mut y) = (Vec::new(), Vec::new(), Vec::new());
            for first in (0..17).step_by(segment) {
                let end = 17.min(first + segment as u64);
                let mut cursor = all.open(first..end).unwrap();
                let mut buf = RowBuf::new(capacity);
                let mut seen = 0;
                while cursor.next(&mut buf).unwrap() {
                    seen += buf.row_numbers.len() as u64;
                    assert!(buf.row_numbers.len() == capacity || first + seen == end, "a short tile within a segment");
                    rows.extend_from_slice(&buf.row_numbers);
                    x.extend_from_slice(&buf.x);
                    y.extend_from_slice(&buf.y);
                }
            }
            assert_eq!(rows, (0..17).collect::<Vec<u64>>(), "{capacity} {segment}");
            assert_eq!(x, (0..17).flat_map(|i| [f64::from(i), -f64::from(i)]).collect::<Vec<f64>>());
            assert_eq!(y, (0..17).map(|i| 2.0 * f64::from(i)).collect::<Vec<f64>>());
        }
    }
    let narrow = MemoryRows::new(vec![1.0f64], 1).unwrap();
    assert!(ChainedRows::new(vec![&parts[0] as &dyn RowSource<f64>, &narrow]).is_err());
}
