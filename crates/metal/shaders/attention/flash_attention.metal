// Attention where rows are few: a threadgroup for a row and `heads_at_once` of its heads.
//
// Each SIMD group meets one block of 64 positions at a time, and what it leaves is merged in the order of the blocks. So a row gets
// the same bits from one SIMD group as from 32, and whatever else is in the step: kernels may be chosen by the number of rows.
#include "attention/decode.h"

template <class F, uint SIMDS>
kernel void flash_attention_rows(device const float *q [[buffer(0)]], device const uchar *keys [[buffer(1)]],
                                 device float *y [[buffer(2)]], constant AttentionParams &p [[buffer(3)]],
                                 device const uint *steps [[buffer(4)]], device const uchar *values [[buffer(5)]],
                                 device const float *sinks [[buffer(6)]], threadgroup float *shared [[threadgroup(0)]],
                                 uint2 at [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                                 uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                                 uint simds_there [[simdgroups_per_threadgroup]]) {
    // Large heads leave room for fewer than SIMDS.
    const uint simds = SIMDS == 1 ? 1 : simds_there, threads = simds * 32;
    const uint head = at.x * heads_at_once;
    const uint2 seen = positions_stored(steps, at.y, sees, p.window, p.own_rows);
    const KvSource source = kv_source(p.kv, p.own_rows, head / p.heads_per_kv, steps, at.y, keys, values);
    device const float *queries = q + ulong(at.y) * p.q_stride + head * head_dim;
    // A thread merges the values `index`, `index + threads`, ... of each head.
    const uint each = (head_dim + threads - 1) / threads;
    constexpr uint MOST_EACH = SIMDS == 1 ? MOST_PARTS : 2;
    float own[MOST_HEADS][MOST_EACH], top[MOST_HEADS], sum[MOST_HEADS];
    FOR_EACH(h, MOST_HEADS, heads_at_once) {
        // A sink takes part in the softmax, and gives nothing.
        top[h] = p.has_sinks != 0 ? sinks[head + h] : LOWEST;
        sum[h] = p.has_sinks != 0 ? 1.0f : 0.0f;
        FOR_EACH(j, MOST_EACH, each) own[h][j] = 0;
    }
    const uint last = seen.y / KV_BLOCK;
    for (uint first = seen.x / KV_BLOCK; first <= last; first += simds) {
        if (first + simd <= last) {
            threadgroup float *partial = shared + simd * partial_size();
            attend_block<F>(queries, source, first + simd, seen, row_vars(steps, at.y), p.scale, p.soft_cap, lane, partial);
        }
        if (SIMDS == 1) simdgroup_barrier(mem_flags::mem_threadgroup);
        else threadgroup_barrier(mem_flags::mem_threadgroup);
        const uint count = min(simds, last - first + 1);
        for (uint s = 0; s < count; s++) {
            threadgroup const float *partial = shared + s * partial_size();
            threadgroup const float *sums = partial + heads_at_once * head_dim;
            FOR_EACH(h, MOST_HEADS, heads_at_once) {
                if (sums[2 * h + 1] == 0) continue;
                const float higher = max(top[h], sums[2 * h]);
                const float before = precise::exp(top[h] - higher), here = precise::exp(sums[2 * h] - higher);
                top[h] = higher;
                sum[h] = fma(sum[h], before, sums[2 * h + 1] * here);
                FOR_EACH(j, MOST_EACH, each) {
                    const uint d = index + j * threads;
                    if (d < head_dim) own[h][j] = fma(own[h][j], before, partial[h * head_dim + d] * here);
                }
            }
        }
        if (SIMDS == 1) simdgroup_barrier(mem_flags::mem_threadgroup);
        else threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    FOR_EACH(h, MOST_HEADS, heads_at_once) {
        device float *out = y + ulong(at.y) * p.y_stride + (head + h) * head_dim;
        FOR_EACH(j, MOST_EACH, each) {
            const uint d = index + j * threads;
            if (d < head_dim) out[d] = sum[h] == 0 ? 0.0f : own[h][j] / sum[h];
        }
    }
}
INSTANTIATE(flash_attention_f32, flash_attention_rows, KvF32, 8)
INSTANTIATE(flash_attention_f16, flash_attention_rows, KvF16, 8)
INSTANTIATE(flash_attention_q8_0, flash_attention_rows, KvQ8_0, 8)
INSTANTIATE(flash_attention_decode_fast_f32, flash_attention_rows, KvF32, 1)
INSTANTIATE(flash_attention_decode_fast_f16, flash_attention_rows, KvF16, 1)
INSTANTIATE(flash_attention_decode_fast_q8_0, flash_attention_rows, KvQ8_0, 1)
INSTANTIATE(flash_attention_decode_parallel_f32, flash_attention_rows, KvF32, 32)
INSTANTIATE(flash_attention_decode_parallel_f16, flash_attention_rows, KvF16, 32)
INSTANTIATE(flash_attention_decode_parallel_q8_0, flash_attention_rows, KvQ8_0, 32)
