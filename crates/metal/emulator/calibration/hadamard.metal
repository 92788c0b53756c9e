#include "mlx/backend/metal/kernels/hadamard.h"
INSTANTIATE(mlx_hadamard_f32, hadamard_n, float, 256, 16, 4)
