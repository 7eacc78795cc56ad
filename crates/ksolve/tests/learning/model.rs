//! The model file: bit-exact round trip, equal bytes for equal models, every kind of broken file.
use faer::{Mat, MatRef};
use kapprox::Real;
use kmodel::Quadratic;
use kmodel::model::{Basis, BasisTransform};
use ksolve::{AnyModel, Model, ModelMetadata};
use ksolve::{Certificate, Error, Intercept, Task};
use kstore::{Scaler, Workers};
use std::path::{Path, PathBuf};

pub(crate) fn model<T: Real>(m: usize, d: usize, t: usize) -> Model<T> {
    let keys = kstore::key::Stream::new(2, kstore::key::Purpose::Data, 0);
    let value = |i: usize| keys.uniform(i as u64) * 2.0 - 1.0;
    Model {
        metadata: ModelMetadata {
            task: Task::Regression,
            solver: "ridge".into(),
            kernel: "linear()".into(),
            second_view: None,
            leaf_kernel: None,
            members: Vec::new(),
            precision: T::NAME.into(),
            map: "nystrom".into(),
            rank: m,
            lambda: Some(3.1622776601683795e-9),
            intercept: Intercept::Free,
            features: (0..d).map(|j| format!("x{j}")).collect(),
            encoding: None,
            text_reading: kstore::TextReadOptions::default(),
            targets: (0..t).map(|j| format!("y{j}")).collect(),
            classes: vec![],
            link: None,
            loss: None,
            one_vs_one: false,
            certificate: Some(Certificate { trace_error: 0.1 + 0.2, overshoot: 1e-17, floor: 2.3e-16 }),
            rows: 12,
            online_rows: 0,
            growth: None,
            seed: u64::MAX,
            landmarks: Some("uniform".into()),
            asinh: false,
            ranges: Vec::new(),
            clusters: Vec::new(),
            cluster_axes: Vec::new(),
            distributions: Vec::new(),
            options: serde_json::json!({"zeta": 1, "alpha": {"b": [1.5, null], "a": "ü"}}),
        },
        basis: Basis::Landmarks {
            points: (0..m * d).map(|i| T::from_f64(value(i))).collect(),
            row_numbers: (0..m as u64).map(|i| i * 1_000_003).collect(),
        },
        transform: BasisTransform::default(),
        coefficients: Mat::from_fn(m, t, |i, j| value(1000 + i * t + j) * 1e9),
        intercept: (0..t).map(|j| value(2000 + j)).collect(),
        scaler: Scaler {
            centre: (0..d).map(|j| value(3000 + j)).collect(),
            scale: vec![0.7; d],
            mean: vec![0.3; d],
            ..Scaler::default()
        },
        metric: None,
        quadratic: None,
        components: None,
        leaves: None,
        intervals: None,
    }
}

/// An arbitrary quadratic, of a projection or not.
fn quadratic(m: usize, t: usize, projection: bool) -> Quadratic {
    let value = |i: usize, j: usize| ((i * 31 + j * 17) as f64).sin();
    Quadratic {
        factor: Mat::from_fn(m, m + 1, value),
        shift: (0..=m).map(|j| value(7, j)).collect(),
        feature_coefficients: projection.then(|| Mat::from_fn(m, m, |i, j| value(j, i) / m as f64)),
        constant: 1.0 / 64.0,
        residual_factor: 0.37,
        residual_allowance: if projection { 0.21 } else { 0.0 },
        output_scales: (0..t).map(|j| 2.0 + value(j, j)).collect(),
        degrees_of_freedom: (!projection).then_some(41.5),
    }
}

fn save<T: Real>(model: &Model<T>, folder: &Path) -> PathBuf {
    let path = folder.join("m.safetensors");
    model.save(&path).unwrap();
    path
}

