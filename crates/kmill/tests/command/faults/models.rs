//! Models that do not match the data, and files that are not models.

use super::make::*;

#[test]
fn models_that_do_not_fit_and_files_that_are_no_models() {
    let folder = folder();
    let at = folder.path();
    for scale in ["standard", "minmax", "robust", "asinh", "quantile", "none"] {
        assert_eq!(run(at, &fit("t.parquet", &format!("--lambda 1e-6 --scale {scale} -q"))).code, 0);
        // the model stores the training means for every scaling
        let (_, scores) = warns(at, "evaluate model nan.parquet --missing mean");
        assert!(scores["rows"] == 300 && scores["mse"].as_f64().unwrap() < 0.1, "{scale}: {scores}");
    }
    let model = std::fs::read(at.join("model")).unwrap();
    std::fs::write(at.join("cut"), &model[..model.len() - 9]).unwrap();
    std::fs::write(at.join("short"), &model[..100]).unwrap();
    std::fs::write(at.join("tiny"), &model[..4]).unwrap();
    let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let foreign = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    std::fs::write(at.join("foreign.bin"), foreign).unwrap();
    for (model, part) in [
        ("cut", "is truncated"),
        ("short", "is truncated"),
        ("tiny", "is not a kmill model; expected a file"),
        ("foreign.bin", "that kmill did not write"),
        ("t.parquet", "is not a kmill model; expected a file"),
        ("no", "no such file: no"),
        (".", "is not a regular file"),
    ] {
        fails(at, &format!("evaluate {model} t.parquet --json"), 1, part);
        fails(at, &format!("predict {model} t.parquet -o out.parquet --json"), 1, part);
    }
    fails(at, "inspect foreign.bin", 1, "that kmill did not write");
    fails(at, "inspect cut", 1, "is truncated");
    for (data, part) in [
        ("narrow.parquet", "has no column \"x1\""),
        ("nan.parquet", "row 17 (counted from 0), column \"x1\" is NaN"),
        ("empty.parquet", "it has no rows"),
        ("t.parquet --where y>9", "no rows remain"),
    ] {
        fails(at, &format!("predict model {data} -o out.parquet"), 1, part);
        fails(at, &format!("evaluate model {data}"), 1, part);
    }
    fails(at, "evaluate model untold.parquet", 1, "has no column \"y\"");
    fails(at, "evaluate model labels.parquet --target text", 1, "holds text");
    // columns in another order, or no target: the same predictions
    for data in ["t", "order", "untold"] {
        assert_eq!(run(at, &format!("predict model {data}.parquet -o {data}.npy -q")).code, 0);
    }
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(read("t.npy") == read("order.npy") && read("t.npy") == read("untold.npy"));
}
