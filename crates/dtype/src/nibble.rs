//! The order in which the 32-value formats pack 4-bit codes: byte `j` holds value `j` in its
//! low nibble and value `j + 16` in its high one.

/// Writes the code of each value, through `value`, to `q`.
pub(crate) fn unpack(bytes: &[u8; 16], q: &mut [i8; 32], value: impl Fn(u8) -> i8) {
    for (j, &b) in bytes.iter().enumerate() {
        q[j] = value(b & 15);
        q[j + 16] = value(b >> 4);
    }
}

/// Packs 32 codes; only their low 4 bits are kept.
pub(crate) fn pack(codes: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|j| codes[j] & 15 | codes[j + 16] << 4)
}
