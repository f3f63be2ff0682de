"""Writes objectives_reference.h: a small GAN in PyTorch, float64, whose discriminator and generator take turns on one batch.

    python3 tests/train/parts/objectives_reference.py > tests/train/parts/objectives_reference.h

Parameter i of tensor number t (in the order of TENSORS) begins as 0.4 sin(0.7 i + 1.3 t + 0.5); field values are cos(0.9 i + f).
"""
import math

import torch

torch.set_default_dtype(torch.float64)
BATCH, STEPS, EVERY = 6, 5, 2
TENSORS = {"maker1.weight": (5, 3), "maker1.bias": (5,), "maker2.weight": (4, 5), "maker2.bias": (4,),
           "judge1.weight": (6, 4), "judge1.bias": (6,), "judge2.weight": (1, 6), "judge2.bias": (1,)}


def begun(number, shape):
    count = math.prod(shape)
    values = [0.4 * math.sin(0.7 * i + 1.3 * number + 0.5) for i in range(count)]
    return torch.tensor(values).reshape(shape).requires_grad_()


p = {name: begun(number, shape) for number, (name, shape) in enumerate(TENSORS.items())}
x = torch.tensor([math.cos(0.9 * i) for i in range(BATCH * 4)]).reshape(BATCH, 4)
z = torch.tensor([math.cos(0.9 * i + 1) for i in range(BATCH * 3)]).reshape(BATCH, 3)


def made():
    return torch.tanh(z @ p["maker1.weight"].T + p["maker1.bias"]) @ p["maker2.weight"].T + p["maker2.bias"]


def judged(image):
    return torch.tanh(image @ p["judge1.weight"].T + p["judge1.bias"]) @ p["judge2.weight"].T + p["judge2.bias"]


bce = torch.nn.functional.binary_cross_entropy_with_logits
judge = [p[name] for name in TENSORS if name.startswith("judge")]
maker = [p[name] for name in TENSORS if name.startswith("maker")]
of_judge = torch.optim.Adam(judge, lr=0.02, betas=(0.5, 0.999), eps=1e-8)
of_maker = torch.optim.SGD(maker, lr=0.3, momentum=0.9)
losses = []
for step in range(STEPS):
    ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)
    loss = bce(judged(x), ones) + bce(judged(made().detach()), zeros)
    of_judge.zero_grad()
    loss.backward()
    of_judge.step()
    losses.append(loss.item())
    if step % EVERY:
        continue
    loss = bce(judged(made()), ones)
    of_maker.zero_grad()
    loss.backward()
    norm = math.sqrt(sum((t.grad ** 2).sum().item() for t in maker))
    for t in maker:
        t.grad *= min(1, 0.05 / norm)
    of_maker.step()
    losses.append(loss.item())

# WGAN-GP (Gulrajani et al., 2017): the gradient of the judge's score between real and made ones is held to a norm of 1.
p_gan, p = p, {name: begun(number, shape) for number, (name, shape) in enumerate(TENSORS.items())}
between = torch.tensor([0.5 + 0.5 * math.cos(0.9 * i + 2) for i in range(BATCH)]).reshape(BATCH, 1)
of_judge = torch.optim.SGD([p[name] for name in TENSORS if name.startswith("judge")], lr=0.05)
of_maker = torch.optim.SGD([p[name] for name in TENSORS if name.startswith("maker")], lr=0.05)
wgan_losses = []
for step in range(3):
    fake = made().detach()
    point = (x + between * (fake - x)).requires_grad_()
    slope, = torch.autograd.grad(judged(point).sum(), point, create_graph=True)
    penalty = ((slope.square().sum(1).sqrt() - 1) ** 2).mean()
    loss = judged(fake).mean() - judged(x).mean() + 10 * penalty
    of_judge.zero_grad()
    loss.backward()
    of_judge.step()
    wgan_losses.append(loss.item())
    loss = -judged(made()).mean()
    of_maker.zero_grad()
    loss.backward()
    of_maker.step()
    wgan_losses.append(loss.item())
p_wgan, p = p, p_gan

print("// Written by objectives_reference.py, with torch", torch.__version__.split("+")[0] + ".")
print("#pragma once\n\nnamespace perigee::reference {\n")
print(f"inline constexpr int kGanBatch = {BATCH}, kGanSteps = {STEPS};")
print("// Losses of the discriminator in each step, and of the generator in every second one.")
print("inline constexpr double kGanLosses[] = {" + ", ".join(repr(v) for v in losses) + "};")
print("// Parameters after the last step, tensor by tensor.")
values = [v for t in p.values() for v in t.detach().flatten().tolist()]
print("inline constexpr double kGanParameters[] = {")
for i in range(0, len(values), 6):
    print("    " + ", ".join(repr(v) for v in values[i:i + 6]) + ",")
print("};")
print("// A WGAN-GP: losses of judge and maker in each of three steps; its parameters after them.")
print("inline constexpr double kWganLosses[] = {" + ", ".join(repr(v) for v in wgan_losses) + "};")
values = [v for t in p_wgan.values() for v in t.detach().flatten().tolist()]
print("inline constexpr double kWganParameters[] = {")
for i in range(0, len(values), 6):
    print("    " + ", ".join(repr(v) for v in values[i:i + 6]) + ",")
print("};\n\n}  // namespace perigee::reference")
