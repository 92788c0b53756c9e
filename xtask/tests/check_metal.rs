//! What only Apple's systems run type-checks. Skipped where cargo cannot get the bindings to Metal, which no other build needs.

use xtask::check_metal;

#[test]
fn modules_for_apples_systems_type_check() {
    match check_metal::run(&xtask::root()) {
        Ok(checked) => assert!(checked, "crates/metal/src/apple: see above"),
        Err(why) => eprintln!("skipped: {why:#}"),
    }
}
