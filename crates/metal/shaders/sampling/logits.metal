// What is done to logits before a token is chosen from them.
#include "akunu.h"

// y = x / temperature
kernel void temperature(device const float *x [[buffer(0)]], device float *y [[buffer(2)]], constant TemperatureScaleParams &p [[buffer(3)]],
                        uint2 at [[thread_position_in_grid]]) {
    if (at.x < p.n) y[at.y * p.stride + at.x] = x[at.y * p.stride + at.x] / p.temperature;
}

// Makes tokens that came before less likely; several times is once.
kernel void repetition_penalty(device const uint *tokens [[buffer(0)]], device float *logits [[buffer(2)]],
                               constant RepetitionPenaltyParams &p [[buffer(3)]], uint i [[thread_position_in_grid]]) {
    if (i >= p.count || tokens[i] >= p.n) return;
    const uint token = tokens[i];
    for (uint before = 0; before < i; before++)
        if (tokens[before] == token) return;
    const float logit = logits[token];
    logits[token] = logit > 0.0f ? logit / p.penalty : logit * p.penalty;
}

// Makes tokens whose bit is 0 impossible: 32 of them are a word, the first its lowest bit.
kernel void grammar_bitmask(device const uint *mask [[buffer(0)]], device float *logits [[buffer(2)]],
                            constant GrammarBitmaskParams &p [[buffer(3)]], uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.n) return;
    if ((mask[at.y * p.mask_stride + at.x / 32] >> at.x % 32 & 1) == 0) logits[at.y * p.stride + at.x] = -INFINITY;
}
