//! Rows of embedding tables.

use crate::rig::*;
use akunu_dtype::{DType, FORMATS, Format};
use akunu_plan::op::*;
use akunu_plan::program::Arg;
use akunu_plan::steps::RowVars;

#[test]
fn rows_of_tables_agree_with_the_reference_executor() {
    let mut failures = Failures::default();
    let mut noise = Noise::new(6);
    let floats = [DType::F32, DType::F16, DType::BF16];
    let tables = |f: &&Format| f.encode.is_some() && (f.unpack.is_some() || floats.contains(&f.dtype));
    for (case, f) in FORMATS.iter().filter(tables).enumerate() {
        let dim = if f.block == 1 { 77 } else { 2 * f.block.max(32) };
        let index = [Index::Token, Index::Position, Index::Segment][case % 3] as u32;
        let mut rig = Rig::new(3, 0);
        rig.aligned = true;
        let table = rig.matrix(&mut noise, f.dtype, 9, dim);
        let y = rig.f32(dim);
        let MatMulParams { row_bytes, side_bytes, dtype, .. } = table.product;
        let params = EmbedParams { dim: dim as u32, vocab: 9, dtype, scale: 1.5, row_bytes, side_bytes, index };
        rig.op(OpKind::Embed, Per::Row, &[table.arg, Arg::Buffer(y)], Params::Embed(params));
        let case = Case::new(rig);
        let mut running = case.start(&chip());
        let row = |token, position, segment| RowVars { token, position, segment, ..RowVars::default() };
        running.rows(&[row(3, 0, 1), row(8, 7, 0), row(0, 12, 40)]);
        running.run();
        // A product and a sum may be rounded once instead of twice.
        failures.compare(f.name, &running.got(y, 3), &running.want(y, 3), 3e-7);
    }
    failures.report();
}
