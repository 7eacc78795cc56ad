use super::*;
use crate::page::{Scale, plane::DESCENT};

fn chart(values: &[(f64, f64)]) -> Chart {
    let mark =
        |(x, y): &(f64, f64)| DataPoint { band: (y / 2.0, y * 2.0), ..DataPoint::new((*x, *y), format!("rank {x}")) };
    let x = Axis::new("rank", Scale::Log, [50.0, 2000.0]).unwrap();
    let y = Axis::new("error", Scale::Log, [1e-3, 1.0]).unwrap();
    Chart {
        series: vec![Series {
            name: "a&b".to_string(),
            palette_index: 8,
            marks: values.iter().map(mark).collect(),
            ..Series::default()
        }],
        scatter_points: vec![(50.0, 0.1), (f64::NAN, 1.0)],
        bars: vec![(100.0, 200.0, 0.1)],
        reference_line: Some(("floor".to_string(), vec![(50.0, 0.1), (100.0, 0.0), (200.0, 0.01)])),
        ..Chart::new("c", "<b>", x, y)
    }
}

#[test]
fn what_has_no_place_is_left_out_and_the_rest_is_there() {
    let svg = chart(&[(50.0, 0.5), (100.0, 0.0), (200.0, 0.1), (2000.0, f64::NAN)]).to_string();
    assert_eq!(svg.matches("class=\"mark c8\"").count(), 2, "{svg}");
    assert!(svg.contains("data-name=\"a&amp;b\"") && svg.contains("line c8 dashed") && svg.contains("&lt;b&gt;"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    assert!(svg.contains(">50</text>") && svg.contains(">2000</text>") && svg.contains("class=\"floor\""));
    assert!(svg.contains("data-names=\"rank|error\" data-values=\"50.00 0.1000 \""), "{svg}");
    assert!(svg.contains("<title>100.0 to 200.0: 0.1000</title>"), "{svg}");
    // values are written with full precision
    assert!(svg.contains("data-x=\"5e1\" data-y=\"5e-1\" data-low=\"2.5e-1\" data-high=\"1e0\""), "{svg}");
}

/// Left, top, right and bottom end of each word of an SVG, at the largest font size.
fn word_boxes(svg: &str) -> Vec<(String, [f64; 4])> {
    let word_box = |element: &str| {
        let (tag, rest) = element.split_once('>')?;
        let word = rest.split('<').next()?;
        let (x, y) = tag.split_once("translate(")?.1.split_once(')')?.0.split_once(' ')?;
        let (x, y) = (x.parse::<f64>().ok()?, y.parse::<f64>().ok()?);
        let width = text_width(word, MAX_FONT_SIZE);
        let (ascent, descent) = (0.76 * MAX_FONT_SIZE, DESCENT * MAX_FONT_SIZE);
        let start = match tag {
            tag if tag.contains("rotate") => {
                return Some((word.to_string(), [x - ascent, y - width / 2.0, x + descent, y + width / 2.0]));
            }
            tag if tag.contains("\"end\"") => x - width,
            tag if tag.contains("\"middle\"") => x - width / 2.0,
            _ => x,
        };
        Some((word.to_string(), [start, y - ascent, start + width, y + descent]))
    };
    svg.split("<text").skip(1).map(|element| word_box(element).unwrap_or_else(|| panic!("{element}"))).collect()
}

/// Checks that no two words of a chart overlap and that none is cut.
fn assert_legible(chart: &Chart) {
    let svg = chart.to_string();
    let words = word_boxes(&svg);
    assert!(words.len() > 4, "{svg}");
    for (i, (word, [left, top, right, bottom])) in words.iter().enumerate() {
        let is_inside = *left >= 0.0 && *top >= 0.0 && *right <= CHART_SIZE.0 && *bottom <= CHART_SIZE.1;
        assert!(is_inside, "{word} is cut: {left} {top} {right} {bottom}");
        for (other, [other_left, other_top, other_right, other_bottom]) in &words[i + 1..] {
            let (width, height) =
                (right.min(*other_right) - left.max(*other_left), bottom.min(*other_bottom) - top.max(*other_top));
            assert!(width <= 0.0 || height <= 0.0, "{word} overlaps {other}");
        }
    }
}

#[test]
fn words_neither_overlap_nor_leave_the_chart() {
    let linear = |label: &str, ends: [f64; 2]| Axis::new(label, Scale::Linear, ends).unwrap();
    for ends in [[36_000.0, 640_000.0], [-70_000.0, 70_000.0], [2.9974e12, 3.008e12], [-2.9e-11, 3.1e-11]] {
        let chart = Chart::new("c", "", linear("predicted", ends), linear("residual (actual − predicted)", ends));
        assert_legible(&chart);
    }
    let long = "Durchschnittstemperatur_der_Messstelle_Nr_53_in_Straße_Köln_μg/m³";
    assert_legible(&Chart::new("c", "", linear(long, [0.0, 4e-4]), linear(long, [0.0, 20_000.0])));
    for names in [["AsbShng", "BrkComm", "CemntBd", "WWWWWWWW"], ["日本語の長い名前", "日本語", "Ulm", "Bonn"]]
    {
        let names: Vec<String> = names.iter().cycle().take(12).map(ToString::to_string).collect();
        assert_legible(&Chart::new("c", "", Axis::of_names("level", &names), linear("rows", [0.0, 3e6])));
    }
}

#[test]
fn labels_of_marks_do_not_overlap() {
    let mark = |(x, label): (f64, &str)| DataPoint {
        label: label.to_string(),
        ..DataPoint::new((x, 0.4), format!("threshold {label}"))
    };
    let marks = [(0.5, "0.500"), (0.9, "0.900"), (0.55, "0.250"), (0.5, "0.500")].map(mark).to_vec();
    let axis = |label: &str| Axis::new(label, Scale::Linear, [0.0, 1.0]).unwrap();
    let series = vec![Series { name: "thresholds".to_string(), marks, ..Series::default() }];
    let chart = Chart { series, ..Chart::new("c", "", axis("recall"), axis("precision")) };
    assert_legible(&chart);
    let svg = chart.to_string();
    let label_count = |label: &str| svg.matches(&format!(">{label}</text>")).count();
    assert_eq!(["0.500", "0.900", "0.250"].map(label_count), [1, 1, 0], "{svg}");
    assert!(svg.contains("<title>thresholds, threshold 0.250: "), "the tooltip has it: {svg}");
}

#[test]
fn larger_numbers_are_higher_and_to_the_right() {
    let chart = chart(&[]);
    let plane = Plane { x: &chart.x, y: &chart.y, edges: CHART_EDGES };
    let position = |x, y| plane.position((x, y)).unwrap();
    assert!(position(100.0, 0.5).0 > position(50.0, 0.5).0 && position(50.0, 0.5).1 < position(50.0, 0.1).1);
    assert!(position(1e9, 1e9) == (CHART_EDGES.right, CHART_EDGES.top), "clamped to the plane");
}
