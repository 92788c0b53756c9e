#include "mlx/backend/metal/kernels/utils.h"
#include "mlx/backend/metal/kernels/steel/attn/kernels/steel_attention.h"
INSTANTIATE(mlx_attention_f32_64, attention, float, 32, 32, 64, 64, 4, 1, float, float)
