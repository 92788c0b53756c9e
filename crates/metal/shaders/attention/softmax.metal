// Softmax of rows, a threadgroup for each: y = softmax(scale * x)
#include "akunu.h"

kernel void softmax(device const float *x [[buffer(0)]], device float *y [[buffer(2)]], constant SoftmaxParams &p [[buffer(3)]],
                    uint row [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                    uint threads [[threads_per_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                    uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup float shared[MOST_SIMDS];
    threadgroup float more[MOST_SIMDS];
    x += ulong(row) * p.x_stride;
    y += ulong(row) * p.y_stride;
    float top = -INFINITY;
    for (uint i = index; i < p.dim; i += threads) top = max(top, p.scale * x[i]);
    top = tg_reduce_max(top, shared, lane, simd, simds);
    float sum = 0;
    for (uint i = index; i < p.dim; i += threads) {
        const float weight = precise::exp(p.scale * x[i] - top);
        y[i] = weight;
        sum += weight;
    }
    sum = tg_reduce_sum(sum, more, lane, simd, simds);
    for (uint i = index; i < p.dim; i += threads) y[i] /= sum;
}
