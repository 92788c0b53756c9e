// What one head of a row gives to every position: a threadgroup for a row.
#include "attention/decode.h"

template <class F>
kernel void attention_weights(device const float *q [[buffer(0)]], device const uchar *keys [[buffer(1)]], device float *y [[buffer(2)]],
                              constant AttentionWeightsParams &p [[buffer(3)]], device const uint *steps [[buffer(4)]],
                              uint row [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                              uint threads [[threads_per_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                              uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup float shared[MOST_SIMDS];
    threadgroup float more[MOST_SIMDS];
    uint2 seen = positions_stored(steps, row, sees, p.window, 0);
    seen.y = min(seen.y, p.positions - 1);
    const KvSource source = kv_source(p.kv, 0, p.kv_head, steps, row, keys, keys);
    device const float *queries = q + ulong(row) * p.q_stride + p.head * head_dim;
    y += ulong(row) * p.y_stride + p.at;
    for (uint i = index; i < p.positions; i += threads)
        if (i < seen.x || i > seen.y) y[i] = 0;
    // A lane keeps to its places of a block from pass to pass, so that nobody waits for what another has written.
    const uint place = lane % 8 * 4 + lane / 8, from = seen.x / KV_BLOCK + simd, last = seen.y / KV_BLOCK;
    float top = LOWEST;
    for (uint block = from; block <= last; block += simds) {
        const uint start = block * KV_BLOCK;
        const uint low = max(seen.x, start) - start, high = min(seen.y - start, KV_BLOCK - 1);
        float2 dots[MOST_HEADS];
        ulong offset;
        const bool there = kv_find(source, block, offset);
        if (there) block_dots<F>(queries, source.keys + offset, source.row_bytes, low, high, lane, dots);
        for (uint i = 0; i < 2; i++) {
            const uint mine = place + 32 * i;
            if (mine < low || mine > high) continue;
            const float score = there ? dots[0][i] * p.scale : LOWEST;
            y[start + mine] = score;
            top = max(top, score);
        }
    }
    top = tg_reduce_max(top, shared, lane, simd, simds);
    float sum = 0;
    for (uint block = from; block <= last; block += simds)
        for (uint at = block * KV_BLOCK + place; at < (block + 1) * KV_BLOCK; at += 32) {
            if (at < seen.x || at > seen.y) continue;
            const float weight = precise::exp(y[at] - top);
            y[at] = weight;
            sum += weight;
        }
    sum = tg_reduce_sum(sum, more, lane, simd, simds);
    for (uint block = from; block <= last; block += simds)
        for (uint at = block * KV_BLOCK + place; at < (block + 1) * KV_BLOCK; at += 32)
            if (at >= seen.x && at <= seen.y) y[at] /= sum;
}
INSTANTIATE(attention_weights_f32, attention_weights, KvF32)
INSTANTIATE(attention_weights_f16, attention_weights, KvF16)
INSTANTIATE(attention_weights_q8_0, attention_weights, KvQ8_0)
