// The K formats: 256 values with scales of their own for every 16 or 32.
#pragma once
#include "formats/format.h"

// Where a group's pairs of bits are: of every 128 values, 32 bytes hold value 32k + j in bits 2k of byte j.
inline uint two_bits_at(uint group) { return group / 8 * 32 + group % 2 * 16; }
inline uint two_bits_shift(uint group) { return group % 8 / 2 * 2; }

// d * scale * q - dmin * min
struct Q2_K {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 84);
        group %= 16;
        Group out;
        unpack_bytes<2, 4>(out, block + 16 + two_bits_at(group), two_bits_shift(group));
        const uint scales = block[group];
        out.scale = half_at(block + 80) * float(scales & 15);
        out.offset = -half_at(block + 82) * float(scales >> 4);
        return out;
    }
};

// d * (scale - 32) * (q - 4)
struct Q3_K {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 110);
        group %= 16;
        Group out;
        unpack_bytes<2, 2, 1>(out, block + 32 + two_bits_at(group), two_bits_shift(group), block + group % 2 * 16, group / 2);
        const uint low = uint(block[96 + group % 8]) >> group / 8 * 4 & 15;
        const uint high = uint(block[104 + group % 4]) >> group / 4 * 2 & 3;
        out.scale = half_at(block + 108) * (float(low | high << 4) - 32);
        out.offset = -4 * out.scale;
        return out;
    }
};

// Scale and offset of 32 values: six bits each for the first four, and for the others nibbles whose upper bits are above those.
inline void affine_scales(thread Group &out, device const uchar *block, uint s) {
    device const uchar *packed = block + 4;
    uint scale, min;
    if (s < 4) {
        scale = packed[s] & 63;
        min = packed[4 + s] & 63;
    } else {
        const uint low = packed[4 + s];
        scale = (low & 15) | uint(packed[s - 4]) >> 6 << 4;
        min = low >> 4 | uint(packed[s]) >> 6 << 4;
    }
    out.scale = half_at(block) * float(scale);
    out.offset = -half_at(block + 2) * float(min);
}

// d * scale * q - dmin * min
struct Q4_K {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 144);
        group %= 16;
        Group out;
        unpack_bytes<4, 4>(out, block + 16 + group / 4 * 32 + group % 2 * 16, group / 2 % 2 * 4);
        affine_scales(out, block, group / 2);
        return out;
    }
};

// The same with fifth bits.
struct Q5_K {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 176);
        group %= 16;
        Group out;
        device const uchar *low = block + 48 + group / 4 * 32 + group % 2 * 16;
        unpack_bytes<4, 4, 1>(out, low, group / 2 % 2 * 4, block + 16 + group % 2 * 16, group / 2);
        affine_scales(out, block, group / 2);
        return out;
    }
};

// d * scale * (q - 32)
struct Q6_K {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 210);
        group %= 16;
        const uint k = group % 8 / 2;
        Group out;
        device const uchar *low = block + group / 8 * 64 + k % 2 * 32 + group % 2 * 16;
        unpack_bytes<4, 2, 2>(out, low, k / 2 * 4, block + 128 + two_bits_at(group), 2 * k);
        out.scale = half_at(block + 208) * signed_byte(block[192 + group]);
        out.offset = -32 * out.scale;
        return out;
    }
};
