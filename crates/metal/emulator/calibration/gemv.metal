#include "mlx/backend/metal/kernels/gemv.h"
INSTANTIATE(mlx_gemv_f32, gemv, float, 4, 1, 1, 32, 4, 4, false, false)
