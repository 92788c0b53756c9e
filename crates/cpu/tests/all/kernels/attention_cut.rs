//! How attention over several rows is cut into tiles.

use akunu_cpu::kernels::attention::Cut;
use akunu_plan::op::AttentionParams;
use bytemuck::Zeroable;

#[test]
fn rows_of_other_texts_leave_the_heads_of_a_kv_head_together() {
    let p = AttentionParams { heads: 9, kv_heads: 3, ..AttentionParams::zeroed() };
    let shape = |cut: Cut| (cut.tile_rows, cut.tile_heads, cut.row_tiles, cut.head_tiles);
    // Eight texts: else their keys and values would be read for every head.
    assert_eq!(shape(Cut::new(&p, 8, 1, 2)), (1, 3, 8, 1));
    // Five rows of each of two texts.
    assert_eq!(shape(Cut::new(&p, 10, 5, 2)), (5, 3, 2, 1));
    // One text: nine tiles of one head are shared more evenly than six of three.
    assert_eq!(shape(Cut::new(&p, 8, 8, 2)), (8, 1, 1, 3));
}
