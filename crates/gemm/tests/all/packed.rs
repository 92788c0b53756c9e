//! Packed weights: nothing is lost, and what a register wants together lies together.

use akunu_dtype::{DType, FORMATS};
use akunu_gemm::packed::{Fields, ROWS};

#[test]
fn every_block_comes_back() {
    let mut formats = 0;
    for f in FORMATS {
        let Some(fields) = Fields::of(f.dtype) else { continue };
        formats += 1;
        assert_eq!(fields.bytes(), f.bytes, "{}", f.name);
        let (blocks, groups) = (3, 2);
        let row_bytes = blocks * f.bytes;
        let rows: Vec<u8> = (0..groups * ROWS * row_bytes).map(|i| (i * 31 + i / 251) as u8).collect();
        let mut packed = vec![0; rows.len()];
        fields.pack(&rows, row_bytes, &mut packed);
        assert_ne!(packed, rows);
        for (row, bytes) in rows.chunks(row_bytes).enumerate() {
            for (index, want) in bytes.chunks(f.bytes).enumerate() {
                assert_eq!(&fields.block(&packed, row_bytes, row, index)[..f.bytes], want, "{}", f.name);
            }
        }
    }
    assert!(formats >= 7, "{formats} formats are packed");
}

#[test]
fn a_register_has_the_same_word_of_every_row() {
    let fields = Fields::of(DType::Q4_0).unwrap();
    let rows: Vec<u8> = (0..ROWS).flat_map(|row| [row as u8; 18]).collect();
    let mut packed = vec![0; rows.len()];
    fields.pack(&rows, 18, &mut packed);
    let lanes = |width: usize| (0..ROWS).flat_map(|row| vec![row as u8; width]).collect::<Vec<_>>();
    assert_eq!(packed, [lanes(2), lanes(4), lanes(4), lanes(4), lanes(4)].concat());
}
