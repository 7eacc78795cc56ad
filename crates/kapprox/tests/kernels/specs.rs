//! Kernel expressions: their meaning, printed form and error positions.

use faer::{Mat, MatRef};
use kapprox::Error;
use kapprox::kernel::{Kernel, Value, registry};
use proptest::prelude::*;

/// Returns the position of the error and its message.
fn error(text: &str) -> (usize, String) {
    match Kernel::parse(text) {
        Err(
            Error::Kernel { text: quoted, position: at, message }
            | Error::UnknownKernel { text: quoted, position: at, message, .. },
        ) => {
            assert_eq!(quoted, text);
            (at, message)
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn expressions_are_brought_into_a_canonical_form() {
    for (text, canonical) in [
        ("gaussian", "gaussian(sigma=auto)"),
        (" gaussian ( sigma = 1.50 ) ", "gaussian(sigma=1.5)"),
        ("matern(sigma=2)", "matern(nu=1.5, sigma=2)"),
        ("polynomial(c0=0, degree=2)", "polynomial(degree=2, gamma=1, c0=0)"),
        ("gaussian(sigma=3) + 0.5*linear()", "gaussian(sigma=3) + 0.5*linear()"),
        ("linear()*2*3", "6*linear()"),
        ("1*linear()", "linear()"),
        ("2*(3*linear() * 0.5)", "3*linear()"),
        ("(linear + (linear + linear))", "linear() + linear() + linear()"),
        ("(linear + linear)*linear", "(linear() + linear())*linear()"),
        ("linear*(linear*linear)", "linear()*linear()*linear()"),
        ("2*(linear + linear)", "2*(linear() + linear())"),
        ("gaussian(sigma=1e-300)", "gaussian(sigma=1e-300)"),
        ("gaussian(sigma=1e20)", "gaussian(sigma=1e20)"),
        ("-0*linear", "0*linear()"),
        ("2*exp( linear + gaussian(sigma=1) )", "2*exp(linear() + gaussian(sigma=1))"),
        ("power(3*linear)*mean(linear)", "power(3*linear(), degree=2)*mean(linear(), p=1)"),
        ("normalised((linear))", "normalised(linear())"),
        ("2*gaussian( sigma=[1 ,2.50,1e20])", "2*gaussian(sigma=[1, 2.5, 1e20])"),
        ("gaussian(on = x0 .. x9 , sigma=1) * delta(on=city)", "gaussian(sigma=1, on=x0..x9)*delta(on=city)"),
        (r#"linear(on=[ a.b,x* , "c d".."e[0]","x1" ])"#, r#"linear(on=[a.b, x*, "c d".."e[0]", x1])"#),
        ("delta(on=[city])", "delta(on=city)"),
        ("laplacian(scale=quantile, on=x0, sigma=2)", "laplacian(sigma=2, scale=quantile, on=x0)"),
        (r#"delta(on="say ""hi""")"#, r#"delta(on="say ""hi""")"#),
    ] {
        let spec = Kernel::parse(text).unwrap();
        assert_eq!(spec.to_string(), canonical, "{text}");
        assert_eq!(Kernel::parse(canonical).unwrap(), spec);
    }
    assert_eq!(Kernel::default().to_string(), "gaussian(sigma=auto)");
    assert_ne!(Kernel::parse("linear + gaussian").unwrap(), Kernel::parse("gaussian + linear").unwrap());
}

#[test]
fn errors_point_at_the_character() {
    for (text, at, part) in [
        ("", 0, "expected a kernel: gaussian"),
        ("gausian(sigma=1)", 0, "did you mean 'gaussian'?"),
        ("linear() + poly(degree=2)", 11, "did you mean 'polynomial'?"),
        ("xyz", 0, "unknown kernel 'xyz'; choose one of gaussian"),
        ("gaussian(sgima=1)", 9, "sigma"),
        ("gaussian(sigma=-1)", 15, "sigma must be > 0, got -1"),
        ("gaussian(sigma=0)", 15, "sigma must be > 0, got 0"),
        ("gaussian(sigma=1e999)", 15, "too large"),
        ("gaussian(sigma=nan)", 15, "sigma must be a number > 0, got 'nan'"),
        ("gaussian(sigma=1, sigma=2)", 18, "given twice"),
        ("gaussian(3)", 9, "as in sigma="),
        ("gaussian(sigma 3)", 15, "expected '='"),
        ("gaussian(sigma=)", 15, "expected a number, got ')'"),
        ("gaussian(sigma=1", 16, "got the end"),
        ("gaussian(sigma=1,)", 17, "expected a parameter"),
        ("linear(x=1)", 7, "linear has no parameter"),
        ("matern(nu=2)", 10, "nu must be one of 0.5, 1.5, 2.5, got 2"),
        ("matern(nu=median)", 10, "nu of matern cannot be median"),
        ("polynomial(degree=2.5)", 18, "degree must be a whole number from 1 to 31, got 2.5"),
        ("polynomial(c0=-1)", 14, "c0 must be >= 0, got -1"),
        ("linear() - linear()", 9, "not subtracted"),
        ("-2*linear()", 0, "a factor must be >= 0, got -2"),
        ("linear() + -3", 11, "a factor must be >= 0, got -3"),
        ("polynomial(gamma=1/n)", 19, "expected d, the number of features"),
        ("polynomial(degree=2/d)", 18, "degree of polynomial cannot be divided by d"),
        ("gaussian(sigma=1/d)", 15, "sigma of gaussian cannot be divided by d"),
        ("linear() linear()", 9, "expected '+', '*' or the end"),
        ("linear() +", 10, "expected a kernel"),
        ("(linear()", 9, "expected ')' or an operator, got the end"),
        ("1e200*linear()*1e200", 15, "too large"),
        ("gaussian(sigma=[1, 0])", 19, "each sigma must be > 0, got 0"),
        ("gaussian(sigma=[1, 2)", 20, "expected ',' or ']', got ')'"),
        ("gaussian(sigma=[])", 16, "expected a number, got ']'"),
        ("periodic(period=[1, 2])", 16, "period of periodic must be one number, not a list"),
        ("matern(nu=[1, 2])", 10, "nu of matern must be one number, not a list"),
        ("exp linear", 4, "expected '(' and a kernel"),
        ("power(linear, degree=0.5)", 21, "degree must be a whole number"),
        ("mean(linear, p=-1)", 15, "p must be >= 0"),
        ("power(linear, p=2)", 14, "expected degree="),
        ("exp(linear, p=2)", 10, "expected ')'"),
        ("delta(on=)", 9, "expected a column, as in x0, x0..x9 or [x0, x3..x5], got ')'"),
        ("delta(on=[])", 10, "expected a column"),
        ("delta(on=[a, b)", 14, "expected ',' or ']', got ')'"),
        ("delta(on=a..)", 12, "expected a column"),
        (r#"delta(on="a b)"#, 9, "this quote is not closed"),
        ("delta(on=a, on=b)", 12, "on is given twice"),
        ("gaussian(om=a)", 9, "did you mean 'on'?"),
        ("gaussian(scale=max)", 15, "expected quantile"),
        ("gaussian(scale=[1, 2])", 15, "scale has 2 numbers; expected quantile, or 65 for each input"),
        ("gaussian(scale=quantile, scale=quantile)", 25, "scale is given twice"),
        ("chi_squared(scale=quantile)", 18, "is defined for >= 0 only"),
        ("µ + linear()", 0, "unknown kernel 'µ'"),
        ("linear() + µ", 11, "unknown kernel 'µ'"),
    ] {
        let (found, message) = error(text);
        assert!(message.contains(part), "{text}: {message}");
        assert_eq!(found, at, "{text}: {message}");
    }
    assert!(error(&"(".repeat(100_000)).1.contains("nested parentheses"));
    let caret = Kernel::parse("gaussian(sigma=-1)").unwrap_err().to_string();
    assert!(caret.ends_with(&format!("\n  {}^", " ".repeat(15))), "{caret}");
}

#[test]
fn expressions_can_be_built() {
    let parse = |text: &str| Kernel::parse(text).unwrap();
    let sum = parse("linear + 2*gaussian(sigma=1)") + parse("delta");
    assert_eq!(sum, parse("linear + 2*gaussian(sigma=1) + delta"));
    assert_eq!(parse("2*linear") * parse("3*delta*linear"), parse("6*linear*delta*linear"));
    assert_eq!(sum * parse("linear"), parse("(linear + 2*gaussian(sigma=1) + delta)*linear"));
    assert_eq!((parse("1e300*linear") * parse("1e300*linear")).to_string(), "1.7976931348623157e308*linear()*linear()");
    // kernels keep the columns that they already have
    let on = parse("exp(linear(on=a)) + delta").on("[b, c..d]").unwrap();
    assert_eq!(on.to_string(), "exp(linear(on=a)) + delta(on=[b, c..d])");
    let error = parse("delta").on("b, c").unwrap_err().to_string();
    assert!(error.contains("write several columns in brackets"), "{error}");
}

#[test]
fn a_list_must_have_a_number_for_each_feature() {
    let spec = Kernel::parse("linear() + 2*gaussian(sigma=[1, 2, 3])").unwrap();
    assert!(spec.check_input_count(3).is_ok() && !spec.needs_median());
    let error = spec.check_input_count(4).unwrap_err();
    assert!(matches!(error, Error::InputCount { kernel: "gaussian", feature_count: 4, .. }), "{error}");
    assert!(error.to_string().contains("list has 3 numbers"), "{error}");
}

#[test]
fn a_median_must_be_resolved_before_building() {
    for word in ["median", "auto"] {
        let spec = Kernel::parse(&format!("linear() + gaussian(sigma={word})")).unwrap();
        assert!(spec.needs_median() && spec.is_auto() == (word == "auto"));
        let error = spec.build().unwrap_err().to_string();
        assert!(error.contains(&format!("{word} has no value; call resolve_median")), "{error}");
        let resolved = spec.resolve_median(faer::Mat::zeros(3, 2).as_ref()).unwrap();
        assert_eq!(resolved.to_string(), "linear() + gaussian(sigma=1)");
        assert!(resolved.build().is_ok());
    }
    assert!(!Kernel::parse("linear()").unwrap().needs_median());
}

/// Generates expressions over the registry with all valid parameter values.
fn expression() -> impl Strategy<Value = String> {
    let number = prop_oneof![any::<f64>().prop_map(f64::abs), 0.0..10.0, Just(1.0)]
        .prop_filter("finite", |number: &f64| number.is_finite());
    let quoted = |name: String| format!("\"{}\"", name.replace('"', "\"\""));
    let part = prop_oneof![
        "[a-z][a-z0-9_*?-]{0,5}",
        ".*".prop_map(quoted),
        (".*", ".*").prop_map(move |(first, last)| format!("{}..{}", quoted(first), quoted(last))),
    ];
    let (numbers, on) = (proptest::collection::vec(number, 3), proptest::collection::vec(part, 0..4));
    let call = (0..registry().len(), numbers, on).prop_map(|(family, numbers, on)| {
        let family = &registry()[family];
        let given = family.parameters.iter().zip(numbers).filter(|(p, number)| p.range.contains(*number));
        let mut given: Vec<_> = given.map(|(p, number)| format!("{}={}", p.name, Value::Number(number))).collect();
        given.extend((!on.is_empty()).then(|| format!("on=[{}]", on.join(", "))));
        format!("{}({})", family.name, given.join(", "))
    });
    call.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} + {b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})*({b})")),
            (inner.clone(), 1..32u32).prop_map(|(a, degree)| format!("power({a}, degree={degree})")),
            (inner.clone(), 0.1..9.0).prop_map(|(a, p)| format!("exp(normalised({a}) + mean({a}, p={p:?}))")),
            (0.0..100.0, inner).prop_map(|(factor, a)| format!("{factor:?}*({a})")),
        ]
    })
}

proptest! {
    #[test]
    fn printing_and_reading_gives_an_equal_spec(text in expression()) {
        let spec = Kernel::parse(&text).unwrap();
        let printed = spec.to_string();
        prop_assert_eq!(&Kernel::parse(&printed).unwrap(), &spec);
        prop_assert_eq!(Kernel::parse(&printed).unwrap().to_string(), printed);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in ".*") {
        let _ = Kernel::parse(&text);
    }

    #[test]
    fn no_near_expression_makes_the_parser_panic(text in r#"[a-z(),=+*. 0-9e-]{0,40}|(gaussian|linear|[(+*),=.\[\]"-]|sigma|on=|\.\.| |1e|9|µ){0,16}"#) {
        if let Err(Error::Kernel { position, text, .. } | Error::UnknownKernel { position, text, .. }) = Kernel::parse(&text) {
            prop_assert!(position <= text.chars().count());
        }
    }
}

#[test]
fn a_number_alone_is_a_constant_kernel() {
    let spec = Kernel::parse("1 + linear()").unwrap();
    assert_eq!(spec.to_string(), "constant(value=1) + linear()");
    assert_eq!(Kernel::parse(&spec.to_string()).unwrap(), spec);
    assert_eq!(Kernel::parse("2*3 + linear()").unwrap(), Kernel::parse("constant(value=6) + linear()").unwrap());
    // (1 + x·z)² as a power of a sum, and as the polynomial kernel
    let x = MatRef::from_row_major_slice(&[0.5, -2.0, 1.5, 0.25], 2, 2);
    let values = |text: &str| {
        let mut out = Mat::<f64>::zeros(2, 2);
        Kernel::parse(text).unwrap().build().unwrap().typed::<f64>().block(x, x, out.as_mut());
        out
    };
    let (power, polynomial) = (values("power(1 + linear(), degree=2)"), values("polynomial(degree=2, gamma=1, c0=1)"));
    for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let expected = (1.0 + x[(i, 0)] * x[(j, 0)] + x[(i, 1)] * x[(j, 1)]).powi(2);
        assert!((power[(i, j)] - expected).abs() < 1e-13 && (polynomial[(i, j)] - expected).abs() < 1e-13);
    }
}

