// Writing keys and values into the KV cache, in each of its formats. A SIMD group owns a head: its lanes hold 32 values one after the
// other, and all of them call, also those that hold none.
#pragma once
#include "kv_cache/place.h"

// A format of the cache that is written has
//     static void write(device uchar *head, uint first, float value, uint lane, uint count);
// `head`: the head's values at a place, from their start. The lane's value is the one numbered `first + lane`, where `first` is a
// multiple of 32, and `count` of the lanes, from the first on, have one.
template <class T> struct KvFloatWriter {
    static void write(device uchar *head, uint first, float value, uint lane, uint count) {
        if (lane < count) ((device T *)head)[first + lane] = T(value);
    }
};
using KvWriteF32 = KvFloatWriter<float>;
using KvWriteF16 = KvFloatWriter<half>;

// Blocks of 32 bytes and a scale before them, rounded as the host rounds them.
struct KvWriteQ8_0 {
    static void write(device uchar *head, uint first, float value, uint lane, uint count) {
        const bool has = lane < count;
        const float furthest = simd_max(has ? fabs(value) : 0.0f);
        const float scale = precise::divide(furthest, 127.0f);
        // From 2^-128 down there is no finite reciprocal.
        const float inverse = scale > 2.938735877e-39f ? precise::divide(1.0f, scale) : 0.0f;
        // A scale is 2 bytes, aligned to them.
        device uchar *block = head + first / 32 * 34;
        if (lane == 0) *(device half *)block = half(min(scale, 65504.0f));
        if (has) ((device int8_t *)block)[2 + lane] = int8_t(round(value * inverse));
    }
};

// A whole head from memory, `values` of it: what kernels do whose lanes hold nothing yet.
template <class Writer> inline void kv_write_head(device uchar *head, device const float *values, uint count, uint lane) {
    for (uint first = 0; first < count; first += 32) {
        const uint left = min(count - first, 32u);
        Writer::write(head, first, lane < left ? values[first + lane] : 0.0f, lane, left);
    }
}
