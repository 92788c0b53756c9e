// Draws by an exponential race, as the plan defines them (`draw.rs`): a candidate of weight w arrives at -ln(u) / w, where u follows
// from seed, index and token alone, and the first to arrive is drawn. The definition computes with doubles; here times have an error of
// some 1e-7 of them, so that about one draw in a million goes to another of two that arrive almost together.
#pragma once
#include "sampling/order.h"

// The finalizer of SplitMix64.
inline ulong mix(ulong z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ul;
    z = (z ^ z >> 27) * 0x94D049BB133111EBul;
    return z ^ z >> 31;
}

#define DRAW_STEP 0x9E3779B97F4A7C15ul

// The state that all candidates of one token's draw share.
inline ulong draws_of(uint seed_low, uint seed_high, uint index) {
    const ulong seed = ulong(seed_low) | ulong(seed_high) << 32;
    return mix(mix(seed + DRAW_STEP) + (ulong(index) + 1) * DRAW_STEP);
}

// The candidates of a race, one after the other.
struct Race {
    ulong draws;
    float peak;
    float temperature;
    // The smallest logit that may win.
    float least;

    // When a candidate arrives; infinity where it is certain before all is computed that this is after `late`.
    float arrival(float logit, uint token, float late) const {
        // What is certain races with its like alone.
        const bool certain = order_of(peak) == ORDER_CERTAIN;
        const float slowness = certain ? 1.0f : precise::exp((peak - logit) / temperature);
        // u = odd / 2^54, the middle of its 53 bits.
        const ulong odd = (mix(draws + (ulong(token) + 1) * DRAW_STEP) >> 11) * 2 + 1;
        const float rest = float((1ul << 54) - odd) * 5.5511151231257827e-17f;
        // -ln(u) is at least 1 - u, also as it is computed: most are out before the logarithm, and none that could win.
        if (rest * slowness > late) return INFINITY;
        float waits;
        if (rest > 0.5f) {
            waits = -precise::log(float(odd) * 5.5511151231257827e-17f);
        } else {
            // -ln(1 - r) = 2 atanh(r / (2 - r)): u itself would lose what a small r is.
            const float s = rest / (2.0f - rest), q = s * s;
            const float series = 1.0f / 3 + q * (1.0f / 5 + q * (1.0f / 7 + q * (1.0f / 9 + q * (1.0f / 11 + q * (1.0f / 13 + q / 15)))));
            waits = 2.0f * (s + s * q * series);
        }
        return waits * slowness;
    }

    // Whether a logit with this draw_key races at all.
    bool admits(uint key) const {
        if (order_of(peak) == ORDER_CERTAIN) return key == ORDER_CERTAIN;
        return key != 0 && value_of(key) >= least;
    }
};

// Times are positive: their bits are in their order. The key of the first to arrive is the largest.
inline uint arrival_key(float time) { return ~as_type<uint>(time); }
