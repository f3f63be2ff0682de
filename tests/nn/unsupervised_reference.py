#!/usr/bin/env python3
"""Writes unsupervised_reference.h: what PyTorch says of penalties, likelihoods, capsules and contrastive divergence, in float64.

    python3 tests/nn/unsupervised_reference.py > tests/nn/unsupervised_reference.h      # PyTorch 2.x, CPU
"""
import itertools
import math

import torch

torch.set_default_dtype(torch.float64)


def values(shape, seed, low=-1.0, high=1.0):
    """The formula of filled() in unsupervised_test.cpp."""
    n = math.prod(shape)
    return torch.tensor([low + (high - low) * (((i + 1) * 2654435761 + seed * 40503) % 65536) / 65536 for i in range(n)]).reshape(shape)


def put(name, tensor):
    numbers = ", ".join(repr(x) for x in tensor.detach().reshape(-1).tolist())
    print(f"inline constexpr double {name}[] = {{{numbers}}};")


def sparsity():
    a = values((4, 3), 1, 0.05, 0.95).requires_grad_()
    mean, p = a.mean(0), 0.1
    kl = (p * torch.log(p / mean) + (1 - p) * torch.log((1 - p) / (1 - mean))).sum()
    put("kSparsityMean", kl)
    put("kSparsityGradient", torch.autograd.grad(kl, a)[0])


def contractive():
    x, w, b = values((3, 4), 2), values((2, 4), 3), values((2,), 4)
    for name, f in (("Sigmoid", torch.sigmoid), ("Tanh", torch.tanh)):
        w_ = w.clone().requires_grad_()
        norms = [torch.autograd.functional.jacobian(lambda v: f(w_ @ v + b), row, create_graph=True).square().sum() for row in x]
        put(f"kContractive{name}", torch.stack(norms))
        put(f"kContractive{name}Weight", torch.autograd.grad(torch.stack(norms).sum(), w_)[0])


def likelihoods():
    x = values((3, 6), 5, -1.5, 1.5)
    normal = torch.distributions.Normal(x[:, :3], (x[:, 3:] / 2).exp())
    put("kDivergence", torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0)).sum(1))
    put("kGaussian", -normal.log_prob(values((3, 3), 6, -2, 2)).sum(1))
    put("kExponential", -torch.distributions.Exponential(x.exp()).log_prob(values((3, 6), 7, 0.1, 3)).sum(1))
    bernoulli = torch.distributions.Bernoulli(logits=x[:, 4:])
    target = values((3, 4), 8, -2, 2)
    yes = (target[:, 2:] > 0).double()
    part = torch.distributions.Normal(x[:, :2], (x[:, 2:4] / 2).exp()).log_prob(target[:, :2]).sum(1)
    put("kComposite", -part - 2 * bernoulli.log_prob(yes).sum(1))


def squash(s):
    squares = (s * s).sum(-1, keepdim=True) + 1e-7
    return s * squares.sqrt() / (1 + squares)


def capsules():
    u, w = values((2, 5, 3), 9), values((5, 3, 4 * 6), 10)
    w.requires_grad_()
    votes = torch.einsum("nid,ide->nie", u, w).reshape(2, 5, 4, 6)
    b = torch.zeros(2, 5, 4)
    for _ in range(3):
        c = torch.softmax(b, 2)
        v = squash(torch.einsum("nij,nije->nje", c, votes))
        b = b + torch.einsum("nije,nje->nij", votes, v)
    put("kCapsules", v)
    strength = (v.square().sum(2) + 1e-7).sqrt()
    target = torch.nn.functional.one_hot(torch.tensor([2, 0]), 4)
    margin = target * torch.relu(0.9 - strength) ** 2 + 0.5 * (1 - target) * torch.relu(strength - 0.1) ** 2
    put("kMargin", margin.sum(1))
    put("kMarginWeight", torch.autograd.grad(margin.sum(), w)[0].reshape(-1)[:12])


def one_class():
    x, v, w, r, nu = values((4, 3), 11), values((2, 3), 12), values((1, 2), 13), torch.tensor(0.5), 0.3
    parameters = [p.requires_grad_() for p in (v, w, r)]
    y = torch.sigmoid(x @ v.T) @ w.T
    loss = 0.5 * (v.square().sum() + w.square().sum()) + torch.relu(r - y).mean() / nu - r
    put("kOneClass", loss)
    for name, g in zip(("Weight", "Score", "Radius"), torch.autograd.grad(loss, parameters)):
        put(f"kOneClass{name}", g)


def machine(visible):
    """The mean update of CD-1 over all hidden states, from one example; the reconstruction is a mean."""
    v, w, b, c = values((1, 4), 14, 0, 1).round(), values((3, 4), 15), values((4,), 16), values((3,), 17)
    up = lambda x: torch.sigmoid(x @ w.T + c)
    down = (lambda h: torch.sigmoid(h @ w + b)) if visible == "binary" else (lambda h: h @ w + b)
    pw, pb, pc = torch.zeros_like(w), torch.zeros_like(b), torch.zeros_like(c)
    for bits in itertools.product((0.0, 1.0), repeat=3):
        h = torch.tensor([bits])
        probability = torch.where(h == 1, up(v), 1 - up(v)).prod()
        vk = down(h)
        hk = up(vk)
        pw += probability * (hk.T @ vk - up(v).T @ v)
        pb += probability * (vk - v)[0]
        pc += probability * (hk - up(v))[0]
    name = visible.capitalize()
    put(f"kMachine{name}Weight", pw)
    put(f"kMachine{name}Visible", pb)
    put(f"kMachine{name}Hidden", pc)
    if visible == "binary":
        energy = [torch.tensor(bits) @ b + torch.nn.functional.softplus(w @ torch.tensor(bits) + c).sum()
                  for bits in itertools.product((0.0, 1.0), repeat=4)]
        weights = torch.softmax(torch.stack(energy), 0)
        states = torch.tensor(list(itertools.product((0.0, 1.0), repeat=4)))
        put("kModelProducts", (weights[:, None, None] * up(states)[:, :, None] * states[:, None, :]).sum(0))
        put("kDataProducts", up(v).T @ v)


print("// Written by unsupervised_reference.py with PyTorch", torch.__version__.split("+")[0] + ".")
print("#pragma once\n\nnamespace perigee {\n\n// clang-format off")
sparsity()
contractive()
likelihoods()
capsules()
one_class()
machine("binary")
machine("gaussian")
print("// clang-format on\n\n}  // namespace perigee")
