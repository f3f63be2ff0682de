#!/usr/bin/env python3
"""One process of PyTorch's DistributedDataParallel over gloo on MNIST, for the row `ddp` of rows_network.py:

    peer_ddp_mnist.py RANK SIZE ADDRESS:PORT HOOK SEED epochs MOST     until 97 % of the test set are right, looked at after each epoch
    peer_ddp_mnist.py RANK SIZE ADDRESS:PORT HOOK SEED steps COUNT     that many steps, and the seconds of one

The network and the optimiser are those of experiment_kit.MLP at a constant rate; batch 32 a process. HOOK: none, fp16 or powersgd. Rank 0
prints one line of JSON.
"""
import array
import gzip
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

BATCH = 32


def read(name, header):
    content = gzip.open(pathlib.Path(os.environ["PERIGEE_DATA"]) / "mnist" / f"{name}-ubyte.gz").read()[header:]
    return torch.tensor(array.array("B", content), dtype=torch.uint8)


def load(part):
    images = read(f"{part}-images-idx3", 16).reshape(-1, 784).float() / 255
    return images, read(f"{part}-labels-idx1", 8).long()


def main():
    rank, size, address, hook, seed, mode, count = (int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6],
                                                    int(sys.argv[7]))
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=rank, world_size=size)
    net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    model = nn.parallel.DistributedDataParallel(net)
    if hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "powersgd":
        state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=2, start_powerSGD_iter=10)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    images, labels = load("train")
    test_images, test_labels = load("t10k")

    def step(ids):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images[ids]), labels[ids]).backward()
        optimizer.step()

    def order(epoch):
        return torch.randperm(len(images), generator=torch.Generator().manual_seed(1000 * seed + epoch))[rank::size].split(BATCH)

    if mode == "steps":
        batches = order(0)
        for ids in batches[:12]:  # beyond the steps before which PowerSGD sends everything
            step(ids)
        dist.barrier()
        begin = time.perf_counter()
        for ids in batches[12:12 + count]:
            step(ids)
        dist.barrier()
        result = {"seconds": (time.perf_counter() - begin) / count}
    else:
        steps, begin = 0, time.perf_counter()
        for epoch in range(count):
            for ids in order(epoch):
                step(ids)
                steps += 1
            with torch.no_grad():
                accuracy = (net(test_images).argmax(1) == test_labels).float().mean().item()
            result = {"epochs": epoch + 1, "steps": steps, "accuracy": accuracy, "seconds": time.perf_counter() - begin}
            if accuracy >= 0.97:
                break
    if rank == 0:
        print(json.dumps(result), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
