// Activation functions.
#pragma once
#include "akunu.h"

// x * Φ(x), with the error function within 2e-7 of its value: a polynomial of x² near zero, and beyond exp(-x²) times one of
// 1 / (1 + x / 2). On the negative side the tail itself is used, so that nothing cancels.
inline float gelu_erf(float x) {
    const float a = fabs(x) * 0.70710678f;
    if (a < 1.0f) {
        const float s = a * a;
        float p = fma(-0.00056541059f, s, 0.0049232777f);
        p = fma(p, s, -0.026716385f);
        p = fma(p, s, 0.11280364f);
        p = fma(p, s, -0.37612350f);
        p = fma(p, s, 1.1283791f);
        return 0.5f * x * fma(p, x * 0.70710678f, 1.0f);
    }
    const float t = 1.0f / fma(a, 0.5f, 1.0f);
    float q = fma(0.084267902f, t, -0.35709938f);
    q = fma(q, t, 0.40660767f);
    q = fma(q, t, 0.014044929f);
    q = fma(q, t, 0.29561212f);
    q = fma(q, t, 0.27336282f);
    q = fma(q, t, 0.28295184f);
    q = fma(q, t, -3.5417605e-5f);
    const float tail = 0.5f * x * q * precise::exp(-a * a);
    return x < 0.0f ? tail : x - tail;
}

// 0.5 * (1 + tanh(u)) is 1 / (1 + exp(-2 * u)), without a difference of two like numbers.
inline float gelu_tanh(float x) {
    const float u = 0.79788456f * fma(0.044715f * x, x * x, x);
    return x / (1.0f + precise::exp(-2.0f * u));
}

inline float silu(float x) { return x / (1.0f + precise::exp(-x)); }

inline float activate(uint activation, float x) {
    switch (activation) {
    case ACTIVATION_SILU: return silu(x);
    case ACTIVATION_GELU_TANH: return gelu_tanh(x);
    case ACTIVATION_GELU_ERF: return gelu_erf(x);
    default: return x;
    }
}
