// Attention where rows are many, without matrices of SIMD groups: a threadgroup for `query_rows` rows and a head.
//
// A SIMD group has a quarter of the rows to itself and walks the blocks of 64 positions that they see; a lane meets the keys `lane`
// and `lane + 32` of a block with all rows, so that what it loads of a key serves all of them. What a row does at a block depends on
// the row alone: chunks of any size give the same bits.
#include "attention/attention.h"

constant uint query_rows [[function_constant(2)]];

#define MOST_ROWS 4
// Two consecutive values of a row in each lane: 16 in all, of four rows of up to 128, or of one of up to 512.
#define MOST_PAIRS 8

template <class F>
kernel void flash_attention_prefill(device const float *q [[buffer(0)]], device const uchar *keys [[buffer(1)]],
                                    device float *y [[buffer(2)]], constant AttentionParams &p [[buffer(3)]],
                                    device const uint *steps [[buffer(4)]], device const uchar *values [[buffer(5)]],
                                    device const float *sinks [[buffer(6)]], threadgroup float *shared [[threadgroup(0)]],
                                    uint2 at [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                                    uint simd [[simdgroup_index_in_threadgroup]]) {
    const uint rows = query_rows / 4, padded = (head_dim + 3) / 4 * 4, pairs = (head_dim + 63) / 64;
    const uint first_row = at.x * query_rows + simd * rows, head = at.y;
    if (first_row >= p.rows) return;
    const uint count = min(rows, p.rows - first_row);
    // Queries lie where all lanes read the same one at once.
    threadgroup float *queries = shared + simd * rows * padded;
    for (uint r = 0; r < rows; r++)
        for (uint d = lane; d < padded; d += 32)
            queries[r * padded + d] = r < count && d < head_dim ? q[ulong(first_row + r) * p.q_stride + head * head_dim + d] : 0.0f;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    float top[MOST_ROWS], sum[MOST_ROWS];
    float2 own[MOST_ROWS][MOST_PAIRS];
    FOR_EACH(r, MOST_ROWS, rows) {
        top[r] = p.has_sinks != 0 ? sinks[head] : LOWEST;
        sum[r] = p.has_sinks != 0 ? 1.0f : 0.0f;
    }
    FOR_EACH(r, MOST_ROWS, rows) {
        FOR_EACH(j, MOST_PAIRS, pairs) own[r][j] = float2(0.0f);
    }
    uint to = 0;
    for (uint from = 0; from < count; from = to) {
        // Rows of one sequence, and the positions that some of them see.
        const uint sequence = row_vars(steps, first_row + from).sequence;
        uint2 seen[MOST_ROWS];
        uint low = UINT_MAX, high = 0;
        to = count;
        FOR_EACH(r, MOST_ROWS, rows) {
            // Nothing.
            seen[r] = uint2(1, 0);
            if (r < from || r >= to) continue;
            if (row_vars(steps, first_row + r).sequence != sequence) {
                to = r;
                continue;
            }
            seen[r] = positions_stored(steps, first_row + r, sees, p.window, p.own_rows);
            low = min(low, seen[r].x);
            high = max(high, seen[r].y);
        }
        const KvSource source = kv_source(p.kv, p.own_rows, head / p.heads_per_kv, steps, first_row + from, keys, values);
        for (uint block = low / KV_BLOCK; block <= high / KV_BLOCK; block++) {
            const uint start = block * KV_BLOCK;
            // A block is seen whole, or partly, or by nobody.
            bool whole = true, by_some = false;
            FOR_EACH(r, MOST_ROWS, rows) {
                whole = whole && seen[r].x <= start && seen[r].y >= start + KV_BLOCK - 1;
                by_some = by_some || (seen[r].x < start + KV_BLOCK && seen[r].y >= start && seen[r].x <= seen[r].y);
            }
            ulong offset;
            if (!by_some || !kv_find(source, block, offset)) continue;
            float2 weights[MOST_ROWS];
#pragma unroll
            for (uint half_block = 0; half_block < 2; half_block++) {
                const uint place = lane + 32 * half_block;
                float dots[MOST_ROWS] = {0, 0, 0, 0};
                if (start + place >= low && start + place <= high) {
                    device const uchar *key = source.keys + offset + place * source.row_bytes;
                    for (uint d = 0; d < head_dim; d += 4) {
                        const float4 k = F::four(key, d, head_dim);
                        FOR_EACH(r, MOST_ROWS, rows)
                            dots[r] = fma4(*(threadgroup const float4 *)(queries + r * padded + d), k, dots[r]);
                    }
                }
                FOR_EACH(r, MOST_ROWS, rows) weights[r][half_block] = dots[r];
            }
            FOR_EACH(r, MOST_ROWS, rows) {
                if (seen[r].x >= start + KV_BLOCK || seen[r].y < start || seen[r].x > seen[r].y) {
                    weights[r] = float2(0.0f);
                    continue;
                }
                const bool first = whole || (start + lane >= seen[r].x && start + lane <= seen[r].y);
                const bool second = whole || (start + lane + 32 >= seen[r].x && start + lane + 32 <= seen[r].y);
                const float a = first ? score_of(weights[r].x, p.scale, p.soft_cap) : LOWEST;
                const float b = second ? score_of(weights[r].y, p.scale, p.soft_cap) : LOWEST;
                const float higher = max(top[r], simd_max(max(a, b)));
                const float before = exp(top[r] - higher);
                weights[r] = float2(first ? exp(a - higher) : 0.0f, second ? exp(b - higher) : 0.0f);
                top[r] = higher;
                sum[r] = fma(sum[r], before, simd_sum(weights[r].x + weights[r].y));
                FOR_EACH(j, MOST_PAIRS, pairs) own[r][j] = own[r][j] * before;
            }
            const uint end = min(high, start + KV_BLOCK - 1);
            for (uint key = max(low, start); key <= end; key++) {
                const uint place = key - start;
                float by[MOST_ROWS];
                FOR_EACH(r, MOST_ROWS, rows) by[r] = simd_shuffle(place < 32 ? weights[r].x : weights[r].y, place % 32);
                device const uchar *value = source.values + offset + place * source.row_bytes;
                FOR_EACH(j, MOST_PAIRS, pairs) {
                    const uint d = 2 * (lane + 32 * j);
                    if (d >= head_dim) continue;
                    const float2 v = F::two(value, d);
                    // What a row does not see may be no number.
                    FOR_EACH(r, MOST_ROWS, rows)
                        if (whole || (key >= seen[r].x && key <= seen[r].y))
                            own[r][j] = fma(float2(by[r]), v, own[r][j]);
                }
            }
        }
    }
    FOR_EACH(r, MOST_ROWS, rows) {
        if (r >= count) continue;
        device float *out = y + ulong(first_row + r) * p.y_stride + head * head_dim;
        const float by = sum[r] == 0 ? 0.0f : 1 / sum[r];
        FOR_EACH(j, MOST_PAIRS, pairs) {
            const uint d = 2 * (lane + 32 * j);
            if (d >= head_dim) continue;
            out[d] = own[r][j].x * by;
            out[d + 1] = own[r][j].y * by;
        }
    }
}
INSTANTIATE(flash_attention_prefill_f32, flash_attention_prefill, KvF32)
INSTANTIATE(flash_attention_prefill_f16, flash_attention_prefill, KvF16)
INSTANTIATE(flash_attention_prefill_q8_0, flash_attention_prefill, KvQ8_0)
