// Products with the weights of vocabularies: a threadgroup makes 256 results and knows the largest of them.
#include "matmul/gemv.h"

// Results of a SIMD group, one for each lane, and of them at once.
#define WIDE_RESULTS 32
#define WIDE_STEP 4

// The largest of a threadgroup's values, NaN aside.
inline void write_maximum(device float *to, float value, threadgroup float *shared, uint lane, uint simd, uint simds) {
    value = tg_reduce_max(isnan(value) ? -INFINITY : value, shared, lane, simd, simds);
    if (lane == 0 && simd == 0) *to = value;
}

template <class Format>
kernel void gemv_wide(device const float *x [[buffer(0)]], device const uchar *data [[buffer(1)]], device float *y [[buffer(2)]],
                      constant GEMVParams &p [[buffer(3)]], device const uchar *scales [[buffer(4)]],
                      device const uchar *biases [[buffer(5)]], device const float *bias [[buffer(6)]],
                      device const float *residual [[buffer(7)]], device float *maxima [[buffer(8)]],
                      uint2 at [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                      uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup float shared[MOST_SIMDS];
    const uint row = at.y, first = (at.x * simds + simd) * WIDE_RESULTS, column = first + lane;
    const Activations a = {x + row * p.x_stride, p.x_stride, 1};
    const Matrix w = {data, scales, biases, p.row_bytes, p.side_bytes};
    float mine = 0;
    for (uint step = 0; step < WIDE_RESULTS && first + step < p.n; step += WIDE_STEP) {
        const float product = multiply<Format, 1, WIDE_STEP>(a, w, first + step, p.n, p.k, lane, 32, lane);
        // The first lanes have them.
        const float moved = simd_shuffle(product, ushort(lane % WIDE_STEP));
        if (lane / WIDE_STEP == step / WIDE_STEP) mine = moved;
    }
    if (column < p.n) {
        mine = finish(mine, p, bias, residual, row, column);
        y[row * p.y_stride + column] = mine;
    } else {
        mine = -INFINITY;
    }
    if (p.maxima_stride != 0) write_maximum(maxima + row * p.maxima_stride + at.x, mine, shared, lane, simd, simds);
}
INSTANTIATE_FORMATS(gemv_wide, gemv_wide)

// The same of results that are there already.
kernel void slice_maxima(constant GEMVParams &p [[buffer(3)]], device const float *y [[buffer(2)]],
                         device float *maxima [[buffer(8)]], uint2 at [[threadgroup_position_in_grid]],
                         uint index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup float shared[MOST_SIMDS];
    const uint column = at.x * MAXIMA_SLICE + index;
    const float value = column < p.n ? y[at.y * p.y_stride + column] : -INFINITY;
    write_maximum(maxima + at.y * p.maxima_stride + at.x, value, shared, lane, simd, simds);
}
