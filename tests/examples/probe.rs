//! probe
use kapprox::Kernel;
use kapprox::kernel::Spec;
use ksolve::train::*;
use kstore::*;
use std::sync::Mutex;
use std::time::Instant;
struct W(Mutex<()>);
struct S(String, Instant);
impl pass::Observer for S {
    fn advance(&self, _: u64) {}
}
impl Drop for S {
    fn drop(&mut self) {
        eprintln!("{:30} {:.2}s", self.0, self.1.elapsed().as_secs_f64());
    }
}
impl Stages for W {
    fn stage<'a>(&'a self, n: &str, _: Option<u64>) -> Box<dyn pass::Observer + 'a> {
        Box::new(S(n.into(), Instant::now()))
    }
    fn warn(&self, t: String) {
        eprintln!("warning: {t}");
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect(); // file target rows where kernel landmarks rank lambdas folds task threads
    let t0 = Instant::now();
    let table = Table::open(&[&a[1]]).unwrap();
    let cond = |s: &str| if s == "-" { None } else { Some(Condition::parse(s).unwrap()) };
    let class = a[10] == "c";
    let range = |s: &str| if s == "-" { None } else { Some(kstore::condition::parse_rows(s).unwrap()) };
    let sel = table
        .select(&Selection {
            targets: vec![a[2].clone()],
            class_target: class,
            rows: range(&a[3]),
            filter: cond(&a[4]),
            ..Default::default()
        })
        .unwrap();
    let workers = Workers::new(a[11].parse().unwrap());
    let rank: usize = a[7].split(',').last().unwrap().parse().unwrap();
    let o = TrainOptions {
        task: if class { Task::Classification } else { Task::Regression },
        scaling: Scaling::Standard,
        kernel: Spec::parse(&a[5]).unwrap(),
        landmarks: a[6].clone(),
        candidates: Some(50000.max(20 * rank)),
        rank,
        tolerance: None,
        ranks: a[7].split(',').map(|s| s.parse().unwrap()).collect(),
        lambdas: ksolve::grid::lambdas(&a[8]).unwrap(),
        folds: ksolve::FoldSpec::parse(&a[9]).unwrap(),
        intercept: Default::default(),
        choice: Choice::Mse,
        seed: a.get(14).map_or(0, |s| s.parse().unwrap()),
    };
    let w = W(Mutex::new(()));
    let r = Resources { memory: 20 << 30, workers: &workers, stages: &w };
    let f = train::<f32>(&sel, &o, &r).unwrap();
    eprintln!(
        "rows {} kernel {} rank {} lambda {:e} cert {:?} train {:?} planned {} peak {}  wall {:.2}",
        f.rows,
        f.kernel,
        f.rank,
        f.lambda,
        f.certificate,
        f.train,
        f.planned_bytes >> 20,
        budget::peak_rss().unwrap() >> 20,
        t0.elapsed().as_secs_f64()
    );
    for c in &f.surface.cells {
        eprintln!("  {:5} {:.1e} mse {:?} err {:?}", c.rank, c.lambda, c.cv_mse, c.cv_error);
    }
    // test
    let te = table
        .select(&Selection {
            targets: vec![a[2].clone()],
            class_target: class,
            rows: range(&a[12]),
            filter: cond(&a[13]),
            ..Default::default()
        })
        .unwrap();
    let src = te
        .rows::<f32>(Reading {
            scaler: Some(f.scaler.clone()),
            classes: f.classes.as_ref().map(|c| std::sync::Arc::new(c.labels().to_vec())),
            groups: None,
        })
        .unwrap();
    let k = <f32 as kapprox::Real>::kernel(f.kernel.build().unwrap());
    let d = src.shape().features;
    let mut buf = RowBuf::new(2048);
    let mut cur = src.open(src.range()).unwrap();
    let (mut se, mut n, mut wrong) = (0.0, 0u64, 0u64);
    loop {
        buf.clear();
        if !cur.next(&mut buf).unwrap() {
            break;
        }
        let b = buf.rows.len();
        let x = faer::MatRef::from_row_major_slice(&buf.x[..], b, d);
        let mut kb = faer::Mat::<f32>::zeros(b, f.rank);
        k.block(x, f.landmarks.as_mat(), kb.as_mut());
        let kd = faer::Mat::<f64>::from_fn(b, f.rank, |i, j| kb[(i, j)] as f64);
        let p = &kd * &f.coefficients;
        for i in 0..b {
            n += 1;
            if let Some(c) = &f.classes {
                if c.decide((0..p.ncols()).map(|j| p[(i, j)] + f.intercept[j])) != buf.classes[i] as usize {
                    wrong += 1;
                }
            } else {
                let e = p[(i, 0)] + f.intercept[0] - buf.y[i];
                se += e * e;
            }
        }
    }
    eprintln!(
        "TEST n {} mse {:.5} rmse {:.5} acc {:.5}",
        n,
        se / n as f64,
        (se / n as f64).sqrt(),
        1.0 - wrong as f64 / n as f64
    );
}
