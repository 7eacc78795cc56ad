//! P1 (bounded memory) for verbs, solvers, schemes, maps and table shapes: each runs at the
//! smallest budget it accepts and stays below it. `scripts/budget` is the long version.

use kstore::arrow::array::{Array, ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StructArray};
use kstore::arrow::buffer::OffsetBuffer;
use kstore::arrow::datatypes::{DataType, Field};
use kstore::arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use kstore::arrow::ipc::{CompressionType, MetadataVersion};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// Memory of the program itself, at most, with one or two threads. A freshly linked build is mapped
/// from the page cache in large pieces and counts up to 4 MiB more than one read in small pieces.
const SMALLEST: usize = 34 * MIB;

/// Result of a run.
enum Outcome {
    /// Peak resident memory in bytes.
    Done(usize),
    /// Budget that the error message asks for, in bytes.
    Refused(usize),
}

/// Returns the peak resident memory of a running process, as counted by the kernel.
fn peak(child: &Child) -> Option<usize> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib << 10)
}

fn run(folder: &Path, line: &str, memory: usize) -> Outcome {
    let budget = memory.to_string();
    let words = line.split_whitespace().chain(["-q", "--memory", &budget]);
    let mut kmill = Command::new(env!("CARGO_BIN_EXE_kmill"));
    kmill.current_dir(folder).args(words).stdout(Stdio::null()).stderr(Stdio::piped());
    let (mut child, mut most) = (kmill.spawn().unwrap(), 0);
    while child.try_wait().unwrap().is_none() {
        // a process that has ended has no status file
        most = most.max(peak(&child).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Outcome::Done(most);
    }
    assert!(memory < SMALLEST || most <= memory, "{line}: peak {most} before it was refused at {memory}: {said}");
    let asked = said.split("raise --memory to ").nth(1).and_then(|rest| rest.split("MiB").next());
    let asked = asked.and_then(|digits| digits.parse::<usize>().ok());
    assert!(!said.contains("panicked"), "{line}: {said}");
    Outcome::Refused(asked.unwrap_or_else(|| panic!("{line}: {said}")) * MIB)
}

/// Runs a line at the smallest budget it accepts. A verb of two parts refuses once for each part,
/// `features` a third time: its fit leaves more memory behind if it had a larger budget.
fn stays_under(folder: &Path, line: &str) {
    let mut budget = MIB;
    for _ in 0..4 {
        match run(folder, line, budget) {
            Outcome::Done(peak) => {
                eprintln!("{} of {} MiB: {line}", peak / MIB, budget / MIB);
                return assert!(peak <= budget, "{line}: peak {peak}, budget {budget}");
            }
            Outcome::Refused(asked) if asked > budget => budget = asked,
            Outcome::Refused(_) => panic!("{line}: refused at {budget} bytes, which it asked for"),
        }
    }
    panic!("{line}: still refused at {budget} bytes");
}

fn make(folder: &Path, line: &str) {
    let done = Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(folder).args(line.split_whitespace()).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs every line at its smallest budget, if the operating system reports peak memory.
fn walk(lines: &[String]) {
    if !cfg!(target_os = "linux") {
        crate::run::skip("the operating system tells no peak of memory");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), "generate friedman1 --rows 3000 -o narrow.parquet -q");
    make(folder.path(), "generate friedman1 --rows 200 --features 2000 -o wide.parquet -q");
    make(folder.path(), "generate friedman1 --rows 100 --seed 1 -o few.parquet -q");
    make(folder.path(), "generate blobs --rows 3000 -o classes.parquet -q");
    make(folder.path(), "fit ridge narrow.parquet --target y --rank 100 --lambda 1e-4 --std -o ridge -q");
    make(folder.path(), "fit kpca narrow.parquet --features x* --components 3 --rank 100 --novelty -o kpca -q");
    make(folder.path(), "fit ridge wide.parquet --target y --rank 50 --lambda 1e-4 -o wide -q");
    lines.iter().for_each(|line| stays_under(folder.path(), line));
}

#[test]
fn a_rank_above_the_rows_is_planned_as_it_is_run() {
    let few = "--rows ..200 --rank 1e9 -o m";
    let of_ridge = |options: &&str| format!("fit ridge narrow.parquet --target y --lambda 1e-4 {few} {options}");
    let ridge = [
        "--landmarks kmeans",
        "--landmarks greedy --candidates all",
        "--landmarks farahat",
        "--landmarks few.parquet",
        "--map eigen",
        "--map truncated",
        "--map ensemble",
        "--map exact --method pcg",
        "--method pcg --landmarks uniform",
    ];
    let solvers = ["kpca --features x*", "kmeans --features x* --clusters 2", "svr --target y --C 1"];
    let of_solver = |solver: &&str| format!("fit {} {few}", solver.replacen(' ', " narrow.parquet ", 1));
    let verbs = [
        "herd narrow.parquet --features x* --rows ..200 --rank 1e9 --count 3 -o h.parquet",
        "test hsic narrow.parquet --features x* --with y --rows ..200 --rank 1e9 --permutations 9",
        "curve narrow.parquet --features x* --rows ..200 --methods kmeans,double --ranks 1000000000 --repeats 1 -o c.csv",
        "tune ridge narrow.parquet --target y --sample 200 --kernels gaussian(),linear() --factors 1 --rank 1e9 -o t.csv",
    ];
    let lines = ridge.iter().map(of_ridge).chain(solvers.iter().map(of_solver));
    walk(&lines.chain(verbs.map(String::from)).collect::<Vec<_>>());
}

#[test]
fn every_verb_stays_under_the_smallest_budget_it_accepts() {
    walk(&[
        "fit ridge narrow.parquet --target y --ranks 50,100 --folds 5 --threads 64 -o m",
        "fit ridge narrow.parquet --target y --rank 300 --lambda 1e-4 --landmarks predictive -o m",
        "fit ridge classes.parquet --target y --task classification --rank 100 --folds 3 --report f.html -o m",
        "fit ridge wide.parquet --target y --rank 100 --lambda 1e-4 -o m",
        "fit svm classes.parquet --target y --rank 100 --C 1 -o m",
        "fit kdr narrow.parquet --target y --rank 200 -o m",
        "fit kdr narrow.parquet --target y --rank 200 --precision f64 -o m",
        "fit spca narrow.parquet --target y --rank 200 --target-kernel gaussian() -o m",
        "fit ridge narrow.parquet --target y --rank 200 --lambda 1e-4 --importance -o m",
        "features narrow.parquet --features x* --rank 200 -o f.parquet",
        "test hsic narrow.parquet --features x0,x1 --with y --given x2,x3 --rank 100",
        "fit ridge narrow.parquet --target y --map sketch --kernel polynomial(degree=2) --rank 1000 --lambda 1e-4 -o m",
        "predict ridge narrow.parquet --std --keep x0 -o p.parquet",
        "predict kpca narrow.parquet --novelty --preimage -o p.parquet",
        "predict wide wide.parquet -o p.arrow",
        "evaluate ridge narrow.parquet --report e.html",
        "plot ridge narrow.parquet --x x0 --y x1 -o p.png",
        "plot wide wide.parquet --x x0 --y x1 -o p.svg",
        "convert wide.parquet -o c.parquet",
        "inspect wide.parquet --stats",
    ]
    .map(String::from));
}

/// A row that exceeds the budget is refused without being read into memory.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "the operating system tells no peak of memory")]
fn a_cell_that_is_too_long_is_refused_within_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), "generate friedman1 --rows 100 -o few.parquet -q");
    make(folder.path(), "fit ridge few.parquet --target y --features x0 --rank 20 --lambda 1e-4 -o m -q");
    for quote in ["", "\""] {
        let text = format!("x0,s\n1,a\n2,{quote}{}{quote}\n", "s".repeat(30_000_000));
        std::fs::write(folder.path().join("long.csv"), text).unwrap();
        let mut kmill = Command::new(env!("CARGO_BIN_EXE_kmill"));
        let line = "predict m long.csv --keep s -o p.csv -q --memory 26MiB --threads 2";
        kmill.current_dir(folder.path()).args(line.split_whitespace()).stderr(Stdio::piped());
        let (mut child, mut most) = (kmill.spawn().unwrap(), 0);
        while child.try_wait().unwrap().is_none() {
            most = most.max(peak(&child).unwrap_or(0));
            std::thread::sleep(Duration::from_millis(1));
        }
        let said = String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr).into_owned();
        assert!(said.contains("a row of at most 16777216 bytes"), "{said}");
        assert!(most <= 26 * MIB, "peak {most}");
    }
}

