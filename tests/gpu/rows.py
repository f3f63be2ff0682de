"""What bench.py measures: networks, rows of its table, and their data, which Perigee and PyTorch both read."""
import json
import os
import struct

TURNS = 3
REHEARSAL = False
EXAMPLES = 32768  # of data sets of small images: many steps an epoch
# operations a second: bf16 and tf32 on tensor cores without sparsity, float32 without them (data sheets of the SXM modules)
RATES = {"H100": {"bf16": 989e12, "tf32": 494e12, "float32": 67e12}, "H200": {"bf16": 989e12, "tf32": 494e12, "float32": 67e12},
         "A100": {"bf16": 312e12, "tf32": 156e12, "float32": 19.5e12}, "B200": {"bf16": 2250e12, "tf32": 1100e12, "float32": 75e12}}


def conv(out, kernel, **options):
    return {"type": "conv2d", "out": out, "kernel": kernel, **options}


STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # of ResNet-50: width, blocks
CLASSES = 1000


def resnet50(stages=STAGES):
    """He et al. 2016 with the stride in the 3x3 convolution, as torchvision has it."""
    def norm(activation=None):
        return {"type": "batchnorm", **({"activation": activation} if activation else {})}

    layers = [conv(stages[0][0], 7, stride=2, padding=3, bias=False), norm("relu"),
              {"type": "maxpool", "kernel": 3, "stride": 2, "padding": 1}]
    for stage, (width, blocks) in enumerate(stages):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            inner = [conv(width, 1, bias=False), norm("relu"), conv(width, 3, stride=stride, padding=1, bias=False), norm("relu"),
                     conv(4 * width, 1, bias=False), norm()]
            shortcut = {"shortcut": {"type": "sequential", "layers": [conv(4 * width, 1, stride=stride, bias=False), norm()]}}
            layers.append({"type": "residual", "layers": inner, "activation": "relu", **(shortcut if block == 0 else {})})
    return layers + [{"type": "global_pool", "kind": "average"}, {"type": "dense", "out": CLASSES}]


POOL = {"type": "maxpool", "kernel": 2}
ADAMW = {"type": "adamw", "lr": 0.002, "weight_decay": 0.0005}
SGD = {"type": "sgd", "lr": 0.01, "momentum": 0.9}
LENET = [conv(20, 5, activation="relu"), POOL, conv(50, 5, stride=2, activation="relu"), POOL,
         {"type": "dense", "out": 200, "activation": "relu"}, {"type": "dense", "out": 10}]
MLP = [{"type": "flatten"}, {"type": "dense", "out": 500, "activation": "relu"}, {"type": "dense", "out": 500, "activation": "relu"},
       {"type": "dense", "out": 10}]
LENET_MACS = 20 * 24 * 24 * 25 + 50 * 4 * 4 * 500 + 200 * 200 + 2000
MLP_MACS = 784 * 500 + 500 * 500 + 5000

# name: layers, optimiser, shape, classes, batch, precision, parameters, multiply-adds forward, bytes an optimiser moves per parameter,
#       bars (times eager, times best)
ROWS = {
    "LeNet 32": (LENET, ADAMW, (1, 28, 28), 10, 32, "float32", 67780, LENET_MACS, 28, (8.0, 1.5)),
    # The longest goes where the others have time left after it.
    "ResNet-50 bf16 NHWC, 128": (resnet50(), SGD, (3, 224, 224), CLASSES, 128, "bf16", 25557032, 4.089e9, 20, (None, 1.05)),
    "LeNet 1024": (LENET, ADAMW, (1, 28, 28), 10, 1024, "float32", 67780, LENET_MACS, 28, (None, 1.5)),
    "MLP 784-500-500-10, 128": (MLP, ADAMW, (1, 28, 28), 10, 128, "float32", 648010, MLP_MACS, 28, (5.0, None)),
    # The last, for it has no bar.
    "LeNet 1024 tf32": (LENET, ADAMW, (1, 28, 28), 10, 1024, "tf32", 67780, LENET_MACS, 28, (None, None)),
}
SETTINGS = ("eager", "graph", "compile", "compile graph", "tuned graph")  # of PyTorch: peer.py


def rehearse():
    """The same rows, small: what is proved is that they run."""
    global REHEARSAL, TURNS, EXAMPLES, STAGES
    REHEARSAL, TURNS, EXAMPLES, STAGES = True, 1, 64, ((4, 1), (8, 2))
    for name, row in ROWS.items():
        layers, optimizer, shape, classes, batch, *rest = row
        if "ResNet" in name:
            layers, shape, classes = resnet50(STAGES), (3, 32, 32), 10
            layers[-1] = {"type": "dense", "out": 10}
        ROWS[name] = (layers, optimizer, shape, classes, min(batch, 4), *rest)


def examples_of(name):
    """Of the data set, which lies on the device."""
    _, _, shape, _, batch, *_ = ROWS[name]
    return EXAMPLES if shape[1] < 100 else 4 * batch


def is_long(setting):
    """Whether it may take so long to compile that it is not waited for."""
    return "tuned" in setting


def plain(text):
    return "".join(c if c.isalnum() else "_" for c in text)


def write_npy(path, dtype, shape, chunks):
    """dtype as NumPy spells it; no NumPy is needed. What is there already is kept: rows share data."""
    if os.path.exists(path):
        return
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path + ".part", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        for chunk in chunks:
            file.write(chunk)
    os.replace(path + ".part", path)


def files_of(name, folder):
    """(images, labels)"""
    _, _, shape, classes, *_ = ROWS[name]
    stem = os.path.join(folder, f"{examples_of(name)}_of_{'x'.join(map(str, shape))}")
    return stem + "_x.npy", f"{stem}_{classes}_y.npy"


def make_job(name, folder):
    """The path of a job; its data are PyTorch's too."""
    layers, optimizer, shape, classes, batch, precision, *_ = ROWS[name]
    images, labels = files_of(name, folder)
    examples = examples_of(name)
    numbers = shape[0] * shape[1] * shape[2]
    # Any numbers will do, as long as they are not all alike.
    one = struct.pack(f"<{numbers}f", *((i * 2654435761 % 1000) / 500 - 1 for i in range(numbers)))
    turns = (4 * (k % numbers) for k in range(examples))
    write_npy(images, "<f4", (examples, *shape), (one[at:] + one[:at] for at in turns))
    write_npy(labels, "<i8", (examples,), [struct.pack(f"<{examples}q", *(k % classes for k in range(examples)))])
    job = {"network": {"type": "sequential", "layers": layers}, "loss": "cross_entropy", "optimizer": optimizer, "epochs": 1000000,
           "seed": 1, "data": {"train": {"type": "npy", "x": images, "y": labels, "classes": classes}, "batch": batch}}
    if precision != "float32":
        job["precision"] = precision
    path = os.path.join(folder, plain(name) + ".json")
    with open(path, "w") as file:
        json.dump(job, file)
    return path
