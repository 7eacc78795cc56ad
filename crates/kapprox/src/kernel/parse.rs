//! Parses kernel expressions by recursive descent. Every error points at a character of the text.

use super::column_choice::{ColumnSelection, ColumnSelector};
use super::family::{Domain, GAMMA, KernelFamily, NumericParameter, ParameterRange, Value};
use super::input_scale::InputScale;
use super::node::{BaseKernel, Node};
use super::registry::{by_name, names};
use super::tokens::{Parser, RANGE_SEPARATOR, is_name_start};
use super::transform::{MIN_ORDER, ORDER, TRANSFORMS};
use crate::{Error, Result};
use kpass::display;

/// Maximum depth of nested parentheses: deeper nesting is an error instead of a stack overflow.
const MAX_DEPTH: usize = 64;

pub(super) fn parse(text: &str) -> Result<Node> {
    let mut parser = Parser::new(text);
    let node = parser.parse_sum()?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(node),
        Some('-') => parser.fail("kernels can be added and multiplied, not subtracted"),
        Some(other) => parser.fail(format!("expected '+', '*' or the end, got '{other}'")),
    }
}

/// Parses columns alone, as written after `on=`.
pub(super) fn parse_column_selection(text: &str) -> Result<ColumnSelection> {
    let mut parser = Parser::new(text);
    let columns = parser.parse_columns()?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(columns),
        Some(',') => parser.fail("write several columns in brackets, as in [x0, x3..x5]"),
        Some(_) => parser.fail(format!("expected the end, got {}", parser.describe_next())),
    }
}

const COLUMNS_KEYWORD: &str = "on";
const SCALE_KEYWORD: &str = "scale";
const QUANTILE_KEYWORD: &str = "quantile";

/// The arguments of a kernel that the parser has read.
struct Arguments {
    values: Vec<Option<Value>>,
    columns: Option<ColumnSelection>,
    scale: Option<InputScale>,
}

