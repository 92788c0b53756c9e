// The first of the largest logits of a row, and the step on to the next token.
#include "sampling/rules.h"

// The token of every row of a buffer.
[[max_total_threads_per_threadgroup(1024)]]
kernel void argmax(device const float *x [[buffer(0)]], device uint *tokens [[buffer(2)]], constant SamplingParams &p [[buffer(3)]],
                   uint row [[threadgroup_position_in_grid]], uint index [[thread_index_in_threadgroup]],
                   uint threads [[threads_per_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                   uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup uint shared[2 * MOST_SIMDS];
    const Threads t = {index, threads, lane, simd, simds};
    x += row * p.x_stride;
    First first = nobody();
    for (uint i = index; i < p.n; i += threads) first = first_of(first, largest_key(x[i]), i);
    first = tg_first(first, shared, t);
    if (index == 0) tokens[row] = first.index;
}

// The first of the largest of a SIMD group's `count` values.
inline First first_largest(device const float *x, uint count, uint lane) {
    First first = nobody();
    for (uint i = lane; i < count; i += 32) first = first_of(first, largest_key(x[i]), i);
    return simd_first(first);
}

// Takes the token of every output row and moves the step variables on. One threadgroup does it, so that whatever counts all outputs
// needs no dispatch of its own; a SIMD group takes an output, which is not more than a thousand maxima and one slice of logits.
[[max_total_threads_per_threadgroup(1024)]]
kernel void argmax_advance(device const float *x [[buffer(0)]], constant SamplingParams &p [[buffer(3)]],
                           device const float *maxima [[buffer(4)]], device const float *drawn [[buffer(5)]],
                           device const float *total [[buffer(6)]], device uint *steps [[buffer(7)]],
                           uint index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                           uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup uint going_on[MOST_SIMDS];
    device StepHeader &header = *(device StepHeader *)steps;
    if (header.ended != 0) return;
    const uint outputs = header.outputs;
    device const Rules &rules = *(device const Rules *)(steps + header.rules_offset / 4);
    device const uint *rows = steps + header.outputs_offset / 4;
    device uint *emitted = steps + header.emitted_offset / 4 + header.emitted_steps * outputs;
    bool goes_on = false;
    for (uint o = simd; o < outputs; o += simds) {
        device const float *logits = x + o * p.x_stride;
        uint token;
        if (p.has_drawn != 0 && drawn[o * p.drawn_stride] != NONE_DRAWN) {
            token = min(uint(drawn[o * p.drawn_stride]), p.n - 1);
        } else {
            const First slice = first_largest(maxima + o * p.maxima_stride, (p.n + MAXIMA_SLICE - 1) / MAXIMA_SLICE, lane);
            // Where nothing is above -∞, the first -∞ may come after slices of NaN.
            const bool any = slice.key > ORDER_IMPOSSIBLE;
            const uint from = any ? slice.index * MAXIMA_SLICE : 0;
            token = from + first_largest(logits + from, any ? min(MAXIMA_SLICE, p.n - from) : p.n, lane).index;
        }
        // A row that several outputs are of moves on as often, and its token is the last one's.
        const uint row = rows[o];
        uint times = 0, last = 0;
        for (uint other = lane; other < outputs; other += 32)
            if (rows[other] == row) times++, last = other;
        times = simd_sum(times);
        last = simd_max(last);
        if (lane == 0) {
            const float logit = logits[token];
            const uint order = order_of(logit);
            emitted[o] = is_number(order) && order != ORDER_CERTAIN ? token : NO_TOKEN;
            if (last == o) {
                device RowVars &vars = ((device RowVars *)(steps + header.rows_offset / 4))[row];
                vars.token = token;
                vars.position += times;
            }
            ((device DrawVars *)(steps + header.draws_offset / 4))[o].index += 1;
            device RuleVars &text = ((device RuleVars *)(steps + header.texts_offset / 4))[o];
            if (text.on != 0) push(rules, text, token, logit, p.has_total != 0 ? total[o * p.total_stride] : 0.0f);
            goes_on = goes_on || text.on == 0 || !text_ended(rules, text);
        }
    }
    if (lane == 0) going_on[simd] = uint(goes_on);
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    if (index != 0) return;
    bool ended = outputs > 0;
    for (uint s = 0; s < simds; s++) ended = ended && going_on[s] == 0;
    header.emitted_steps += 1;
    header.ended = uint(ended);
}
