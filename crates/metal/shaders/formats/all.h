// Every number format.
#pragma once
#include "formats/float.h"
#include "formats/blocks.h"
