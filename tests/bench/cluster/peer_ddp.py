#!/usr/bin/env python3
"""One process of PyTorch's DistributedDataParallel over gloo, for the row `scaling` of experiments.py: RANK SIZE FILE STEPS BATCH SETTING.

ResNet-20 of torch_peer.py, one thread, BATCH images a process; prints the images per second of all processes. One process alone runs the bare
network.
"""
import os
import pathlib
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch_peer import Trainer

rank, size, meeting, steps, batch = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
trainer = Trainer("resnet20", batch, sys.argv[6])
if size > 1:
    network = torch.nn.parallel.DistributedDataParallel(trainer.net)
    trainer.loss = lambda x, y: F.cross_entropy(network(x), y)
for _ in range(max(3, steps // 4)):
    trainer.step()
dist.barrier()
begin = time.perf_counter()
for _ in range(steps):
    trainer.step()
dist.barrier()
if rank == 0:
    print(f"{steps * batch * size / (time.perf_counter() - begin):.1f}", flush=True)
dist.destroy_process_group()
