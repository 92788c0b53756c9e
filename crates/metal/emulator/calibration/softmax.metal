#include "mlx/backend/metal/kernels/utils.h"
#include "mlx/backend/metal/kernels/softmax.h"
INSTANTIATE(mlx_softmax_f32, softmax_single_row, float, float, 4)
INSTANTIATE(mlx_softmax_f16, softmax_single_row, half, float, 4)
INSTANTIATE(mlx_softmax_looped_f32, softmax_looped, float, float, 4)
