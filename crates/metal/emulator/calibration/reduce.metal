#include "mlx/backend/metal/kernels/utils.h"

// The reductions' own operators are in a file of which the rest needs Apple's compiler.
static constant constexpr uint8_t simd_size = 32;
template <class T> struct RowSum {
    static constexpr constant T init = T(0);
    T operator()(T a, T b) thread { return a + b; }
    T simd_reduce(T value) thread { return simd_sum(value); }
};
#include "mlx/backend/metal/kernels/reduction/reduce_row.h"
INSTANTIATE(mlx_row_sum_f32, row_reduce_simple, float, float, RowSum<float>, int64_t, 4, 4)
