#include "mlx/backend/metal/kernels/utils.h"
#include "mlx/backend/metal/kernels/steel/gemm/gemm.h"
#include "mlx/backend/metal/kernels/quantized_utils.h"
#include "mlx/backend/metal/kernels/quantized.h"
INSTANTIATE(mlx_qmv_fast_f32, affine_qmv_fast, float, 64, 4, false, false)
INSTANTIATE(mlx_qmv_f32, affine_qmv, float, 64, 4, false)
