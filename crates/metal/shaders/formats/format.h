// Number formats of weights. A format is a struct with one function: 16 values of a row as small integers, with a scale and an
// offset, `value = scale * q + offset`. Every kernel that reads weights is a template over it.
#pragma once
#include "akunu.h"

// Before loops over arrays that are to be registers: what is indexed must be known when the kernel is compiled.
#define UNROLL _Pragma("clang loop unroll(full)")

// A weight matrix where it lies: rows of blocks, and two side planes where the format has them.
struct Matrix {
    device const uchar *data;
    device const uchar *scales;
    device const uchar *biases;
    uint row_bytes;
    uint side_bytes;
};

// 16 values.
struct Group {
    float q[16];
    float scale;
    float offset;
};

// A format has
//     static Group read(thread const Matrix &w, uint row, uint group, uint count);
// for the values from `16 * group` on. `count` is 16 but at the end of rows that are not whole groups, which only floats have: what
// is beyond is zero.

// A block of a row.
inline device const uchar *block_at(thread const Matrix &w, uint row, uint block, uint bytes) {
    return w.data + ulong(row) * w.row_bytes + block * bytes;
}

// Numbers in a block. Where its size is odd, only bytes may be read of it; where it is no multiple of 4, nothing longer than 2.
inline float half_at(device const uchar *at) { return float(*(device const half *)at); }
inline uint ushort_at(device const uchar *at) { return *(device const ushort *)at; }
inline uint uint_at(device const uchar *at) { return *(device const uint *)at; }

// Four bytes of a block whose size is a multiple of `Align`.
template <uint Align> inline uint word_at(device const uchar *at) {
    return Align == 4 ? uint_at(at) : ushort_at(at) | ushort_at(at + 2) << 16;
}

// The lowest byte as a signed number.
inline float signed_byte(uint bits) { return float(int(bits << 24) >> 24); }

// Integers of `Bits` bits, one in each of 16 bytes, `shift` bits up.
template <uint Bits, uint Align> inline void unpack_bytes(thread Group &out, device const uchar *bytes, uint shift) {
    UNROLL for (uint i = 0; i < 4; i++) {
        const uint word = word_at<Align>(bytes + 4 * i) >> shift;
        UNROLL for (uint j = 0; j < 4; j++) out.q[4 * i + j] = float(word >> 8 * j & ((1 << Bits) - 1));
    }
}

// The same with `More` bits above, of 16 other bytes.
template <uint Bits, uint Align, uint More>
inline void unpack_bytes(thread Group &out, device const uchar *bytes, uint shift, device const uchar *more, uint more_shift) {
    UNROLL for (uint i = 0; i < 4; i++) {
        const uint word = word_at<Align>(bytes + 4 * i) >> shift, above = word_at<Align>(more + 4 * i) >> more_shift;
        UNROLL for (uint j = 0; j < 4; j++)
            out.q[4 * i + j] = float((word >> 8 * j & ((1 << Bits) - 1)) | (above >> 8 * j & ((1 << More) - 1)) << Bits);
    }
}