#[test]
fn what_no_map_can_have_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), "generate friedman1 --rows 300 -o narrow.parquet -q");
    for map in ["fourier", "orthogonal", "structured", "quasi", "sketch --kernel polynomial(degree=2)"] {
        for rank in ["1e9", "9e15"] {
            let line = format!("fit ridge narrow.parquet --target y --lambda 1e-4 --map {map} --rank {rank} -o m");
            let (code, _, said) = crate::run::kmill(folder.path(), &line);
            assert_eq!(code, 1, "{line}: {said}");
            assert!(said.contains("--rank") && !said.contains("panicked"), "{line}: {said}");
        }
    }
}

/// Writes a million equal sparse rows, in one batch and one row group: 400 MB in a few kilobytes.
fn equal_rows(folder: &Path) {
    let (rows, entries) = (1_000_000, 20);
    let index: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows * entries).map(|i| i as i64 % 20 * 50)));
    let value: ArrayRef = Arc::new(Float64Array::from(vec![1.0; rows * entries]));
    let field = |name: &str, of: &ArrayRef| Arc::new(Field::new(name, of.data_type().clone(), false));
    let fields = vec![field("index", &index), field("value", &value)];
    let entry = Arc::new(Field::new("item", DataType::Struct(fields.clone().into()), false));
    let columns = StructArray::new(fields.into(), vec![index, value], None);
    let ends = OffsetBuffer::from_lengths(std::iter::repeat_n(entries, rows));
    let x: ArrayRef = Arc::new(ListArray::new(entry, ends, Arc::new(columns), None));
    let y: ArrayRef = Arc::new(Float64Array::from_iter_values((0..rows).map(|i| (i % 2) as f64)));
    let batch = RecordBatch::try_from_iter([("x", x), ("y", y)]).unwrap();
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5).unwrap();
    let options = options.try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    let file = File::create(folder.join("equal.arrow")).unwrap();
    let mut writer = FileWriter::try_new_with_options(file, &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows));
    let properties = properties.set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let file = File::create(folder.join("equal.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn files_that_unpack_to_far_more_than_they_hold_stay_under() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    equal_rows(folder.path());
    for file in ["equal.arrow", "equal.parquet"] {
        assert!(folder.path().join(file).metadata().unwrap().len() < 8 << 20, "{file}");
        stays_under(folder.path(), &format!("inspect {file}"));
        let fit = format!("fit ridge {file} --target y --rows ..2000 --rank 20 --lambda 1e-4 -o m");
        stays_under(folder.path(), &fit);
    }
}

#[test]
fn a_model_header_of_a_million_names_stays_under() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), "generate friedman1 --rows 300 -o n.parquet -q");
    make(folder.path(), "fit ridge n.parquet --target y --rank 20 --lambda 1e-4 -o m -q");
    let model = std::fs::read(folder.path().join("m")).unwrap();
    let (size, rest) = model.split_first_chunk::<8>().unwrap();
    let (header, numbers) = rest.split_at(u64::from_le_bytes(*size) as usize);
    let first = r#"\"features\":["#;
    let names: String = (0..1_000_000).map(|i| format!(r#"\"n{i}\","#)).collect();
    let header = str::from_utf8(header).unwrap().replacen(first, &format!("{first}{names}"), 1);
    assert!(header.len() > 10 << 20);
    let mut header = header.into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let size = (header.len() as u64).to_le_bytes();
    std::fs::write(folder.path().join("m"), [&size[..], &header, numbers].concat()).unwrap();
    let budget = 160 * MIB;
    let words = ["predict", "m", "n.parquet", "-o", "p.csv", "-q", "--memory", &budget.to_string()].map(String::from);
    let mut kmill = Command::new(env!("CARGO_BIN_EXE_kmill"));
    let mut child = kmill.current_dir(folder.path()).args(words).stderr(Stdio::piped()).spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most.max(peak(&child).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // a million feature names contradict ten numbers
    assert!(!output.status.success() && !said.contains("panicked"), "{said}");
    assert!(most <= budget, "peak {most}, budget {budget}: {said}");
}
