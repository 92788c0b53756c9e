// Norms of rows, a threadgroup for each: y = residual + scale * (normalize(x) * weight + bias)
#include "akunu.h"

// Gemma's files have weights that are 1 less than what is meant: `ADDED` is that 1.
template <uint ADDED>
kernel void rmsnorm_of(device const float *x [[buffer(0)]], device const float *weight [[buffer(1)]], device float *y [[buffer(2)]],
                       constant RMSNormParams &p [[buffer(3)]], uint row [[threadgroup_position_in_grid]],
                       uint index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                       uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup float shared[MOST_SIMDS];
    x += row * p.x_stride;
    y += row * p.y_stride;
    float squares = 0;
    for (uint i = index; i < p.dim; i += threads) squares += x[i] * x[i];
    squares = tg_reduce_sum(squares, shared, lane, simd, simds);
    const float by = p.scale * precise::rsqrt(squares / float(p.dim) + p.eps);
    for (uint i = index; i < p.dim; i += threads) y[i] = x[i] * by * (float(ADDED) + weight[i]);
}

INSTANTIATE(rmsnorm, rmsnorm_of, 0)
INSTANTIATE(rmsnorm_gemma, rmsnorm_of, 1)

kernel void residual_rmsnorm(device const float *x [[buffer(0)]], device const float *weight [[buffer(1)]],
                             device float *y [[buffer(2)]], constant RMSNormParams &p [[buffer(3)]],
                             device const float *residual [[buffer(4)]], uint row [[threadgroup_position_in_grid]],
                             uint index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                             uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                             uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup float shared[MOST_SIMDS];
    x += row * p.x_stride;
    y += row * p.y_stride;
    residual += row * p.residual_stride;
    float squares = 0;
    for (uint i = index; i < p.dim; i += threads) squares += x[i] * x[i];
    squares = tg_reduce_sum(squares, shared, lane, simd, simds);
    const float by = p.scale * precise::rsqrt(squares / float(p.dim) + p.eps);
    for (uint i = index; i < p.dim; i += threads) y[i] = residual[i] + x[i] * by * weight[i];
}

kernel void layernorm(device const float *x [[buffer(0)]], device const float *weight [[buffer(1)]], device float *y [[buffer(2)]],
                      constant LayerNormParams &p [[buffer(3)]], device const float *residual [[buffer(4)]],
                      device const float *bias [[buffer(5)]], uint row [[threadgroup_position_in_grid]],
                      uint index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                      uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup float shared[MOST_SIMDS];
    threadgroup float more[MOST_SIMDS];
    x += row * p.x_stride;
    y += row * p.y_stride;
    float sum = 0;
    for (uint i = index; i < p.dim; i += threads) sum += x[i];
    const float mean = tg_reduce_sum(sum, shared, lane, simd, simds) / float(p.dim);
    float squares = 0;
    for (uint i = index; i < p.dim; i += threads) squares += (x[i] - mean) * (x[i] - mean);
    squares = tg_reduce_sum(squares, more, lane, simd, simds);
    const float by = precise::rsqrt(squares / float(p.dim) + p.eps);
    for (uint i = index; i < p.dim; i += threads) {
        float value = (x[i] - mean) * by * weight[i];
        if (p.has_bias != 0) value += bias[i];
        value *= p.scale;
        if (p.residual_stride != 0) value += residual[row * p.residual_stride + i];
        y[i] = value;
    }
}
