// copy: in[0] x, any strides and dtype; out[0] y, same shape and dtype, any strides. No params.
#pragma once

#include "kernels/kernel.h"
