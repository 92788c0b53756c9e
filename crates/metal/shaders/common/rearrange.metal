// Values that change places.
#include "akunu.h"

// y[c][r] = x[r][c]: 32 by 32 values by 32 by 8 threads, through threadgroup memory, so that reads and writes are both whole lines.
// Its rows are a value longer than the tile: a column of it lies in 32 banks.
kernel void transpose(device const float *x [[buffer(0)]], device float *y [[buffer(2)]], constant TransposeParams &p [[buffer(3)]],
                      uint2 group [[threadgroup_position_in_grid]], uint2 at [[thread_position_in_threadgroup]],
                      uint2 threads [[threads_per_threadgroup]]) {
    threadgroup float tile[LANES * (LANES + 1)];
    const uint column = group.x * LANES, row = group.y * LANES;
    for (uint i = at.y; i < LANES; i += threads.y) {
        if (row + i < p.rows && column + at.x < p.columns) {
            tile[i * (LANES + 1) + at.x] = x[(row + i) * p.x_stride + column + at.x];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = at.y; i < LANES; i += threads.y) {
        if (column + i < p.columns && row + at.x < p.rows) {
            y[(column + i) * p.y_stride + row + at.x] = tile[at.x * (LANES + 1) + i];
        }
    }
}

// y[head][r] = x[r][head]
kernel void head_rearrange(device const float *x [[buffer(0)]], device float *y [[buffer(2)]],
                           constant HeadRearrangeParams &p [[buffer(3)]], uint3 at [[thread_position_in_grid]]) {
    if (at.x >= p.head_dim) return;
    const uint row = at.y, head = at.z;
    y[(head * p.rows + row) * p.head_dim + at.x] = x[row * p.x_stride + head * p.head_dim + at.x];
}

// q, k, v = x
kernel void qkv_split(device const float *x [[buffer(0)]], device float *q [[buffer(2)]], constant QKVSplitParams &p [[buffer(3)]],
                      device float *k [[buffer(4)]], device float *v [[buffer(5)]], uint2 at [[thread_position_in_grid]]) {
    if (at.x >= p.q_dim + 2 * p.kv_dim) return;
    const float value = x[at.y * p.x_stride + at.x];
    if (at.x < p.q_dim) {
        q[at.y * p.q_stride + at.x] = value;
    } else if (at.x < p.q_dim + p.kv_dim) {
        k[at.y * p.kv_stride + at.x - p.q_dim] = value;
    } else {
        v[at.y * p.kv_stride + at.x - p.q_dim - p.kv_dim] = value;
    }
}
