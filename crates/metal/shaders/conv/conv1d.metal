// y[f][o] = activation(bias[o] + Σ w[o][c][t] * x[f * stride + t - padding][c]), with zeros outside of the frames. A SIMD group has
// one output channel, whose weights its lanes read side by side, and uses them for several frames.
#include "activation/activation.h"

#define CONV_FRAMES 4

template <class T>
kernel void conv1d(device const float *x [[buffer(0)]], device const T *w [[buffer(1)]], device float *y [[buffer(2)]],
                   constant Conv1DParams &p [[buffer(3)]], device const float *bias [[buffer(4)]],
                   uint2 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                   uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
    const uint channel = group.x * simds + simd, first = group.y * CONV_FRAMES;
    if (channel >= p.out_channels) return;
    const uint width = p.in_channels * p.taps;
    w += ulong(channel) * width;
    float sums[CONV_FRAMES] = {};
    for (uint i = lane; i < width; i += 32) {
        const float weight = float(w[i]);
        for (uint f = 0; f < CONV_FRAMES; f++) {
            const uint frame = (first + f) * p.stride + i % p.taps - p.padding;
            if (frame < p.in_frames) sums[f] = fma(weight, x[frame * p.x_stride + i / p.taps], sums[f]);
        }
    }
    for (uint f = 0; f < CONV_FRAMES; f++) {
        const float sum = simd_sum(sums[f]);
        if (lane != 0 || first + f >= p.out_frames) continue;
        y[(first + f) * p.y_stride + channel] = activate(p.activation, p.has_bias != 0 ? sum + bias[channel] : sum);
    }
}
INSTANTIATE(conv1d_f32, conv1d, float)
INSTANTIATE(conv1d_f16, conv1d, half)

// y[r] = x[r] + table[first + r]
kernel void pos_embed_add(device const float *x [[buffer(0)]], device const float *table [[buffer(1)]], device float *y [[buffer(2)]],
                          constant PosEmbedAddParams &p [[buffer(3)]], uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.dim) return;
    y[at.y * p.y_stride + at.x] = x[at.y * p.x_stride + at.x] + table[ulong(p.first + at.y) * p.dim + at.x];
}
