#!/usr/bin/env python3
"""Features of sound beside torchaudio, and resampling beside soxr too, on one thread, in turns, by CPU time.

    ninja -C build tests/bench/sound_bench
    python3 tests/bench/sound.py [--python PYTHON_WITH_TORCHAUDIO] [--soxr PYTHON_WITH_SOXR]

A minute of 16 kHz: 13 cepstral coefficients of 40 mels, frames of 512 samples, 160 apart; 40 mels; resampling to 44.1 kHz.
Prints seconds of sound in a second of CPU time: median [least-most] of all repeats.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ("mfcc", "mel", "resample")
LAYERS = ("mfcc", "mel")  # these as layers of a network, too
SECONDS, RATE = 60, 16000


def peer(work):
    """Runs in the interpreter that has torchaudio."""
    import torch
    torch.version.cuda = None  # PyPI's two are of different versions of CUDA, which is not used here; torchaudio refuses that
    import torchaudio

    torch.set_num_threads(1)
    form = {"n_fft": 512, "win_length": 512, "hop_length": 160, "n_mels": 40}
    once = {"mfcc": lambda: torchaudio.transforms.MFCC(RATE, 13, melkwargs=form), "mel": lambda: torchaudio.transforms.MelSpectrogram(RATE, **form),
            "resample": lambda: torchaudio.transforms.Resample(RATE, 44100)}[work]()
    sound = torch.rand(1, SECONDS * RATE) - .5
    times = []
    with torch.inference_mode():
        for _ in range(8):
            begin, count = time.process_time(), 0
            while time.process_time() - begin < .3:
                once(sound)
                count += 1
            times.append(SECONDS * count / (time.process_time() - begin))
    print(json.dumps({"real_times": times[1:]}))


def soxr_peer():
    """Runs in the interpreter that has soxr (libsoxr's "HQ")."""
    import numpy
    import soxr
    sound = (numpy.random.rand(SECONDS * RATE) - .5).astype(numpy.float32)
    times = []
    for _ in range(8):
        begin, count = time.process_time(), 0
        while time.process_time() - begin < .3:
            soxr.resample(sound, RATE, 44100, "HQ")
            count += 1
        times.append(SECONDS * count / (time.process_time() - begin))
    print(json.dumps({"real_times": times[1:]}))


def measure(command):
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])["real_times"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="an interpreter with torch and torchaudio")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--soxr", help="an interpreter with numpy and soxr")
    parser.add_argument("--peer", choices=(*WORK, "soxr"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer == "soxr":
        return soxr_peer()
    if options.peer:
        return peer(options.peer)
    who = {"perigee": lambda work: [ROOT / "build/tests/bench/sound_bench", work, str(SECONDS)]}
    layer = lambda work: [ROOT / "build/tests/bench/sound_bench", work + "_layer", str(SECONDS)]
    if options.python:
        who["torchaudio"] = lambda work: [options.python, __file__, "--peer", work]
    for work in WORK:
        beside = dict(who)
        if work in LAYERS:
            beside["layer"] = layer
        if options.soxr and work == "resample":
            beside["soxr"] = lambda _: [options.soxr, __file__, "--peer", "soxr"]
        times = {name: [] for name in beside}
        for _ in range(options.turns):
            for name, command in beside.items():
                times[name] += measure(command(work))
        print(work + "".join(f"  {name} {statistics.median(t):,.0f} [{min(t):,.0f}-{max(t):,.0f}]" for name, t in times.items()), flush=True)


if __name__ == "__main__":
    main()
