// Draws: a token of every output row that asks for one, and several tokens of a row.
#include "sampling/draws.h"
#include "sampling/likeliest.h"
#include "steps.h"

// Whether `before`, the weight of those before a candidate, is as much of `total` as `top_p` asks for: before >= top_p * total, exactly.
// Weights are whole numbers below 2^33, of at most 256 candidates.
inline bool is_enough(ulong before, float top_p, ulong total) {
    if (!(top_p > 0.0f)) return true;
    // top_p = part / 2^scale, and part * total is below 2^64.
    const uint bits = as_type<uint>(top_p);
    const uint part = (bits & 0x7FFFFFu) | 0x800000u, scale = 150 - (bits >> 23);
    if (scale >= 32 || before >> (64 - scale) != 0) return true;
    return before << scale >= ulong(part) * total;
}

// A threadgroup for every output.
[[max_total_threads_per_threadgroup(1024)]]
kernel void gumbel_sample(device const float *x [[buffer(0)]], device float *y [[buffer(2)]], constant SamplingParams &p [[buffer(3)]],
                          device const uint *steps [[buffer(4)]], uint output [[threadgroup_position_in_grid]],
                          uint index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                          uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup ulong held[MOST_HELD];
    threadgroup ulong sorted[MOST_CANDIDATES];
    threadgroup atomic_uint count[1];
    threadgroup uint shared[2 * MOST_SIMDS];
    threadgroup uint more[2 * MOST_SIMDS];
    if (step_header(steps).ended != 0) return;
    const Threads t = {index, threads, lane, simd, simds};
    device const DrawVars &vars = draw_vars(steps, output);
    x += output * p.x_stride;
    y += output * p.drawn_stride;
    if (!(vars.temperature > 0.0f)) {
        if (index == 0) *y = NONE_DRAWN;
        return;
    }
    const Logits row = {x};
    uint candidates = p.n, most = 0;
    if (vars.top_k > 0) {
        candidates = likeliest(row, p.n, min(vars.top_k, MOST_CANDIDATES), Room{held, sorted, count, shared}, t);
        if (candidates > 0) most = ranked_key(sorted[0]);
    } else {
        First peak = nobody();
        for (uint i = index; i < p.n; i += threads) peak = first_of(peak, row.key(i), i);
        most = tg_first(peak, shared, t).key;
    }
    if (most == 0) {
        if (index == 0) *y = NONE_DRAWN;
        return;
    }
    const float peak = value_of(most);
    const float least = vars.min_p > 0.0f ? peak + precise::log(min(vars.min_p, 1.0f)) : -INFINITY;
    const Race race = {draws_of(vars.seed[0], vars.seed[1], vars.index), peak, vars.temperature, least};
    const bool cuts = vars.top_k > 0 && vars.top_p < 1.0f && most != ORDER_CERTAIN;
    if (cuts) {
        // What was held is not needed any more: the weights, in 2^-32 of the largest.
        for (uint i = index; i < candidates; i += threads)
            held[i] = ulong(precise::exp(value_of(ranked_key(sorted[i])) - peak) * 4294967296.0f);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    First first = nobody();
    float late = INFINITY;
    for (uint i = index; i < candidates; i += threads) {
        const ulong at = vars.top_k > 0 ? sorted[i] : ranked(row.key(i), i);
        if (!race.admits(ranked_key(at))) continue;
        if (cuts && i > 0) {
            ulong before = 0, total = 0;
            for (uint other = 0; other < candidates; other++) {
                if (other == i) before = total;
                total += held[other];
            }
            if (is_enough(before, vars.top_p, total)) continue;
        }
        const float time = race.arrival(value_of(ranked_key(at)), ranked_index(at), late);
        first = first_of(first, arrival_key(time), ranked_index(at));
        late = min(late, time);
    }
    first = tg_first(first, more, t);
    if (index == 0) *y = float(first.index);
}

// When a token arrives.
struct Arrivals {
    device const float *x;
    Race race;
    uint key(uint i) const {
        const uint key = draw_key(x[i]);
        return race.admits(key) ? arrival_key(race.arrival(value_of(key), i, INFINITY)) : 0;
    }
};

// The `k` first of a race, in order: tokens drawn one after the other, none twice.
[[max_total_threads_per_threadgroup(1024)]]
kernel void gumbel_topk(device const float *x [[buffer(0)]], device uint *tokens [[buffer(2)]], constant GumbelTopKParams &p [[buffer(3)]],
                        uint row [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                        uint threads [[threads_per_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                        uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup ulong held[MOST_HELD];
    threadgroup ulong sorted[MOST_CANDIDATES];
    threadgroup atomic_uint count[1];
    threadgroup uint shared[2 * MOST_SIMDS];
    threadgroup uint more[2 * MOST_SIMDS];
    const Threads t = {index, threads, lane, simd, simds};
    x += row * p.x_stride;
    tokens += row * p.k;
    First most = nobody();
    for (uint i = index; i < p.n; i += threads) most = first_of(most, draw_key(x[i]), i);
    most = tg_first(most, more, t);
    const Race race = {draws_of(p.seed[0], p.seed[1], p.index), value_of(most.key), p.temperature, -INFINITY};
    const Arrivals arrivals = {x, race};
    const uint found = likeliest(arrivals, most.key == 0 ? 0 : p.n, p.k, Room{held, sorted, count, shared}, t);
    for (uint i = index; i < p.k; i += threads) tokens[i] = i < found ? ranked_index(sorted[i]) : NO_TOKEN;
}
