"""Writes reference_values.h: what PyTorch and plain NumPy make of a small quadratic problem, in float64.

    python3 tests/optim/reference.py > tests/optim/reference_values.h

Gradient of element i at step t: curvature[i] * (p[i] - target[i]) + 0.1 * sin(i + t).
"""
import math

import numpy as np
import torch

N, STEPS = 7, 12
curvature = np.array([0.5 + 0.25 * i for i in range(N)])
target = np.array([math.cos(i) for i in range(N)])
start = np.array([0.3 * (i - 3) for i in range(N)])


def gradient(p, t):
    return curvature * (p - target) + 0.1 * np.sin(np.arange(N) + t)


def by_torch(make):
    p = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = make([p])
    for t in range(STEPS):
        p.grad = torch.tensor(gradient(p.detach().numpy().copy(), t))
        optimizer.step()
    return p.detach().numpy()


def by_hand(rule, slots):
    p, state = start.copy(), [np.zeros(N) for _ in range(slots)]
    for t in range(STEPS):
        p = rule(p, gradient(p, t), state, t + 1)
    return p


def nesterov_dl4j(p, g, state, t, lr=0.1, mu=0.9):
    before = state[0].copy()
    state[0] = mu * state[0] - lr * g
    return p - mu * before + (1 + mu) * state[0]


def nadam(p, g, state, t, lr=1e-2, b1=0.9, b2=0.999, eps=1e-8):
    state[0] = b1 * state[0] + (1 - b1) * g
    state[1] = b2 * state[1] + (1 - b2) * g * g
    mean = b1 * state[0] / (1 - b1 ** (t + 1)) + (1 - b1) * g / (1 - b1**t)
    return p - lr * mean / (np.sqrt(state[1] / (1 - b2**t)) + eps)


def lion(p, g, state, t, lr=1e-2, b1=0.9, b2=0.99, decay=0.1):
    step = np.sign(b1 * state[0] + (1 - b1) * g)
    state[0] = b2 * state[0] + (1 - b2) * g
    return p - lr * (step + decay * p)


O = torch.optim
RULE_MOMENTUM = """{"type": "rule", "lr": 0.1, "state": {"m": 0}, "program": [{"op": "mul", "in": [0.9, "m"], "out": "t1"}, {"op": "add", "in": ["t1", "gradient"],
 "out": "t2"}, {"op": "mul", "in": ["lr", "t2"], "out": "t3"}, {"op": "sub", "in": ["parameter", "t3"], "out": "t4"}], "outputs": {"parameter": "t4", "m": "t2"}}"""
RULE_ADAM = """{"type": "rule", "lr": 0.01, "state": {"m": 0, "v": 0}, "program": [{"op": "mul", "in": [0.9, "m"], "out": "t1"}, {"op": "mul", "in": [0.1, "gradient"],
 "out": "t2"}, {"op": "add", "in": ["t1", "t2"], "out": "t3"}, {"op": "mul", "in": [0.999, "v"], "out": "t4"}, {"op": "square", "in": ["gradient"], "out": "t5"},
 {"op": "mul", "in": [0.001, "t5"], "out": "t6"}, {"op": "add", "in": ["t4", "t6"], "out": "t7"}, {"op": "pow", "in": [0.9, "t"], "out": "t8"},
 {"op": "sub", "in": [1, "t8"], "out": "t9"}, {"op": "div", "in": ["lr", "t9"], "out": "t10"}, {"op": "pow", "in": [0.999, "t"], "out": "t11"},
 {"op": "sub", "in": [1, "t11"], "out": "t12"}, {"op": "sqrt", "in": ["t12"], "out": "t13"}, {"op": "sqrt", "in": ["t7"], "out": "t14"},
 {"op": "div", "in": ["t14", "t13"], "out": "t15"}, {"op": "add", "in": ["t15", 1e-8], "out": "t16"}, {"op": "mul", "in": ["t10", "t3"], "out": "t17"},
 {"op": "div", "in": ["t17", "t16"], "out": "t18"}, {"op": "sub", "in": ["parameter", "t18"], "out": "t19"}], "outputs": {"parameter": "t19", "m": "t3", "v": "t7"}}"""
