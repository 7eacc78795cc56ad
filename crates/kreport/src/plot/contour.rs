//! Contour lines of a function on a grid: marching squares.
//!
//! Four neighbouring grid points form a square. The contour of a level crosses an edge of the
//! square if the level lies between the values at the two ends of the edge; linear interpolation
//! gives the position of the crossing. In the saddle case, two opposite corners are above the level
//! and two below, and all four edges are crossed. The mean of the corners then decides which
//! crossings are connected.
//!
//! Reference: Maple, "Geometric design and space planning using the marching squares and marching
//! cube algorithms", 2003.

/// The values of a function on a grid, row by row from the lowest y.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FunctionGrid {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) values: Vec<f64>,
}

/// A line segment, in units of the grid.
pub(super) type Segment = [(f64, f64); 2];

impl FunctionGrid {
    pub(super) fn value_at(&self, column: usize, row: usize) -> f64 {
        self.values[row * self.width + column]
    }

    /// Returns the segments of the contour line at `level`.
    pub(super) fn contour(&self, level: f64) -> Vec<Segment> {
        let mut segments = Vec::new();
        for row in 0..self.height.saturating_sub(1) {
            for column in 0..self.width.saturating_sub(1) {
                self.add_square(column, row, level, &mut segments);
            }
        }
        segments
    }

    fn add_square(&self, column: usize, row: usize, level: f64, segments: &mut Vec<Segment>) {
        // corners counter-clockwise from the lower left, with their heights above the level
        let corners = [(0, 0), (1, 0), (1, 1), (0, 1)].map(|(x, y)| (column + x, row + y));
        let heights = corners.map(|(x, y)| self.value_at(x, y) - level);
        if heights.iter().any(|height| !height.is_finite()) {
            return;
        }
        let edge_crossing = |i: usize| {
            let (j, (a, b)) = ((i + 1) % 4, (heights[i], heights[(i + 1) % 4]));
            if (a > 0.0) == (b > 0.0) {
                return None;
            }
            let fraction = a / (a - b);
            let coordinate = |axis: fn((usize, usize)) -> usize| {
                axis(corners[i]) as f64 + fraction * (axis(corners[j]) as f64 - axis(corners[i]) as f64)
            };
            Some((coordinate(|corner| corner.0), coordinate(|corner| corner.1)))
        };
        let crossings: Vec<(f64, f64)> = (0..4).filter_map(edge_crossing).collect();
        match crossings[..] {
            [a, b] => segments.push([a, b]),
            [a, b, c, d] => {
                // a saddle: the sign of the mean height decides which pair of opposite corners is
                // connected
                let middle: f64 = heights.iter().sum();
                let connects_first = (middle > 0.0) == (heights[0] > 0.0);
                segments.extend(if connects_first { [[a, b], [c, d]] } else { [[d, a], [b, c]] });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contour_of_a_cone_is_a_circle() {
        let (width, height) = (41, 31);
        let value = |i: usize| (((i % width) as f64 - 20.0).powi(2) + ((i / width) as f64 - 15.0).powi(2)).sqrt();
        let grid = FunctionGrid { width, height, values: (0..width * height).map(value).collect() };
        let pieces = grid.contour(9.0);
        assert!(pieces.len() > 40);
        let radius = |(x, y): (f64, f64)| ((x - 20.0f64).powi(2) + (y - 15.0f64).powi(2)).sqrt();
        assert!(pieces.iter().flatten().all(|point| (radius(*point) - 9.0).abs() < 0.05));
        let length: f64 = pieces.iter().map(|[a, b]| (a.0 - b.0).hypot(a.1 - b.1)).sum();
        assert!((length / (std::f64::consts::TAU * 9.0) - 1.0).abs() < 0.01, "{length}");
    }

    #[test]
    fn saddles_and_holes_are_no_trouble() {
        let grid = |values: [f64; 4]| FunctionGrid { width: 2, height: 2, values: values.to_vec() };
        // opposite corners above: the middle is above, so they are connected
        assert_eq!(grid([2.0, -1.0, -1.0, 2.0]).contour(0.0).len(), 2);
        assert_eq!(grid([1.0, 1.0, 1.0, 1.0]).contour(0.0), Vec::<Segment>::new());
        assert_eq!(grid([1.0, f64::NAN, -1.0, 1.0]).contour(0.0), Vec::<Segment>::new());
    }
}
