// y = a + scale * b
#include "akunu.h"

kernel void vector_add(device const float *a [[buffer(0)]], device const float *b [[buffer(1)]], device float *y [[buffer(2)]],
                       constant ElementwiseParams &p [[buffer(3)]], uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.dim) return;
    y[at.y * p.y_stride + at.x] = a[at.y * p.x_stride + at.x] + p.scale * b[at.y * p.u_stride + at.x];
}
