// Positions of a sequence go, and those after them move up: what is stored for position `p + drop` is stored for `p`, from `keep` on,
// with keys turned to where they are then. A SIMD group for each head, for keys and for values.
//
// A SIMD group walks upwards, so that nothing is written before it was read: the cache may be the same. Blocks that are not there
// are passed by.
#include "kv_cache/read.h"
#include "kv_cache/write.h"

template <class Reader, class Writer>
kernel void kv_cache_shift(device const uint *from_table [[buffer(0)]], device const float2 *turns [[buffer(1)]],
                           device uchar *cache [[buffer(2)]], constant KVCacheShiftParams &p [[buffer(3)]],
                           device const uint *to_table [[buffer(4)]], uint2 at [[threadgroup_position_in_grid]],
                           uint lane [[thread_index_in_simdgroup]]) {
    const uint head = at.x;
    const bool is_value = at.y != 0;
    const uint turned = is_value || p.style == ROPE_NONE ? 0 : 2 * p.pairs;
    for (uint to = p.keep; to < p.length - p.drop; to++) {
        const uint from = to + p.drop;
        const uint from_block = from_table[from / KV_BLOCK], to_block = to_table[to / KV_BLOCK];
        if (from_block == NO_BLOCK || to_block == NO_BLOCK) continue;
        const ulong half_of = is_value ? p.kv.value_offset : 0;
        device const uchar *source = cache + kv_at(p.kv, from_block, head, from) + half_of;
        device uchar *target = cache + kv_at(p.kv, to_block, head, to) + half_of;
        for (uint first = 0; first < p.head_dim; first += 32) {
            const uint i = first + lane, left = min(p.head_dim - first, 32u);
            float value = lane < left ? Reader::one(source, i) : 0.0f;
            if (lane < left && i < turned) {
                const bool interleaved = p.style == ROPE_INTERLEAVED;
                const bool second = interleaved ? i % 2 == 1 : i >= p.pairs;
                const uint other = interleaved ? i ^ 1 : second ? i - p.pairs : i + p.pairs;
                const float2 turn = turns[interleaved ? i / 2 : i % p.pairs];
                const float with = Reader::one(source, other);
                value = second ? with * turn.y + value * turn.x : value * turn.x - with * turn.y;
            }
            Writer::write(target, first, value, lane, left);
        }
        simdgroup_barrier(mem_flags::mem_device);
    }
}
INSTANTIATE(kv_cache_shift_f32, kv_cache_shift, KvF32, KvWriteF32)
INSTANTIATE(kv_cache_shift_f16, kv_cache_shift, KvF16, KvWriteF16)
INSTANTIATE(kv_cache_shift_q8_0, kv_cache_shift, KvQ8_0, KvWriteQ8_0)
