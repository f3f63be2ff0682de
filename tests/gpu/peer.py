#!/usr/bin/env python3
"""PyTorch's side of bench.py: one network at one setting, in a process of its own, so that what hangs or fails there harms nothing else.

peer.py ROW SETTING FOLDER [--rehearse] reads commands from stdin and answers each with a line of JSON: `prepare` (compile, warm up,
capture) with {"ready": seconds, "with": versions}, a number of seconds with {"rate": images a second}, anything that fails with
{"failed": why}.

Every setting has the fused optimiser, channels-last tensors where the row computes in bf16, cuDNN's own search for the fastest algorithms,
its data on the device and no read of the loss:
    eager          kernels one by one
    graph          the whole step as one CUDA graph
    compile        torch.compile with its own CUDA graphs; the optimiser's kernel after them
    compile graph  forward and backward compiled, and they and the update as one CUDA graph
    tuned graph    the same compiled with max-autotune; of ResNet-50 that of all but convolutions, for which there are cuDNN's own search
                   and not the minutes that Triton's would take. Where it is not compiled in time it takes no part.
"""
import contextlib
import fcntl
import json
import os
import struct
import sys
import time

import torch
from torch import nn

import rows


def device():
    """cuda; the CPU only in a rehearsal."""
    if torch.cuda.is_available():
        return "cuda"
    if rows.REHEARSAL:
        return "cpu"
    raise RuntimeError("this PyTorch sees no GPU")


def lenet(classes):
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, classes))


def mlp(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, classes))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return nn.functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet50(classes):
    inputs = rows.STAGES[0][0]
    layers = [nn.Conv2d(3, inputs, 7, 2, 3, bias=False), nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for stage, (width, blocks) in enumerate(rows.STAGES):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


NETWORKS = {"LeNet": lenet, "MLP": mlp, "ResNet-50": resnet50}


def array(path, dtype, shape):
    """An .npy file of rows.write_npy."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    (head,) = struct.unpack("<H", data[8:10])
    return torch.frombuffer(data, dtype=dtype, offset=10 + head).reshape(shape)


@contextlib.contextmanager
def alone():
    """Peers that prepare at once take turns, for cuDNN searches by the clock; none waits for one that hangs."""
    with open(__file__, "rb") as lock:
        for _ in range(200):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.1)
        yield


class Loss(nn.Module):
    """The loss of the examples of an index. The data set is the module's, so that compiled code finds it where it is and copies nothing."""

    def __init__(self, net, x, y, half):
        super().__init__()
        self.net, self.half = net, half
        self.register_buffer("x", x)
        self.register_buffer("y", y)

    def forward(self, index):
        with torch.autocast(self.x.device.type, torch.bfloat16, enabled=self.half):
            return nn.functional.cross_entropy(self.net(self.x[index]), self.y[index])


COMPILE_MODES = {"compile": "reduce-overhead", "compile graph": "default", "tuned graph": "max-autotune-no-cudagraphs"}


def compiled(loss, name, setting):
    if "tuned" in setting and "ResNet" in name:
        return torch.compile(loss, options={"max_autotune_pointwise": True})
    return torch.compile(loss, mode=COMPILE_MODES[setting])


class Peer:
    def __init__(self, name, setting, folder):
        _, optimizer, shape, classes, self.batch, precision, *_ = rows.ROWS[name]
        self.setting, self.device, self.at, self.graph = setting, device(), 0, None
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"  # by default convolutions use it
        examples = rows.examples_of(name)
        images, labels = rows.files_of(name, folder)
        x = array(images, torch.float32, (examples, *shape)).to(self.device)
        y = array(labels, torch.int64, (examples,)).to(self.device)
        self.order = torch.randperm(examples, device=self.device)
        self.index = self.order[:self.batch].clone()
        net = NETWORKS[name.split()[0]](classes).to(self.device)
        half = precision == "bf16"
        if half:
            net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
        if optimizer is rows.SGD:
            self.optimizer = torch.optim.SGD(net.parameters(), lr=optimizer["lr"], momentum=optimizer["momentum"], fused=True)
        else:
            self.optimizer = torch.optim.AdamW(net.parameters(), lr=optimizer["lr"], weight_decay=optimizer["weight_decay"], fused=True,
                                               capturable="graph" in setting and self.device == "cuda")
        self.loss = Loss(net, x, y, half)
        self.plain_loss = self.loss
        if setting in COMPILE_MODES:
            self.loss = compiled(self.loss, name, setting)

    def prepare(self):
        with alone():
            for _ in range(2):
                self.plain_loss(self.index).backward()
            self.wait()
        if self.setting.endswith("graph"):
            self.capture()
        for _ in range(12):
            self.step()
        self.wait()
        if self.device == "cuda":
            torch.cuda.empty_cache()  # for those that come after

    def whole(self, index):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(index).backward()
        self.optimizer.step()

    def capture(self):
        if self.device == "cpu":
            self.whole(self.index)
            raise RuntimeError("CUDA graphs are for GPUs")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):
                self.whole(self.index)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.whole(self.index)

    def step(self):
        if self.at + self.batch > len(self.order):
            self.at = 0
        index = self.order[self.at:self.at + self.batch]
        self.at += self.batch
        if self.graph is not None:
            self.index.copy_(index)
            self.graph.replay()
            return
        if self.setting == "compile":
            torch.compiler.cudagraph_mark_step_begin()
        self.whole(index)

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def rate(self, seconds):
        """images/s, after a third of the time to bring the clock up. Waits for the device about twenty times, not every few steps: that
        would cost PyTorch most where steps are short."""
        self.timed(seconds / 3)
        return self.timed(seconds)

    def timed(self, seconds):
        self.step()
        self.wait()
        steps, chunk, start = 0, 1, time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds:
            if steps and passed / steps * chunk < seconds / 20:
                chunk *= 2
            for _ in range(chunk):
                self.step()
            self.wait()
            steps += chunk
        return steps * self.batch / (time.perf_counter() - start)


def versions():
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} on the CPU"
    return (f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()} on "
            f"{torch.cuda.get_device_name(0)}")


def main():
    name, setting, folder = sys.argv[1:4]
    if "--rehearse" in sys.argv:
        rows.rehearse()
    # Output of libraries is no answer, and children of compilers do not hold the pipe open.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = None
    for command in sys.stdin:
        start = time.perf_counter()
        try:
            if command.strip() == "prepare":
                peer = Peer(name, setting, folder)
                peer.prepare()
                answer = {"ready": round(time.perf_counter() - start, 1), "with": versions()}
            else:
                answer = {"rate": peer.rate(float(command))}
        except Exception as error:  # no memory, no compiler, an optimiser without `fused`: the reason is in the table
            answer = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
