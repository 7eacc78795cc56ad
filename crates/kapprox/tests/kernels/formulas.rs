//! Kernel formulas, evaluated one pair at a time in `f64`.

pub(crate) type Oracle = fn(&[f64], &[f64]) -> f64;

pub(crate) fn l2(x: &[f64], z: &[f64]) -> f64 {
    x.iter().zip(z).map(|(x, z)| (x - z) * (x - z)).sum::<f64>().sqrt()
}

pub(crate) fn l1(x: &[f64], z: &[f64]) -> f64 {
    x.iter().zip(z).map(|(x, z)| (x - z).abs()).sum()
}

pub(crate) fn dot(x: &[f64], z: &[f64]) -> f64 {
    x.iter().zip(z).map(|(x, z)| x * z).sum()
}

/// Structural similarity of pictures with pixels from 0 to 2; the last line may be short.
fn ssim(x: &[f64], z: &[f64], width: usize, window: usize, step: usize) -> f64 {
    let lines = x.len().div_ceil(width);
    let corners = |length: usize| {
        let mut corners: Vec<usize> = (0..length).step_by(step).take_while(|corner| corner + window < length).collect();
        corners.push(length.saturating_sub(window));
        corners
    };
    let mut values = Vec::new();
    for top in corners(lines) {
        for left in corners(width) {
            let inside = |pixel: &usize| {
                (top..top + window).contains(&(pixel / width)) && (left..left + window).contains(&(pixel % width))
            };
            let pixels: Vec<usize> = (0..x.len()).filter(inside).collect();
            let n = pixels.len() as f64;
            let mean = |of: &dyn Fn(usize) -> f64| pixels.iter().map(|&pixel| of(pixel)).sum::<f64>() / n;
            let (mx, mz) = (mean(&|p| x[p]), mean(&|p| z[p]));
            let (vx, vz) = (mean(&|p| (x[p] - mx).powi(2)), mean(&|p| (z[p] - mz).powi(2)));
            let covariance = mean(&|p| (x[p] - mx) * (z[p] - mz));
            let (c1, c2) = (0.02f64.powi(2), 0.06f64.powi(2));
            if n > 0.0 {
                values
                    .push((2.0 * mx * mz + c1) * (2.0 * covariance + c2) / ((mx * mx + mz * mz + c1) * (vx + vz + c2)));
            }
        }
    }
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns expressions with their formulas. Every family of the registry must appear.
pub(crate) fn cases() -> Vec<(&'static str, Oracle)> {
    vec![
        ("gaussian(sigma=1.5)", |x, z| (-l2(x, z).powi(2) / 4.5).exp()),
        ("gaussian(sigma=0.3)", |x, z| (-l2(x, z).powi(2) / 0.18).exp()),
        ("laplacian(sigma=4)", |x, z| (-l1(x, z) / 4.0).exp()),
        ("matern(nu=0.5, sigma=3)", |x, z| (-l2(x, z) / 3.0).exp()),
        ("matern(nu=1.5, sigma=2)", |x, z| {
            let a = 3f64.sqrt() * l2(x, z) / 2.0;
            (1.0 + a) * (-a).exp()
        }),
        ("matern(nu=2.5, sigma=2)", |x, z| {
            let b = 5f64.sqrt() * l2(x, z) / 2.0;
            (1.0 + b + b * b / 3.0) * (-b).exp()
        }),
        ("exponential(sigma=3)", |x, z| (-l2(x, z) / 3.0).exp()),
        ("cauchy(sigma=2)", |x, z| 1.0 / (1.0 + l2(x, z).powi(2) / 4.0)),
        ("polynomial(degree=3, gamma=0.5, c0=1)", |x, z| (0.5 * dot(x, z) + 1.0).powi(3)),
        ("polynomial(degree=2, gamma=0.1, c0=0)", |x, z| (0.1 * dot(x, z)).powi(2)),
        ("linear()", dot),
        ("constant(value=0.5)", |_, _| 0.5),
        ("distance()", |x, z| (dot(x, x).sqrt() + dot(z, z).sqrt() - l2(x, z)) / 2.0),
        ("rational_quadratic(alpha=0.75, sigma=2)", |x, z| (1.0 + l2(x, z).powi(2) / 6.0).powf(-0.75)),
        ("rational_quadratic(alpha=30, sigma=0.5)", |x, z| (1.0 + l2(x, z).powi(2) / 15.0).powf(-30.0)),
        ("periodic(period=0.75, sigma=1.5)", |x, z| {
            let sum: f64 = x.iter().zip(z).map(|(x, z)| (std::f64::consts::PI * (x - z) / 0.75).sin().powi(2)).sum();
            (-2.0 * sum / 2.25).exp()
        }),
        ("matern_product(nu=0.5, sigma=4)", |x, z| (-l1(x, z) / 4.0).exp()),
        ("matern_product(nu=1.5, sigma=4)", |x, z| {
            let of = |a: f64| (1.0 + a) * (-a).exp();
            x.iter().zip(z).map(|(x, z)| of(3f64.sqrt() * (x - z).abs() / 4.0)).product()
        }),
        ("matern_product(nu=2.5, sigma=4)", |x, z| {
            let of = |b: f64| (1.0 + b + b * b / 3.0) * (-b).exp();
            x.iter().zip(z).map(|(x, z)| of(5f64.sqrt() * (x - z).abs() / 4.0)).product()
        }),
        ("anova(sigma=0.5, degree=2)", |x, z| {
            x.iter().zip(z).map(|(x, z)| (-2.0 * (x - z) * (x - z)).exp()).sum::<f64>().powi(2)
        }),
        ("cosine()", |x, z| dot(x, z) / (dot(x, x) * dot(z, z)).sqrt()),
        ("sigmoid(gamma=0.5, c0=-0.25)", |x, z| (0.5 * dot(x, z) - 0.25).tanh()),
        ("chi_squared(sigma=2)", |x, z| {
            let of = |(x, z): (&f64, &f64)| if x + z > 0.0 { (x - z) * (x - z) / (x + z) } else { 0.0 };
            (-x.iter().zip(z).map(of).sum::<f64>() / 2.0).exp()
        }),
        ("additive_chi_squared()", |x, z| {
            x.iter().zip(z).map(|(x, z)| if x + z > 0.0 { 2.0 * x * z / (x + z) } else { 0.0 }).sum()
        }),
        ("skewed_chi_squared(skew=0.5)", |x, z| {
            x.iter().zip(z).map(|(x, z)| 2.0 * ((x + 0.5) * (z + 0.5)).sqrt() / (x + z + 1.0)).product()
        }),
        ("intersection()", |x, z| x.iter().zip(z).map(|(x, z)| x.min(*z)).sum()),
        ("delta()", |x, z| f64::from(u8::from(x == z))),
        ("subset()", |x, z| dot(x, z).exp2()),
        ("jaccard()", |x, z| {
            let union = x.iter().zip(z).filter(|(x, z)| **x + **z > 0.0).count();
            if union > 0 { dot(x, z) / union as f64 } else { 1.0 }
        }),
        ("ssim(width=3, window=2, step=1, range=2)", |x, z| ssim(x, z, 3, 2, 1)),
        ("ssim(width=5, window=4, step=3, range=2)", |x, z| ssim(x, z, 5, 4, 3)),
        ("gaussian(sigma=3) + 0.5*linear()", |x, z| (-l2(x, z).powi(2) / 18.0).exp() + 0.5 * dot(x, z)),
        ("2*gaussian(sigma=3)*laplacian(sigma=9)", |x, z| {
            2.0 * (-l2(x, z).powi(2) / 18.0).exp() * (-l1(x, z) / 9.0).exp()
        }),
        ("exp(0.3*linear())", |x, z| (0.3 * dot(x, z)).exp()),
        ("power(linear() + 2*gaussian(sigma=3), degree=3)", |x, z| {
            (dot(x, z) + 2.0 * (-l2(x, z).powi(2) / 18.0).exp()).powi(3)
        }),
        ("normalised(polynomial(degree=2, gamma=0.5, c0=1))", |x, z| {
            let k = |x: &[f64], z: &[f64]| (0.5 * dot(x, z) + 1.0).powi(2);
            k(x, z) / (k(x, x) * k(z, z)).sqrt()
        }),
        ("mean(linear(), p=1)", |x, z| 2.0 * dot(x, z) / (dot(x, x) + dot(z, z))),
        ("mean(linear(), p=2.5)", |x, z| dot(x, z) / ((dot(x, x).powf(2.5) + dot(z, z).powf(2.5)) / 2.0).powf(0.4)),
        ("(linear() + laplacian(sigma=2))*matern(nu=0.5, sigma=5)", |x, z| {
            (dot(x, z) + (-l1(x, z) / 2.0).exp()) * (-l2(x, z) / 5.0).exp()
        }),
    ]
}
