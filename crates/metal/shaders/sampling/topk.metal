// The likeliest tokens of a row, in order, and their logits; ties to the lower token.
#include "sampling/likeliest.h"

[[max_total_threads_per_threadgroup(1024)]]
kernel void topk(device const float *x [[buffer(0)]], device uint *tokens [[buffer(2)]], constant TopKParams &p [[buffer(3)]],
                 device float *logits [[buffer(4)]], uint row [[threadgroup_position_in_grid]],
                 uint index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                 uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup ulong held[MOST_HELD];
    threadgroup ulong sorted[MOST_CANDIDATES];
    threadgroup atomic_uint count[1];
    threadgroup uint shared[2 * MOST_SIMDS];
    const Threads t = {index, threads, lane, simd, simds};
    const Logits values = {x + row * p.x_stride};
    const uint found = likeliest(values, p.n, p.k, Room{held, sorted, count, shared}, t);
    for (uint i = index; i < p.k; i += threads) {
        tokens[row * p.k + i] = i < found ? ranked_index(sorted[i]) : NO_TOKEN;
        logits[row * p.k + i] = i < found ? value_of(ranked_key(sorted[i])) : -INFINITY;
    }
}
