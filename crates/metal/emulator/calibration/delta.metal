#include "mlx/backend/metal/kernels/gated_delta_update.h"
INSTANTIATE(mlx_delta_chunk_f32, gated_delta_fused_chunk, float, 128, 128, 24, 24, 8)
INSTANTIATE(mlx_delta_seq_f32, gated_delta_seq, float, 128, 128, 24, 24, 8)
