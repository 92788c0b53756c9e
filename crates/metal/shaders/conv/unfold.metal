// y[r][c * taps + t] = x[r * stride + t - taps / 2][c], zero outside of the step's frames
#include "akunu.h"

kernel void unfold(device const float *x [[buffer(0)]], device float *y [[buffer(2)]], constant UnfoldParams &p [[buffer(3)]],
                   uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.channels * p.taps) return;
    // A frame before the first is a large number here, and not among the frames either.
    const uint frame = at.y * p.stride + at.x % p.taps - p.taps / 2;
    const bool inside = frame < p.rows * p.stride;
    y[at.y * p.y_stride + at.x] = inside ? x[frame * p.x_stride + at.x / p.taps] : 0.0f;
}
