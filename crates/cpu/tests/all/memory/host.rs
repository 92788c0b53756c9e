//! What the operating system says of its memory.

use akunu_cpu::host::field;

#[test]
fn a_field_is_read_and_a_broken_one_is_not() {
    assert_eq!(field("MemFree: 1 kB\nMemAvailable:   12 kB\n", "MemAvailable:", 1024), Some(12 * 1024));
    assert_eq!(field("MemAvailable: x\n", "MemAvailable:", 1024), None);
    assert_eq!(field(&format!("a {}\n", u64::MAX), "a ", 1024), None);
}
