// A block of 64 keys and values met by one SIMD group: the unit of attention where rows are few.
//
// Eight lanes share a key, four values each and 32 values together, so that a load is of whole cache lines, and four keys are met at
// once. `heads_at_once` heads that share a KV head share its loads.
#pragma once
#include "attention/attention.h"

constant uint heads_at_once [[function_constant(4)]];

#define MOST_HEADS 4

// Parts of 32 values of a head. `heads_at_once` times as many are MOST_PARTS at most, so that all fits registers.
inline uint parts_of_head() { return (head_dim + 31) / 32; }

// Dot products of queries with the keys at places `low` to `high` of a block: of the places `lane % 8 * 4 + lane / 8` and 32 further.
template <class F>
inline void block_dots(device const float *queries, device const uchar *keys, uint row_bytes, uint low, uint high, uint lane,
                       thread float2 *dots) {
    const uint parts = parts_of_head(), sub = lane % 8, nth = lane / 8;
    float4 q[MOST_HEADS][MOST_PARTS];
    FOR_EACH(h, MOST_HEADS, heads_at_once) {
        dots[h] = float2(0.0f);
        FOR_EACH(c, MOST_PARTS, parts) {
            const uint first = c * 32 + sub * 4;
            device const uchar *query = (device const uchar *)(queries + h * head_dim);
            q[h][c] = first < head_dim ? KvF32::four(query, first, head_dim) : float4(0.0f);
        }
    }
    for (uint i = low / 4; i <= high / 4; i++) {
        const uint place = i * 4 + nth;
        float sums[MOST_HEADS] = {0, 0, 0, 0};
        if (place >= low && place <= high) {
            device const uchar *key = keys + place * row_bytes;
            FOR_EACH(c, MOST_PARTS, parts) {
                const uint first = c * 32 + sub * 4;
                if (first >= head_dim) continue;
                const float4 k = F::four(key, first, head_dim);
                FOR_EACH(h, MOST_HEADS, heads_at_once) sums[h] = fma4(q[h][c], k, sums[h]);
            }
        }
        FOR_EACH(h, MOST_HEADS, heads_at_once) {
            float sum = sums[h];
            sum += simd_shuffle_xor(sum, 1);
            sum += simd_shuffle_xor(sum, 2);
            sum += simd_shuffle_xor(sum, 4);
            if (i % 8 == sub) {
                if (i < 8) dots[h].x = sum;
                else dots[h].y = sum;
            }
        }
    }
}

// Floats that a SIMD group leaves of a block: for every head its values, then for every head the largest score and the sum of weights.
inline uint partial_size() { return heads_at_once * (head_dim + 2); }

// The softmax of one block, not divided by its sum, which is 0 where the row sees nothing of the block.
template <class F>
inline void attend_block(device const float *queries, thread const KvSource &source, uint block, uint2 seen, device const RowVars &row,
                         float scale, float soft_cap, uint lane, threadgroup float *partial) {
    const uint parts = parts_of_head(), sub = lane % 8, nth = lane / 8;
    threadgroup float *sums = partial + heads_at_once * head_dim;
    ulong offset;
    if (!kv_find(source, block, offset)) {
        if (lane < heads_at_once) {
            sums[2 * lane] = LOWEST;
            sums[2 * lane + 1] = 0;
        }
        return;
    }
    const uint start = block * KV_BLOCK;
    const uint low = max(seen.x, start) - start, high = min(seen.y - start, KV_BLOCK - 1);
    float2 weights[MOST_HEADS];
    block_dots<F>(queries, source.keys + offset, source.row_bytes, low, high, lane, weights);
    const uint place = sub * 4 + nth;
    bool first = place >= low && place <= high, second = place + 32 >= low && place + 32 <= high;
    if (tree_mask != 0) {
        first = first && !hides(row, start + place);
        second = second && !hides(row, start + place + 32);
    }
    FOR_EACH(h, MOST_HEADS, heads_at_once) {
        const float a = first ? score_of(weights[h].x, scale, soft_cap) : LOWEST;
        const float b = second ? score_of(weights[h].y, scale, soft_cap) : LOWEST;
        const float top = simd_max(max(a, b));
        weights[h] = float2(first ? precise::exp(a - top) : 0.0f, second ? precise::exp(b - top) : 0.0f);
        const float sum = simd_sum(weights[h].x + weights[h].y);
        if (lane == 0) {
            sums[2 * h] = top;
            sums[2 * h + 1] = sum;
        }
    }
    float4 out[MOST_HEADS][MOST_PARTS];
    FOR_EACH(h, MOST_HEADS, heads_at_once) {
        FOR_EACH(c, MOST_PARTS, parts) out[h][c] = float4(0.0f);
    }
    for (uint i = low / 4; i <= high / 4; i++) {
        float by[MOST_HEADS];
        FOR_EACH(h, MOST_HEADS, heads_at_once) by[h] = simd_shuffle(i < 8 ? weights[h].x : weights[h].y, nth * 8 + i % 8);
        if (i * 4 + nth < low || i * 4 + nth > high) continue;
        device const uchar *value = source.values + offset + (i * 4 + nth) * source.row_bytes;
        FOR_EACH(c, MOST_PARTS, parts) {
            const uint at = c * 32 + sub * 4;
            if (at >= head_dim) continue;
            const float4 v = F::four(value, at, head_dim);
            FOR_EACH(h, MOST_HEADS, heads_at_once) out[h][c] = fma(float4(by[h]), v, out[h][c]);
        }
    }
    // The four keys that were met at once.
    FOR_EACH(h, MOST_HEADS, heads_at_once) {
        FOR_EACH(c, MOST_PARTS, parts) {
            float4 sum = out[h][c];
            sum += simd_shuffle_xor(sum, 8);
            sum += simd_shuffle_xor(sum, 16);
            if (c % 4 != nth) continue;
            const uint at = c * 32 + sub * 4;
            for (uint i = 0; i < 4 && at + i < head_dim; i++) partial[h * head_dim + at + i] = sum[i];
        }
    }
}
