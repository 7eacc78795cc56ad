//! Kernel formulas, one scalar pair at a time, in f64.

/// Kernel function k(x, z).
pub type Kernel = Box<dyn Fn(&[f64], &[f64]) -> f64>;

/// Returns the function of a kernel given by a canonical spec such as `gaussian(sigma=2)`.
///
/// # Panics
/// If the kernel is unknown: every registered kernel needs its formula here.
pub fn kernel(spec: &str) -> Kernel {
    let (name, rest) = spec.split_once('(').expect("name(parameters)");
    let parameters: Vec<(String, f64)> = rest
        .trim_end_matches(')')
        .split(',')
        .filter(|p| !p.trim().is_empty())
        .map(|p| {
            let (name, value) = p.split_once('=').expect("parameter=value");
            (name.trim().to_string(), value.trim().parse().expect("a number"))
        })
        .collect();
    let get = |name: &str, default: f64| parameters.iter().find(|p| p.0 == name).map_or(default, |p| p.1);
    let sigma = get("sigma", f64::NAN);
    match name {
        "gaussian" => Box::new(move |x, z| (-l2(x, z).powi(2) / (2.0 * sigma * sigma)).exp()),
        "laplacian" => Box::new(move |x, z| (-l1(x, z) / sigma).exp()),
        "exponential" => Box::new(move |x, z| (-l2(x, z) / sigma).exp()),
        "matern" => {
            let nu = get("nu", f64::NAN);
            Box::new(move |x, z| {
                let r = l2(x, z) / sigma;
                let a = (2.0 * nu).sqrt() * r;
                match nu {
                    0.5 => (-a).exp(),
                    1.5 => (1.0 + a) * (-a).exp(),
                    2.5 => (1.0 + a + a * a / 3.0) * (-a).exp(),
                    _ => panic!("nu = {nu}"),
                }
            })
        }
        "polynomial" => {
            let (gamma, c0, degree) = (get("gamma", 1.0), get("c0", 1.0), get("degree", 3.0));
            Box::new(move |x, z| (gamma * dot(x, z) + c0).powf(degree))
        }
        "constant" => {
            let value = get("value", 1.0);
            Box::new(move |_, _| value)
        }
        "linear" => Box::new(dot),
        "distance" => Box::new(|x, z| (dot(x, x).sqrt() + dot(z, z).sqrt() - l2(x, z)) / 2.0),
        "cosine" => Box::new(|x, z| {
            let norms = (dot(x, x) * dot(z, z)).sqrt();
            if norms > 0.0 { dot(x, z) / norms } else { 0.0 }
        }),
        "matern_product" => {
            let nu = get("nu", f64::NAN);
            Box::new(move |x, z| {
                let of = |r: f64| {
                    let a = (2.0 * nu).sqrt() * r;
                    (1.0 + if nu > 0.5 { a } else { 0.0 } + if nu > 1.5 { a * a / 3.0 } else { 0.0 }) * (-a).exp()
                };
                x.iter().zip(z).map(|(x, z)| of((x - z).abs() / sigma)).product()
            })
        }
        "anova" => {
            let degree = get("degree", 2.0);
            Box::new(move |x, z| {
                let of = |difference: f64| (-difference * difference / (2.0 * sigma * sigma)).exp();
                x.iter().zip(z).map(|(x, z)| of(x - z)).sum::<f64>().powf(degree)
            })
        }
        "periodic" => {
            let period = get("period", 1.0);
            Box::new(move |x, z| {
                let of = |difference: f64| (std::f64::consts::PI * difference / period).sin().powi(2);
                (-2.0 * x.iter().zip(z).map(|(x, z)| of(x - z)).sum::<f64>() / (sigma * sigma)).exp()
            })
        }
        "skewed_chi_squared" => {
            let skew = get("skew", 1.0);
            Box::new(move |x, z| {
                x.iter().zip(z).map(|(x, z)| 2.0 * ((x + skew) * (z + skew)).sqrt() / (x + z + 2.0 * skew)).product()
            })
        }
        "delta" => Box::new(|x, z| f64::from(u8::from(x == z))),
        "rational_quadratic" => {
            let alpha = get("alpha", 1.0);
            Box::new(move |x, z| (1.0 + l2(x, z).powi(2) / (2.0 * alpha * sigma * sigma)).powf(-alpha))
        }
        "cauchy" => Box::new(move |x, z| 1.0 / (1.0 + l2(x, z).powi(2) / (sigma * sigma))),
        other => panic!("no formula for {other}: add it to tests/src/kernels.rs"),
    }
}

fn dot(x: &[f64], z: &[f64]) -> f64 {
    x.iter().zip(z).map(|(a, b)| a * b).sum()
}

fn l1(x: &[f64], z: &[f64]) -> f64 {
    x.iter().zip(z).map(|(a, b)| (a - b).abs()).sum()
}

fn l2(x: &[f64], z: &[f64]) -> f64 {
    x.iter().zip(z).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}
