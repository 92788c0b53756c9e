// Numbers as they are.
#pragma once
#include "formats/format.h"

template <class T> struct Float {
    static Group read(thread const Matrix &w, uint row, uint group, uint count) {
        device const T *values = (device const T *)(w.data + ulong(row) * w.row_bytes) + group * 16;
        Group out;
        UNROLL for (uint i = 0; i < 16; i++) out.q[i] = i < count ? float(values[i]) : 0.0f;
        out.scale = 1;
        out.offset = 0;
        return out;
    }
};
using F32 = Float<float>;
using F16 = Float<half>;
using BF16 = Float<bfloat>;
