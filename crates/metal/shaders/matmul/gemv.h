// How SIMD groups multiply rows of weights with few rows of activations, the same for every kernel that does: a lane takes every
// 32nd group of 16 columns, or where SIMD groups share a row every 128th, and lanes, then SIMD groups are added in their order. So
// a result's bits depend neither on how many activation rows there are nor on how many results a SIMD group makes.
#pragma once
#include "activation/activation.h"
#include "formats/all.h"

// Activation rows of a pass over the weights.
constant uint batch [[function_constant(11)]];
// SIMD groups that share a row of weights: 1, or all of the threadgroup.
constant uint gemv_simds [[function_constant(17)]];

// SIMD groups of a threadgroup, but of the wide kernel.
#define GEMV_SIMDS 4
// Results that a SIMD group makes at most: one for each lane, which finishes it.
#define GEMV_RESULTS 32

// What is told of activation rows: where they begin, values from one to the next, and how many of them there are.
struct Activations {
    device const float *x;
    uint stride;
    uint rows;
};

// 16 values of a row, and zeros beyond the `count`th. Rows begin at whole cache lines.
inline void load_group(thread float (&values)[16], device const float *x, uint count) {
    if (count == 16) {
        UNROLL for (uint i = 0; i < 4; i++) {
            const float4 four = ((device const float4 *)x)[i];
            UNROLL for (uint j = 0; j < 4; j++) values[4 * i + j] = four[j];
        }
    } else {
        UNROLL for (uint i = 0; i < 16; i++) values[i] = i < count ? x[i] : 0.0f;
    }
}

// A lane's part of the products of N rows of weights, from `first` on, with up to M rows of activations. Weights are read once for
// all of those, activations once for all of these.
template <class Format, uint M, uint N>
inline void multiply_part(thread float (&sums)[M][N], thread const Activations &a, thread const Matrix &w, uint first, uint n, uint k,
                          uint lane, uint lanes) {
    for (uint group = lane; group * 16 < k; group += lanes) {
        const uint count = min(k - group * 16, 16u);
        Group weights[N];
        // Rows beyond the last are the last once more: nobody writes what becomes of them.
        UNROLL for (uint o = 0; o < N; o++) weights[o] = Format::read(w, min(first + o, n - 1), group, count);
        UNROLL for (uint m = 0; m < M; m++) {
            if (m >= a.rows) break;
            float values[16];
            load_group(values, a.x + m * a.stride + group * 16, count);
            float total = 0;
            UNROLL for (uint i = 0; i < 16; i++) total += values[i];
            UNROLL for (uint o = 0; o < N; o++) {
                float product = 0;
                UNROLL for (uint i = 0; i < 16; i++) product = fma(values[i], weights[o].q[i], product);
                // Written as `fma`, so that no compiler may choose for one kernel otherwise than for another.
                sums[m][o] = fma(weights[o].scale, product, fma(weights[o].offset, total, sums[m][o]));
            }
        }
    }
}

// The product of activation row `lane / N` with weight row `lane % N`: of the lanes of this SIMD group.
template <class Format, uint M, uint N>
inline float multiply(thread const Activations &a, thread const Matrix &w, uint first, uint n, uint k, uint part, uint lanes,
                      uint lane) {
    static_assert(M * N <= GEMV_RESULTS, "a lane for each");
    float sums[M][N];
    UNROLL for (uint m = 0; m < M; m++) {
        UNROLL for (uint o = 0; o < N; o++) sums[m][o] = 0;
    }
    multiply_part<Format, M, N>(sums, a, w, first, n, k, part, lanes);
    float mine = 0;
    UNROLL for (uint m = 0; m < M; m++) {
        if (m >= a.rows) break;
        UNROLL for (uint o = 0; o < N; o++) {
            const float sum = simd_sum(sums[m][o]);
            if (lane == m * N + o) mine = sum;
        }
    }
    return mine;
}

// What SIMD groups that share rows have, added by the first of them.
inline float add_shared(threadgroup const float *shared, uint lane) {
    float sum = shared[lane];
    for (uint simd = 1; simd < GEMV_SIMDS; simd++) sum += shared[simd * GEMV_RESULTS + lane];
    return sum;
}

// residual + cap(scale * activation(product + bias))
inline float finish(float product, constant GEMVParams &p, device const float *bias, device const float *residual, uint row,
                    uint column) {
    if (p.has_bias != 0) product += bias[column];
    float value = activate(p.activation, product) * p.scale;
    if (p.soft_cap != 0) value = p.soft_cap * precise::tanh(value / p.soft_cap);
    if (p.residual_stride != 0) value += residual[row * p.residual_stride + column];
    return value;
}
