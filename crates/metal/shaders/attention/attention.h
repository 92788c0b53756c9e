// What all kernels of attention share.
#pragma once
#include "kv_cache/read.h"

constant uint head_dim [[function_constant(0)]];
// Whether rows may hide places from each other: drafts of several branches.
constant uint tree_mask [[function_constant(1)]];
// SEES_PAST or SEES_ALL.
constant uint sees [[function_constant(3)]];

// A loop that is unrolled before function constants are known, so that arrays of registers are never indexed by a variable: what is
// beyond `count` falls away when they are.
#define FOR_EACH(i, most, count)                                                                                                       \
    _Pragma("unroll") for (uint i = 0; i < most; i++)                                                                                  \
        if (i < count)

// A maximum of nothing; no infinity, so that a difference of two is a number.
#define LOWEST -1.0e38f
// Four consecutive values times 32 are the values of the largest head: 512.
#define MOST_PARTS 16

inline float fma4(float4 a, float4 b, float sum) { return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum)))); }

// A score from a dot product.
inline float score_of(float dot, float scale, float soft_cap) {
    const float score = dot * scale;
    return soft_cap == 0 ? score : precise::tanh(score / soft_cap) * soft_cap;
}
