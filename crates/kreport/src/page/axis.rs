//! The axes of charts: the position of a value, and the tick labels.

use crate::drawing::text_width;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Linear: equal differences have equal lengths.
    Linear,
    /// Logarithmic: equal ratios have equal lengths; positive values only.
    Log,
}

/// An axis of a chart, with its ends and ticks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// Name of the quantity, with its unit.
    pub(crate) label: String,
    scale: Scale,
    low: f64,
    high: f64,
    /// Labelled values, ascending.
    pub(crate) ticks: Vec<f64>,
    /// Names of the values 0, 1, …, which replace the numbers; empty for an axis of numbers.
    names: Vec<String>,
}

/// Number of characters of all tick labels that fit side by side, and of one name.
const MAX_LABEL_CHARS: usize = 52;
const MAX_NAME_CHARS: usize = 14;
/// Minimum length to which names are shortened so that all fit.
const MIN_NAME_CHARS: usize = 8;

/// Maximum number of labels that fit side by side.
const MAX_TICKS: usize = 7;

/// Distance between two labels, relative to the font size.
const LABEL_GAP: f64 = 0.5;

/// Fraction of the axis that is left free at either end.
const AXIS_MARGIN: f64 = 0.04;

impl Scale {
    /// Returns round values between the ends, at most `max_ticks`.
    fn ticks(self, low: f64, high: f64, max_ticks: usize) -> Vec<f64> {
        match self {
            Scale::Linear => linear_ticks(low, high, max_ticks),
            Scale::Log => log_ticks(low, high, max_ticks),
        }
    }
}

impl Axis {
    /// Returns an axis for these values. `None` if the axis can show none of them; a logarithmic
    /// axis, for example, cannot show 0.
    pub(crate) fn new(label: impl Into<String>, scale: Scale, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let is_valid = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (low, high) = extent(values.into_iter().filter(is_valid));
        if low > high {
            return None;
        }
        let (label, (low, high)) = (label.into(), padded_range(scale, low, high));
        let ticks = scale.ticks(low, high, MAX_TICKS);
        Some(Self { label, scale, low, high, ticks, names: Vec::new() })
    }

    /// Returns a linear axis with these ends.
    pub(crate) fn with_range(label: impl Into<String>, (low, high): (f64, f64)) -> Self {
        let (scale, ticks, names) = (Scale::Linear, linear_ticks(low, high, MAX_TICKS), Vec::new());
        Self { label: label.into(), scale, low, high, ticks, names }
    }

    /// Returns an axis of names at the values 0, 1, …; names that do not fit side by side are
    /// shortened, or only every second name is shown, and so on.
    pub(crate) fn of_names(label: impl Into<String>, names: &[String]) -> Self {
        let shortest = (MAX_LABEL_CHARS / names.len().max(1)).saturating_sub(1);
        let max_chars = if shortest >= MIN_NAME_CHARS { shortest.min(MAX_NAME_CHARS) } else { MAX_NAME_CHARS };
        let short = |name: &String| match name.chars().count() > max_chars {
            true => name.chars().take(max_chars - 1).chain(['…']).collect(),
            false => name.clone(),
        };
        let names: Vec<String> = names.iter().map(short).collect();
        // each label takes as much room as the longest one
        let longest = names.iter().map(|name| name.chars().count() + 1).max().unwrap_or(1);
        let step = names.len().div_ceil((MAX_LABEL_CHARS / longest).max(1)).max(1);
        let ticks = (0..names.len()).step_by(step).map(|i| i as f64).collect();
        let (low, high) = (-0.5, names.len().max(1) as f64 - 0.5);
        Self { label: label.into(), scale: Scale::Linear, low, high, ticks, names }
    }

