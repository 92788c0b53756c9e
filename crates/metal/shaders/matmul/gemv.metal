// y = residual + cap(scale * activation(x · Wᵀ + bias)), and y = activation(x · Wᵀ) * (x · Uᵀ), for few rows.
#include "matmul/gemv.h"

// N results for each of up to M activation rows in every SIMD group, or in all together where they share rows.
template <class Format, uint M, uint N>
kernel void gemv(device const float *x [[buffer(0)]], device const uchar *data [[buffer(1)]], device float *y [[buffer(2)]],
                 constant GEMVParams &p [[buffer(3)]], device const uchar *scales [[buffer(4)]],
                 device const uchar *biases [[buffer(5)]], device const float *bias [[buffer(6)]],
                 device const float *residual [[buffer(7)]], uint2 at [[threadgroup_position_in_grid]],
                 uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
    threadgroup float shared[GEMV_SIMDS * GEMV_RESULTS];
    const bool shares = gemv_simds != 1;
    const uint first = (shares ? at.x : at.x * GEMV_SIMDS + simd) * N;
    if (first >= p.n) return;
    const uint above = M == 1 ? at.y : at.y * M;
    const Activations a = {x + above * p.x_stride, p.x_stride, M == 1 ? 1 : min(uint(batch), p.rows - above)};
    const Matrix w = {data, scales, biases, p.row_bytes, p.side_bytes};
    const uint part = shares ? simd * 32 + lane : lane, lanes = shares ? GEMV_SIMDS * 32 : 32;
    float product = multiply<Format, M, N>(a, w, first, p.n, p.k, part, lanes, lane);
    if (shares) {
        shared[simd * GEMV_RESULTS + lane] = product;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (simd != 0) return;
        product = add_shared(shared, lane);
    }
    const uint row = above + lane / N, column = first + lane % N;
    if (lane / N >= a.rows || column >= p.n) return;
    y[row * p.y_stride + column] = finish(product, p, bias, residual, row, column);
}
INSTANTIATE_FORMATS(gemv, gemv, 1, 4)
INSTANTIATE_FORMATS(gemv_batched, gemv, 16, 2)

// The same of two matrices, one the gate of the other.
template <class Format, uint M, uint N>
kernel void gemv_gate(device const float *x [[buffer(0)]], device const uchar *data [[buffer(1)]], device float *y [[buffer(2)]],
                      constant GEMVParams &p [[buffer(3)]], device const uchar *scales [[buffer(4)]],
                      device const uchar *biases [[buffer(5)]], device const uchar *up [[buffer(6)]],
                      device const uchar *up_scales [[buffer(7)]], device const uchar *up_biases [[buffer(8)]],
                      uint2 at [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                      uint simd [[simdgroup_index_in_threadgroup]]) {
    threadgroup float shared[2 * GEMV_SIMDS * GEMV_RESULTS];
    const bool shares = gemv_simds != 1;
    const uint first = (shares ? at.x : at.x * GEMV_SIMDS + simd) * N;
    if (first >= p.n) return;
    const uint above = M == 1 ? at.y : at.y * M;
    const Activations a = {x + above * p.x_stride, p.x_stride, M == 1 ? 1 : min(uint(batch), p.rows - above)};
    const uint part = shares ? simd * 32 + lane : lane, lanes = shares ? GEMV_SIMDS * 32 : 32;
    float product[2];
    for (uint which = 0; which < 2; which++) {
        const Matrix w = {which == 0 ? data : up, which == 0 ? scales : up_scales, which == 0 ? biases : up_biases, p.row_bytes,
                          p.side_bytes};
        product[which] = multiply<Format, M, N>(a, w, first, p.n, p.k, part, lanes, lane);
    }
    if (shares) {
        shared[simd * GEMV_RESULTS + lane] = product[0];
        shared[(GEMV_SIMDS + simd) * GEMV_RESULTS + lane] = product[1];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (simd != 0) return;
        product[0] = add_shared(shared, lane);
        product[1] = add_shared(shared + GEMV_SIMDS * GEMV_RESULTS, lane);
    }
    const uint row = above + lane / N, column = first + lane % N;
    if (lane / N >= a.rows || column >= p.n) return;
    y[row * p.y_stride + column] = activate(p.activation, product[0]) * product[1];
}
INSTANTIATE_FORMATS(gemv_gate, gemv_gate, 1, 4)
INSTANTIATE_FORMATS(gemv_gate_batched, gemv_gate, 16, 2)
