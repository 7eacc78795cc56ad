//! Exported ONNX models compared with `predict`, evaluated by a small interpreter.

use crate::solver_laws::{fit, predicted, run, table};
use crate::solvers::golden;
use kfit::solver::registry;
use ksolve::Error;
use ksolve::job::ElementType;
use ksolve::predict::Predictor;
use std::collections::HashMap;

type Rows = Vec<Vec<f64>>;

/// Tensor of numbers; integers are stored as f64 too.
#[derive(Clone)]
struct Array {
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// Parses the fields of a Protocol Buffers message into field number, integer value and bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for place in 0.. {
            let (first, rest) = bytes.split_first().unwrap();
            value |= u64::from(first & 0x7f) << (7 * place);
            *bytes = rest;
            if *first < 0x80 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (key, value) = (varint(&mut bytes), varint(&mut bytes));
        let taken = if key & 7 == 2 { bytes.split_off(..value as usize).unwrap() } else { &[] };
        found.push((key >> 3, value, taken));
    }
    found
}

fn texts<'a>(message: &[(u64, u64, &'a [u8])], field: u64) -> Vec<&'a str> {
    let of = message.iter().filter(|(number, ..)| *number == field);
    of.map(|(.., bytes)| std::str::from_utf8(bytes).unwrap()).collect()
}

fn constant(tensor: &[(u64, u64, &[u8])]) -> Array {
    let one = |field: u64| tensor.iter().find(|(number, ..)| *number == field);
    let shape = tensor.iter().filter(|(number, ..)| *number == 1).map(|(_, size, _)| *size as usize).collect();
    let eight = |bytes: &[u8]| -> [u8; 8] { bytes.try_into().unwrap() };
    let number = |bytes: &[u8]| match one(2).unwrap().1 {
        11 => f64::from_le_bytes(eight(bytes)),
        _ => i64::from_le_bytes(eight(bytes)) as f64,
    };
    Array { shape, values: one(9).map_or(Vec::new(), |(.., raw)| raw.chunks_exact(8).map(number).collect()) }
}

/// Applies an elementwise operation with broadcasting.
fn with(a: &Array, b: &Array, of: impl Fn(f64, f64) -> f64) -> Array {
    let rank = a.shape.len().max(b.shape.len());
    let size =
        |array: &Array, axis: usize| (axis + array.shape.len()).checked_sub(rank).map_or(1, |axis| array.shape[axis]);
    let shape: Vec<usize> = (0..rank).map(|axis| size(a, axis).max(size(b, axis))).collect();
    let entry = |array: &Array, mut place: usize| {
        let (mut at, mut step) = (0, 1);
        for axis in (0..rank).rev() {
            at += if size(array, axis) == 1 { 0 } else { place % shape[axis] * step };
            (place, step) = (place / shape[axis], step * size(array, axis));
        }
        array.values[at]
    };
    let values = (0..shape.iter().product()).map(|place| of(entry(a, place), entry(b, place))).collect();
    Array { shape, values }
}

fn apply(operation: &str, inputs: &[&Array], keep: bool) -> Option<Array> {
    let each = |of: fn(f64) -> f64| {
        Some(Array { shape: inputs[0].shape.clone(), values: inputs[0].values.iter().map(|v| of(*v)).collect() })
    };
    let both = |of: fn(f64, f64) -> f64| Some(with(inputs[0], inputs[1], of));
    match operation {
        "Identity" => each(|v| v),
        "Neg" => each(|v| -v),
        "Exp" => each(f64::exp),
        "Sqrt" => each(f64::sqrt),
        "Abs" => each(f64::abs),
        "Sign" => each(|v| if v == 0.0 { 0.0 } else { v.signum() }),
        "Tanh" => each(f64::tanh),
        "Add" => both(|a, b| a + b),
        "Sub" => both(|a, b| a - b),
        "Mul" => both(|a, b| a * b),
        "Div" => both(|a, b| a / b),
        "Pow" => both(f64::powf),
        "Max" => both(f64::max),
        "Min" => both(f64::min),
        "Log" => each(f64::ln),
        "MatMul" => {
            let [(n, m), (_, t)] = [0, 1].map(|i| (inputs[i].shape[0], inputs[i].shape[1]));
            let sum = |i: usize, j: usize| {
                (0..m).map(|k| inputs[0].values[i * m + k] * inputs[1].values[k * t + j]).sum::<f64>()
            };
            Some(Array { shape: vec![n, t], values: (0..n * t).map(|at| sum(at / t, at % t)).collect() })
        }
        "Unsqueeze" => {
            let mut shape = inputs[0].shape.clone();
            shape.insert(inputs[1].values[0] as usize, 1);
            Some(Array { shape, values: inputs[0].values.clone() })
        }
        // along the last axis
        "ReduceSum" => {
            let (last, before) = inputs[0].shape.split_last().unwrap();
            let shape = if keep { [before, &[1]].concat() } else { before.to_vec() };
            Some(Array { shape, values: inputs[0].values.chunks(*last).map(|row| row.iter().sum()).collect() })
        }
        _ => None,
    }
}

