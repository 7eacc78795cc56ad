//! Reads kernel expressions, by recursive descent; every error points at a character.

use super::applied::Function;
use super::registry::{Family, Parameter, Range, Value, registry};
use super::spec::Node;
use crate::{Error, Result};

/// Parentheses deeper than this are an error, not a stack overflow.
const DEEPEST: usize = 64;

pub(super) fn parse(text: &str) -> Result<Node> {
    let mut parser = Parser { text, characters: text.chars().collect(), at: 0, depth: 0 };
    let node = parser.sum()?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(node),
        Some('-') => parser.fail("kernels can be added and multiplied, not subtracted"),
        Some(other) => parser.fail(format!("expected '+', '*' or the end, got '{other}'")),
    }
}

/// A parameter of a function of kernels: name, allowed numbers, default, why no others.
type Given = (&'static str, Range, f64, &'static str);
const DEGREE: Given = ("degree", Range::Whole { from: 1, to: 31 }, 2.0, "a positive-definite power is a whole one");
const ORDER: Given = ("p", Range::Positive, 1.0, "only these means keep a kernel positive definite");

struct Parser<'a> {
    text: &'a str,
    characters: Vec<char>,
    at: usize,
    depth: usize,
}

/// A factor of a product: a kernel, or a plain number.
enum Factor {
    Kernel(Node),
    Number(f64),
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<Node> {
        let mut terms = Vec::new();
        loop {
            match self.product()? {
                Node::Sum(inner) => terms.extend(inner),
                term => terms.push(term),
            }
            if !self.take('+') {
                return Ok(one_or(terms, Node::Sum));
            }
        }
    }

    fn product(&mut self) -> Result<Node> {
        self.skip_space();
        let start = self.at;
        let (mut scale, mut factors) = (1.0, Vec::new());
        loop {
            self.skip_space();
            let here = self.at;
            match self.factor()? {
                Factor::Number(number) => scale *= number,
                Factor::Kernel(Node::Scaled(number, node)) => {
                    scale *= number;
                    flatten(*node, &mut factors);
                }
                Factor::Kernel(node) => flatten(node, &mut factors),
            }
            if !f64::is_finite(scale) {
                return self.fail_at(here, "the factors multiply to a number that is too large");
            }
            if !self.take('*') {
                break;
            }
        }
        if factors.is_empty() {
            return self.fail_at(start, "a number alone is no kernel: multiply it with one, as in 0.5*linear()");
        }
        let node = one_or(factors, Node::Product);
        Ok(if scale == 1.0 { node } else { Node::Scaled(scale, Box::new(node)) })
    }

    fn factor(&mut self) -> Result<Factor> {
        self.skip_space();
        match self.peek() {
            Some('(') => self.parentheses().map(Factor::Kernel),
            Some(c) if c.is_ascii_digit() || matches!(c, '.' | '-' | '+') => {
                let start = self.at;
                let number = self.number()?;
                if number < 0.0 {
                    return self.fail_at(start, format!("a factor must be >= 0, got {}", Value::Number(number)));
                }
                // -0 becomes 0
                Ok(Factor::Number(number + 0.0))
            }
            Some(c) if is_name(c) => self.call().map(Factor::Kernel),
            Some(other) => self.fail(format!("expected a kernel, a number or '(', got '{other}'")),
            None => self.fail(format!("expected a kernel: {}", names())),
        }
    }

    fn parentheses(&mut self) -> Result<Node> {
        if self.depth == DEEPEST {
            return self.fail(format!("more than {DEEPEST} nested parentheses"));
        }
        self.depth += 1;
        self.at += 1;
        let node = self.sum()?;
        self.depth -= 1;
        self.expect(')', "')' or an operator")?;
        Ok(node)
    }

