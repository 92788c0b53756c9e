// Formats whose integers stand for levels of a table.
#pragma once
#include "formats/format.h"
#include "formats/grids.h"

// The levels that nibbles of 16 bytes stand for, `shift` bits up.
template <uint Align> inline void unpack_levels(thread Group &out, device const uchar *bytes, uint shift, constant float *levels) {
    UNROLL for (uint i = 0; i < 4; i++) {
        const uint word = word_at<Align>(bytes + 4 * i) >> shift;
        UNROLL for (uint j = 0; j < 4; j++) out.q[4 * i + j] = levels[word >> 8 * j & 15];
    }
    out.offset = 0;
}

// d * level
struct IQ4_NL {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 2, 18);
        Group out;
        unpack_levels<2>(out, block + 2, group % 2 * 4, IQ4_LEVELS);
        out.scale = half_at(block);
        return out;
    }
};

// d * (scale - 32) * level
struct IQ4_XS {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 136);
        group %= 16;
        const uint s = group / 2;
        Group out;
        unpack_levels<4>(out, block + 8 + s * 16, group % 2 * 4, IQ4_LEVELS);
        const uint low = uint(block[4 + s / 2]) >> s % 2 * 4 & 15, high = ushort_at(block + 2) >> 2 * s & 3;
        out.scale = half_at(block) * (float(low | high << 4) - 32);
        return out;
    }
};

// 2^(e - 127) * float: levels are doubled, and the scale is halved. The block has an odd size: bytes.
struct MXFP4 {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 2, 17);
        const uint shift = group % 2 * 4, e = block[0];
        Group out;
        UNROLL for (uint i = 0; i < 16; i++) out.q[i] = FP4_DOUBLED[uint(block[1 + i]) >> shift & 15];
        // The two smallest powers are subnormal.
        out.scale = as_type<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
        out.offset = 0;
        return out;
    }
};

// scale * float, with a scale of 8 bits for every 16 values: four of exponent and three of fraction, halved.
struct NVFP4 {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 4, 36);
        group %= 4;
        Group out;
        // Eight bytes: the first values in low nibbles, the others in high ones.
        UNROLL for (uint i = 0; i < 2; i++) {
            const uint word = uint_at(block + 4 + group * 8 + 4 * i);
            UNROLL for (uint j = 0; j < 4; j++) {
                out.q[4 * i + j] = FP4_DOUBLED[word >> 8 * j & 15];
                out.q[4 * i + j + 8] = FP4_DOUBLED[word >> (8 * j + 4) & 15];
            }
        }
        const uint code = block[group], exponent = code >> 3 & 15;
        const float fraction = float(code & 7);
        if (code == 0x7f)
            out.scale = 0;
        else if (exponent == 0)
            out.scale = fraction / 1024;
        else
            out.scale = (8 + fraction) * as_type<float>((exponent + 127 - 11) << 23);
        out.offset = 0;
        return out;
    }
};
