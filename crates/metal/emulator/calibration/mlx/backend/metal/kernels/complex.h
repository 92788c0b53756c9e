// Complex numbers, of which the kernels that are run only ask that they exist.
#pragma once
#include "mlx/backend/metal/kernels/bf16.h"

template <class T> struct complex_t {
    T real, imag;
    constexpr complex_t(T real = 0, T imag = 0) : real(real), imag(imag) {}
};
using complex64_t = complex_t<float>;