impl Parser<'_> {
    /// Parses one or more items, separated by `separator`. `parse_item` parses one of them.
    fn parse_separated<R>(
        &mut self,
        separator: char,
        mut parse_item: impl FnMut(&mut Self) -> Result<R>,
    ) -> Result<Vec<R>> {
        let mut items = vec![parse_item(self)?];
        while self.accept(separator) {
            items.push(parse_item(self)?);
        }
        Ok(items)
    }

    fn parse_sum(&mut self) -> Result<Node> {
        self.parse_separated('+', Self::parse_product).map(Node::sum)
    }

    /// Parses a sum in the parenthesis that opens at character `at`.
    fn parse_nested_sum(&mut self, at: usize) -> Result<Node> {
        if self.depth == MAX_DEPTH {
            return self.fail_at(at, format!("more than {MAX_DEPTH} nested parentheses"));
        }
        self.depth += 1;
        let node = self.parse_sum()?;
        self.depth -= 1;
        Ok(node)
    }

    fn parse_product(&mut self) -> Result<Node> {
        let (mut scale, mut factors) = (1.0, Vec::new());
        self.parse_separated('*', |parser| {
            parser.skip_space();
            let start = parser.position;
            let (number, kernel) = parser.parse_factor()?;
            scale *= number;
            factors.extend(kernel);
            match f64::is_finite(scale) {
                true => Ok(()),
                false => parser.fail_at(start, "the product of the factors is too large"),
            }
        })?;
        if factors.is_empty() {
            // a number alone is the constant kernel
            let values = vec![Value::Number(scale)];
            return Ok(Node::Base(BaseKernel {
                family: &super::constant::FAMILY,
                values,
                columns: None,
                scale: None,
                sparse_column_count: None,
            }));
        }
        Ok(Node::product(scale, factors))
    }

    /// Parses a number alone, or a kernel and its factor.
    fn parse_factor(&mut self) -> Result<(f64, Option<Node>)> {
        self.skip_space();
        let node = match self.peek() {
            Some('(') => self.parse_parentheses()?,
            Some(c) if c.is_ascii_digit() || matches!(c, '.' | '-' | '+') => {
                let start = self.position;
                let number = self.parse_number()?;
                if number < 0.0 {
                    return self.fail_at(start, format!("a factor must be >= 0, got {}", Value::Number(number)));
                }
                // -0 becomes 0
                return Ok((number + 0.0, None));
            }
            Some(c) if is_name_start(c) => self.parse_call()?,
            Some(other) => return self.fail(format!("expected a kernel, a number or '(', got '{other}'")),
            None => return self.fail(format!("expected a kernel: {}", names().join(", "))),
        };
        Ok(match node {
            Node::Scaled(number, node) => (number, Some(*node)),
            node => (1.0, Some(node)),
        })
    }

    fn parse_parentheses(&mut self) -> Result<Node> {
        self.position += 1;
        let node = self.parse_nested_sum(self.position - 1)?;
        self.expect(')', "')' or an operator")?;
        Ok(node)
    }

    fn parse_call(&mut self) -> Result<Node> {
        let start = self.position;
        let name = self.parse_name();
        if let Some(node) = self.parse_transform(&name)? {
            return Ok(node);
        }
        let Some(family) = by_name(&name) else { return Err(self.unknown_kernel(start, name)) };
        let mut arguments = Arguments { values: vec![None; family.parameters.len()], columns: None, scale: None };
        if self.accept('(') && !self.accept(')') {
            self.parse_separated(',', |parser| parser.parse_argument(family, &mut arguments))?;
            self.expect(')', "',' or ')'")?;
        }
        let Arguments { values, columns, scale } = arguments;
        let values = values
            .into_iter()
            .zip(family.parameters)
            .map(|(value, p)| value.unwrap_or_else(|| p.default.clone()))
            .collect();
        Ok(Node::Base(BaseKernel { family, values, columns, scale, sparse_column_count: None }))
    }

    fn unknown_kernel(&self, at: usize, name: String) -> Error {
        let kernel_names = names();
        let message = format!(
            "unknown kernel '{name}'{}; choose one of {}",
            suggestion_text(&name, &kernel_names),
            kernel_names.join(", ")
        );
        let (text, message) = (self.text.to_string(), display::escape_line(&message).into_owned());
        Error::UnknownKernel { name, text, position: at, message }
    }

    fn parse_transform(&mut self, name: &str) -> Result<Option<Node>> {
        let Some((_, parameter, function)) = TRANSFORMS.iter().find(|function| function.0 == name) else {
            return Ok(None);
        };
        self.expect('(', &format!("'(' and a kernel, as in {name}(linear())"))?;
        let node = Box::new(self.parse_nested_sum(self.position)?);
        let mut number = parameter.as_ref().map_or(0.0, |parameter| parameter.2);
        if let Some((parameter_name, range, _, reason)) = parameter.as_ref().filter(|_| self.accept(',')) {
            self.skip_space();
            let start = self.position;
            if self.parse_name() != *parameter_name {
                return self.fail_at(start, format!("expected {parameter_name}=…, the only parameter of {name}"));
            }
            self.expect('=', "'='")?;
            self.skip_space();
            let start = self.position;
            number = self.parse_ranged_number(parameter_name, *range, reason)?;
            if range == &ORDER.1 && number > 0.0 && number < MIN_ORDER {
                let why =
                    format!("{parameter_name} must be 0 or at least {MIN_ORDER}: powers below are lost to rounding");
                return self.fail_at(start, why);
            }
        }
        self.expect(')', "')' or an operator")?;
        Ok(Some(Node::Transformed(function(number), node)))
    }

    fn parse_argument(&mut self, family: &KernelFamily, arguments: &mut Arguments) -> Result<()> {
        self.skip_space();
        let start = self.position;
        let rate = family.rate_to_length_scale.map(|_| GAMMA);
        let parameter_names: Vec<_> =
            family.parameters.iter().map(|p| p.name).chain([COLUMNS_KEYWORD, SCALE_KEYWORD]).chain(rate).collect();
        let expected = format!(
            "a parameter of {}, as in {}=… (it has: {})",
            family.name,
            parameter_names[0],
            parameter_names.join(", ")
        );
        let name = self.parse_name();
        if name.is_empty() {
            return self.fail(format!("expected {expected}, got {}", self.describe_next()));
        }
        let Some(index) = parameter_names.iter().position(|&parameter_name| parameter_name == name) else {
            let suggestion = suggestion_text(&name, &parameter_names);
            return self
                .fail_at(start, format!("{} has no parameter '{name}'{suggestion}; expected {expected}", family.name));
        };
        let length_scale_position = family.parameters.iter().position(NumericParameter::is_length_scale);
        let (position, rate) = match (name.as_str(), family.rate_to_length_scale, length_scale_position) {
            (GAMMA, Some(rate), Some(length)) => (length, Some(rate)),
            _ => (index, None),
        };
        let Arguments { values, columns, scale } = arguments;
        let is_scale = name == SCALE_KEYWORD && position >= values.len();
        let is_set = if is_scale { scale.is_some() } else { columns.is_some() };
        if values.get(position).map_or(is_set, Option::is_some) {
            let why = if rate.is_some() { ": gamma replaces sigma" } else { "" };
            return self.fail_at(start, format!("{name} is given twice{why}"));
        }
        self.expect('=', "'='")?;
        match (family.parameters.get(position), rate) {
            (Some(parameter), Some(rate)) => values[position] = Some(self.parse_rate(parameter, rate)?),
            (Some(parameter), None) => values[position] = Some(self.parse_value(family, parameter)?),
            (None, _) if is_scale => *scale = Some(self.parse_scale(family)?),
            (None, _) => *columns = Some(self.parse_columns()?),
        }
        Ok(())
    }

    /// Parses a rate that replaces the length scale `length`. `to_length_scale` converts a number
    /// to the length scale. A fraction such as `1/d` is kept until the number of features d is
    /// known.
    fn parse_rate(&mut self, length: &NumericParameter, to_length_scale: fn(f64) -> f64) -> Result<Value> {
        self.skip_space();
        let start = self.position;
        let number = self.parse_number()?;
        if !length.range.contains(number) || !length.range.contains(to_length_scale(number)) {
            let got = Value::Number(number);
            return self
                .fail_at(start, format!("{GAMMA} must be {}, got {got}: it is one over a length", length.range));
        }
        Ok(if self.parse_over_input_count()? {
            Value::OverInputCount(number)
        } else {
            Value::Number(to_length_scale(number))
        })
    }

    fn parse_over_input_count(&mut self) -> Result<bool> {
        if !self.accept('/') {
            return Ok(false);
        }
        self.skip_space();
        let start = self.position;
        match self.parse_name().as_str() {
            "d" => Ok(true),
            _ => self.fail_at(start, "expected d, the number of features, as in gamma=1/d"),
        }
    }

    fn parse_columns(&mut self) -> Result<ColumnSelection> {
        if !self.accept('[') {
            return Ok(ColumnSelection::new(vec![self.parse_selector()?]));
        }
        let selectors = self.parse_separated(',', Self::parse_selector)?;
        self.expect(']', "',' or ']'")?;
        Ok(ColumnSelection::new(selectors))
    }

    fn parse_scale(&mut self, family: &KernelFamily) -> Result<InputScale> {
        self.skip_space();
        let start = self.position;
        if family.domain != Domain::Any {
            let why =
                format!("{} is defined for {} only, and quantile scores are any numbers", family.name, family.domain);
            return self.fail_at(start, why);
        }
        if self.accept_any(&['[']) {
            let knots = self.parse_separated(',', |parser| {
                parser.skip_space();
                parser.parse_number()
            })?;
            self.expect(']', "',' or ']'")?;
            return InputScale::from_knots(knots).or_else(|why| self.fail_at(start, why));
        }
        match self.parse_name().as_str() {
            QUANTILE_KEYWORD => Ok(InputScale::Quantile),
            _ => self.fail_at(start, "expected quantile, as in scale=quantile"),
        }
    }

    fn parse_selector(&mut self) -> Result<ColumnSelector> {
        let first = self.parse_column()?;
        self.skip_space();
        if !self.characters[self.position..].starts_with(&RANGE_SEPARATOR) {
            return Ok(ColumnSelector::NameOrPattern(first));
        }
        self.position += RANGE_SEPARATOR.len();
        Ok(ColumnSelector::Range(first, self.parse_column()?))
    }

    fn parse_value(&mut self, family: &KernelFamily, parameter: &NumericParameter) -> Result<Value> {
        self.skip_space();
        let start = self.position;
        let NumericParameter { name, range, reason, .. } = parameter;
        if self.accept_any(&['[']) {
            if family.build_list.is_none() || !parameter.is_length_scale() {
                return self.fail_at(start, format!("{name} of {} must be one number, not a list", family.name));
            }
            let item_name = format!("each {name}");
            let numbers =
                self.parse_separated(',', |parser| Ok(parser.parse_ranged_number(&item_name, *range, reason)? + 0.0))?;
            self.expect(']', "',' or ']'")?;
            return Ok(Value::List(numbers));
        }
        if self.peek().is_some_and(is_name_start) {
            let word = self.parse_name();
            return match word.as_str() {
                "median" if parameter.is_length_scale() => Ok(Value::Median),
                "auto" if parameter.is_length_scale() => Ok(Value::Auto),
                "median" | "auto" => self.fail_at(start, format!("{name} of {} cannot be {word}", family.name)),
                _ => self.fail_at(start, format!("{name} must be a number {range}, got '{word}'")),
            };
        }
        let number = self.parse_ranged_number(name, *range, reason)?;
        if self.parse_over_input_count()? {
            return match range {
                ParameterRange::Positive | ParameterRange::NonNegative if !parameter.is_length_scale() => {
                    Ok(Value::OverInputCount(number))
                }
                _ => self.fail_at(start, format!("{name} of {} cannot be divided by d", family.name)),
            };
        }
        Ok(Value::Number(number + 0.0))
    }

    /// Parses a number; the error for a number outside `range` states the range and the reason.
    fn parse_ranged_number(&mut self, what: &str, range: ParameterRange, reason: &str) -> Result<f64> {
        self.skip_space();
        let start = self.position;
        let number = self.parse_number()?;
        match range.contains(number) {
            true => Ok(number),
            false => self.fail_at(start, format!("{what} must be {range}, got {}: {reason}", Value::Number(number))),
        }
    }
}

/// Returns `" (did you mean 'gaussian'?)"` if a known name is similar to `name` or starts with it.
fn suggestion_text(name: &str, names: &[&str]) -> String {
    let by_prefix =
        || names.iter().copied().find(|candidate| name.len() >= 3 && candidate.starts_with(&name.to_lowercase()));
    let similar_name = kpass::names::nearest(name, names.iter().copied()).or_else(by_prefix);
    similar_name.map_or(String::new(), |similar| format!(" (did you mean '{similar}'?)"))
}