#[test]
fn save_and_load_give_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    for (m, d, t) in [(1, 1, 1), (7, 3, 2), (9001, 2, 1)] {
        let narrow = model::<f32>(m, d, t);
        assert!(AnyModel::load(&save(&narrow, folder.path())).unwrap() == AnyModel::F32(narrow));
        let wide = model::<f64>(m, d, t);
        assert!(AnyModel::load(&save(&wide, folder.path())).unwrap() == AnyModel::F64(wide));
    }
    for projection in [false, true] {
        let model = Model { quadratic: Some(quadratic(7, 2, projection)), ..model::<f32>(7, 3, 2) };
        assert!(AnyModel::load(&save(&model, folder.path())).unwrap() == AnyModel::F32(model));
    }
}

#[test]
fn the_same_model_is_the_same_file_and_any_safetensors_reader_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = std::fs::read(save(&model::<f32>(5, 3, 2), folder.path())).unwrap();
    for _ in 0..5 {
        assert!(std::fs::read(save(&model::<f32>(5, 3, 2), folder.path())).unwrap() == first);
    }
    let tensors = safetensors::SafeTensors::deserialize(&first).unwrap();
    assert_eq!(tensors.len(), 7);
    assert_eq!(tensors.tensor("landmarks").unwrap().shape(), [5, 3]);
    let (_, header) = safetensors::SafeTensors::read_metadata(&first).unwrap();
    let metadata = header.metadata().as_ref().unwrap();
    assert_eq!(metadata.len(), 1);
    let json = &metadata["kmill"];
    assert!(json.starts_with(r#"{"certificate":{"floor":"#) && json.contains(r#""options":{"alpha":{"a":"#), "{json}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn every_broken_file_has_its_own_error() {
    let folder = tempfile::tempdir().unwrap();
    let good = std::fs::read(save(&model::<f32>(5, 3, 2), folder.path())).unwrap();
    let load = |bytes: &[u8]| {
        let path = folder.path().join("broken");
        std::fs::write(&path, bytes).unwrap();
        AnyModel::load(&path).unwrap_err()
    };
    let swap = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len(), "offsets must stay");
        let at = good.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        [&good[..at], to.as_bytes(), &good[at + from.len()..]].concat()
    };
    for bytes in [&b""[..], b"short", b"PAR1 and then some more text, no model", b"\x50\0\0\0\0\0\0\0\x01\x02"] {
        assert!(matches!(load(bytes), Error::NotSafetensors { .. }), "{bytes:?}");
    }
    for length in [good.len() - 1, good.len() - 60, 200, 30] {
        assert!(matches!(load(&good[..length]), Error::Truncated { .. }), "{length} of {}", good.len());
    }
    assert!(matches!(load(&[&good[..], b"x"].concat()), Error::Damaged { .. }));
    assert!(matches!(load(&swap("\"kmill\"", "\"other\"")), Error::NotKmill { .. }));
    let newer = load(&swap(r#"\"format_version\":1"#, r#"\"format_version\":9"#));
    assert!(matches!(&newer, Error::NewerFormat { found: 9, known: 3, needs, .. } if needs == "0.1.0"), "{newer}");
    for (from, to) in [
        (r#""shape":[5,3]"#, r#""shape":[3,5]"#),
        (r#""intercept""#, r#""intersept""#),
        (r#"\"rank\":5"#, r#"\"rank\":6"#),
        (r#"\"y0\",\"y1\""#, r#"\"y0  ,  y1\""#),
        (r#"\"x0\",\"x1\""#, r#"\"x0  ,  x1\""#),
        (r#"\"f32\""#, r#"\"f64\""#),
        (r#"\"f32\""#, r#"\"f16\""#),
        (r#"\"seed\""#, r#"\"sead\""#),
    ] {
        let error = load(&swap(from, to));
        assert!(matches!(error, Error::Damaged { .. }), "{from}: {error}");
    }
    let mut infinite = good.clone();
    let end = good.len();
    infinite[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(matches!(load(&infinite), Error::Damaged { detail, .. } if detail.contains("NaN")));
    let missing = AnyModel::load(&folder.path().join("none")).unwrap_err();
    assert!(matches!(missing, Error::Store(kstore::Error::NotFound { .. })), "{missing}");
}

#[test]
fn a_broken_quadratic_function_is_told_and_none_is_an_error_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let with = |broken: Quadratic| Model { quadratic: Some(broken), ..model::<f64>(7, 3, 2) };
    let good = quadratic(7, 2, true);
    for broken in [
        Quadratic { output_scales: vec![1.0; 3], ..good.clone() },
        Quadratic { shift: vec![0.0; 5], ..good.clone() },
        Quadratic { factor: Mat::zeros(6, 8), ..good.clone() },
        Quadratic { feature_coefficients: Some(Mat::zeros(6, 7)), ..good.clone() },
        Quadratic { residual_factor: 0.0, ..good.clone() },
        Quadratic { residual_allowance: -1.0, ..good.clone() },
    ] {
        // the header takes its shapes from the arrays: saving may succeed, but loading must fail
        if let Ok(()) = with(broken.clone()).save(&folder.path().join("m")) {
            let error = AnyModel::load(&folder.path().join("m")).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. } | Error::Truncated { .. }), "{error}");
        }
    }
    assert!(with(Quadratic { residual_factor: f64::NAN, ..good.clone() }).save(&folder.path().join("m")).is_err());
    let model = model::<f64>(7, 3, 2);
    let (functions, kernel) = (model.functions().unwrap(), model.kernel().unwrap());
    let x = Mat::<f64>::zeros(1, 3);
    let none = model.predict_quadratic(&functions, &*kernel, x.as_ref(), &mut [0.0], &Workers::new(1));
    assert!(matches!(none, Err(Error::NoQuadratic)));
}

#[test]
fn quadratic_functions_are_their_formula_whatever_the_threads_and_the_neighbours() {
    let (m, d, n) = (301, 4, 777);
    let x: Vec<f64> = (0..n * d).map(|i| (i as f64 * 0.37).sin()).collect();
    let x = MatRef::from_row_major_slice(&x, n, d);
    for projection in [false, true] {
        let model = Model { quadratic: Some(quadratic(m, 1, projection)), ..model::<f64>(m, d, 1) };
        let (functions, kernel) = (model.functions().unwrap(), model.kernel().unwrap());
        let predict = |first: usize, threads| {
            let mut out = vec![0.0; n - first];
            let x = x.subrows(first, n - first);
            model.predict_quadratic(&functions, &*kernel, x, &mut out, &Workers::new(threads)).unwrap();
            out
        };
        let one = predict(0, 1);
        assert!(one == predict(0, 3));
        assert!(one[5..] == predict(5, 1), "a row depends on its neighbours");
        let z = MatRef::from_row_major_slice(model.basis.landmarks().unwrap().0, m, d);
        let Quadratic {
            factor,
            shift,
            feature_coefficients: features,
            constant,
            residual_factor: residual,
            residual_allowance: typical,
            ..
        } = model.quadratic.as_ref().unwrap();
        for i in (0..n).step_by(97) {
            let k = Mat::from_fn(1, m, |_, l| (0..d).map(|c| x[(i, c)] * z[(l, c)]).sum::<f64>());
            let v = &k * factor;
            let squares: f64 = (0..=m).map(|j| (v[(0, j)] + shift[j]).powi(2)).sum();
            let inside = features.as_ref().map_or(f64::INFINITY, |f| (&k * f).squared_norm_l2());
            let diag: f64 = (0..d).map(|c| x[(i, c)] * x[(i, c)]).sum();
            let expected = squares + constant + (diag - inside - typical).max(0.0) * residual;
            assert!((one[i] / expected - 1.0).abs() < 1e-11, "{} {expected}", one[i]);
        }
    }
}

#[test]
fn nothing_is_written_for_numbers_that_are_not_finite_or_a_folder_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut broken = model::<f64>(3, 2, 1);
    broken.coefficients[(1, 0)] = f64::INFINITY;
    assert!(matches!(broken.save(&folder.path().join("m")), Err(Error::NotFinite { .. })));
    assert!(model::<f64>(3, 2, 1).save(&folder.path().join("no/m")).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn predictions_are_the_kernel_expansion_for_any_threads() {
    let (m, d, t, n) = (301, 4, 3, 777);
    let model = model::<f32>(m, d, t);
    let x: Vec<f32> = (0..n * d).map(|i| (i as f32 * 0.37).sin()).collect();
    let x = MatRef::from_row_major_slice(&x, n, d);
    let functions = model.functions().unwrap();
    let predict = |threads| {
        let mut out = Mat::zeros(n, t);
        model.predict(&functions, x, out.as_mut(), &Workers::new(threads)).unwrap();
        out
    };
    let one = predict(1);
    assert!(one == predict(2) && one == predict(8));
    let mut shifted = Mat::zeros(n - 5, t);
    model.predict(&functions, x.subrows(5, n - 5), shifted.as_mut(), &Workers::new(1)).unwrap();
    assert!(shifted.as_ref() == one.subrows(5, n - 5), "a row's prediction depends on its neighbours");
    let z = MatRef::from_row_major_slice(model.basis.landmarks().unwrap().0, m, d);
    let k = Mat::from_fn(n, m, |i, l| (0..d).map(|c| f64::from(x[(i, c)]) * f64::from(z[(l, c)])).sum::<f64>());
    for i in (0..n).step_by(13) {
        for j in 0..t {
            let exact = (0..m).map(|l| k[(i, l)] * model.coefficients[(l, j)]).sum::<f64>();
            let exact = exact + model.intercept[j];
            // the kernel is computed in f32
            assert!((one[(i, j)] - exact).abs() < 1e-6 * 1e9 * (m as f64).sqrt(), "{} against {exact}", one[(i, j)]);
        }
    }
    let mut narrow = Mat::zeros(n, t + 1);
    assert!(matches!(model.predict(&functions, x, narrow.as_mut(), &Workers::new(1)), Err(Error::Shape { .. })));
}

#[test]
fn coefficients_that_are_0_change_no_bit_of_a_batch() {
    let (m, d, t, n) = (301, 4, 3, 100);
    let mut model = model::<f32>(m, d, t);
    (0..m).filter(|i| i % 3 > 0).for_each(|i| model.coefficients[(i, 1)] = 0.0);
    (0..m).for_each(|i| model.coefficients[(i, 2)] = 0.0);
    model.intercept[2] = -0.0;
    let x: Vec<f32> = (0..n * d).map(|i| (i as f32 * 0.37).sin()).collect();
    let x = MatRef::from_row_major_slice(&x, n, d);
    let functions = model.functions().unwrap();
    let predict = |first, rows| {
        let mut out = Mat::zeros(rows, t);
        model.predict(&functions, x.subrows(first, rows), out.as_mut(), &Workers::sequential()).unwrap();
        out
    };
    let batch = predict(0, n);
    for i in 0..n {
        let alone = predict(i, 1);
        assert!((0..t).all(|j| alone[(0, j)].to_bits() == batch[(i, j)].to_bits()), "row {i}: {alone:?}");
    }
}

#[test]
fn tables_are_not_models() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let header = |bytes: u64| [&bytes.to_le_bytes()[..], b"{\"__metadata__\":{}}"].concat();
    for (bytes, expected) in [
        (header(19), true),
        // truncated
        (header(1 << 20), true),
        // the ninth byte of pandas' Parquet files is the size of a page: 984 to 991 rows of float64
        (b"PAR1\x15\x04\x15\xe0{\x15".to_vec(), false),
        (b"{\"x\":1}\n{\"x\":2}\n".to_vec(), false),
        (b"ARROW1\0\0{".to_vec(), false),
        (b"\x13\0\0\0\0\0\0\0".to_vec(), false),
    ] {
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(ksolve::job::is_model_file(&path), expected, "{bytes:?}");
    }
    assert!(!ksolve::job::is_model_file(std::path::Path::new("/proc/kmsg")));
}
