// Sums, a thread for every value.
#include "akunu.h"

// y = a + scale * b
kernel void vector_add(device const float *a [[buffer(0)]], device const float *b [[buffer(1)]], device float *y [[buffer(2)]],
                       constant ElementwiseParams &p [[buffer(3)]], uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.dim) return;
    y[at.y * p.y_stride + at.x] = a[at.y * p.x_stride + at.x] + p.scale * b[at.y * p.u_stride + at.x];
}

// y = x + residual
kernel void residual_add(device const float *x [[buffer(0)]], device const float *residual [[buffer(1)]], device float *y [[buffer(2)]],
                         constant ElementwiseParams &p [[buffer(3)]], uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.dim) return;
    y[at.y * p.y_stride + at.x] = x[at.y * p.x_stride + at.x] + residual[at.y * p.u_stride + at.x];
}

// y[r] = x[r] + bias
kernel void bias_add(device const float *x [[buffer(0)]], device const float *bias [[buffer(1)]], device float *y [[buffer(2)]],
                     constant ElementwiseParams &p [[buffer(3)]], uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.dim) return;
    y[at.y * p.y_stride + at.x] = x[at.y * p.x_stride + at.x] + bias[at.x];
}
