// Tiles of a GEMM: how 128 threads bring rows of activations and of weights to threadgroup memory, and how they multiply them.
#pragma once
#include "formats/all.h"

// Weight rows of a tile, columns of a step, and threads: 4 SIMD groups.
#define TILE_N 64
#define TILE_K 32
#define TILE_THREADS 128
// Values from one row to the next in threadgroup memory: the rows of an 8 by 8 matrix lie in different banks.
#define X_STRIDE (TILE_K + 8)
#define W_STRIDE (TILE_N + 8)

// Whether all steps are whole: a pipeline that knows K has no code for others.
#define WHOLE(K) ((K) % TILE_K == 0)

#define UNROLL _Pragma("clang loop unroll(full)")

// What weights are in threadgroup memory. Quantized ones lose less to half than they lost before; floats that half has no room for
// stay as they are.
template <class F> struct TileOf { using type = half; };
template <> struct TileOf<F32> { using type = float; };
template <> struct TileOf<BF16> { using type = float; };

// 64 weights' rows from `first` on, 32 columns from `k` on, as [column][row]. Two threads read a row, which is then in one cache
// line of both; what is beyond the matrix is zero.
template <class F, class T>
inline void stage_weights(threadgroup T *tile, thread const Matrix &w, uint first, uint k, uint N, uint K, uint index) {
    const uint row = first + index / 2, column = k + index % 2 * 16;
    threadgroup T *to = tile + index % 2 * 16 * W_STRIDE + index / 2;
    if (row < N && (WHOLE(K) || column < K)) {
        const Group group = F::read(w, row, column / 16, WHOLE(K) ? 16 : min(16u, K - column));
        UNROLL for (uint i = 0; i < 16; i++) to[i * W_STRIDE] = T(group.scale * group.q[i] + group.offset);
    } else {
        UNROLL for (uint i = 0; i < 16; i++) to[i * W_STRIDE] = T(0);
    }
}

// ROWS rows of activations from `first` on, 32 columns from `k` on, as [row][column], with zeros as above. Two values at a time, since
// rows begin at whole cache lines: 16 threads side by side have a row.
template <uint ROWS>
inline void stage_rows(threadgroup float *tile, device const float *x, uint lda, uint first, uint k, uint M, uint K, uint index) {
    UNROLL for (uint i = 0; i < ROWS * TILE_K / 2 / TILE_THREADS; i++) {
        const uint pair = i * TILE_THREADS + index, row = pair / (TILE_K / 2), column = pair % (TILE_K / 2) * 2;
        threadgroup float2 *to = (threadgroup float2 *)(tile + row * X_STRIDE + column);
        device const float *from = x + ulong(first + row) * lda + k + column;
        if (first + row >= M || (!WHOLE(K) && k + column >= K)) {
            *to = float2(0);
        } else if (WHOLE(K) || k + column + 1 < K) {
            *to = *(device const float2 *)from;
        } else {
            *to = float2(*from, 0.0f);
        }
    }
}

// Products by matrices of 8 by 8: a SIMD group has 16 rows by 32 columns of a tile of 32 rows, and 8 by 16 of one of 8. Columns are
// added in the same order in both.
template <class T, uint ROWS> struct MatrixSums {
    static constexpr constant uint DOWN = ROWS == 32 ? 2 : 1;
    static constexpr constant uint MR = ROWS / 8 / DOWN;
    static constexpr constant uint NR = 2 * DOWN;
    static constexpr constant uint COUNT = 2 * MR * NR;

    simdgroup_float8x8 sums[MR][NR];
    uint row, column, lane;

    MatrixSums(uint index) {
        const uint simd = index / 32;
        row = simd % DOWN * MR * 8;
        column = simd / DOWN * NR * 8;
        lane = index % 32;
        UNROLL for (uint m = 0; m < MR; m++) {
            UNROLL for (uint n = 0; n < NR; n++) sums[m][n] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        }
    }

    void add(threadgroup const float *x, threadgroup const T *w) {
        UNROLL for (uint k = 0; k < TILE_K; k += 8) {
            simdgroup_float8x8 left[MR];
            simdgroup_matrix<T, 8, 8> right[NR];
            UNROLL for (uint m = 0; m < MR; m++) simdgroup_load(left[m], x + (row + 8 * m) * X_STRIDE + k, X_STRIDE);
            UNROLL for (uint n = 0; n < NR; n++) simdgroup_load(right[n], w + k * W_STRIDE + column + 8 * n, W_STRIDE);
            UNROLL for (uint m = 0; m < MR; m++) {
                UNROLL for (uint n = 0; n < NR; n++) simdgroup_multiply_accumulate(sums[m][n], left[m], right[n], sums[m][n]);
            }
        }
    }

    float value(uint i) { return sums[i / 2 / NR][i / 2 % NR].thread_elements()[i % 2]; }

    // Row and column of a value in the tile: two of a row are in each lane, whose bits 1, 2 and 4 are the row.
    uint2 place(uint i) const {
        const uint down = (lane >> 1 & 3) | (lane >> 2 & 4), across = (lane & 1) << 1 | (lane >> 1 & 4);
        return uint2(row + i / 2 / NR * 8 + down, column + i / 2 % NR * 8 + across + i % 2);
    }
};

// The same without matrices: a thread has 4 rows by 4 columns.
template <uint ROWS> struct PlainSums {
    static_assert(ROWS == 32, "16 threads side by side, 8 down");
    static constexpr constant uint COUNT = 16;

    float sums[16];
    uint row, column;

    PlainSums(uint index) {
        row = index / 16 * 4;
        column = index % 16 * 4;
        UNROLL for (uint i = 0; i < 16; i++) sums[i] = 0;
    }

    void add(threadgroup const float *x, threadgroup const float *w) {
        for (uint k = 0; k < TILE_K; k++) {
            const float4 right = *(threadgroup const float4 *)(w + k * W_STRIDE + column);
            UNROLL for (uint i = 0; i < 16; i++) sums[i] = fma(x[(row + i / 4) * X_STRIDE + k], right[i % 4], sums[i]);
        }
    }

    float value(uint i) { return sums[i]; }
    uint2 place(uint i) const { return uint2(row + i / 4, column + i % 4); }
};

// What a GEMM multiplies by.
struct Matrices {
    template <class F> using Weight = typename TileOf<F>::type;
    template <class F, uint ROWS> using Sums = MatrixSums<Weight<F>, ROWS>;
};
struct Plain {
    template <class F> using Weight = float;
    template <class F, uint ROWS> using Sums = PlainSums<ROWS>;
};
