// x = x / rms(x) * weight per head, in place: a SIMD group for every head, all of a threadgroup in one row. Without a weight nothing
// happens.
#include "akunu.h"

kernel void head_rmsnorm(device const float *weight [[buffer(1)]], device float *x [[buffer(2)]], constant HeadNormParams &p [[buffer(3)]],
                         uint2 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
    const uint index = group.x * simds + simd;
    if (index >= p.heads || p.has_weight == 0) return;
    x += group.y * p.x_stride + index * p.head_dim;
    float squares = 0;
    for (uint i = lane; i < p.head_dim; i += LANES) squares = fma(x[i], x[i], squares);
    const float by = precise::rsqrt(simd_sum(squares) / float(p.head_dim) + p.eps);
    for (uint i = lane; i < p.head_dim; i += LANES) x[i] *= by * weight[i];
}
