//! Graphs of ONNX operations, and their bytes.
//!
//! A file is one message of Protocol Buffers: fields are written one after the other, each behind its number and its kind. Reference: the file
//! `onnx.proto` of the standard, version 8 of the format; operations are those of set 17.

/// Version of the file format, and of the set of operations.
const FORMAT: u64 = 8;
const OPERATIONS: u64 = 17;

/// Types of elements, by their numbers in the standard.
const INT64: u64 = 7;
const STRING: u64 = 8;
const BOOL: u64 = 9;
const DOUBLE: u64 = 11;

/// The labels of a classification, in the type that the table had.
#[derive(Clone, Debug)]
pub(super) enum Labels {
    Whole(Vec<i64>),
    Truth(Vec<bool>),
    Text(Vec<String>),
}

#[derive(Clone, Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

pub(super) type Name = String;

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Message>,
    constants: Vec<Message>,
    outputs: Vec<Message>,
    count: usize,
}

impl Graph {
    fn fresh(&mut self) -> Name {
        self.count += 1;
        format!("v{}", self.count)
    }

    /// A constant of numbers, row-major.
    pub(super) fn numbers(&mut self, shape: &[usize], values: &[f64]) -> Name {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(shape, DOUBLE, |tensor| tensor.bytes(9, &bytes))
    }

    pub(super) fn number(&mut self, value: f64) -> Name {
        self.numbers(&[], &[value])
    }

    pub(super) fn integers(&mut self, values: &[i64]) -> Name {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(&[values.len()], INT64, |tensor| tensor.bytes(9, &bytes))
    }

    fn constant(&mut self, shape: &[usize], kind: u64, data: impl FnOnce(Message) -> Message) -> Name {
        let name = self.fresh();
        let tensor = shape.iter().fold(Message::default(), |tensor, size| tensor.number(1, *size as u64));
        self.constants.push(data(tensor.number(2, kind).text(8, &name)));
        name
    }

    pub(super) fn apply(&mut self, operation: &str, inputs: &[&str]) -> Name {
        self.apply_with(operation, inputs, &[])
    }

    pub(super) fn with_number(&mut self, operation: &str, value: &str, number: f64) -> Name {
        let number = self.number(number);
        self.apply(operation, &[value, &number])
    }

    pub(super) fn apply_with(&mut self, operation: &str, inputs: &[&str], attributes: &[(&str, i64)]) -> Name {
        let name = self.fresh();
        self.node(operation, inputs, &name, attributes);
        name
    }

    fn node(&mut self, operation: &str, inputs: &[&str], output: &str, attributes: &[(&str, i64)]) {
        const INT: u64 = 2;
        let node = inputs.iter().fold(Message::default(), |node, input| node.text(1, input));
        let node = node.text(2, output).text(4, operation);
        let attribute = |node: Message, (name, value): &(&str, i64)| {
            // a negative number is written as the one of 64 bits with the same bits
            node.message(5, &Message::default().text(1, name).number(3, *value as u64).number(20, INT))
        };
        self.nodes.push(attributes.iter().fold(node, attribute));
    }

    pub(super) fn labels(&mut self, labels: &Labels, at: &str, output: &str) {
        let (name, kind) = match labels {
            Labels::Whole(labels) => (self.integers(labels), INT64),
            Labels::Truth(labels) => {
                let bytes: Vec<u8> = labels.iter().map(|label| u8::from(*label)).collect();
                (self.constant(&[labels.len()], BOOL, |tensor| tensor.bytes(9, &bytes)), BOOL)
            }
            Labels::Text(labels) => {
                let all = |tensor: Message| labels.iter().fold(tensor, |tensor, label| tensor.text(6, label));
                (self.constant(&[labels.len()], STRING, all), STRING)
            }
        };
        self.node("Gather", &[&name, at], output, &[("axis", 0)]);
        self.outputs.push(value(output, kind, None));
    }

    /// Gives a matrix of numbers with so many columns a name outside.
    pub(super) fn output(&mut self, from: &str, name: &str, columns: usize) {
        self.node("Identity", &[from], name, &[]);
        self.outputs.push(value(name, DOUBLE, Some(columns)));
    }

    /// Gives whole numbers, one for each row, a name outside.
    pub(super) fn output_integers(&mut self, from: &str, name: &str) {
        self.node("Identity", &[from], name, &[]);
        self.outputs.push(value(name, INT64, None));
    }

    /// The file, whose input is a matrix of numbers with so many columns.
    pub(super) fn file(self, input: &str, columns: usize) -> Vec<u8> {
        let graph = self.nodes.iter().fold(Message::default(), |graph, node| graph.message(1, node)).text(2, "kmill");
        let graph = self.constants.iter().fold(graph, |graph, constant| graph.message(5, constant));
        let graph = graph.message(11, &value(input, DOUBLE, Some(columns)));
        let graph = self.outputs.iter().fold(graph, |graph, output| graph.message(12, output));
        let model = Message::default().number(1, FORMAT).text(2, "kmill").text(3, env!("CARGO_PKG_VERSION"));
        model.message(7, &graph).message(8, &Message::default().text(1, "").number(2, OPERATIONS)).0
    }
}

/// The description of an input or output: a value for each of N rows, or so many of them.
fn value(name: &str, kind: u64, columns: Option<usize>) -> Message {
    let rows = Message::default().text(2, "N");
    let shape = Message::default().message(1, &rows);
    let shape = match columns {
        Some(columns) => shape.message(1, &Message::default().number(1, columns as u64)),
        None => shape,
    };
    let tensor = Message::default().number(1, kind).message(2, &shape);
    Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
}