#[test]
fn a_share_of_the_features_becomes_a_number_when_they_are_counted() {
    let spec = Kernel::parse("polynomial(gamma=1/d, c0=3/d) + sigmoid(gamma=2/d, on=[a, c])").unwrap();
    assert!(spec.to_string().contains("gamma=1/d, c0=3/d") && Kernel::parse(&spec.to_string()).unwrap() == spec);
    let known = spec.resolve_columns(&["a", "b", "c", "d"]).unwrap();
    assert_eq!(known.to_string(), "polynomial(degree=3, gamma=0.25, c0=0.75) + sigmoid(gamma=1, c0=1, on=[a, c])");
    let error = Kernel::parse("polynomial(gamma=1/d)").unwrap().build().unwrap_err().to_string();
    assert!(error.contains("number of features is unknown"), "{error}");
}

#[test]
fn a_rate_is_another_way_to_give_a_length() {
    let read = |text: &str| Kernel::parse(text).map(|spec| spec.to_string());
    assert_eq!(read("gaussian(gamma=0.5)").unwrap(), "gaussian(sigma=1)");
    assert_eq!(
        read("laplacian(gamma=4) + chi_squared(gamma=0.5)").unwrap(),
        "laplacian(sigma=0.25) + chi_squared(sigma=2)"
    );
    // `1/d` is resolved when the number of features is known
    let spec = Kernel::parse("gaussian(gamma=1/d) * laplacian(gamma=1/d, on=[a, c])").unwrap();
    assert_eq!(spec.to_string(), "gaussian(gamma=1/d)*laplacian(gamma=1/d, on=[a, c])");
    assert_eq!(Kernel::parse(&spec.to_string()).unwrap(), spec);
    let known = spec.resolve_columns(&["a", "b", "c", "d", "e", "f", "g", "h"]).unwrap();
    assert_eq!(known.to_string(), "gaussian(sigma=2)*laplacian(sigma=2, on=[a, c])");
    assert!(known.build().is_ok());
    let spec = Kernel::parse("gaussian(gamma=1/d)").unwrap();
    for open in [spec.build().err(), spec.with_scaled_lengths(2.0).err()] {
        assert!(open.unwrap().to_string().contains("number of features is unknown"));
    }
    for (text, part) in [
        ("gaussian(sigma=2, gamma=1/d)", "gamma is given twice: gamma replaces sigma"),
        ("gaussian(gamma=0)", "gamma must be > 0"),
        ("laplacian(gamma=1e-320)", "gamma must be > 0"),
        ("gaussian(gamma=1/n)", "expected d"),
        ("gaussian(sigma=1/d)", "sigma of gaussian cannot be divided by d"),
        ("matern(gamma=1)", "matern has no parameter 'gamma'"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn the_mean_of_order_0_is_the_geometric_one() {
    let spec = Kernel::parse("mean(linear(), p=0)").unwrap();
    assert_eq!(spec, Kernel::parse("normalised(linear())").unwrap());
    assert_eq!(spec.to_string(), "normalised(linear())");
    let error = Kernel::parse("mean(linear(), p=1e-9)").unwrap_err().to_string();
    assert!(error.contains("p must be 0 or at least 0.01"), "{error}");
}

#[test]
fn what_is_known_of_kernels() {
    for (text, characteristic) in [
        ("gaussian(sigma=1)", true),
        ("laplacian()", true),
        ("linear()", false),
        ("polynomial(degree=2)", false),
        ("1 + linear()", false),
        ("linear() + 0.5*matern()", true),
        ("0*gaussian() + linear()", false),
        ("gaussian()*linear()", false),
        ("gaussian()*cauchy()", true),
        ("power(1 + linear(), degree=2)", false),
        ("exp(linear())", true),
        ("periodic()", false),
        ("distance()", true),
        // the product maps the point mass at the origin to mean embedding 0
        ("distance()*gaussian()", false),
        ("gaussian(on=x0)*delta(on=city)", true),
    ] {
        assert_eq!(Kernel::parse(text).unwrap().is_characteristic(), characteristic, "{text}");
    }
}

#[test]
fn pictures_have_whole_lines() {
    for (text, features, wanted) in [
        ("ssim(width=28)", 784, ""),
        ("ssim()", 784, ""),
        ("linear(on=x0) + ssim(on=x0..x8)", 700, ""),
        ("ssim()", 785, "the kernel ssim uses 785 inputs, but this is not a square number; set width"),
        ("ssim(width=28)", 785, "not a multiple of the width 28"),
    ] {
        let names: Vec<_> = (0..features).map(|i| format!("x{i}")).collect();
        let checked = Kernel::parse(text).unwrap().resolve_columns(&names).unwrap().check_input_count(features);
        let message = checked.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains(wanted) && message.is_empty() == wanted.is_empty(), "{text}: {message}");
    }
}