    /// Returns the ticks with their labels in one notation: if one label needs an exponent, all
    /// labels have an exponent.
    pub(crate) fn labelled_ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let uses_exponents = self.ticks.iter().any(|tick| needs_exponent(*tick));
        self.ticks.iter().map(move |tick| {
            let number = || if uses_exponents { scientific(*tick) } else { tick_label(*tick) };
            (*tick, self.names.get(*tick as usize).cloned().unwrap_or_else(number))
        })
    }

    /// Returns the name of a value of an axis of names.
    pub(crate) fn name_of(&self, value: f64) -> Option<&str> {
        self.names.get(value.round() as usize).map(String::as_str)
    }

    /// Replaces the ticks if the new ones are few and far enough apart.
    pub(crate) fn with_ticks(self, ticks: &[f64]) -> Self {
        let positions: Vec<f64> = ticks.iter().filter_map(|tick| self.position(*tick, 0.0, 1.0)).collect();
        let are_spaced = positions.windows(2).all(|pair| pair[1] - pair[0] > 0.5 / MAX_TICKS as f64);
        let fits = are_spaced && positions.len() == ticks.len() && (2..=MAX_TICKS).contains(&ticks.len());
        if fits { Self { ticks: ticks.to_vec(), ..self } } else { self }
    }

    /// Returns the axis with as many ticks as fit side by side on a horizontal axis of this length,
    /// with labels of this font size.
    pub(crate) fn with_room(&self, length: f64, font_size: f64) -> Self {
        let has_room = |axis: &Self| {
            let labels = axis.labelled_ticks().filter_map(|(tick, label)| {
                let middle = axis.position(tick, 0.0, length)?;
                let half_width = (text_width(&label, font_size) + LABEL_GAP * font_size) / 2.0;
                Some((middle - half_width, middle + half_width))
            });
            labels.collect::<Vec<_>>().windows(2).all(|pair| pair[0].1 <= pair[1].0)
        };
        let is_default = self.names.is_empty() && self.ticks == self.scale.ticks(self.low, self.high, MAX_TICKS);
        let rounder =
            (2..MAX_TICKS).rev().filter(|_| is_default).map(|count| self.scale.ticks(self.low, self.high, count));
        let fewer = (2..self.ticks.len()).map(|step| self.ticks.iter().copied().step_by(step).collect());
        let candidates =
            rounder.filter(|ticks| ticks.len() > 1).chain(fewer).map(|ticks| Self { ticks, ..self.clone() });
        std::iter::once(self.clone())
            .chain(candidates)
            .find(has_room)
            .unwrap_or_else(|| Self { ticks: self.ticks[..self.ticks.len().min(1)].to_vec(), ..self.clone() })
    }

    /// Returns the width of the widest tick label.
    pub(crate) fn label_width(&self, font_size: f64) -> f64 {
        self.labelled_ticks().map(|(_, label)| text_width(&label, font_size)).fold(0.0, f64::max)
    }

    /// Returns true for a value between the ends of the axis.
    pub(crate) fn contains_value(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Returns the position of a value on an axis that is drawn from `start` to `end`; `None` if
    /// the value has no position on this scale.
    pub(crate) fn position(&self, value: f64, start: f64, end: f64) -> Option<f64> {
        let (low, high, value) = match self.scale {
            Scale::Linear => (self.low, self.high, value),
            Scale::Log if value > 0.0 => (self.low.ln(), self.high.ln(), value.ln()),
            Scale::Log => return None,
        };
        let fraction = (value - low) / (high - low);
        fraction.is_finite().then(|| start + fraction.clamp(0.0, 1.0) * (end - start))
    }
}