    fn call(&mut self) -> Result<Node> {
        let start = self.at;
        let name = self.name();
        if let Some(node) = self.applied(&name)? {
            return Ok(node);
        }
        let Some(family) = registry().iter().find(|family| family.name == name) else {
            let known: Vec<_> = registry().iter().map(|family| family.name).collect();
            let message = format!("there is no kernel '{name}'{}; known: {}", nearest(&name, &known), names());
            return self.fail_at(start, message);
        };
        let mut values = vec![None; family.parameters.len()];
        if self.take('(') && !self.take(')') {
            loop {
                self.argument(family, &mut values)?;
                if !self.take(',') {
                    break;
                }
            }
            self.expect(')', "',' or ')'")?;
        }
        let values = values
            .into_iter()
            .zip(family.parameters)
            .map(|(given, p)| given.unwrap_or_else(|| p.default.clone()))
            .collect();
        Ok(Node::Call(family, values))
    }

    /// A function of a kernel, if `name` is one.
    fn applied(&mut self, name: &str) -> Result<Option<Node>> {
        let parameter = match name {
            "exp" | "normalised" => None,
            "power" => Some(&DEGREE),
            "mean" => Some(&ORDER),
            _ => return Ok(None),
        };
        self.expect('(', &format!("'(' and a kernel, as in {name}(linear())"))?;
        if self.depth == DEEPEST {
            return self.fail(format!("more than {DEEPEST} nested parentheses"));
        }
        self.depth += 1;
        let node = Box::new(self.sum()?);
        self.depth -= 1;
        let mut number = parameter.map_or(0.0, |parameter| parameter.2);
        if let Some((wanted, range, _, reason)) = parameter.filter(|_| self.take(',')) {
            self.skip_space();
            let start = self.at;
            if self.name() != *wanted {
                return self.fail_at(start, format!("expected {wanted}=…, the only parameter of {name}"));
            }
            self.expect('=', "'='")?;
            self.skip_space();
            let start = self.at;
            number = self.number()?;
            if !range.contains(number) {
                let got = Value::Number(number);
                return self.fail_at(start, format!("{wanted} must be {range}, got {got}: {reason}"));
            }
        }
        self.expect(')', "')' or an operator")?;
        let function = match name {
            "exp" => Function::Exp,
            "normalised" => Function::Normalised,
            "power" => Function::Power(number as u32),
            _ => Function::Mean(number),
        };
        Ok(Some(Node::Applied(function, node)))
    }

    fn argument(&mut self, family: &Family, values: &mut [Option<Value>]) -> Result<()> {
        self.skip_space();
        let start = self.at;
        let known: Vec<_> = family.parameters.iter().map(|p| p.name).collect();
        let expected = match known.first() {
            Some(first) => format!("a parameter of {}, as in {first}=… (it has: {})", family.name, known.join(", ")),
            None => format!("')': {} has no parameters", family.name),
        };
        let name = self.name();
        if name.is_empty() {
            return self.fail(format!("expected {expected}, got {}", self.here()));
        }
        let Some(index) = known.iter().position(|&known| known == name) else {
            let near = nearest(&name, &known);
            return self
                .fail_at(start, format!("{} has no parameter '{name}'{near}; expected {expected}", family.name));
        };
        if values[index].is_some() {
            return self.fail_at(start, format!("{name} is given twice"));
        }
        self.expect('=', "'='")?;
        values[index] = Some(self.value(family, &family.parameters[index])?);
        Ok(())
    }

    fn value(&mut self, family: &Family, parameter: &Parameter) -> Result<Value> {
        self.skip_space();
        let start = self.at;
        let Parameter { name, default, range, reason } = parameter;
        if self.take_any(&['[']) {
            if family.each.is_none() {
                return self.fail_at(start, format!("{name} of {} is one number, not a list", family.name));
            }
            return self.list(parameter).map(Value::Each);
        }
        if self.peek().is_some_and(is_name) {
            let word = self.name();
            // only length scales have a median, and those are the parameters that default to it
            return match (word.as_str(), default) {
                ("median", Value::Median) => Ok(Value::Median),
                ("median", _) => self.fail_at(start, format!("{name} of {} cannot be median", family.name)),
                _ => self.fail_at(start, format!("{name} must be a number {range}, got '{word}'")),
            };
        }
        let number = self.number()?;
        if !range.contains(number) {
            return self.fail_at(start, format!("{name} must be {range}, got {}: {reason}", Value::Number(number)));
        }
        Ok(Value::Number(number + 0.0))
    }

