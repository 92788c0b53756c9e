// y[r][i] = (cos, sin)(position(r) * frequency[i]) * magnitude(position(r)): once a step, for all layers that share it. Scaling of positions is in
// the frequencies. The angle is the f32 product, as models were trained with; at far positions only `precise` reduces it well.
#include "steps.h"

kernel void rope_angles(device const float *frequencies [[buffer(1)]], device float *y [[buffer(2)]],
                        constant RoPEAnglesParams &p [[buffer(3)]], device const uint *steps [[buffer(4)]],
                        uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.pairs) return;
    const float position = float(row_vars(steps, at.y).position);
    const float angle = position * frequencies[at.x];
    float magnitude = p.magnitude;
    if (p.slope != 0) magnitude *= 1 + p.slope * precise::log(1 + floor(position / p.period));
    device float2 *to = (device float2 *)(y + at.y * p.y_stride);
    to[at.x] = float2(precise::cos(angle) * magnitude, precise::sin(angle) * magnitude);
}
