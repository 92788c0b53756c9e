// The IQ formats of up to three bits: 256 values, each 4 or 8 a tuple of a grid.
#pragma once
#include "formats/format.h"
#include "formats/grids.h"

// The eighth sign of seven: minus signs are even in number.
inline uint even_signs(uint bits) { return bits | (popcount(bits) & 1) << 7; }

// Four magnitudes, negated where a sign is set.
inline void four_signed(thread Group &out, uint at, uint magnitudes, uint signs) {
    UNROLL for (uint i = 0; i < 4; i++) {
        const float value = float(magnitudes >> 8 * i & 255);
        out.q[at + i] = (signs >> i & 1) != 0 ? -value : value;
    }
}

// Eight of them, from a grid of two words for each.
inline void eight_signed(thread Group &out, uint at, constant uint *grid, uint index, uint signs) {
    four_signed(out, at, grid[2 * index], signs);
    four_signed(out, at + 4, grid[2 * index + 1], signs >> 4);
}

// Eight of -1, 0 and 1 in eighths, which are shifted up by one of them, or down.
inline void eight_shifted(thread Group &out, uint at, uint index, bool down) {
    const float shift = down ? 2 : 0;
    UNROLL for (uint i = 0; i < 8; i++) out.q[at + i] = signed_byte(IQ1_GRID[2 * index + i / 4] >> i % 4 * 8) - shift;
}

// d * (2 * scale + 1) / 8
inline float eighth_scale(float d, uint scale) { return d * float(2 * (scale & 7) + 1) * 0.125f; }

struct IQ1_S {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 50);
        group %= 16;
        const uint word = ushort_at(block + 34 + group / 2 * 2);
        Group out;
        UNROLL for (uint i = 0; i < 2; i++) {
            const uint index = block[2 + 2 * group + i] | (word >> 3 * (group % 2 * 2 + i) & 7) << 8;
            eight_shifted(out, 8 * i, index, word >> 15 != 0);
        }
        out.scale = eighth_scale(half_at(block), word >> 12);
        out.offset = 0;
        return out;
    }
};

struct IQ1_M {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 56);
        group %= 16;
        Group out;
        const uint high = block[32 + group];
        UNROLL for (uint i = 0; i < 2; i++) {
            const uint nibble = high >> 4 * i & 15;
            eight_shifted(out, 8 * i, block[2 * group + i] | (nibble & 7) << 8, nibble >= 8);
        }
        // The nibbles on top of four words are the scale of all.
        uint bits = 0;
        UNROLL for (uint i = 0; i < 4; i++) bits |= ushort_at(block + 48 + 2 * i) >> 12 << 4 * i;
        const float d = float(as_type<half>(ushort(bits)));
        out.scale = eighth_scale(d, ushort_at(block + 48 + group / 4 * 2) >> 3 * (group % 4));
        out.offset = 0;
        return out;
    }
};

struct IQ2_XXS {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 66);
        group %= 16;
        device const uchar *part = block + 2 + group / 2 * 8;
        const uint word = word_at<2>(part + 4);
        Group out;
        UNROLL for (uint i = 0; i < 2; i++) {
            const uint tuple = group % 2 * 2 + i;
            eight_signed(out, 8 * i, IQ2_XXS_GRID, part[tuple], even_signs(word >> 7 * tuple & 127));
        }
        out.scale = half_at(block) * (0.5f + float(word >> 28)) * 0.25f;
        out.offset = 0;
        return out;
    }
};

struct IQ2_XS {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 74);
        group %= 16;
        Group out;
        UNROLL for (uint i = 0; i < 2; i++) {
            const uint code = ushort_at(block + 2 + group * 4 + 2 * i);
            eight_signed(out, 8 * i, IQ2_XS_GRID, code & 511, even_signs(code >> 9));
        }
        const uint scale = uint(block[66 + group / 2]) >> group % 2 * 4 & 15;
        out.scale = half_at(block) * (0.5f + float(scale)) * 0.25f;
        out.offset = 0;
        return out;
    }
};

struct IQ2_S {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 82);
        group %= 16;
        const uint high = uint(block[66 + group / 2]) >> group % 2 * 4;
        Group out;
        UNROLL for (uint i = 0; i < 2; i++) {
            const uint index = block[2 + 2 * group + i] | (high >> 2 * i & 3) << 8;
            eight_signed(out, 8 * i, IQ2_S_GRID, index, block[34 + 2 * group + i]);
        }
        const uint scale = uint(block[74 + group / 2]) >> group % 2 * 4 & 15;
        out.scale = half_at(block) * (0.5f + float(scale)) * 0.25f;
        out.offset = 0;
        return out;
    }
};

struct IQ3_XXS {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 98);
        group %= 16;
        device const uchar *part = block + 66 + group / 2 * 4;
        const uint word = word_at<2>(part);
        Group out;
        UNROLL for (uint i = 0; i < 4; i++) {
            const uint signs = even_signs(word >> 7 * (group % 2 * 2 + i / 2) & 127);
            four_signed(out, 4 * i, IQ3_XXS_GRID[block[2 + 4 * group + i]], signs >> i % 2 * 4);
        }
        out.scale = half_at(block) * (0.5f + float(word >> 28)) * 0.5f;
        out.offset = 0;
        return out;
    }
};

struct IQ3_S {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 110);
        group %= 16;
        const uint ninth = uint(block[66 + group / 2]) >> group % 2 * 4;
        Group out;
        UNROLL for (uint i = 0; i < 4; i++) {
            const uint index = block[2 + 4 * group + i] | (ninth >> i & 1) << 8;
            four_signed(out, 4 * i, IQ3_S_GRID[index], uint(block[74 + 2 * group + i / 2]) >> i % 2 * 4);
        }
        const uint scale = uint(block[106 + group / 4]) >> group / 2 % 2 * 4 & 15;
        out.scale = half_at(block) * float(1 + 2 * scale);
        out.offset = 0;
        return out;
    }
};
