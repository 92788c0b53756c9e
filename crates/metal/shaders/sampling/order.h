// The order of logits as numbers, and the first of the largest of many. Bits are compared, so that NaN and infinity are what they
// are however the compiler treats floats.
#pragma once
#include "akunu.h"

// Where a thread is.
struct Threads {
    uint index;
    uint count;
    uint lane;
    uint simd;
    uint simds;
};

// In the order of the values: NaN is below -∞ or above ∞, and -0 below 0.
inline uint order_of(float x) {
    const uint bits = as_type<uint>(x);
    return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
inline float value_of(uint order) { return as_type<float>(order >> 31 != 0 ? order & 0x7FFFFFFFu : ~order); }

// Of -∞ and ∞.
#define ORDER_IMPOSSIBLE 0x007FFFFFu
#define ORDER_CERTAIN 0xFF800000u

inline bool is_number(uint order) { return order >= ORDER_IMPOSSIBLE && order <= ORDER_CERTAIN; }

// For the first of the largest: 0 for NaN, and -0 is 0.
inline uint largest_key(float x) {
    const uint order = order_of(x);
    return is_number(order) ? order + uint(order == 0x7FFFFFFFu) : 0;
}

// For draws: 0 for what can not be drawn.
inline uint draw_key(float x) {
    const uint order = order_of(x);
    return is_number(order) && order != ORDER_IMPOSSIBLE ? order : 0;
}

// The largest key so far, and the lowest index that has it.
struct First {
    uint key;
    uint index;
};

inline First nobody() { return First{0, 0xFFFFFFFFu}; }

inline First first_of(First a, uint key, uint index) {
    return key > a.key || (key == a.key && index < a.index) ? First{key, index} : a;
}

// Of a SIMD group.
inline First simd_first(First mine) {
    const uint key = simd_max(mine.key);
    return First{key, simd_min(mine.key == key ? mine.index : 0xFFFFFFFFu)};
}

// Of a threadgroup, for every thread; `shared` has room for 2 * MOST_SIMDS and can be used again after the next barrier.
inline First tg_first(First mine, threadgroup uint *shared, Threads t) {
    mine = simd_first(mine);
    if (t.simds == 1) return mine;
    if (t.lane == 0) shared[t.simd] = mine.key, shared[MOST_SIMDS + t.simd] = mine.index;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    mine = nobody();
    if (t.lane < t.simds) mine = First{shared[t.lane], shared[MOST_SIMDS + t.lane]};
    return simd_first(mine);
}

// How many threads say yes, as tg_first; `shared` has room for MOST_SIMDS.
inline uint tg_count(bool yes, threadgroup uint *shared, Threads t) {
    const uint count = simd_sum(uint(yes));
    if (t.simds == 1) return count;
    if (t.lane == 0) shared[t.simd] = count;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return simd_sum(t.lane < t.simds ? shared[t.lane] : 0u);
}
