#!/usr/bin/env python3
"""PyTorch's Gloo as the other side of allreduce_bench.cpp: RANK SIZE FILE SECONDS FLOATS…; the same lines of output."""
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist

rank, size = int(sys.argv[1]), int(sys.argv[2])
budget = float(sys.argv[4])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=size)
for count in map(int, sys.argv[5:]):
    block = torch.full((count,), 1 / 1024)
    times = 3
    for attempt in range(2):  # the first finds out how often
        dist.barrier()
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(times):
            dist.all_reduce(block)
        cpu = (time.process_time() - cpu) / times
        seconds = torch.tensor([(time.perf_counter() - start) / times], dtype=torch.float64)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        if attempt == 0:
            times = max(3, min(1000, int(budget / seconds.item())))
        block.fill_(1 / 1024)
    if rank == 0:
        print(count, times, f"{seconds.item():.9f} {cpu:.9f}", flush=True)
dist.destroy_process_group()
