// q, k = rope(norm(q), norm(k)) per head; keys and values go into the KV cache, queries stay in place. A SIMD group for every head of
// queries, keys and values, all of a threadgroup in one row: alone where there are few rows, so that all cores have some; several
// together where rows are enough. What a head becomes does not depend on which it is.
#include "kv_cache/write.h"
#include "rope/head.h"

// `SIMDS`: SIMD groups of a threadgroup.
template <uint STYLE, bool NORM, uint SIMDS, class Writer>
kernel void heads_kv_write(device const float *k [[buffer(0)]], device const float *q_norm [[buffer(1)]], device float *q [[buffer(2)]],
                           constant RoPEQKVCacheParams &all [[buffer(3)]], device const uint *steps [[buffer(4)]],
                           device const float *v [[buffer(5)]], device const float *k_norm [[buffer(6)]],
                           device const float *angles [[buffer(7)]], device uchar *cache [[buffer(8)]],
                           threadgroup float *shared [[threadgroup(0)]], uint2 group [[threadgroup_position_in_grid]],
                           uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
    constant RoPEQKVWriteParams &p = all.rope;
    const uint row = group.y, index = group.x * SIMDS + simd, dim = p.head_dim;
    if (index >= p.heads + 2 * p.kv_heads) return;
    threadgroup float *head = shared + simd * dim;
    device const float2 *turns = (device const float2 *)(angles + row * p.angles_stride);

    if (index < p.heads) {
        q += row * p.q_stride + index * dim;
        const float squares = load_head(q, head, dim, lane);
        HeadNorm norm = no_norm();
        if (NORM && all.has_q_norm != 0) norm = head_norm(squares, q_norm, dim, p.eps);
        turn_head(head, dim, STYLE, p.pairs, norm, turns, lane);
        for (uint i = lane; i < dim; i += LANES) q[i] = head[i];
        return;
    }

    device const RowVars &vars = row_vars(steps, row);
    const uint block = kv_block_of(steps, all.kv, vars);
    if (block == NO_BLOCK) return;
    const bool is_value = index >= p.heads + p.kv_heads;
    const uint kv_head = index - p.heads - (is_value ? p.kv_heads : 0);
    device uchar *to = cache + kv_at(all.kv, block, kv_head, place_of(vars));
    if (is_value) {
        kv_write_head<Writer>(to + all.kv.value_offset, v + row * p.v_stride + kv_head * dim, dim, lane);
        return;
    }
    const float squares = load_head(k + row * p.k_stride + kv_head * dim, head, dim, lane);
    HeadNorm norm = no_norm();
    if (NORM && all.has_k_norm != 0) norm = head_norm(squares, k_norm, dim, p.eps);
    turn_head(head, dim, STYLE, p.pairs, norm, turns, lane);
    write_head<Writer>(head, to, dim, lane);
}

INSTANTIATE(rope_kv_write_f32, heads_kv_write, ROPE_INTERLEAVED, false, 1, KvWriteF32)
INSTANTIATE(rope_kv_write_f16, heads_kv_write, ROPE_INTERLEAVED, false, 1, KvWriteF16)
INSTANTIATE(rope_kv_write_q8_0, heads_kv_write, ROPE_INTERLEAVED, false, 1, KvWriteQ8_0)
INSTANTIATE(rope_neox_kv_write_f32, heads_kv_write, ROPE_SPLIT_HALF, false, 1, KvWriteF32)
INSTANTIATE(rope_neox_kv_write_f16, heads_kv_write, ROPE_SPLIT_HALF, false, 1, KvWriteF16)
INSTANTIATE(rope_neox_kv_write_q8_0, heads_kv_write, ROPE_SPLIT_HALF, false, 1, KvWriteQ8_0)
INSTANTIATE(head_norm_rope_kv_write_f32, heads_kv_write, ROPE_INTERLEAVED, true, 1, KvWriteF32)
INSTANTIATE(head_norm_rope_kv_write_f16, heads_kv_write, ROPE_INTERLEAVED, true, 1, KvWriteF16)
INSTANTIATE(head_norm_rope_kv_write_q8_0, heads_kv_write, ROPE_INTERLEAVED, true, 1, KvWriteQ8_0)
INSTANTIATE(head_norm_rope_neox_kv_write_f32, heads_kv_write, ROPE_SPLIT_HALF, true, 1, KvWriteF32)
INSTANTIATE(head_norm_rope_neox_kv_write_f16, heads_kv_write, ROPE_SPLIT_HALF, true, 1, KvWriteF16)
INSTANTIATE(head_norm_rope_neox_kv_write_q8_0, heads_kv_write, ROPE_SPLIT_HALF, true, 1, KvWriteQ8_0)
INSTANTIATE(head_norm_kv_write_f32, heads_kv_write, ROPE_NONE, true, 1, KvWriteF32)
INSTANTIATE(head_norm_kv_write_f16, heads_kv_write, ROPE_NONE, true, 1, KvWriteF16)
INSTANTIATE(head_norm_kv_write_q8_0, heads_kv_write, ROPE_NONE, true, 1, KvWriteQ8_0)
INSTANTIATE(rope_kv_write_batch_f32, heads_kv_write, ROPE_INTERLEAVED, false, 8, KvWriteF32)
INSTANTIATE(rope_kv_write_batch_f16, heads_kv_write, ROPE_INTERLEAVED, false, 8, KvWriteF16)
INSTANTIATE(rope_kv_write_batch_q8_0, heads_kv_write, ROPE_INTERLEAVED, false, 8, KvWriteQ8_0)
INSTANTIATE(rope_neox_kv_write_batch_f32, heads_kv_write, ROPE_SPLIT_HALF, false, 8, KvWriteF32)
INSTANTIATE(rope_neox_kv_write_batch_f16, heads_kv_write, ROPE_SPLIT_HALF, false, 8, KvWriteF16)
INSTANTIATE(rope_neox_kv_write_batch_q8_0, heads_kv_write, ROPE_SPLIT_HALF, false, 8, KvWriteQ8_0)
INSTANTIATE(head_norm_rope_kv_write_batch_f32, heads_kv_write, ROPE_INTERLEAVED, true, 8, KvWriteF32)
INSTANTIATE(head_norm_rope_kv_write_batch_f16, heads_kv_write, ROPE_INTERLEAVED, true, 8, KvWriteF16)
INSTANTIATE(head_norm_rope_kv_write_batch_q8_0, heads_kv_write, ROPE_INTERLEAVED, true, 8, KvWriteQ8_0)
INSTANTIATE(head_norm_rope_neox_kv_write_batch_f32, heads_kv_write, ROPE_SPLIT_HALF, true, 8, KvWriteF32)
INSTANTIATE(head_norm_rope_neox_kv_write_batch_f16, heads_kv_write, ROPE_SPLIT_HALF, true, 8, KvWriteF16)
INSTANTIATE(head_norm_rope_neox_kv_write_batch_q8_0, heads_kv_write, ROPE_SPLIT_HALF, true, 8, KvWriteQ8_0)
INSTANTIATE(head_norm_kv_write_batch_f32, heads_kv_write, ROPE_NONE, true, 8, KvWriteF32)
INSTANTIATE(head_norm_kv_write_batch_f16, heads_kv_write, ROPE_NONE, true, 8, KvWriteF16)
INSTANTIATE(head_norm_kv_write_batch_q8_0, heads_kv_write, ROPE_NONE, true, 8, KvWriteQ8_0)