/// Returns the minimum and maximum of some values; without values, the first is larger than the
/// second.
pub(crate) fn extent(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

/// Returns the ends of an axis for values from `low` to `high`.
fn padded_range(scale: Scale, low: f64, high: f64) -> (f64, f64) {
    match scale {
        Scale::Linear => {
            let constant = if low == 0.0 { 1.0 } else { low.abs() };
            let margin = if high > low { AXIS_MARGIN * (high - low) } else { constant / 2.0 };
            (low - margin, high + margin)
        }
        Scale::Log => {
            let margin = if high > low { (high / low).powf(AXIS_MARGIN) } else { 2.0 };
            (low / margin, high * margin)
        }
    }
}

/// Returns the ticks of a logarithmic axis: 1, 2 and 5 times every power of ten. If these ticks are
/// too many, returns only the powers of ten; if these are still too many, only every second power,
/// and so on.
fn log_ticks(low: f64, high: f64, max_ticks: usize) -> Vec<f64> {
    let (first_exponent, last_exponent) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let is_inside = |value: &f64| (low..=high).contains(value);
    let candidates: Vec<f64> = (first_exponent..=last_exponent)
        .flat_map(|e| [1.0, 2.0, 5.0].map(|m| decimal_number(m, e)))
        .filter(is_inside)
        .collect();
    if candidates.len() <= max_ticks {
        return candidates;
    }
    (1..)
        .map(|step| {
            (first_exponent..=last_exponent)
                .filter(|e| e % step == 0)
                .map(|e| decimal_number(1.0, e))
                .filter(is_inside)
                .collect()
        })
        .find(|ticks: &Vec<f64>| ticks.len() <= max_ticks)
        .unwrap_or_default()
}

/// Returns mantissa·10^exponent. The number is parsed from decimal text and therefore correctly
/// rounded: 5 and −3 give exactly the literal 0.005.
fn decimal_number(mantissa: f64, exponent: i32) -> f64 {
    format!("{mantissa}e{exponent}").parse().unwrap_or(f64::NAN)
}

/// Returns the ticks of a linear axis: as many multiples of 1, 2, 2.5 or 5 times a power of ten as
/// fit.
fn linear_ticks(low: f64, high: f64, max_ticks: usize) -> Vec<f64> {
    let rough_step = (high - low) / (max_ticks - 1) as f64;
    let exponent = rough_step.log10().floor() as i32;
    let multiples = |step: f64| ((low / step).ceil() as i64, (high / step).floor() as i64);
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| decimal_number(m, exponent));
    let fits = |step: &f64| multiples(*step).1 - multiples(*step).0 < max_ticks as i64;
    let step = steps.into_iter().find(fits).unwrap_or(rough_step);
    let (first, last) = multiples(step);
    // i / 20 rounds to the number that is written, i · 0.05 need not
    let inverse = 1.0 / step;
    let is_fraction = inverse >= 1.0;
    (first..=last).map(|i| if is_fraction { i as f64 / inverse.round() } else { i as f64 * step }).collect()
}

/// Returns true for a number that is long without an exponent.
fn needs_exponent(value: f64) -> bool {
    value != 0.0 && !(1e-4..1e6).contains(&value.abs())
}

/// Formats the label of a tick: `50`, `0.001`, `10,000`, `10⁶`, `2·10⁶`.
pub(crate) fn tick_label(value: f64) -> String {
    if needs_exponent(value) {
        return scientific(value);
    }
    if value < 0.0 {
        return format!("−{}", tick_label(-value));
    }
    let plain = value.to_string();
    match plain.split_once('.') {
        None if value >= 1e4 => crate::table::format_count(value as u64),
        _ => plain,
    }
}

