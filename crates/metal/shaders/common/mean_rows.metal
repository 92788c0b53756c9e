// y[o] = mean of x over the rows of the sequence that output_row(o) belongs to
#include "steps.h"

// Threads that share a column.
#define PARTS 8

// A threadgroup for 32 columns, so that each of its loads is a line. Every part sums its rows of the sequence in their order, and the
// parts are added in theirs: what else is in the step does not show.
kernel void mean_rows(device const float *x [[buffer(0)]], device float *y [[buffer(2)]], constant ElementwiseParams &p [[buffer(3)]],
                      device const uint *steps [[buffer(4)]], uint2 group [[threadgroup_position_in_grid]],
                      uint2 at [[thread_position_in_threadgroup]]) {
    threadgroup float sums[PARTS * LANES];
    const uint row = output_row(steps, group.y);
    device const RowVars &vars = row_vars(steps, row);
    const uint first = row - vars.position, length = vars.length, column = group.x * LANES + at.x;
    float sum = 0;
    if (column < p.dim) {
        for (uint i = at.y; i < length; i += PARTS) sum += x[(first + i) * p.x_stride + column];
    }
    sums[at.y * LANES + at.x] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (at.y != 0 || column >= p.dim) return;
    for (uint part = 1; part < PARTS; part++) sum += sums[part * LANES + at.x];
    y[group.y * p.y_stride + column] = sum / float(length);
}
