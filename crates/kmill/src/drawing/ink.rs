//! A small reader of the style rules in `drawing.css`, for pictures of pixels.

use super::STYLE;

/// The look of a shape: its colours and lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ink {
    pub(super) fill: Option<[u8; 3]>,
    pub(super) stroke: Option<[u8; 3]>,
    pub(super) width: f32,
    pub(super) opacity: f32,
    /// Lengths of a dash and of the gap after it; zeros for a whole line.
    pub(super) dash: [f32; 2],
}

impl Ink {
    /// The look that the rules give to some classes; later rules override earlier ones, as in a browser.
    pub(super) fn of(classes: &str) -> Self {
        let mut ink = Self { fill: Some([0; 3]), stroke: None, width: 1.0, opacity: 1.0, dash: [0.0; 2] };
        let mut own = Current::default();
        for rule in STYLE.split('}') {
            let Some((selector, declarations)) = rule.split_once('{') else { continue };
            let class = selector.trim().strip_prefix('.');
            if class.is_some_and(|class| classes.split(' ').any(|own| own == class)) {
                declarations
                    .split(';')
                    .filter_map(|one| one.split_once(':'))
                    .for_each(|one| ink.declare(one, &mut own));
            }
        }
        if own.fill {
            ink.fill = own.colour;
        }
        if own.stroke {
            ink.stroke = own.colour;
        }
        ink
    }

    fn declare(&mut self, (name, value): (&str, &str), own: &mut Current) {
        let value = value.trim();
        match name.trim() {
            "color" => own.colour = colour(value),
            "fill" => (self.fill, own.fill) = (colour(value), value == CURRENT),
            "stroke" => (self.stroke, own.stroke) = (colour(value), value == CURRENT),
            "stroke-dasharray" => {
                let mut lengths = value.split(' ').map(|length| length.parse().unwrap_or(0.0));
                self.dash = [lengths.next().unwrap_or(0.0), lengths.next().unwrap_or(0.0)];
            }
            "stroke-width" => self.width = value.parse().unwrap_or(self.width),
            "opacity" => self.opacity = value.parse().unwrap_or(self.opacity),
            _ => {}
        }
    }
}

/// The word for the colour of a shape's class, the property `color`.
const CURRENT: &str = "currentColor";

/// The colour of a shape's class, and what is drawn in it.
#[derive(Default)]
struct Current {
    colour: Option<[u8; 3]>,
    fill: bool,
    stroke: bool,
}

/// The colour of the text `#rrggbb` or `#rgb`; `None` for any other text, such as `none`.
fn colour(text: &str) -> Option<[u8; 3]> {
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
    use super::*;

    #[test]
    fn classes_look_as_their_rules_say() {
        let row = Ink::of("row c1");
        assert_eq!((row.fill, row.stroke, row.width), (Some([0xc8, 0x50, 0x0a]), Some([255; 3]), 0.6));
        assert_eq!(Ink::of("row").fill, Some([0x1b, 0x1e, 0x23]));
        assert_eq!((Ink::of("region c0").opacity, Ink::of("shade h3").opacity), (0.22, 0.22));
        assert_eq!((Ink::of("contour").fill, Ink::of("paper").fill), (None, Some([255; 3])));
        assert_eq!((Ink::of("line c2").stroke, Ink::of("line c2").fill), (Some([0x00, 0x79, 0x5c]), None));
        assert_eq!((Ink::of("mark c2").fill, Ink::of("band c2").opacity), (Some([0x00, 0x79, 0x5c]), 0.16));
        assert_eq!((Ink::of("line c9 dashed").dash, Ink::of("line c9").dash), ([6.0, 3.0], [0.0; 2]));
        assert_eq!((Ink::of("border").width, Ink::of("nothing").fill), (2.0, Some([0; 3])));
    }
}
