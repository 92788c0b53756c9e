// Rows of any number format to floats: y[r] = values of row r, a thread for 16 of them.
#include "formats/all.h"

template <class Format, class T>
kernel void dequant(device const uchar *data [[buffer(1)]], device T *y [[buffer(2)]], constant ConvertParams &p [[buffer(3)]],
                    device const uchar *scales [[buffer(4)]], device const uchar *biases [[buffer(5)]],
                    uint2 at [[thread_position_in_grid]]) {
    const uint first = at.x * 16;
    if (first >= p.dim) return;
    const uint count = min(p.dim - first, 16u);
    const Matrix w = {data, scales, biases, p.row_bytes, p.side_bytes};
    const Group values = Format::read(w, at.y, at.x, count);
    y += ulong(at.y) * p.y_stride + first;
    for (uint i = 0; i < count; i++) y[i] = T(fma(values.scale, values.q[i], values.offset));
}
INSTANTIATE_FORMATS(dequant_*_to_f32, dequant, float)
INSTANTIATE_FORMATS(dequant_*_to_f16, dequant, half)
