//! Levels: their order, their names, and those a machine does not have.

use akunu_simd::level::Level;

#[test]
fn levels_are_ordered_and_have_names() {
    for pair in Level::ALL.windows(2) {
        assert!(pair[0] < pair[1]);
    }
    for &level in Level::ALL {
        assert_eq!(Level::from_name(level.name()), Some(level));
    }
}

#[test]
fn a_level_has_the_lower_ones_but_avx_512_not_avx_vnni() {
    assert!(Level::Amx.has(Level::Avx512) && Level::Avx512.has(Level::Avx512Bw) && Level::Avx512Bw.has(Level::Avx2));
    assert!(Level::AvxVnni.has(Level::Avx2) && !Level::Avx512Bw.has(Level::Avx512));
    assert!(Level::AvxVnni.has(Level::AvxVnni) && Level::I8mm.has(Level::DotProd));
    assert!(Level::DotProd.has(Level::Neon) && !Level::Neon.has(Level::DotProd));
    assert!(!Level::Avx512.has(Level::AvxVnni) && !Level::Amx.has(Level::AvxVnni));
    assert!(!Level::Avx2.has(Level::AvxVnni) && !Level::AvxVnni.has(Level::Avx512));
}

#[test]
fn an_unknown_level_is_an_error_that_names_it() {
    let error = Level::parse("sse9").unwrap_err();
    assert!(error.to_string().contains("sse9"), "{error}");
}

#[test]
fn a_level_above_the_machine_is_an_error() {
    for &level in Level::ALL.iter().filter(|&&level| level != Level::AvxVnni) {
        assert_eq!(level.checked().is_ok(), level <= Level::detect());
    }
    let elsewhere = if cfg!(target_arch = "aarch64") { Level::Avx2 } else { Level::Neon };
    assert!(elsewhere.checked().is_err());
}
