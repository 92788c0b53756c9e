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

// The lowest byte as a signed number.
inline float signed_byte(uint bits) { return float(int(bits << 24) >> 24); }

// Integers of `Bits` bits, one in each of 16 bytes, `shift` bits up.
template <uint Bits> inline void unpack_bytes(thread Group &out, device const uchar *bytes, uint shift) {
    UNROLL for (uint i = 0; i < 8; i++) {
        const uint pair = ushort_at(bytes + 2 * i) >> shift;
        out.q[2 * i] = float(pair & ((1 << Bits) - 1));
        out.q[2 * i + 1] = float(pair >> 8 & ((1 << Bits) - 1));
    }
}

// The same with one more bit above, of 16 other bytes.
template <uint Bits, uint HighBits>
inline void unpack_bytes(thread Group &out, device const uchar *bytes, uint shift, device const uchar *high, uint high_shift) {
    UNROLL for (uint i = 0; i < 8; i++) {
        const uint pair = ushort_at(bytes + 2 * i) >> shift, above = ushort_at(high + 2 * i) >> high_shift;
        out.q[2 * i] = float((pair & ((1 << Bits) - 1)) | (above & ((1 << HighBits) - 1)) << Bits);
        out.q[2 * i + 1] = float((pair >> 8 & ((1 << Bits) - 1)) | (above >> 8 & ((1 << HighBits) - 1)) << Bits);
    }
}
