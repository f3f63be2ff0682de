"""Writes precision_reference.h: what PyTorch makes of the small network of precision_test.cpp in float64, in float32 with bfloat16
autocast, and with float16 autocast and GradScaler, from a scale so large that the first steps are skipped.

    python3 tests/train/references/precision_reference.py > tests/train/references/precision_reference.h

Element k of tensor j begins at ((7 k + 3 j) mod 13 - 6) / 8, element i of example n is ((5 n + 3 i) mod 17 - 8) / 8, its class n mod 3: all of
them exact in float32.
"""
import torch

EXAMPLES, STEPS, START = 12, 20, 24


def train(dtype, half, start_scale=0):
    """The losses before each step, and the parameters."""
    torch.set_default_dtype(dtype)
    x = torch.tensor([[((5 * n + 3 * i) % 17 - 8) / 8 for i in range(36)] for n in range(EXAMPLES)]).reshape(EXAMPLES, 1, 6, 6)
    y = torch.tensor([n % 3 for n in range(EXAMPLES)])
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Tanh(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(8, 5),
                              torch.nn.Sigmoid(), torch.nn.Linear(5, 3))
    with torch.no_grad():
        for j, p in enumerate(net.parameters()):
            p.copy_(torch.tensor([((7 * k + 3 * j) % 13 - 6) / 8 for k in range(p.numel())]).reshape(p.shape))
    weights, biases = [p for p in net.parameters() if p.dim() > 1], [p for p in net.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": weights}, {"params": biases, "weight_decay": 0}], lr=0.05, weight_decay=0.01, eps=1e-8)
    losses, scales = [], []
    scaler = torch.amp.GradScaler("cpu", init_scale=start_scale or 1, enabled=start_scale > 0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", half or torch.bfloat16, enabled=half is not None):
            loss = torch.nn.functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    return losses, scales, [v for p in net.parameters() for v in p.detach().flatten().tolist()]


losses, _, parameters = train(torch.float64, None)
half_losses, _, _ = train(torch.float32, torch.bfloat16)
scaled_losses, scales, scaled_parameters = train(torch.float32, torch.float16, 2.0**START)


def listed(name, numbers, comment):
    rows = [", ".join(repr(v) for v in numbers[i:i + 5]) for i in range(0, len(numbers), 5)]
    return f"inline constexpr double {name}[] = {{  // {comment}\n    " + ",\n    ".join(rows) + "};\n"


print(f"""// Written by precision_reference.py with PyTorch {torch.__version__.split('+')[0]}; do not edit.
// clang-format off
#pragma once

namespace perigee::reference {{

inline constexpr int kExamples = {EXAMPLES}, kSteps = {STEPS}, kScaleBits = {START};
""")
print(listed("kLosses", losses, "before each step"))
print(listed("kHalfLosses", half_losses, "the same with bfloat16 autocast"))
print(listed("kScaledLosses", scaled_losses, "with float16 autocast and GradScaler"))
print(listed("kScales", scales, "after each step"))
print(listed("kScaledParameters", scaled_parameters, "after the last"))
print(listed("kParameters", parameters, "after the last, tensor by tensor"))
print("}  // namespace perigee::reference")
