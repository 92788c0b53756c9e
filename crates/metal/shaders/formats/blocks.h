// Formats with blocks of 32 values.
#pragma once
#include "formats/format.h"

// Offsets instead of differences: what integers begin at is multiplied with the sum of the activations, once for 16.

// d * (q - 8)
struct Q4_0 {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 2, 18);
        Group out;
        unpack_bytes<4, 2>(out, block + 2, group % 2 * 4);
        out.scale = half_at(block);
        out.offset = -8 * out.scale;
        return out;
    }
};

// d * q + m
struct Q4_1 {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 2, 20);
        Group out;
        unpack_bytes<4, 4>(out, block + 4, group % 2 * 4);
        out.scale = half_at(block);
        out.offset = half_at(block + 2);
        return out;
    }
};

// The fifth bits of 16 values.
inline void add_fifth_bits(thread Group &out, uint bits) {
    UNROLL for (uint i = 0; i < 16; i++) out.q[i] += float(bits >> i << 4 & 16);
}

// d * (q - 16)
struct Q5_0 {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 2, 22);
        Group out;
        unpack_bytes<4, 2>(out, block + 6, group % 2 * 4);
        add_fifth_bits(out, ushort_at(block + 2 + group % 2 * 2));
        out.scale = half_at(block);
        out.offset = -16 * out.scale;
        return out;
    }
};

// d * q + m
struct Q5_1 {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 2, 24);
        Group out;
        unpack_bytes<4, 4>(out, block + 8, group % 2 * 4);
        add_fifth_bits(out, ushort_at(block + 4 + group % 2 * 2));
        out.scale = half_at(block);
        out.offset = half_at(block + 2);
        return out;
    }
};

// d * q
struct Q8_0 {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 2, 34);
        device const uchar *bytes = block + 2 + group % 2 * 16;
        Group out;
        UNROLL for (uint i = 0; i < 4; i++) {
            const uint word = word_at<2>(bytes + 4 * i);
            UNROLL for (uint j = 0; j < 4; j++) out.q[4 * i + j] = signed_byte(word >> 8 * j);
        }
        out.scale = half_at(block);
        out.offset = 0;
        return out;
    }
};
