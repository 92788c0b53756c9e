// Attention where rows are many, with matrices of 8 by 8: a threadgroup of four SIMD groups for 32 rows and a head, 8 rows each.
//
// Keys and then values come by tiles of 32 positions through threadgroup memory, where all four SIMD groups read them. Queries,
// scores and results stay in registers: lane by lane the elements of a matrix are (row, column) and (row, column + 1), and the lanes
// of a row differ in bits 0 and 3 of their number, so that a row is reduced by two shuffles. Softmax is to base 2.
#include "attention/attention.h"

#define TILE_ROWS 32
#define TILE_KEYS 32
// Matrices that a row of 128 values is.
#define MOST_MATRICES 16
#define LOG2_E 1.4426950408889634f

// What a lane has of a matrix.
inline thread float2 &elements(thread simdgroup_float8x8 &matrix) { return reinterpret_cast<thread float2 &>(matrix.thread_elements()); }

// Keys or values of the positions from `start` on, of which `low` to `high` are stored: the others are zeros. Infinities become
// finite, so that what is multiplied by a weight of zero is zero.
template <class F>
inline void stage(threadgroup typename F::Staged *tile, uint stride, device const uchar *from, uint row_bytes, uint start, uint low,
                  uint high, uint index) {
    const uint fours = head_dim / 4;
    for (uint i = index; i < TILE_KEYS * fours; i += 128) {
        const uint key = i / fours, d = i % fours * 4;
        float4 four = float4(0.0f);
        if (start + key >= low && start + key <= high) four = F::four(from + key * row_bytes, d, head_dim);
        for (uint n = 0; n < 4; n++) tile[key * stride + d + n] = typename F::Staged(clamp(four[n], -F::largest(), F::largest()));
    }
}

