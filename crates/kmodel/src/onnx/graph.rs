//! Graphs of ONNX operations, and their serialisation.
//!
//! A file is one Protocol Buffers message: a sequence of fields, each preceded by its field number
//! and wire type. Reference: the file `onnx.proto` of the standard, format version 8; the
//! operations belong to operator set 17.

use faer::Mat;
use kstore::Label;
use std::cell::RefCell;

/// Version of the file format.
const ONNX_FORMAT_VERSION: u64 = 8;
/// Version of the operator set.
const OPERATOR_SET: u64 = 17;

/// Element types of tensors, with their numbers in the standard.
const INT64: u64 = 7;
const STRING: u64 = 8;
const BOOL: u64 = 9;
const DOUBLE: u64 = 11;

#[derive(Clone, Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn push_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.push_varint(field << 3);
        self.push_varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.push_varint(field << 3 | 2);
        self.push_varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn messages(self, field: u64, messages: &[Self]) -> Self {
        messages.iter().fold(self, |parent, message| parent.message(field, message))
    }
}

/// A graph under construction. Its nodes and constants are in the order of their creation.
#[derive(Debug, Default)]
pub(super) struct Graph(RefCell<GraphParts>);

#[derive(Debug, Default)]
struct GraphParts {
    nodes: Vec<Message>,
    constants: Vec<Message>,
    outputs: Vec<Message>,
    value_count: usize,
}

#[derive(Clone, Debug)]
/// An array that a node of the graph computes, an input, or a constant.
pub(super) struct Value<'g> {
    pub(super) graph: &'g Graph,
    name: String,
}

impl Graph {
    fn new_value(&self) -> Value<'_> {
        let value_count = &mut self.0.borrow_mut().value_count;
        *value_count += 1;
        Value { graph: self, name: format!("v{value_count}") }
    }

    pub(super) fn input(&self, name: &str) -> Value<'_> {
        Value { graph: self, name: name.to_string() }
    }

    /// Adds a constant array of numbers, row-major.
    pub(super) fn numbers(&self, shape: &[usize], values: &[f64]) -> Value<'_> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(shape, DOUBLE, |tensor| tensor.bytes(9, &bytes))
    }

    pub(super) fn number(&self, value: f64) -> Value<'_> {
        self.numbers(&[], &[value])
    }

    pub(super) fn row(&self, values: &[f64]) -> Value<'_> {
        self.numbers(&[1, values.len()], values)
    }

    pub(super) fn matrix(&self, matrix: &Mat<f64>) -> Value<'_> {
        let rows: Vec<f64> = matrix.row_iter().flat_map(|row| row.iter().copied()).collect();
        self.numbers(&[matrix.nrows(), matrix.ncols()], &rows)
    }

    pub(super) fn integers(&self, values: &[i64]) -> Value<'_> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(&[values.len()], INT64, |tensor| tensor.bytes(9, &bytes))
    }

    fn constant(&self, shape: &[usize], element_type: u64, data: impl FnOnce(Message) -> Message) -> Value<'_> {
        let value = self.new_value();
        let tensor = shape.iter().fold(Message::default(), |tensor, size| tensor.number(1, *size as u64));
        self.0.borrow_mut().constants.push(data(tensor.number(2, element_type).text(8, &value.name)));
        value
    }

    fn node(&self, operation: &str, inputs: &[&Value<'_>], output: &str, attributes: &[(&str, i64)]) {
        const INT: u64 = 2;
        let node = inputs.iter().fold(Message::default(), |node, input| node.text(1, &input.name));
        let node = node.text(2, output).text(4, operation);
        let attribute = |node: Message, (name, value): &(&str, i64)| {
            // the format writes a negative number as the u64 with the same bits
            node.message(5, &Message::default().text(1, name).number(3, *value as u64).number(20, INT))
        };
        self.0.borrow_mut().nodes.push(attributes.iter().fold(node, attribute));
    }

    /// Adds an output `name`: for each row the label at its index, in the type that labels have in
    /// the table.
    pub(super) fn output_labels(&self, labels: &[Label], indices: &Value<'_>, name: &str) {
        let integers = labels.iter().map(|label| if let Label::Int(value) = label { Some(*value) } else { None });
        let booleans =
            labels.iter().map(|label| if let Label::Bool(value) = label { Some(u8::from(*value)) } else { None });
        let (constant, element_type) =
            match (integers.collect::<Option<Vec<_>>>(), booleans.collect::<Option<Vec<_>>>()) {
                (Some(numbers), _) => (self.integers(&numbers), INT64),
                (None, Some(booleans)) => {
                    (self.constant(&[booleans.len()], BOOL, |tensor| tensor.bytes(9, &booleans)), BOOL)
                }
                (None, None) => {
                    let strings = |tensor| {
                        labels.iter().fold(tensor, |tensor: Message, label| tensor.text(6, &label.to_string()))
                    };
                    (self.constant(&[labels.len()], STRING, strings), STRING)
                }
            };
        self.node("Gather", &[&constant, indices], name, &[("axis", 0)]);
        self.add_description(name, element_type, None);
    }

    fn add_description(&self, name: &str, element_type: u64, columns: Option<usize>) {
        self.0.borrow_mut().outputs.push(value_description(name, element_type, columns));
    }

    /// Returns the bytes of the file. `input` is the name of its input, a numeric matrix with
    /// `columns` columns.
    pub(super) fn to_bytes(&self, input: &str, columns: usize) -> Vec<u8> {
        let GraphParts { nodes, constants, outputs, .. } = &*self.0.borrow();
        let graph = Message::default().messages(1, nodes).text(2, "kmill").messages(5, constants);
        let graph = graph.message(11, &value_description(input, DOUBLE, Some(columns))).messages(12, outputs);
        let model =
            Message::default().number(1, ONNX_FORMAT_VERSION).text(2, "kmill").text(3, env!("CARGO_PKG_VERSION"));
        model.message(7, &graph).message(8, &Message::default().text(1, "").number(2, OPERATOR_SET)).0
    }
}

