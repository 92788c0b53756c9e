// What every kernel includes: Metal's library, parameters, and reductions over a threadgroup.
#pragma once
#include <metal_stdlib>
using namespace metal;

#define INSTANTIATE(name, function, ...) template [[host_name(#name)]] kernel decltype(function<__VA_ARGS__>) function<__VA_ARGS__>;

#include "params.h"

// Threads of a SIMD group.
#define LANES 32u

// Most SIMD groups of a threadgroup.
#define MOST_SIMDS 32

// A value that all threads have anyway, so that the compiler knows it.
inline uint make_uniform(uint value) { return simd_broadcast_first(value); }

// The sum over a threadgroup of `simds` SIMD groups, for every thread. `shared` has room for MOST_SIMDS values; it can be used
// again after the next barrier.
inline float tg_reduce_sum(float value, threadgroup float *shared, uint lane, uint simd, uint simds) {
    value = simd_sum(value);
    if (simds == 1) return value;
    if (lane == 0) shared[simd] = value;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return simd_sum(lane < simds ? shared[lane] : 0.0f);
}

// The largest over a threadgroup, as tg_reduce_sum.
inline float tg_reduce_max(float value, threadgroup float *shared, uint lane, uint simd, uint simds) {
    value = simd_max(value);
    if (simds == 1) return value;
    if (lane == 0) shared[simd] = value;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return simd_max(lane < simds ? shared[lane] : -INFINITY);
}
