//! Files whose matrices are packed as they are read.

use akunu_cpu::packed::{Pack, Packs};
use akunu_cpu::pages::Pages;
use akunu_dtype::DType;
use akunu_gemm::packed::{Fields, ROWS};

#[test]
fn what_lies_between_packed_matrices_stays() {
    let fields = Fields::of(DType::Q4_0).unwrap();
    let matrix = |start: usize| Pack { start, bytes: 2 * ROWS * 36, row_bytes: 36, fields };
    let packs = Packs(vec![matrix(5), matrix(5 + 2 * ROWS * 36), matrix(3000)]);
    let file: Vec<u8> = (0..5000).map(|i| (i * 7 + i / 256) as u8).collect();
    let pages = Pages::filled("test", file.len(), |at| packs.end(at), |at, to| packs.read(&file, at, to)).unwrap();
    // SAFETY: the pages's bytes, which nobody else has.
    let got = unsafe { std::slice::from_raw_parts(pages.base(), pages.bytes()) };
    let mut want = file.clone();
    for pack in &packs.0 {
        let range = pack.start..pack.end();
        fields.pack(&file[range.clone()], 36, &mut want[range]);
    }
    assert!(got == want);
}
