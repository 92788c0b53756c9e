#include "mlx/backend/metal/kernels/utils.h"
#include "mlx/backend/metal/kernels/scan.h"
INSTANTIATE(mlx_scan_sum_f32, contiguous_scan, float, float, CumSum<float>, 4, true, false)
INSTANTIATE(mlx_scan_sum_i64, contiguous_scan, int64_t, int64_t, CumSum<int64_t>, 4, false, true)
INSTANTIATE(mlx_scan_max_f32, contiguous_scan, float, float, CumMax<float>, 4, true, false)
