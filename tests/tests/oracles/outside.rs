//! A custom kernel and landmark scheme, passed as objects and registered by name.

use faer::{Mat, MatMut, MatRef};
use kapprox::kernel::{self, Distance, KernelFamily, NumericParameter, ParameterRange, PreparedPoints, Value};
use kapprox::landmark::{self, LandmarkRule, LandmarkSet, RpCholesky, Scheme, TableScan};
use kapprox::{AnyKernel, Kernel, KernelFunction, NystromMap, Real};
use kmill_tests::dense;
use kmill_tests::fit::{WHOLE, certify_kernel, kernel, rows_of, select_for};
use kmill_tests::points::Lcg;
use kmill_tests::source::Points;
use ksolve::AnyModel;
use ksolve::job::LandmarkSource;
use ksolve::job::{ElementType, Fit, Run};
use ksolve::predict::Predictor;
use kstore::{Merge, Reduction, RowBlock, Table, Workers};
use std::sync::Arc;

/// Inverse multiquadric, 1 / √(1 + ‖x − z‖²), positive definite for all d (Micchelli 1986).
#[derive(Debug)]
struct InverseMultiquadric;

fn inverse_multiquadric(x: &[f64], z: &[f64]) -> f64 {
    (1.0 + x.iter().zip(z).map(|(a, b)| (a - b).powi(2)).sum::<f64>()).sqrt().recip()
}

impl<T: Real> KernelFunction<T> for InverseMultiquadric {
    fn spec(&self) -> String {
        "inverse_multiquadric()".to_string()
    }

    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        let wide = |points: MatRef<'_, T>, i: usize| -> Vec<f64> {
            points.row(i).iter().map(|value| kstore::Float::to_f64(*value)).collect()
        };
        for i in 0..x.nrows() {
            for j in 0..z.nrows() {
                out[(i, j)] = kstore::Float::from_f64(inverse_multiquadric(&wide(x, i), &wide(z, j)));
            }
        }
    }

    fn diag(&self, _: MatRef<'_, T>, out: &mut [f64]) {
        out.fill(1.0);
    }
}

/// Scheme that selects the rows whose index is a multiple of `stride`, in order.
#[derive(Debug)]
struct Every {
    stride: u64,
}

/// Rows collected in a pass.
#[derive(Default)]
struct Met<T> {
    points: Vec<T>,
    rows: Vec<u64>,
}

impl<T: Real> Merge for Met<T> {
    fn merge(&mut self, later: &Self) {
        self.points.extend_from_slice(&later.points);
        self.rows.extend_from_slice(&later.rows);
    }
}

impl<T: Real> Reduction<T> for Every {
    type State = Met<T>;
    type Scratch = ();
    type Error = kapprox::Error;

