// Number formats of weights. A format is a struct with one function: 16 values of a row as small integers, with a scale and an
// offset, `value = scale * q + offset`. Every kernel that reads weights is a template over it.
#pragma once
#include "akunu.h"

// A weight matrix where it lies: rows of blocks, and two side planes where the format has them.
struct Matrix {
    device const uchar *data;
    device const uchar *scales;
    device const uchar *biases;
    uint row_bytes;
    uint side_bytes;
};

// 16 values.
struct Group {
    float q[16];
    float scale;
    float offset;
};

// A format has
//     static Group read(thread const Matrix &w, uint row, uint group, uint count);
// for the values from `16 * group` on. `count` is 16 but at the end of rows that are not whole groups, which only floats have: what
// is beyond is zero.
