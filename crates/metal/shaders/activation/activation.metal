// y = activation(x), and y = activation(x) * u
#include "activation/activation.h"

template <uint ACTIVATION>
kernel void activation(device const float *x [[buffer(0)]], device float *y [[buffer(2)]], constant ElementwiseParams &p [[buffer(3)]],
                       uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.dim) return;
    y[at.y * p.y_stride + at.x] = activate(ACTIVATION, x[at.y * p.x_stride + at.x]);
}

template <uint ACTIVATION>
kernel void gate(device const float *x [[buffer(0)]], device float *y [[buffer(2)]], constant ElementwiseParams &p [[buffer(3)]],
                 device const float *u [[buffer(4)]], uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.dim) return;
    y[at.y * p.y_stride + at.x] = activate(ACTIVATION, x[at.y * p.x_stride + at.x]) * u[at.y * p.u_stride + at.x];
}

INSTANTIATE(silu, activation, ACTIVATION_SILU)
INSTANTIATE(gelu, activation, ACTIVATION_GELU_TANH)
INSTANTIATE(gelu_erf, activation, ACTIVATION_GELU_ERF)
INSTANTIATE(plain_gate, gate, ACTIVATION_NONE)
INSTANTIATE(silu_gate, gate, ACTIVATION_SILU)
INSTANTIATE(gelu_gate, gate, ACTIVATION_GELU_TANH)
INSTANTIATE(gelu_erf_gate, gate, ACTIVATION_GELU_ERF)
