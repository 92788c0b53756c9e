// Makes of a row of logits what the rules of its text forbid minus infinity, with the maxima of slices and ln Σ e^x of what is left.
#include "sampling/rules.h"

// ln Σ e^x of the largest value, and the sum of e^(x - largest).
inline float log_sum(float largest, float sum) {
    const uint order = order_of(largest);
    return order == ORDER_IMPOSSIBLE || order == ORDER_CERTAIN ? largest : largest + precise::log(sum);
}

// A threadgroup for every output. A SIMD group has slices of its own: no thread ever meets a value that another one writes.
[[max_total_threads_per_threadgroup(1024)]]
kernel void whisper_suppress(device float *x [[buffer(0)]], device float *total [[buffer(2)]], constant SamplingParams &p [[buffer(3)]],
                             device float *maxima [[buffer(4)]], device const uint *steps [[buffer(5)]],
                             uint output [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                             uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                             uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup float shared[4 * MOST_SIMDS];
    if (step_header(steps).ended != 0) return;
    device const Rules &rules = rules_of(steps);
    device const RuleVars &text = text_of(steps, output);
    total += output * p.total_stride;
    if (text.on == 0 || text_ended(rules, text)) {
        if (index == 0) *total = 0;
        return;
    }
    x += output * p.x_stride;
    maxima += output * p.maxima_stride;
    const Possible may = possible(rules, text);
    const uint listed = min(saturated(rules.never, text.count == 0 ? rules.not_first : 0u), MOST_LISTED);
    for (uint i = 0; i < listed; i++) {
        const uint token = rules.tokens[i];
        if (token < p.n && token / MAXIMA_SLICE % simds == simd && token % 32 == lane) x[token] = -INFINITY;
    }
    float word = -INFINITY, time = -INFINITY;
    for (uint from = simd * MAXIMA_SLICE; from < p.n; from += simds * MAXIMA_SLICE) {
        const uint to = min(from + MAXIMA_SLICE, p.n);
        for (uint i = from + lane; i < to; i += 32) {
            if (!may.has(i)) x[i] = -INFINITY;
            else if (i < may.first_timestamp) word = x[i] > word ? x[i] : word;
            else time = x[i] > time ? x[i] : time;
        }
    }
    word = tg_reduce_max(word, shared, lane, simd, simds);
    time = tg_reduce_max(time, shared + MOST_SIMDS, lane, simd, simds);
    float sum = 0;
    for (uint from = simd * MAXIMA_SLICE; from < p.n; from += simds * MAXIMA_SLICE) {
        const uint to = min(from + MAXIMA_SLICE, p.n);
        if (to <= may.first_timestamp) continue;
        for (uint i = from + lane; i < to; i += 32)
            if (i >= may.first_timestamp && x[i] > -INFINITY) sum += precise::exp(x[i] - time);
    }
    sum = tg_reduce_sum(sum, shared + 2 * MOST_SIMDS, lane, simd, simds);
    // Where all timestamps together are likelier than any word, it is time for one.
    const bool timely = log_sum(time, sum) > word;
    const float most = timely ? time : max(word, time);
    sum = 0;
    for (uint from = simd * MAXIMA_SLICE; from < p.n; from += simds * MAXIMA_SLICE) {
        const uint to = min(from + MAXIMA_SLICE, p.n);
        float largest = -INFINITY;
        for (uint i = from + lane; i < to; i += 32) {
            if (timely && i < may.first_timestamp) x[i] = -INFINITY;
            const float value = x[i];
            if (!(value > -INFINITY)) continue;
            largest = max(largest, value);
            sum += precise::exp(value - most);
        }
        largest = simd_max(largest);
        if (lane == 0) maxima[from / MAXIMA_SLICE] = largest;
    }
    sum = tg_reduce_sum(sum, shared + 3 * MOST_SIMDS, lane, simd, simds);
    if (index == 0) *total = log_sum(most, sum);
}
