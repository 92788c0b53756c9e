// y[o] = x[output_row(o)]
#include "steps.h"

kernel void gather_rows(device const float *x [[buffer(0)]], device float *y [[buffer(2)]], constant ElementwiseParams &p [[buffer(3)]],
                        device const uint *steps [[buffer(4)]], uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.dim) return;
    y[at.y * p.y_stride + at.x] = x[output_row(steps, at.y) * p.x_stride + at.x];
}
