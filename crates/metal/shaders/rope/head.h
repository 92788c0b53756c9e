// A head in threadgroup memory, which one SIMD group normalizes and rotates there: what rotates together need not lie in one lane,
// and every format of the KV cache finds its blocks.
#pragma once
#include "akunu.h"

// The norm of a head; `by` is 1 over its root mean square. Off: values stay as they are.
struct HeadNorm {
    bool on;
    float by;
    device const float *weight;
};

inline HeadNorm no_norm() { return HeadNorm{false, 1.0f, nullptr}; }

// Of a head whose squares add up to `squares` over the lanes.
inline HeadNorm head_norm(float squares, device const float *weight, uint dim, float eps) {
    return HeadNorm{true, precise::rsqrt(simd_sum(squares) / float(dim) + eps), weight};
}

// Takes a head; returns the lane's share of its squares.
inline float load_head(device const float *from, threadgroup float *head, uint dim, uint lane) {
    float squares = 0;
    for (uint i = lane; i < dim; i += LANES) {
        const float value = from[i];
        head[i] = value;
        squares = fma(value, value, squares);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    return squares;
}

// The lane's share of the squares of a head that is there. Other lanes may write what this one has read.
inline float head_squares(threadgroup const float *head, uint dim, uint lane) {
    float squares = 0;
    for (uint i = lane; i < dim; i += LANES) squares = fma(head[i], head[i], squares);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    return squares;
}

// Normalizes a head and rotates its first `2 * pairs` values by a row's angles, `[pairs](cos, sin)`.
inline void turn_head(threadgroup float *head, uint dim, uint style, uint pairs, HeadNorm norm, device const float2 *angles, uint lane) {
    const uint turned = style == ROPE_NONE ? 0 : pairs;
    for (uint i = lane; i < turned; i += LANES) {
        const uint at = style == ROPE_INTERLEAVED ? 2 * i : i;
        const uint other = style == ROPE_INTERLEAVED ? at + 1 : i + pairs;
        float a = head[at], b = head[other];
        if (norm.on) {
            a *= norm.by * norm.weight[at];
            b *= norm.by * norm.weight[other];
        }
        const float2 angle = angles[i];
        head[at] = fma(a, angle.x, -(b * angle.y));
        head[other] = fma(a, angle.y, b * angle.x);
    }
    if (norm.on) {
        for (uint i = 2 * turned + lane; i < dim; i += LANES) head[i] *= norm.by * norm.weight[i];
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
}

// A head goes into the KV cache.
template <class Writer> inline void write_head(threadgroup const float *head, device uchar *to, uint dim, uint lane) {
    for (uint first = 0; first < dim; first += LANES) {
        const uint count = min(dim - first, LANES);
        Writer::write(to, first, lane < count ? head[first + lane] : 0.0f, lane, count);
    }
}