    fn init(&self) -> Met<T> {
        Met { points: Vec::new(), rows: Vec::new() }
    }
    fn scratch(&self) {}
    fn step(&self, met: &mut Met<T>, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> kapprox::Result<()> {
        for (row, x) in block.row_numbers.iter().zip(block.x.chunks(block.d)).filter(|(row, _)| *row % self.stride == 0)
        {
            met.rows.push(*row);
            met.points.extend_from_slice(x);
        }
        Ok(())
    }
}

impl<T: Real> LandmarkRule<T> for Every {
    fn select(
        &self,
        data: &TableScan<'_, T>,
        _: &Arc<dyn AnyKernel>,
        m: usize,
        _: u64,
    ) -> kapprox::Result<LandmarkSet<T>> {
        let (met, _) = data.pass.reduce(data.source, self)?;
        let d = data.source.shape().input_count;
        let set = LandmarkSet { points: met.points, row_numbers: met.rows, d, passes: 1, evaluations: 0 };
        let first: Vec<usize> = (0..m.min(set.len())).collect();
        Ok(set.subset(&first))
    }
}

/// A custom kernel's certificate, with a custom and a built-in scheme, matches the dense matrix.
#[test]
fn a_kernel_and_a_scheme_from_outside_are_certified() {
    let rows = Lcg(11).normals(900, 5);
    let (points, kernel) = (Points::<f64>::new(&rows), Arc::new(InverseMultiquadric) as Arc<dyn AnyKernel>);
    let schemes: [&dyn LandmarkRule<f64>; 2] = [&Every { stride: 11 }, &RpCholesky];
    let errors = schemes.map(|scheme| {
        let set = select_for(&points, scheme, &kernel, 60, 3, WHOLE);
        let chosen: Vec<_> = set.row_numbers.iter().map(|row| rows[*row as usize].clone()).collect();
        assert_eq!(chosen.len(), 60);
        let exact = dense::trace_error(&rows, &chosen, &inverse_multiquadric, 1e-15);
        let (certificate, rank) = certify_kernel(&points, set, &kernel);
        assert!(rank == 60 && (certificate.trace_error - exact).abs() < 1e-12, "{certificate:?}, dense {exact:e}");
        exact
    });
    assert!(errors[1] < errors[0], "chosen landmarks are better than any: {errors:?}");
}

/// The same scheme in f32 with a registered kernel: any chunking gives the same landmarks.
#[test]
fn a_scheme_from_outside_works_with_any_kernel_and_chunking() {
    let points = Points::<f32>::new(&Lcg(12).normals(500, 4));
    let kernel = Kernel::parse("gaussian(sigma=1, on=x0..x2)*delta(on=x3) + linear()").unwrap();
    let kernel = kernel.resolve_columns(&["x0", "x1", "x2", "x3"]).unwrap().build().unwrap();
    let workers = Workers::new(2);
    let one = LandmarkRule::<f32>::select(&Every { stride: 7 }, &rows_of(&points, &workers), &kernel, 40, 0).unwrap();
    let other = select_for(&points, &Every { stride: 7 }, &kernel, 40, 0, (33, 99, 3));
    assert_eq!(one, other);
    assert_eq!(one.row_numbers, (0..40).map(|i| 7 * i).collect::<Vec<u64>>());
    let map = NystromMap::new(&kernel, one, &Workers::sequential()).unwrap();
    let mut phi = Mat::<f32>::zeros(500, map.rank());
    let x = MatRef::from_row_major_slice(&points.x, 500, 4);
    kapprox::FeatureMap::apply(&map, x, phi.as_mut(), &workers);
    // kernel values of a landmark are exact
    let mut k = Mat::<f32>::zeros(500, 1);
    KernelFunction::<f32>::block(&*kernel, x, x.subrows(14, 1), k.as_mut());
    let got = &phi * phi.row(14).transpose();
    assert!((0..500).all(|i| (got[i] - k[(i, 0)]).abs() < 1e-3 * k[(14, 0)]), "the landmark of row 14");
}

/// A built-in kernel under another name.
#[derive(Debug)]
struct Renamed {
    text: String,
    kernel: Arc<dyn AnyKernel>,
}

impl<T: Real> KernelFunction<T> for Renamed {
    fn spec(&self) -> String {
        self.text.clone()
    }
    fn block(&self, x: MatRef<'_, T>, z: MatRef<'_, T>, out: MatMut<'_, T>) {
        self.kernel.typed::<T>().block(x, z, out);
    }
    fn prepare_points(&self, z: MatRef<'_, T>) -> Option<Box<dyn PreparedPoints<T>>> {
        self.kernel.typed::<T>().prepare_points(z)
    }
    fn diag(&self, x: MatRef<'_, T>, out: &mut [f64]) {
        self.kernel.typed::<T>().diag(x, out);
    }
}

static OWN: KernelFamily = KernelFamily {
    parameters: &[NumericParameter {
        name: "length",
        default: Value::Median,
        range: ParameterRange::Positive,
        reason: "it is a length",
    }],
    distance: Some(Distance::L2),
    ..KernelFamily::new("own_gaussian", "exp(-|x-z|^2/(2 length^2))", "own_gaussian(length=2)", |text, values| {
        Arc::new(Renamed { text, kernel: kernel(&format!("gaussian(sigma={})", values[0])) })
    })
};

static SEVENTH: Scheme = Scheme::new("every_seventh", "rows 0, 7, 14, …", &Every { stride: 7 });

/// Once registered, both fit, save, load and predict, bit-identical to the built-in kernel.
#[test]
fn a_registered_kernel_and_scheme_fit_save_load_and_predict() {
    kernel::register(&OWN).unwrap();
    landmark::register(&SEVENTH).unwrap();
    let rows = Lcg(13).normals(700, 3);
    let x: Vec<f64> = rows.iter().flatten().copied().collect();
    let y: Vec<f64> = rows.iter().map(|x| (2.0 * x[0]).sin() * x[1] + x[2]).collect();
    let table = Table::from_rows(&x, 3, &y).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.safetensors");
    let fit = |precision, kernel: &str| {
        let fit = Fit::ridge().kernel(kernel.parse().unwrap()).rank(90).set("lambda", 1e-4).precision(precision);
        fit.landmarks(LandmarkSource::Scheme("every_seventh".into())).fit_table(&table, &["y"], &Run::new()).unwrap()
    };
    for precision in [ElementType::F64, ElementType::F32] {
        for (own, built_in) in [
            ("own_gaussian()", "gaussian()"),
            (
                "0.5*own_gaussian(length=1.5, on=x0..x1)*linear() + linear()",
                "0.5*gaussian(sigma=1.5, on=x0..x1)*linear() + linear()",
            ),
        ] {
            fit(precision, own).save(&path).unwrap();
            let loaded = Predictor::load(&path).unwrap();
            let (mut got, mut want) = (vec![0.0; 700], vec![0.0; 700]);
            loaded.predict(&x, &mut got).unwrap();
            Predictor::new(fit(precision, built_in).model).unwrap().predict(&x, &mut want).unwrap();
            assert!(got == want, "{own}, {precision}: the same bits");
            let AnyModel::F64(model) = AnyModel::load(&path).unwrap() else { continue };
            let (_, landmarks) = model.basis.landmarks().unwrap();
            assert!(landmarks.len() == 90 && landmarks.iter().all(|row| row % 7 == 0), "{landmarks:?}");
        }
    }
    // a file with a kernel name that is not registered here
    let renamed = std::fs::read(&path).unwrap();
    let at = renamed.windows(12).position(|bytes| bytes == b"own_gaussian").unwrap();
    let renamed = [&renamed[..at], b"her_gaussian", &renamed[at + 12..]].concat();
    let error = Predictor::from_bytes(&renamed).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("\"her_gaussian\"") && error.contains("kernel::register"), "{error}");
}

