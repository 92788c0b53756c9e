// The activation functions of models, as accurate as f32 is.
#pragma once
#include "akunu.h"

inline float silu(float x) { return x / (1.0f + precise::exp(-x)); }

// By the logistic function: half of 1 + tanh(u) is 1 / (1 + e^(-2u)), which does not overflow for large u.
inline float gelu_tanh(float x) {
    const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
    return x / (1.0f + precise::exp(-2.0f * u));
}

// The complement of the error function, for x >= 0, by formula 7.1.26 of Abramowitz and Stegun: 1.5e-7 at most from the truth.
inline float erfc_of_positive(float x) {
    const float t = 1.0f / (1.0f + 0.3275911f * x);
    const float sum = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    return sum * precise::exp(-x * x);
}

inline float gelu_erf(float x) {
    const float tail = 0.5f * erfc_of_positive(fabs(x) * 0.7071067812f);
    return x * (x < 0 ? tail : 1.0f - tail);
}

inline float activate(uint activation, float x) {
    switch (activation) {
    case ACTIVATION_SILU: return silu(x);
    case ACTIVATION_GELU_TANH: return gelu_tanh(x);
    case ACTIVATION_GELU_ERF: return gelu_erf(x);
    default: return x;
    }
}
