// Values of -1, 0 and 1.
#pragma once
#include "formats/format.h"
#include "formats/k_quants.h"

// d * (q - 1). Bytes are five digits of base 3 as a fraction of 256: the next digit is the carry of a product with 3.
struct TQ1_0 {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 54);
        group %= 16;
        Group out;
        // 32 bytes with 160 values, 16 with 80, and 4 with the last 16.
        const uint from = group < 10 ? group % 2 * 16 : group < 15 ? 32 : 48;
        const uint digit = group < 10 ? group / 2 : group - 10;
        const uint power = digit == 0 ? 1 : digit == 1 ? 3 : digit == 2 ? 9 : digit == 3 ? 27 : 81;
        UNROLL for (uint i = 0; i < 16; i++) {
            const uint last = i / 4 == 0 ? 1 : i / 4 == 1 ? 3 : i / 4 == 2 ? 9 : 27;
            const uint fraction = group < 15 ? block[from + i] * power : block[from + i % 4] * last;
            out.q[i] = float((fraction & 255) * 3 >> 8);
        }
        out.scale = half_at(block + 52);
        out.offset = -out.scale;
        return out;
    }
};

// d * (q - 1)
struct TQ2_0 {
    static Group read(thread const Matrix &w, uint row, uint group, uint) {
        device const uchar *block = block_at(w, row, group / 16, 66);
        group %= 16;
        Group out;
        unpack_bytes<2, 2>(out, block + two_bits_at(group), two_bits_shift(group));
        out.scale = half_at(block + 64);
        out.offset = -out.scale;
        return out;
    }
};