/// Formats a number with an exponent: `10⁻³`, `2·10⁶`; formats 0 and 1 without an exponent.
fn scientific(value: f64) -> String {
    if value < 0.0 {
        return format!("−{}", scientific(-value));
    }
    if value == 0.0 || value == 1.0 {
        return value.to_string();
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let superscripts: String = exponent.chars().map(superscript).collect();
    if mantissa == "1" { format!("10{superscripts}") } else { format!("{mantissa}·10{superscripts}") }
}

fn superscript(digit: char) -> char {
    match digit {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        other => other.to_digit(10).and_then(|digit| char::from_u32('⁰' as u32 + digit)).unwrap_or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_read_as_ranks() {
        let axis = Axis::new("rank", Scale::Log, [50.0, 100.0, 2000.0]).unwrap();
        assert_eq!(axis.ticks, [50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0]);
        assert_eq!(axis.position(0.0, 0.0, 1.0), None);
        let positions: Vec<f64> = axis.ticks.iter().map(|tick| axis.position(*tick, 0.0, 400.0).unwrap()).collect();
        assert!(positions.windows(2).all(|pair| pair[1] > pair[0] + 20.0), "{positions:?}");
    }

    #[test]
    fn many_decades_have_few_ticks() {
        let axis = Axis::new("error", Scale::Log, [1e-13, 1.0]).unwrap();
        assert!(axis.ticks.len() <= MAX_TICKS && axis.ticks.len() >= 4, "{:?}", axis.ticks);
        let axis = Axis::new("error", Scale::Log, [0.011, 0.97]).unwrap();
        assert_eq!(axis.ticks, [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]);
    }

    #[test]
    fn linear_ticks_are_round_numbers() {
        let axis = Axis::new("mse", Scale::Linear, [0.31, 0.52]).unwrap();
        assert_eq!(axis.ticks, [0.35, 0.4, 0.45, 0.5]);
        let axis = Axis::new("rows", Scale::Linear, [-210.0, 830.0]).unwrap();
        assert_eq!(axis.ticks, [-200.0, 0.0, 200.0, 400.0, 600.0, 800.0]);
        // an error that stays the same has an axis without negative values
        let axis = Axis::new("mse", Scale::Linear, [0.5, 0.5]).unwrap();
        assert_eq!((axis.low, axis.high), (0.25, 0.75));
    }

    #[test]
    fn an_axis_has_one_notation() {
        let texts = |values: [f64; 2], scale| -> Vec<String> {
            Axis::new("", scale, values).unwrap().labelled_ticks().map(|(_, text)| text).collect()
        };
        assert_eq!(texts([1e-5, 0.1], Scale::Log), ["10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹"]);
        assert_eq!(texts([1e-3, 1.0], Scale::Log), ["0.001", "0.01", "0.1", "1"]);
        assert_eq!(texts([0.0, 200_000.0], Scale::Linear), ["0", "50,000", "100,000", "150,000", "200,000"]);
        assert_eq!(texts([0.0, 2e6], Scale::Linear), ["0", "5·10⁵", "10⁶", "1.5·10⁶", "2·10⁶"]);
        let ranks = [25.0, 50.0, 100.0, 200.0, 400.0];
        let axis = Axis::new("rank", Scale::Log, ranks).unwrap();
        assert_eq!(axis.clone().with_ticks(&ranks).ticks, ranks);
        // The ticks are unchanged if the others are too close to each other, too many, or none.
        for others in [&[100.0, 101.0][..], &[25.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 400.0], &[]] {
            assert_eq!(axis.clone().with_ticks(others), axis);
        }
    }

    #[test]
    fn names_are_ticks_if_they_fit() {
        let texts = |names: &[&str]| -> Vec<String> {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            Axis::of_names("", &names).labelled_ticks().map(|(_, text)| text).collect()
        };
        assert_eq!(texts(&["Bonn", "Ulm"]), ["Bonn", "Ulm"]);
        let months = ["January", "February", "March", "April", "May", "June", "July", "August"];
        assert_eq!(texts(&months), ["January", "March", "May", "July"], "every second name");
        assert_eq!(texts(&["a city with a long name"]), ["a city with a…"]);
        let five = ["Control", "Long-term Krat", "Rodent Exclosure", "Short-term Krat", "Spectab"];
        assert_eq!(texts(&five), ["Control", "Long-ter…", "Rodent E…", "Short-te…", "Spectab"]);
        assert!(texts(&[]).is_empty());
    }

    #[test]
    fn labels_have_room() {
        let axis = Axis::new("price", Scale::Linear, [36_000.0, 640_000.0]).unwrap();
        assert_eq!(axis.ticks.len(), 6);
        assert_eq!(axis.with_room(1000.0, 15.0), axis, "all labels fit");
        assert_eq!(axis.with_room(388.0, 15.0).ticks, [200_000.0, 400_000.0, 600_000.0], "other round numbers");
        assert_eq!(axis.with_room(10.0, 15.0).ticks.len(), 1);
        let ranks = [25.0, 50.0, 100.0, 200.0, 400.0];
        let axis = Axis::new("rank", Scale::Log, ranks).unwrap().with_ticks(&ranks);
        assert_eq!(axis.with_room(388.0, 15.0).ticks, ranks);
        assert_eq!(axis.with_room(130.0, 15.0).ticks, [25.0, 100.0, 400.0], "every second rank");
    }

    #[test]
    fn a_single_number_and_none_are_no_trouble() {
        for scale in [Scale::Linear, Scale::Log] {
            let axis = Axis::new("", scale, [3.0]).unwrap();
            let position = axis.position(3.0, 0.0, 100.0).unwrap();
            assert!((position - 50.0).abs() < 1e-9 && !axis.ticks.is_empty(), "{axis:?}");
        }
        assert!(Axis::new("", Scale::Log, [0.0, -1.0, f64::NAN, f64::INFINITY]).is_none());
        assert!(Axis::new("", Scale::Linear, [0.0]).unwrap().position(f64::NAN, 0.0, 1.0).is_none());
    }

    #[test]
    fn labels_are_as_people_write_them() {
        let texts = [0.0, 50.0, 2000.0, 20_000.0, 1e6, 2e6, 0.001, 0.0001, 1e-5, 5e-12, 0.35, -200.0].map(tick_label);
        let expected =
            ["0", "50", "2000", "20,000", "10⁶", "2·10⁶", "0.001", "0.0001", "10⁻⁵", "5·10⁻¹²", "0.35", "−200"];
        assert_eq!(texts, expected);
    }
}
