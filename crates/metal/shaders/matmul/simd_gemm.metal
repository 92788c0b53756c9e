// y = epilogue(x · Wᵀ), or activation(x · Wᵀ) * (x · Uᵀ), of many rows: a threadgroup makes ROWS rows by 64 columns. All K columns
// are added in steps of 32, in the same order for every tile, so that a row's bits do not depend on how many rows there are.
#include "matmul/epilogue.h"
#include "matmul/tiles.h"

// Columns of the weights, where a pipeline is made for them.
constant uint gemm_k [[function_constant(10)]];

template <class F, class By, uint ROWS, bool GATED>
kernel void gemm(device const float *x [[buffer(0)]], device const uchar *w [[buffer(1)]], device float *y [[buffer(2)]],
                 constant GEMMParams &p [[buffer(3)]], device const uchar *w_scales [[buffer(4)]],
                 device const uchar *w_biases [[buffer(5)]], device const float *bias [[buffer(6)]],
                 device const float *residual [[buffer(7)]], device const uchar *u [[buffer(8)]],
                 device const uchar *u_scales [[buffer(9)]], device const uchar *u_biases [[buffer(10)]],
                 uint2 at [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]]) {
    using Weight = typename By::template Weight<F>;
    using Sums = typename By::template Sums<F, ROWS>;
    threadgroup float rows[ROWS * X_STRIDE];
    threadgroup Weight weights[TILE_K * W_STRIDE];
    threadgroup Weight more[GATED ? TILE_K * W_STRIDE : 1];
    const uint K = is_function_constant_defined(gemm_k) ? uint(gemm_k) : p.k;
    const uint2 first = uint2(at.y * ROWS, at.x * TILE_N);
    const Matrix gate = {w, w_scales, w_biases, p.ldb, p.side_bytes};
    const Matrix up = {u, u_scales, u_biases, p.ldb, p.side_bytes};
    Sums sums(index), up_sums(index);
    for (uint k = 0; k < K; k += TILE_K) {
        stage_rows<ROWS>(rows, x, p.lda, first.x, k, p.m, K, index);
        stage_weights<F>(weights, gate, first.y, k, p.n, K, index);
        if (GATED) stage_weights<F>(more, up, first.y, k, p.n, K, index);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sums.add(rows, weights);
        if (GATED) up_sums.add(rows, more);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    const Epilogue epilogue = {bias, residual, p.ldr};
    UNROLL for (uint i = 0; i < Sums::COUNT; i++) {
        const uint2 to = first + sums.place(i);
        if (to.x >= p.m || to.y >= p.n) continue;
        const float value = sums.value(i);
        y[ulong(to.x) * p.ldc + to.y] =
            GATED ? activate(epilogue_activation, value) * up_sums.value(i) : epilogue(value, to.x, to.y);
    }
}

INSTANTIATE_FORMATS(simd_gemm, gemm, Matrices, 32, false)
INSTANTIATE_FORMATS(simd_gemm_small, gemm, Matrices, 8, false)
INSTANTIATE_FORMATS(simd_gemm_gated, gemm, Matrices, 32, true)
INSTANTIATE_FORMATS(simd_gemm_small_gated, gemm, Matrices, 8, true)
INSTANTIATE_FORMATS(gemm, gemm, Plain, 32, false)
INSTANTIATE_FORMATS(gemm_gated, gemm, Plain, 32, true)
