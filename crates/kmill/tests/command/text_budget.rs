//! P1 (bounded memory) for text, by bytes: each line stays below the smallest budget it accepts.

use kstore::arrow::array::{ArrayRef, DictionaryArray, Float64Array, RecordBatch, StringArray, StringViewArray};
use kstore::arrow::datatypes::Int32Type;
use kstore::arrow::ipc::writer::FileWriter;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// Returns the peak resident memory of a running process, as counted by the kernel.
fn peak(child: &Child) -> Option<usize> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib << 10)
}

/// Returns the peak of a run, or the budget that the error message asks for, and the message.
fn run(folder: &Path, line: &str, memory: usize) -> Result<usize, (usize, String)> {
    let budget = memory.to_string();
    let words = line.split_whitespace().chain(["-q", "--memory", &budget, "--threads", "2"]);
    let mut kmill = Command::new(env!("CARGO_BIN_EXE_kmill"));
    kmill.current_dir(folder).args(words).stdout(Stdio::null()).stderr(Stdio::piped());
    let (mut child, mut most) = (kmill.spawn().unwrap(), 0);
    while child.try_wait().unwrap().is_none() {
        // a process that has ended has no status file
        most = most.max(peak(&child).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        return Ok(most);
    }
    let asked = said.split("raise --memory to ").nth(1).and_then(|rest| rest.split("MiB").next());
    let asked = asked.and_then(|digits| digits.parse::<usize>().ok());
    Err((asked.unwrap_or_else(|| panic!("{line}: {said}")) * MIB, said))
}

/// Runs a line at the smallest budget it accepts; returns the last error message.
fn stays_under(folder: &Path, line: &str) -> String {
    let (mut budget, mut said) = (MIB, String::new());
    for _ in 0..6 {
        match run(folder, line, budget) {
            Ok(peak) => {
                eprintln!("{} of {} MiB: {line}", peak / MIB, budget / MIB);
                assert!(peak <= budget, "{line}: peak {peak}, budget {budget}");
                return said;
            }
            Err((asked, why)) if asked > budget => (budget, said) = (asked, why),
            Err((_, why)) => panic!("{line}: refused at {budget} bytes, which it asked for: {why}"),
        }
    }
    panic!("{line}: still refused at {budget} bytes: {said}");
}

fn write(path: &Path, text: ArrayRef) {
    let rows = text.len();
    let x: ArrayRef = Arc::new(Float64Array::from_iter_values((0..rows).map(|i| (i % 97) as f64)));
    let y: ArrayRef = Arc::new(Float64Array::from_iter_values((0..rows).map(|i| (i % 97) as f64 / 3.0)));
    let table = RecordBatch::try_from_iter([("x", x), ("y", y), ("t", Arc::clone(&text)), ("u", text)]).unwrap();
    let mut writer = FileWriter::try_new(std::fs::File::create(path).unwrap(), &table.schema()).unwrap();
    writer.write(&table).unwrap();
    writer.finish().unwrap();
}

fn kmill(folder: &Path, line: &str) {
    let done = Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(folder).args(line.split_whitespace()).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Writes tables with many, repeated, or long texts, in the formats that support them.
fn tables() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = |i: usize| format!("row {i} {}", "of a long table ".repeat(i % 12));
    write(&at.join("many.arrow"), Arc::new(StringArray::from_iter_values((0..120_000).map(line))));
    write(&at.join("views.arrow"), Arc::new(StringViewArray::from_iter_values((0..60_000).map(line))));
    let values = StringArray::from_iter_values((0..300).map(|i| format!("{i} {}", "come again ".repeat(200))));
    let keys = (0..60_000).map(|i| i % 300).collect::<kstore::arrow::array::Int32Array>();
    write(&at.join("coded.arrow"), Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::new(values)).unwrap()));
    let long = |i: usize| format!("t{i:07}").repeat(25_000);
    write(&at.join("long.arrow"), Arc::new(StringArray::from_iter_values((0..150).map(long))));
    for name in ["many", "coded", "long"] {
        kmill(at, &format!("convert {name}.arrow -o {name}.parquet -q"));
    }
    kmill(at, "convert long.arrow -o long.csv -q");
    kmill(at, "fit ridge many.arrow --target y --features x --rows ..2000 --rank 20 --lambda 1e-3 -o m -q");
    folder
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "the operating system tells no peak of memory")]
fn text_is_planned_by_its_bytes() {
    let folder = tables();
    for line in [
        "predict m many.arrow --keep t,u -o p.arrow",
        "predict m many.parquet --keep t,u -o p.parquet",
        "predict m coded.arrow --keep t --rows ..20000 -o p.csv",
        "predict m long.parquet --keep t -o p.parquet",
        "convert many.arrow -o c.parquet",
        "convert many.parquet -o c.arrow",
        "convert views.arrow -o c.csv",
        "convert coded.arrow --rows ..20000 -o c.parquet",
        "convert coded.parquet --rows ..20000 -o c.csv",
        "convert long.arrow -o c.parquet",
        "convert long.parquet -o c.arrow",
        "convert long.csv -o c.csv",
        "convert many.arrow --features x --where t!=a -o c.npy",
        "convert coded.parquet --features x --where t!=a -o c.npy",
    ] {
        stays_under(folder.path(), line);
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "the operating system tells no peak of memory")]
fn a_small_file_that_stands_for_much_text_is_converted_within_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let text = StringArray::from_iter_values(["a".repeat(300_000)]);
    let keys = (0..2_000).map(|_| 0).collect::<kstore::arrow::array::Int32Array>();
    let coded = DictionaryArray::<Int32Type>::try_new(keys, Arc::new(text)).unwrap();
    write(&folder.path().join("a.arrow"), Arc::new(coded));
    kmill(folder.path(), "convert a.arrow --drop u -o a.parquet -q");
    // a row group of 16 MiB of text has a few hundred bytes
    let small = std::fs::metadata(folder.path().join("a.parquet")).unwrap().len();
    assert!(small < 100_000, "{small}");
    stays_under(folder.path(), "convert a.parquet -o a.csv");
    assert!(std::fs::metadata(folder.path().join("a.csv")).unwrap().len() > 600_000_000);
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "the operating system tells no peak of memory")]
fn a_cell_that_does_not_fit_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let cell = |i: usize| if i == 777 { "long ".repeat(2_000_000) } else { format!("cell {i}") };
    write(&folder.path().join("a.arrow"), Arc::new(StringArray::from_iter_values((0..3000).map(cell))));
    let said = stays_under(folder.path(), "convert a.arrow --drop u -o b.csv");
    assert!(
        said.contains("a.arrow: row 777 (counted from 0), column \"t\" raises the size of the row's texts to 9.5 MiB"),
        "{said}"
    );
    assert!(said.contains("exclude the column or raise --memory to"), "{said}");
}

#[test]
fn what_is_written_does_not_depend_on_the_budget() {
    let folder = tables();
    let (at, kmill) = (folder.path(), |line: &str| kmill(folder.path(), line));
    for (data, extension) in [("many.arrow", "parquet"), ("coded.parquet", "arrow"), ("long.parquet", "csv")] {
        for (memory, name) in [("120MiB", "small"), ("2GiB", "large")] {
            kmill(&format!("convert {data} --rows ..9000 -o {name}.{extension} -q --memory {memory}"));
            let line = format!("predict m {data} --keep t --rows ..9000 -q --memory {memory}");
            kmill(&format!("{line} -o p{name}.{extension}"));
            kmill(&format!("{line} --where x!=3 --threads 1 -o w{name}.{extension}"));
        }
        for name in ["", "p", "w"] {
            let read = |size: &str| std::fs::read(at.join(format!("{name}{size}.{extension}"))).unwrap();
            assert!(read("small") == read("large"), "{data} {name}");
        }
    }
}
