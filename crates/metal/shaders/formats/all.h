// Every number format.
#pragma once
#include "formats/blocks.h"
#include "formats/float.h"
#include "formats/iq.h"
#include "formats/k_quants.h"
#include "formats/levels.h"
#include "formats/mlx.h"
#include "formats/ternary.h"
