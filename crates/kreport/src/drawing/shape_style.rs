//! A minimal parser of the style rules in `drawing.css`, for raster images.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ShapeStyle {
    pub(super) fill: Option<[u8; 3]>,
    pub(super) stroke: Option<[u8; 3]>,
    pub(super) stroke_width: f32,
    pub(super) opacity: f32,
    /// Lengths of a dash and of the gap after it; zeros for a solid line.
    pub(super) dash: [f32; 2],
}

impl ShapeStyle {
    /// Returns the style of some classes; later rules override earlier ones, as in a browser.
    pub(super) fn for_classes(rules: &str, classes: &str) -> Self {
        let matches_class = |selector: &str| {
            selector.trim().strip_prefix('.').is_some_and(|class| classes.split(' ').any(|word| word == class))
        };
        let properties: HashMap<&str, &str> = rules
            .split('}')
            .filter_map(|rule| rule.split_once('{').filter(|(selector, _)| matches_class(selector)))
            .flat_map(|(_, declarations)| declarations.split(';').filter_map(|declaration| declaration.split_once(':')))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        let colour_of = |name: &str, default: Option<[u8; 3]>| match properties.get(name) {
            None => default,
            // `currentColor` stands for the colour of the shape's class
            Some(&"currentColor") => properties.get("color").and_then(|text| parse_colour(text)),
            Some(text) => parse_colour(text),
        };
        let number = |name: &str| properties.get(name).and_then(|text| text.parse().ok()).unwrap_or(1.0);
        let dash = properties.get("stroke-dasharray").and_then(|text| text.split_once(' '));
        let dash = dash.map_or([0.0; 2], |(dash, gap)| [dash, gap].map(|length| length.parse().unwrap_or(0.0)));
        let (fill, stroke) = (colour_of("fill", Some([0; 3])), colour_of("stroke", None));
        Self { fill, stroke, stroke_width: number("stroke-width"), opacity: number("opacity"), dash }
    }
}

/// Parses a colour `#rrggbb` or `#rgb`; `None` for any other text, such as `none`.
fn parse_colour(text: &str) -> Option<[u8; 3]> {
    let digits = text.strip_prefix('#')?;
    let value = |digits: &str| u8::from_str_radix(digits, 16).ok();
    match digits.len() {
        3 => Some([value(&digits[..1])? * 17, value(&digits[1..2])? * 17, value(&digits[2..])? * 17]),
        6 => Some([value(&digits[..2])?, value(&digits[2..4])?, value(&digits[4..])?]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn classes_look_as_their_rules_say() {
        let rules = super::super::standalone_style();
        let style_of = |classes: &str| super::ShapeStyle::for_classes(&rules, classes);
        let row = style_of("row c1");
        assert_eq!((row.fill, row.stroke, row.stroke_width), (Some([0xc8, 0x50, 0x0a]), Some([255; 3]), 0.6));
        assert_eq!(style_of("row").fill, Some([0x1b, 0x1e, 0x23]));
        assert_eq!((style_of("region c0").opacity, style_of("shade h3").opacity), (0.22, 0.22));
        assert_eq!((style_of("contour").fill, style_of("paper").fill), (None, Some([255; 3])));
        assert_eq!((style_of("line c2").stroke, style_of("line c2").fill), (Some([0x00, 0x79, 0x5c]), None));
        assert_eq!((style_of("mark c2").fill, style_of("band c2").opacity), (Some([0x00, 0x79, 0x5c]), 0.16));
        assert_eq!((style_of("line c9 dashed").dash, style_of("line c9").dash), ([6.0, 3.0], [0.0; 2]));
        assert_eq!((style_of("border").stroke_width, style_of("nothing").fill), (2.0, Some([0; 3])));
    }
}