template <class F>
kernel void flash_attention_prefill_v2(device const float *q [[buffer(0)]], device const uchar *keys [[buffer(1)]],
                                       device float *y [[buffer(2)]], constant AttentionParams &p [[buffer(3)]],
                                       device const uint *steps [[buffer(4)]], device const uchar *values [[buffer(5)]],
                                       device const float *sinks [[buffer(6)]],
                                       threadgroup typename F::Staged *tile [[threadgroup(0)]],
                                       uint2 at [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                                       uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
    const uint matrices = head_dim / 8, stride = head_dim + 8, head = at.y;
    const uint first_row = at.x * TILE_ROWS, count = min(uint(TILE_ROWS), p.rows - first_row);
    // Each lane keeps what one row of the tile is: its sequence, and the positions that it sees.
    uint sequence = 0;
    uint2 seen = uint2(1, 0);
    if (lane < count) {
        sequence = row_vars(steps, first_row + lane).sequence;
        seen = positions_stored(steps, first_row + lane, sees, p.window, p.own_rows);
    }
    // A lane's elements of a matrix.
    const uint row = (lane >> 1 & 3) | (lane >> 2 & 4), column = (lane & 1) << 1 | (lane >> 1 & 4);
    const uint mine = simd * 8 + row;
    const uint2 mine_seen = uint2(simd_shuffle(seen.x, mine), simd_shuffle(seen.y, mine));
    simdgroup_float8x8 queries[MOST_MATRICES], out[MOST_MATRICES];
    device const float *query = q + ulong(first_row + mine) * p.q_stride + head * head_dim + column;
    FOR_EACH(c, MOST_MATRICES, matrices) {
        elements(queries[c]) = mine < count ? float2(query[c * 8], query[c * 8 + 1]) : float2(0.0f);
        elements(out[c]) = float2(0.0f);
    }
    float top = p.has_sinks != 0 ? sinks[head] * LOG2_E : LOWEST;
    float sum = p.has_sinks != 0 ? 1.0f : 0.0f;
    uint to = 0;
    for (uint from = 0; from < count; from = to) {
        // Rows of one sequence, and the positions that some of them see.
        const uint here = simd_shuffle(sequence, from);
        to = simd_min(lane > from && lane < count && sequence != here ? lane : count);
        const bool of_run = lane >= from && lane < to;
        const uint low = simd_min(of_run ? seen.x : UINT_MAX), high = simd_max(of_run ? seen.y : 0);
        const bool mine_of_run = mine >= from && mine < to;
        const KvSource source = kv_source(p.kv, p.own_rows, head / p.heads_per_kv, steps, first_row + from, keys, values);
        for (uint start = low / TILE_KEYS * TILE_KEYS; start <= high; start += TILE_KEYS) {
            const uint end = start + TILE_KEYS - 1;
            ulong offset;
            if (!simd_any(of_run && seen.x <= end && seen.y >= start) || !kv_find(source, start / KV_BLOCK, offset)) continue;
            offset += start % KV_BLOCK * source.row_bytes;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            stage<F>(tile, stride, source.keys + offset, source.row_bytes, start, low, high, index);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // A tile is seen whole by the SIMD group's rows, or partly, or by none of them.
            const bool whole = simd_all(mine_of_run && mine_seen.x <= start && mine_seen.y >= end);
            const bool by_some = simd_any(mine_of_run && mine_seen.x <= end && mine_seen.y >= start);
            simdgroup_float8x8 scores[TILE_KEYS / 8];
            if (by_some) {
#pragma unroll
                for (uint k = 0; k < TILE_KEYS / 8; k++) {
                    elements(scores[k]) = float2(0.0f);
                    threadgroup const typename F::Staged *key = tile + (k * 8 + column) * stride + row;
                    FOR_EACH(c, MOST_MATRICES, matrices) {
                        simdgroup_float8x8 transposed;
                        elements(transposed) = float2(float(key[c * 8]), float(key[c * 8 + stride]));
                        simdgroup_multiply_accumulate(scores[k], queries[c], transposed, scores[k]);
                    }
                }
                float highest = LOWEST;
                bool visible[TILE_KEYS / 8][2];
#pragma unroll
                for (uint k = 0; k < TILE_KEYS / 8; k++) {
                    float2 two = elements(scores[k]);
#pragma unroll
                    for (uint n = 0; n < 2; n++) {
                        const uint position = start + k * 8 + column + n;
                        visible[k][n] = whole || (mine_of_run && position >= mine_seen.x && position <= mine_seen.y);
                        two[n] = visible[k][n] ? score_of(two[n], p.scale, p.soft_cap) * LOG2_E : LOWEST;
                        highest = max(highest, two[n]);
                    }
                    elements(scores[k]) = two;
                }
                highest = max(highest, simd_shuffle_xor(highest, 1));
                highest = max(highest, simd_shuffle_xor(highest, 8));
                const float higher = max(top, highest), before = exp2(top - higher);
                top = higher;
                float weights = 0;
#pragma unroll
                for (uint k = 0; k < TILE_KEYS / 8; k++) {
                    float2 two = elements(scores[k]);
#pragma unroll
                    for (uint n = 0; n < 2; n++) {
                        two[n] = visible[k][n] ? exp2(two[n] - higher) : 0.0f;
                        weights += two[n];
                    }
                    elements(scores[k]) = two;
                }
                weights += simd_shuffle_xor(weights, 1);
                weights += simd_shuffle_xor(weights, 8);
                sum = fma(sum, before, weights);
                FOR_EACH(c, MOST_MATRICES, matrices) elements(out[c]) = elements(out[c]) * before;
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            stage<F>(tile, stride, source.values + offset, source.row_bytes, start, low, high, index);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (!by_some) continue;
            FOR_EACH(c, MOST_MATRICES, matrices) {
#pragma unroll
                for (uint k = 0; k < TILE_KEYS / 8; k++) {
                    threadgroup const typename F::Staged *value = tile + (k * 8 + row) * stride + c * 8 + column;
                    simdgroup_float8x8 v;
                    elements(v) = float2(float(value[0]), float(value[1]));
                    simdgroup_multiply_accumulate(out[c], scores[k], v, out[c]);
                }
            }
        }
    }
    if (mine >= count) return;
    const float by = sum == 0 ? 0.0f : 1 / sum;
    device float *result = y + ulong(first_row + mine) * p.y_stride + head * head_dim + column;
    FOR_EACH(c, MOST_MATRICES, matrices) {
        const float2 two = elements(out[c]);
        result[c * 8] = two.x * by;
        result[c * 8 + 1] = two.y * by;
    }
}
INSTANTIATE(flash_attention_prefill_v2_f32, flash_attention_prefill_v2, KvF32)
INSTANTIATE(flash_attention_prefill_v2_f16, flash_attention_prefill_v2, KvF16)
INSTANTIATE(flash_attention_prefill_v2_q8_0, flash_attention_prefill_v2, KvQ8_0)
