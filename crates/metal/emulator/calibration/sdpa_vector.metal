#include "mlx/backend/metal/kernels/utils.h"
#include "mlx/backend/metal/kernels/sdpa_vector.h"
INSTANTIATE(mlx_sdpa_vector_f32_64, sdpa_vector, float, 64, 64)
INSTANTIATE(mlx_sdpa_vector_f16_64, sdpa_vector, half, 64, 64)
