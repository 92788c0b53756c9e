//! The house invariants, inside `cargo test`.

#[test]
fn the_house_is_tidy() {
    let findings = xtask::tidy::check(&xtask::root()).unwrap();
    let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{} findings:\n{}", list.len(), list.join("\n"));
}
