// Keys and values of rows go into the KV cache, a SIMD group for each head of a row: keys, and values where there are any.
#include "kv_cache/write.h"

template <class Writer>
kernel void kv_cache_write(device const float *keys [[buffer(0)]], device uchar *cache [[buffer(2)]],
                           constant KVCacheWriteParams &p [[buffer(3)]], device const uint *steps [[buffer(4)]],
                           device const float *values [[buffer(5)]], uint3 at [[threadgroup_position_in_grid]],
                           uint lane [[thread_index_in_simdgroup]]) {
    const uint head = at.x, row = at.y;
    const bool is_value = at.z != 0;
    device const RowVars &vars = row_vars(steps, row);
    const uint block = kv_block_of(steps, p.kv, vars);
    if (block == NO_BLOCK) return;
    const ulong to = kv_at(p.kv, block, head, place_of(vars)) + (is_value ? p.kv.value_offset : 0);
    device const float *from = is_value ? values + ulong(row) * p.v_stride : keys + ulong(row) * p.k_stride;
    kv_write_head<Writer>(cache + to, from + head * p.head_dim, p.head_dim, lane);
}
INSTANTIATE(kv_cache_write_f32, kv_cache_write, KvWriteF32)
INSTANTIATE(kv_cache_write_f16, kv_cache_write, KvWriteF16)
INSTANTIATE(kv_cache_write_q8_0, kv_cache_write, KvWriteQ8_0)
