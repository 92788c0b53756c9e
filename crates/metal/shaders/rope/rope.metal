// x = rope(norm(x)) per head, in place: a SIMD group for every head, all of a threadgroup in one row.
#include "rope/head.h"

template <uint STYLE>
kernel void rope_heads(device const float *weight [[buffer(1)]], device float *x [[buffer(2)]], constant RoPEParams &p [[buffer(3)]],
                       device const float *angles [[buffer(4)]], threadgroup float *shared [[threadgroup(0)]],
                       uint2 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
    const uint index = group.x * simds + simd;
    if (index >= p.heads) return;
    const uint dim = p.head_dim;
    threadgroup float *head = shared + simd * dim;
    x += group.y * p.x_stride + index * dim;
    const float squares = load_head(x, head, dim, lane);
    const HeadNorm norm = p.has_norm != 0 ? head_norm(squares, weight, dim, p.eps) : no_norm();
    turn_head(head, dim, STYLE, p.pairs, norm, (device const float2 *)(angles + group.y * p.angles_stride), lane);
    for (uint i = lane; i < dim; i += LANES) x[i] = head[i];
}

INSTANTIATE(rope, rope_heads, ROPE_INTERLEAVED)
INSTANTIATE(rope_neox, rope_heads, ROPE_SPLIT_HALF)
