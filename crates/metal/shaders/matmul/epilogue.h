// What becomes of a product before it is written. Which of it there is, is known when a pipeline is made: what a model does not
// have costs nothing, and a buffer that is not bound is not in the pipeline.
#pragma once
#include "activation/activation.h"

constant uint epilogue_activation [[function_constant(20)]];
constant uint epilogue_has_bias [[function_constant(21)]];
constant uint epilogue_has_residual [[function_constant(22)]];
// Floats, by their bits.
constant uint epilogue_scale [[function_constant(23)]];
constant uint epilogue_soft_cap [[function_constant(24)]];

// residual + cap(scale * activation(x + bias))
struct Epilogue {
    device const float *bias;
    device const float *residual;
    uint residual_stride;

    float operator()(float value, uint row, uint column) const {
        if (epilogue_has_bias != 0) value += bias[column];
        value = activate(epilogue_activation, value) * as_type<float>(uint(epilogue_scale));
        const float cap = as_type<float>(uint(epilogue_soft_cap));
        if (cap != 0) value = cap * precise::tanh(value / cap);
        if (epilogue_has_residual != 0) value += residual[ulong(row) * residual_stride + column];
        return value;
    }
};
