// y = cap * tanh(x / cap)
#include "akunu.h"

kernel void logit_cap(device const float *x [[buffer(0)]], device float *y [[buffer(2)]], constant ElementwiseParams &p [[buffer(3)]],
                      uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.dim) return;
    y[at.y * p.y_stride + at.x] = precise::tanh(x[at.y * p.x_stride + at.x] / p.scale) * p.scale;
}