    /// Numbers up to `]`.
    fn list(&mut self, parameter: &Parameter) -> Result<Vec<f64>> {
        let Parameter { name, range, reason, .. } = parameter;
        let mut numbers = Vec::new();
        loop {
            self.skip_space();
            let start = self.at;
            let number = self.number()?;
            if !range.contains(number) {
                let got = Value::Number(number);
                return self.fail_at(start, format!("each {name} must be {range}, got {got}: {reason}"));
            }
            numbers.push(number + 0.0);
            if !self.take(',') {
                break;
            }
        }
        self.expect(']', "',' or ']'")?;
        Ok(numbers)
    }

    /// A decimal number with an optional sign and exponent.
    fn number(&mut self) -> Result<f64> {
        let start = self.at;
        self.take_any(&['+', '-']);
        self.digits();
        self.take_any(&['.']);
        self.digits();
        let before_exponent = self.at;
        if self.take_any(&['e', 'E']) {
            self.take_any(&['+', '-']);
            if !self.digits() {
                self.at = before_exponent;
            }
        }
        let text: String = self.characters[start..self.at].iter().collect();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            Ok(_) => self.fail_at(start, format!("{text} is too large a number")),
            Err(_) => {
                self.at = start;
                self.fail(format!("expected a number, got {}", self.here()))
            }
        }
    }

    fn name(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|c| is_name(c) || self.at > start && c.is_ascii_digit()) {
            self.at += 1;
        }
        self.characters[start..self.at].iter().collect()
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        self.at > start
    }

    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    /// Passes over `wanted`, if it comes next after white space.
    fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        self.take_any(&[wanted])
    }

    fn take_any(&mut self, wanted: &[char]) -> bool {
        let found = self.peek().is_some_and(|c| wanted.contains(&c));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: char, what: &str) -> Result<()> {
        if self.take(wanted) { Ok(()) } else { self.fail(format!("expected {what}, got {}", self.here())) }
    }

    /// What comes next, for messages.
    fn here(&self) -> String {
        self.peek().map_or("the end".into(), |c| format!("'{c}'"))
    }

    fn fail<R>(&self, message: impl Into<String>) -> Result<R> {
        self.fail_at(self.at, message)
    }

    fn fail_at<R>(&self, at: usize, message: impl Into<String>) -> Result<R> {
        Err(Error::Spec { text: self.text.into(), at, message: message.into() })
    }
}

fn is_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

/// The only one, or all of them together.
fn one_or(mut nodes: Vec<Node>, together: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(only) if nodes.is_empty() => only,
        last => {
            nodes.extend(last);
            together(nodes)
        }
    }
}

fn flatten(node: Node, factors: &mut Vec<Node>) {
    match node {
        Node::Product(inner) => factors.extend(inner),
        node => factors.push(node),
    }
}

fn names() -> String {
    registry().iter().map(|family| family.name).collect::<Vec<_>>().join(", ")
}

/// `" (did you mean 'gaussian'?)"` where a known name is near.
fn nearest(name: &str, known: &[&str]) -> String {
    let near = known.iter().map(|&known| (edits(name, known), known)).min();
    match near {
        Some((edits, known)) if edits <= 1 + known.chars().count() / 4 || is_prefix(name, known) => {
            format!(" (did you mean '{known}'?)")
        }
        _ => known
            .iter()
            .find(|known| is_prefix(name, known))
            .map_or(String::new(), |known| format!(" (did you mean '{known}'?)")),
    }
}

fn is_prefix(name: &str, known: &str) -> bool {
    name.chars().count() >= 3 && known.starts_with(&name.to_lowercase())
}

/// Fewest insertions, deletions and substitutions between two words, without regard to case (Wagner, Fischer 1974).
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<_>, Vec<_>) = (a.to_lowercase().chars().collect(), b.to_lowercase().chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
