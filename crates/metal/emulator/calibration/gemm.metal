#include "mlx/backend/metal/kernels/utils.h"
#include "mlx/backend/metal/kernels/steel/gemm/gemm.h"
#include "mlx/backend/metal/kernels/steel/gemm/kernels/steel_gemm_fused.h"
INSTANTIATE(mlx_gemm_nt_f32, gemm, float, 32, 32, 16, 2, 2, false, true, float)
INSTANTIATE(mlx_gemm_nn_f16, gemm, half, 32, 32, 16, 2, 2, false, false, float)
