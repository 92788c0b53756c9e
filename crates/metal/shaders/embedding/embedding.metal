// y[r] = scale * table[token, position or segment of r], a thread for 16 values
#include "formats/all.h"
#include "steps.h"

template <class Format>
kernel void embedding_lookup(device const uchar *data [[buffer(1)]], device float *y [[buffer(2)]],
                             constant EmbeddingParams &p [[buffer(3)]], device const uchar *scales [[buffer(4)]],
                             device const uchar *biases [[buffer(5)]], device const uint *steps [[buffer(6)]],
                             uint2 at [[thread_position_in_grid]]) {
    const uint first = at.x * 16;
    if (first >= p.dim) return;
    const uint count = min(p.dim - first, 16u);
    device const RowVars &vars = row_vars(steps, at.y);
    const uint index = p.index == INDEX_POSITION ? vars.position : p.index == INDEX_SEGMENT ? vars.segment : vars.token;
    const Matrix w = {data, scales, biases, p.row_bytes, p.side_bytes};
    const Group values = Format::read(w, min(index, p.vocab - 1), at.x, count);
    y += at.y * p.y_stride + first;
    for (uint i = 0; i < count; i++) y[i] = fma(values.scale, values.q[i], values.offset) * p.scale;
}
INSTANTIATE_FORMATS(embedding_lookup, embedding_lookup)