/// Evaluates an exported model on rows; returns its predictions or scores.
fn computed(file: &[u8], x: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let model = fields(file);
    let graph = fields(model.iter().find(|(field, ..)| *field == 7).unwrap().2);
    let input = Array { shape: vec![x.len(), x[0].len()], values: x.concat() };
    let mut known = HashMap::from([("X", input)]);
    for (_, _, tensor) in graph.iter().filter(|(field, ..)| *field == 5) {
        let tensor = fields(tensor);
        known.insert(texts(&tensor, 8)[0], constant(&tensor));
    }
    for (_, _, node) in graph.iter().filter(|(field, ..)| *field == 1) {
        let node = fields(node);
        let keep = node.iter().filter(|(field, ..)| *field == 5).map(|(.., bytes)| fields(bytes));
        let keep =
            keep.filter(|of| texts(of, 1) == ["keepdims"]).all(|of| of.iter().any(|(f, v, _)| (*f, *v) == (3, 1)));
        // labels and clusters come from the scores by operations not implemented here
        let Some(inputs) = texts(&node, 1).iter().map(|name| known.get(name)).collect::<Option<Vec<_>>>() else {
            continue;
        };
        if let Some(result) = apply(texts(&node, 4)[0], &inputs, keep) {
            known.insert(texts(&node, 2)[0], result);
        }
    }
    let out = known.get("scores").or(known.get("prediction")).unwrap();
    assert_eq!(out.shape.len(), 2);
    out.values.chunks(out.shape[1]).map(<[f64]>::to_vec).collect()
}

/// Returns the largest difference from the scores of `predict`, relative to the largest score.
fn difference(predictor: &Predictor, file: &[u8], x: &Rows) -> f64 {
    let (expected, got) = (predicted(predictor, x), computed(file, x));
    assert_eq!((expected.len(), expected[0].len()), (got.len(), got[0].len()));
    let largest = expected.iter().flatten().fold(0.0f64, |most, v| most.max(v.abs()));
    let apart = expected.iter().flatten().zip(got.iter().flatten()).map(|(a, b)| (a - b).abs());
    apart.fold(0.0, f64::max) / largest
}

/// Every exportable solver, on kernels with constant and with varying diagonals.
#[test]
fn exported_models_compute_what_predict_does() {
    let golden = golden();
    let table = table(&golden.x, &golden.y);
    // the training rows are landmarks: their distance is 0
    let x = [&golden.new[..], &golden.x[..20]].concat();
    let mut exported = Vec::new();
    for family in registry() {
        let kernels = [
            "gaussian(sigma=2)",
            "exponential(sigma=3)",
            "1 + 0.5*polynomial(degree=2)",
            "2*laplacian(sigma=4)*cosine()",
            "gaussian(sigma=3) + laplacian(sigma=4, scale=quantile)",
        ];
        for kernel in kernels {
            let what = format!("{} with {kernel}", family.name);
            let fit = fit(family, golden.x.len(), ElementType::F64).rank(40).kernel(kernel.parse().unwrap());
            // graph solvers take no kernel
            let Ok(fitted) = run(&fit, &table, 1) else { continue };
            let file = match fitted.model.to_onnx() {
                Ok(file) => file,
                Err(Error::OnnxUnsupported { .. }) => continue,
                Err(error) => panic!("{what}: {error}"),
            };
            let apart = difference(&Predictor::new(fitted.model).unwrap(), &file, &x);
            eprintln!("{what}: {apart:.1e}");
            assert!(apart <= 1e-12, "{what}: {apart:e}");
            exported.push(family.name);
        }
    }
    for name in [
        "ridge",
        "svm",
        "svr",
        "oneclass",
        "logistic",
        "mean",
        "kmeans",
        "kpca",
        "fisher",
        "perceptron",
        "online",
        "ranking",
        "pls",
    ] {
        assert!(exported.iter().filter(|other| **other == name).count() >= 3, "{name} is not walked");
    }
}
