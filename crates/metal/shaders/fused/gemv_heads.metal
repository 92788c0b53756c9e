// rope(norm(x · Wᵀ + bias)) per head, a threadgroup for a head of a row: its SIMD groups divide the rows of W among them, and the first
// finishes the head in threadgroup memory, so that queries, keys and values do not go to memory and back before they are what
// attention reads. A row's result does not depend on other rows.
#include "formats/all.h"
#include "kv_cache/write.h"
#include "rope/head.h"

// Rows of W that a SIMD group multiplies with what it has read of x.
#define ROWS_AT_ONCE 4u

// The head `index` of a row, `x` its activations; to be used by the first SIMD group.
template <class Format>
inline void make_head(constant GEMVHeadNormParams &p, thread const Matrix &w, device const float *x, device const float *bias,
                      device const float *norm_weight, device const float *angles, threadgroup float *head, uint index, uint lane,
                      uint simd, uint simds) {
    const uint dim = p.head_dim, first_row = index * dim;
    for (uint at = simd * ROWS_AT_ONCE; at < dim; at += simds * ROWS_AT_ONCE) {
        float sums[ROWS_AT_ONCE] = {0, 0, 0, 0};
        for (uint group = lane; group * 16 < p.k; group += LANES) {
            const uint count = min(p.k - group * 16, 16u);
            float values[16];
            float total = 0;
            for (uint i = 0; i < 16; i++) {
                values[i] = i < count ? x[group * 16 + i] : 0.0f;
                total += values[i];
            }
            for (uint row = 0; row < ROWS_AT_ONCE; row++) {
                if (at + row >= dim) break;
                const Group of = Format::read(w, first_row + at + row, group, count);
                float dots = 0;
                for (uint i = 0; i < 16; i++) dots = fma(of.q[i], values[i], dots);
                sums[row] = fma(of.scale, dots, fma(of.offset, total, sums[row]));
            }
        }
        for (uint row = 0; row < ROWS_AT_ONCE; row++) {
            if (at + row >= dim) break;
            const float sum = simd_sum(sums[row]);
            if (lane == 0) head[at + row] = p.has_bias != 0 ? sum + bias[first_row + at + row] : sum;
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simd != 0) return;
    HeadNorm norm = no_norm();
    if (p.has_norm != 0) norm = head_norm(head_squares(head, dim, lane), norm_weight, dim, p.eps);
    turn_head(head, dim, p.style, p.pairs, norm, (device const float2 *)angles, lane);
}

// Queries.
template <class Format>
kernel void gemv_head_rmsnorm(device const float *x [[buffer(0)]], device const uchar *data [[buffer(1)]], device float *y [[buffer(2)]],
                              constant GEMVHeadNormParams &p [[buffer(3)]], device const uchar *scales [[buffer(4)]],
                              device const uchar *biases [[buffer(5)]], device const float *bias [[buffer(6)]],
                              device const float *norm [[buffer(7)]], device const float *angles [[buffer(8)]],
                              threadgroup float *head [[threadgroup(0)]], uint2 group [[threadgroup_position_in_grid]],
                              uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                              uint simds [[simdgroups_per_threadgroup]]) {
    const Matrix w = {data, scales, biases, p.row_bytes, p.side_bytes};
    const uint row = group.y;
    make_head<Format>(p, w, x + row * p.x_stride, bias, norm, angles + row * p.angles_stride, head, group.x, lane, simd, simds);
    if (simd != 0) return;
    y += row * p.y_stride + group.x * p.head_dim;
    for (uint i = lane; i < p.head_dim; i += LANES) y[i] = head[i];
}

// Keys or values, into the KV cache. All know its format alike: the branch is one for all threads, and a kernel for each pair of
// formats would be three times as many.
template <class Format>
kernel void gemv_kv_write(device const float *x [[buffer(0)]], device const uchar *data [[buffer(1)]], device uchar *cache [[buffer(2)]],
                          constant GEMVKVParams &p [[buffer(3)]], device const uchar *scales [[buffer(4)]],
                          device const uchar *biases [[buffer(5)]], device const float *bias [[buffer(6)]],
                          device const float *norm [[buffer(7)]], device const float *angles [[buffer(8)]],
                          device const uint *steps [[buffer(9)]], threadgroup float *head [[threadgroup(0)]],
                          uint2 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                          uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
    const Matrix w = {data, scales, biases, p.product.row_bytes, p.product.side_bytes};
    const uint row = group.y, dim = p.product.head_dim;
    device const RowVars &vars = row_vars(steps, row);
    const uint block = kv_block_of(steps, p.kv, vars);
    if (block == NO_BLOCK) return;
    make_head<Format>(p.product, w, x + row * p.product.x_stride, bias, norm, angles + row * p.product.angles_stride, head, group.x,
                      lane, simd, simds);
    if (simd != 0) return;
    device uchar *to = cache + kv_at(p.kv, block, group.x, place_of(vars)) + (p.are_values != 0 ? p.kv.value_offset : 0);
    switch (p.kv.dtype) {
    case DTYPE_F32: write_head<KvWriteF32>(head, to, dim, lane); break;
    case DTYPE_F16: write_head<KvWriteF16>(head, to, dim, lane); break;
    default: write_head<KvWriteQ8_0>(head, to, dim, lane);
    }
}

INSTANTIATE_FORMATS(gemv_*_head_rmsnorm, gemv_head_rmsnorm)
INSTANTIATE_FORMATS(gemv_*_kv_write, gemv_kv_write)