impl<'g> Value<'g> {
    pub(super) fn apply_unary(&self, operation: &str) -> Self {
        self.apply_node(operation, &[], &[])
    }

    pub(super) fn apply_binary(&self, operation: &str, other: &Self) -> Self {
        self.apply_node(operation, &[other], &[])
    }

    pub(super) fn apply_number(&self, operation: &str, number: f64) -> Self {
        self.apply_binary(operation, &self.graph.number(number))
    }

    /// Adds a node that applies an operation to this value and `other_inputs`, and returns its
    /// result.
    pub(super) fn apply_node(&self, operation: &str, other_inputs: &[&Self], attributes: &[(&str, i64)]) -> Self {
        let value = self.graph.new_value();
        self.graph.node(operation, &[&[self][..], other_inputs].concat(), &value.name, attributes);
        value
    }

    /// Adds an output: a numeric matrix with `columns` columns.
    pub(super) fn output(&self, name: &str, columns: usize) {
        self.add_output(name, DOUBLE, Some(columns));
    }

    /// Adds an output: one integer per row.
    pub(super) fn output_integers(&self, name: &str) {
        self.add_output(name, INT64, None);
    }

    fn add_output(&self, name: &str, element_type: u64, columns: Option<usize>) {
        self.graph.node("Identity", &[self], name, &[]);
        self.graph.add_description(name, element_type, columns);
    }
}

/// Returns the description of an input or output of N rows: a vector, or a matrix with `columns`
/// columns.
fn value_description(name: &str, element_type: u64, columns: Option<usize>) -> Message {
    let shape = Message::default().message(1, &Message::default().text(2, "N"));
    let columns = columns.map(|columns| Message::default().number(1, columns as u64));
    let shape = columns.iter().fold(shape, |shape, columns| shape.message(1, columns));
    let tensor = Message::default().number(1, element_type).message(2, &shape);
    Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
}
