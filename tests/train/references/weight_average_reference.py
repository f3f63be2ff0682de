"""Writes weight_average_reference.h: what torch.optim.swa_utils.AveragedModel makes of the numbers of weight_average_test.cpp, in float64.

    python3 tests/train/references/weight_average_reference.py > tests/train/references/weight_average_reference.h

At step t, from 1, weight i is sin(3 t + i), and running statistic i is cos(t + 2 i).
"""
import math

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

WEIGHTS, STATISTICS, STEPS, DECAY = 5, 3, 9, 0.8
torch.set_default_dtype(torch.float64)


class Numbers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(WEIGHTS))
        self.register_buffer("mean", torch.zeros(STATISTICS))

    def move(self, t):
        with torch.no_grad():
            self.weight.copy_(torch.tensor([math.sin(3 * t + i) for i in range(WEIGHTS)]))
            self.mean.copy_(torch.tensor([math.cos(t + 2 * i) for i in range(STATISTICS)]))


def averaged(function, steps):
    numbers = Numbers()
    average = AveragedModel(numbers, multi_avg_fn=function, use_buffers=True)
    for t in steps:
        numbers.move(t)
        average.update_parameters(numbers)
    return average.module.weight.tolist() + average.module.mean.tolist()


def table(name, values):
    print(f"inline constexpr double {name}[] = {{{', '.join(repr(v) for v in values)}}};")


print(f"""// Written by weight_average_reference.py with PyTorch {torch.__version__.split('+')[0]}; do not edit.
// clang-format off
#pragma once

namespace perigee::reference {{

inline constexpr int kWeights = {WEIGHTS}, kStatistics = {STATISTICS}, kSteps = {STEPS};
inline constexpr double kDecay = {DECAY};
// Weights, then statistics.""")
table("kEma", averaged(get_ema_multi_avg_fn(DECAY), range(1, STEPS + 1)))
table("kEmaOfEverySecond", averaged(get_ema_multi_avg_fn(DECAY), range(3, STEPS + 1, 2)))
table("kSwa", averaged(None, range(4, STEPS + 1)))
print("\n}  // namespace perigee::reference")
