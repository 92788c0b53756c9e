// The MLX formats: a row is a stream of bits, and groups of it have a scale and a bias in planes of their own.
#pragma once
#include "formats/format.h"

// Values with one scale and bias: a multiple of 16.
constant uint mlx_group [[function_constant(0)]];
// Values of a row.
constant uint mlx_k [[function_constant(1)]];
// Type of scales and biases.
constant uint mlx_side [[function_constant(12)]];

inline float mlx_side_at(device const uchar *plane, ulong index) {
    if (mlx_side == DTYPE_F16) return float(((device const half *)plane)[index]);
    if (mlx_side == DTYPE_BF16) return float(((device const bfloat *)plane)[index]);
    return ((device const float *)plane)[index];
}

// 16 values are as many words of 16 bits as one has bits.
template <uint Bits> struct Mlx {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *data = w.data + ulong(row) * (mlx_k / 8 * Bits) + group * (2 * Bits);
        uint words[(Bits + 1) / 2 + 1];
        UNROLL for (uint i = 0; i < Bits / 2; i++) words[i] = word_at<Bits % 2 == 0 ? 4 : 2>(data + 4 * i);
        if (Bits % 2 != 0) words[Bits / 2] = ushort_at(data + 2 * Bits - 2);
        words[(Bits + 1) / 2] = 0;
        Group out;
        UNROLL for (uint i = 0; i < 16; i++) {
            const uint word = i * Bits / 32, shift = i * Bits % 32;
            uint value = words[word] >> shift;
            if (shift + Bits > 32) value |= words[word + 1] << (32 - shift);
            out.q[i] = float(value & ((1u << Bits) - 1));
        }
        const ulong side = ulong(row) * (mlx_k / mlx_group) + group * 16 / mlx_group;
        out.scale = mlx_side_at(w.scales, side);
        out.offset = mlx_side_at(w.biases, side);
        return out;
    }
};
using MLX2 = Mlx<2>;
using MLX3 = Mlx<3>;
using MLX4 = Mlx<4>;
using MLX5 = Mlx<5>;
using MLX6 = Mlx<6>;
using MLX8 = Mlx<8>;
