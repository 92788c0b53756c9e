//! What the backend keeps for a record.

use akunu_cpu::context::RecordState;
use akunu_plan::op::OpKind;
use akunu_plan::record::Record;
use bytemuck::Zeroable;

#[test]
fn the_first_product_follows_the_last() {
    let following = |kinds: &[OpKind]| -> Vec<usize> {
        let records: Vec<_> = kinds.iter().map(|kind| Record { op: *kind as u32, ..Record::zeroed() }).collect();
        RecordState::all(&records).iter().map(|state| state.next_product).collect()
    };
    let kinds = [OpKind::Embed, OpKind::MatMul, OpKind::Norm, OpKind::MatMulGated, OpKind::Attention];
    assert_eq!(following(&kinds), [1, 3, 3, 1, 1]);
    assert_eq!(following(&kinds[..2]), [1, 1]);
    assert_eq!(following(&kinds[..1]), [0]);
}
