#!/usr/bin/env python3
"""Pictures made ready for training, beside torchvision and Pillow: pictures.py picture_bench [TURNS] [CORE]. Images per CPU second.

Needs torch, torchvision and Pillow of PyPI in the Python that runs it, and $PERIGEE_DATA (a photograph of its oracles is what the JPEGs are cut
from: 60 of 500 x 375, quality 90). The two take turns on one core; each figure is the median of its turns.
"""
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"
import numpy  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from torchvision import io  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

COUNT = 60


def write_jpegs(folder):
    """Parts of the photograph, enlarged, with noise that gives them the size of photographs (47 kB)."""
    draw = random.Random(0)
    data = numpy.load(pathlib.Path(os.environ["PERIGEE_DATA"]) / "oracles/images/expected.npz")["photo"]
    photo = Image.fromarray(data.transpose(1, 2, 0))
    for k in range(COUNT):
        width = draw.randint(60, 97)
        height = int(width * .75)
        left, top = draw.randint(0, 97 - width), draw.randint(0, 131 - height)
        part = numpy.asarray(photo.crop((left, top, left + width, top + height)).resize((500, 375), Image.LANCZOS)).astype(int)
        part += numpy.random.default_rng(k).normal(0, 6, part.shape).astype(int)
        Image.fromarray(part.clip(0, 255).astype(numpy.uint8)).save(folder / f"{k:02}.jpg", "JPEG", quality=90)


def works(folder):
    """The same work by torchvision."""
    files = [torch.frombuffer(bytearray((folder / f"{k:02}.jpg").read_bytes()), dtype=torch.uint8) for k in range(COUNT)]
    decoded = [io.decode_jpeg(each) for each in files]
    small = [v2.functional.resize(each, [224, 224]) for each in decoded]
    crop = v2.RandomResizedCrop(224, antialias=True)
    as_float = v2.ToDtype(torch.float32, scale=True)
    full = v2.Compose([crop, v2.RandomHorizontalFlip(), as_float])
    jitter, augment, trivial, auto = v2.ColorJitter(.4, .4, .4, .1), v2.RandAugment(), v2.TrivialAugmentWide(), v2.AutoAugment()
    bilinear = v2.InterpolationMode.BILINEAR
    turn, tilt = v2.RandomRotation(15, interpolation=bilinear), v2.RandomPerspective(p=1)
    return {
        "decode, f32": lambda i: as_float(io.decode_jpeg(files[i])),
        "decode, random part": lambda i: as_float(crop(io.decode_jpeg(files[i]))),
        "decode, random part, flip": lambda i: full(io.decode_jpeg(files[i])),
        "colour jitter": lambda i: jitter(small[i]),
        "rand_augment": lambda i: augment(small[i]),
        "trivial_augment": lambda i: trivial(small[i]),
        "auto_augment": lambda i: auto(small[i]),
        "rotate 15, bilinear": lambda i: turn(small[i]),
        "perspective, bilinear": lambda i: tilt(small[i]),
        "blur 23": lambda i: v2.functional.gaussian_blur(small[i], [23, 23]),
        "resize 500x375 to 224": lambda i: v2.functional.resize(decoded[i], [224, 224], antialias=True),
    }


def rate(work):
    work(0)
    begin = time.process_time()
    for i in range(COUNT):
        work(i)
    return COUNT / (time.process_time() - begin)


def main():
    program, turns = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    os.sched_setaffinity(0, {int(sys.argv[3]) if len(sys.argv) > 3 else 0})
    torch.set_num_threads(1)
    ours, theirs = {}, {}
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        write_jpegs(folder)
        peer = works(folder)
        for _ in range(turns):
            for line in subprocess.run([program, place, "0.3"], capture_output=True, text=True, check=True).stdout.splitlines():
                name, figure = line.split("\t")
                ours.setdefault(name, []).append(float(figure))
            for name, work in peer.items():
                theirs.setdefault(name, []).append(rate(work))
    print(f"| {turns} turns, load {os.getloadavg()[0]:.1f} | Perigee | torchvision |\n|---|---|---|")
    for name, figures in ours.items():
        beside = f"{statistics.median(theirs[name]):,.0f}" if name in theirs else ""
        print(f"| {name} | {statistics.median(figures):,.0f} [{min(figures):,.0f}-{max(figures):,.0f}] | {beside} |")


if __name__ == "__main__":
    main()
