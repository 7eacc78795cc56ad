//! A small reader of the style rules in `picture.css`, for pictures of pixels.

use super::picture::STYLE;

/// The look of a shape: its colours and lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ink {
    pub(super) fill: Option<[u8; 3]>,
    pub(super) stroke: Option<[u8; 3]>,
    pub(super) width: f32,
    pub(super) opacity: f32,
}

impl Ink {
    /// The look that the rules give to some classes; later rules override earlier ones, as in a browser.
    pub(super) fn of(classes: &str) -> Self {
        let mut ink = Self { fill: Some([0; 3]), stroke: None, width: 1.0, opacity: 1.0 };
        for rule in STYLE.split('}') {
            let Some((selector, declarations)) = rule.split_once('{') else { continue };
            let class = selector.trim().strip_prefix('.');
            if class.is_some_and(|class| classes.split(' ').any(|own| own == class)) {
                declarations.split(';').filter_map(|one| one.split_once(':')).for_each(|one| ink.declare(one));
            }
        }
        ink
    }

    fn declare(&mut self, (name, value): (&str, &str)) {
        let value = value.trim();
        match name.trim() {
            "fill" => self.fill = colour(value),
            "stroke" => self.stroke = colour(value),
            "stroke-width" => self.width = value.parse().unwrap_or(self.width),
            "opacity" => self.opacity = value.parse().unwrap_or(self.opacity),
            _ => {}
        }
    }
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
        assert_eq!((Ink::of("border").width, Ink::of("nothing").fill), (2.0, Some([0; 3])));
    }
}