trajectories = [
    ('{"type": "sgd", "lr": 0.1}', by_torch(lambda p: O.SGD(p, lr=0.1))),
    ('{"type": "sgd", "lr": 0.1, "momentum": 0.9}', by_torch(lambda p: O.SGD(p, lr=0.1, momentum=0.9))),
    ('{"type": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": true}', by_torch(lambda p: O.SGD(p, lr=0.1, momentum=0.9, nesterov=True))),
    ('{"type": "nesterov", "lr": 0.1}', by_hand(nesterov_dl4j, 1)),
    ('{"type": "adagrad", "lr": 0.1, "initial": 0.01}', by_torch(lambda p: O.Adagrad(p, lr=0.1, eps=1e-6, initial_accumulator_value=0.01))),
    ('{"type": "adadelta"}', by_torch(lambda p: O.Adadelta(p, lr=1.0, rho=0.95, eps=1e-6))),
    ('{"type": "rmsprop", "lr": 0.01}', by_torch(lambda p: O.RMSprop(p, lr=0.01, alpha=0.95, eps=1e-8))),
    (RULE_MOMENTUM, by_torch(lambda p: O.SGD(p, lr=0.1, momentum=0.9))),
    (RULE_ADAM, by_torch(lambda p: O.Adam(p, lr=0.01))),
    ('{"type": "adam", "lr": 0.01}', by_torch(lambda p: O.Adam(p, lr=0.01))),
    ('{"type": "adamw", "lr": 0.01, "weight_decay": 0.1}', by_torch(lambda p: O.AdamW(p, lr=0.01, weight_decay=0.1))),
    ('{"type": "adamax", "lr": 0.01}', by_torch(lambda p: O.Adamax(p, lr=0.01))),
    ('{"type": "amsgrad", "lr": 0.01}', by_torch(lambda p: O.Adam(p, lr=0.01, amsgrad=True))),
    ('{"type": "nadam", "lr": 0.01}', by_hand(nadam, 2)),
    ('{"type": "lion", "lr": 0.01, "weight_decay": 0.1}', by_hand(lion, 1)),
    ('{"type": "noop"}', start),
]


def lr_curve(make, steps=20):
    """Learning rates before each of `steps` steps."""
    optimizer = O.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


S = torch.optim.lr_scheduler
# OneCycleLR reaches its end at step total - 1, so its progress is t / (total - 1).
curves = [
    ('{"type": "cosine", "from": 0.1, "to": 0.01}', 20, lr_curve(lambda o: S.CosineAnnealingLR(o, 20, eta_min=0.01))),
    ('{"type": "one_cycle", "max": 0.1, "peak": 0.5}', 20,
     lr_curve(lambda o: S.OneCycleLR(o, 0.1, total_steps=21, pct_start=10.5 / 21 + 0.5 / 21))),
    ('{"type": "restarts", "from": 0.1, "to": 0.01, "length": 3, "factor": 2, "by": "step"}', 20,
     lr_curve(lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=0.01))),
    ('{"type": "restarts", "from": 0.1, "length": 5, "by": "step"}', 20, lr_curve(lambda o: S.CosineAnnealingWarmRestarts(o, 5))),
    ('{"type": "step", "from": 0.1, "rate": 0.5, "every": 3, "by": "step"}', 20, lr_curve(lambda o: S.StepLR(o, 3, 0.5))),
    ('{"type": "exponential", "from": 0.1, "gamma": 0.9, "by": "step"}', 20, lr_curve(lambda o: S.ExponentialLR(o, 0.9))),
    ('{"type": "poly", "from": 0.1, "power": 2}', 20, lr_curve(lambda o: S.PolynomialLR(o, 20, power=2))),
    ('{"type": "linear", "from": 0.1, "to": 0.05}', 20, lr_curve(lambda o: S.LinearLR(o, 1.0, 0.5, total_iters=20))),
]


def numbers(values):
    return "{" + ", ".join(repr(float(v)) for v in values) + "}"


print("// Written by reference.py with PyTorch " + torch.__version__.split("+")[0] + "; do not edit.")
print("// clang-format off\n#pragma once\n\n#include <vector>\n\nnamespace perigee::reference {\n")
print("struct Trajectory {\n  const char* optimizer;\n  std::vector<double> end;  // parameters after the last step\n};\n")
print("struct LrCurve {\n  const char* schedule;\n  int steps;\n  std::vector<double> rates;  // before each step\n};\n")
print(f"inline constexpr int kElements = {N}, kSteps = {STEPS};\n")
print("inline const std::vector<Trajectory> kTrajectories = {")
for options, end in trajectories:
    print(f'    {{R"({options})",\n     {numbers(end)}}},')
print("};\n\ninline const std::vector<LrCurve> kCurves = {")
for options, steps, rates in curves:
    print(f'    {{R"({options})", {steps},\n     {numbers(rates)}}},')
print("};\n\n}  // namespace perigee::reference")