/// A name can be registered only once.
#[test]
fn names_that_are_taken_or_no_words_are_refused() {
    const fn named(name: &'static str) -> KernelFamily {
        KernelFamily::new(name, "x.z", "linear()", |text, _| kernel::pointwise(text, |_, _| 1.0))
    }
    static TAKEN: [KernelFamily; 4] = [named("gaussian"), named("exp"), named("Own"), named("2own")];
    for family in &TAKEN {
        let error = kernel::register(family).unwrap_err().to_string();
        assert!(error.contains(family.name) && error.contains("cannot be registered"), "{error}");
    }
    static TWICE: KernelFamily = named("own_twice");
    kernel::register(&TWICE).unwrap();
    assert!(kernel::register(&TWICE).is_err() && Kernel::parse("own_twice()").is_ok());
    static SCHEMES: [Scheme; 2] = [
        Scheme::new("uniform", "a scheme has this name", &Every { stride: 1 }),
        Scheme::new("nystrom", "a map has this name", &Every { stride: 1 }),
    ];
    assert!(SCHEMES.iter().all(|scheme| landmark::register(scheme).is_err()));
}

/// A function of two points is a kernel, in both precisions and in sums.
#[test]
fn a_function_of_two_points_is_a_kernel() {
    fn check<T: Real>(made: &Arc<dyn AnyKernel>) {
        let points = Points::<T>::new(&Lcg(14).normals(40, 3));
        let x = MatRef::from_row_major_slice(&points.x, 40, 3);
        let (mut got, mut want) = (Mat::<T>::zeros(40, 7), Mat::<T>::zeros(40, 7));
        let own: &dyn KernelFunction<T> = &InverseMultiquadric;
        made.typed::<T>().block(x, x.subrows(3, 7), got.as_mut());
        own.block(x, x.subrows(3, 7), want.as_mut());
        assert!(got == want);
        let mut diagonal = [0.0; 40];
        made.typed::<T>().diag(x, &mut diagonal);
        assert_eq!(diagonal, [1.0; 40]);
    }
    let made = kernel::pointwise("inverse_multiquadric()".to_string(), inverse_multiquadric);
    check::<f32>(&made);
    check::<f64>(&made);
}
