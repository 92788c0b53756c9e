// Rows of floats to floats of another size, a thread for each value.
#include "akunu.h"

template <class From, class To>
kernel void convert_rows(device const From *x [[buffer(0)]], device To *y [[buffer(2)]], constant ConvertParams &p [[buffer(3)]],
                         uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.dim) return;
    y[ulong(at.y) * p.y_stride + at.x] = To(x[ulong(at.y) * p.x_stride + at.x]);
}
INSTANTIATE(f32_to_f32, convert_rows, float, float)
INSTANTIATE(f32_to_f16, convert_rows, float, half)
INSTANTIATE(f16_to_f32, convert_rows, half, float)
