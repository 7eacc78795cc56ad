//! Byte sizes, and plans that exceed the memory budget.

use kstore::budget::parse_bytes;
use kstore::display::format_bytes;
use kstore::{Error, MemoryPlan};
#[test]
fn sizes_read_and_print() {
    assert_eq!(parse_bytes("512MiB").unwrap(), 512 << 20);
    assert_eq!(parse_bytes(" 2 g").unwrap(), 2 << 30);
    assert_eq!(parse_bytes("800MB").unwrap(), 800_000_000);
    assert_eq!(format_bytes(512 << 20), "512 MiB");
    assert_eq!(format_bytes(1536), "1.5 KiB");
    for wrong in ["", "MiB", "12 parsecs", "1..2g"] {
        assert!(parse_bytes(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_plan_names_its_largest_term() {
    let plan = MemoryPlan::new("x", 100).term("small", 30, "lower a").term("large", 80, "lower b");
    assert_eq!(plan.bytes(), 110);
    let error = plan.check().unwrap_err();
    assert!(matches!(&error, Error::OverBudget { largest, needed: 110, .. } if largest == "large"), "{error}");
    assert!(MemoryPlan::new("x", 100).term("small", 100, "").check().is_ok());
    // a part that cannot be reduced has the remedy of one that can, if this suffices
    let fixed = |reducible| MemoryPlan::new("x", 100).term("fixed", 90, "").term("small", reducible, "lower a");
    let remedy = |plan: MemoryPlan| plan.check().unwrap_err().to_string();
    assert!(remedy(fixed(20)).contains("largest part is fixed with 90 B; lower a or raise"), "{}", remedy(fixed(20)));
    let both = fixed(20).term("more", 40, "");
    assert!(remedy(both.clone()).contains("90 B; raise"), "{}", remedy(both));
}

#[test]
fn a_refusal_beside_something_else_names_the_budget_of_both() {
    let refused = MemoryPlan::new("x", 120 << 20).term("large", 128 << 20, "lower `rank`").check().unwrap_err();
    let told = refused.with_reserved(8 << 20).to_string();
    let expected = "x needs 136 MiB, the budget is 128 MiB (`memory`): the largest part is large with 128 MiB; lower `rank` or raise `memory` to 136MiB";
    assert_eq!(told, expected);
}

#[test]
fn every_run_begins_with_the_process_its_threads_and_its_files() {
    let bytes = |threads, held| MemoryPlan::for_process("x", 1 << 30, threads, held).bytes();
    assert_eq!(bytes(64, 5) - bytes(1, 0), 63 * (bytes(2, 0) - bytes(1, 0)) + 5);
    assert!(MemoryPlan::for_process("x", 1 << 20, 1, 0).check().is_err());
    assert_eq!(bytes(usize::MAX, usize::MAX), usize::MAX, "sums do not wrap");
}
