#!/usr/bin/env python3
"""Training speed on GPU 0 beside PyTorch's, in turns: tests/gpu/run.sh --bench runs it.

Writes OUT/bench.txt (a table), OUT/bench.json (every sample) and OUT/profile.txt (a step of each network piece by piece: step_profile.cpp),
and prints each row as soon as it is there. A row's rate is the median of its turns, before each of which the clock is warm; PyTorch's best
is the fastest of the settings that work on this machine (peer.py). Both have the same network, batch, precision, optimiser and examples,
which lie on the device. float32 rows are float32 on both sides: PyTorch may use tf32 only in the row that says so, where we do too. What
could not be measured says so and why; where Perigee fails, simpler forms of a step are tried, so that there is a rate, and which op fails
is told. Short steps are timed with and without kernels that overlap. "floor" is the least time that a step can take here: the bytes that it
has to move over the measured copy bandwidth, or its operations over the device's rate from the data sheet.

--rehearse makes everything small and lets PyTorch compute on the CPU where there is no GPU: it proves the script, its rates mean nothing.
"""
import argparse
import concurrent.futures
import json
import os
import statistics
import sys
import time

import rows
from contestants import COUNTERS, NO_OVERLAP, Perigee, PeerProcess, output_of


def compiled_file(args):
    return os.path.join(args.work, "compiled.json")


def compile_all(args):
    """Fills the compilers' caches: nothing is measured meanwhile, and a row's own compilation is short after that. As many at once as there
    are cores for, or none would be done in time, what takes long or is least likely to matter last. How it went stands in a file."""
    end = time.monotonic() + args.seconds
    for name in rows.ROWS:
        rows.make_job(name, args.work)

    def compile_one(name, setting):
        left = end - (20 if rows.is_long(setting) else 0) - time.monotonic()
        if left < 5:
            return "no time was left to compile it"
        peer = PeerProcess(name, setting, args.work)
        try:
            peer.send("prepare")
            return f"compiled in {peer.answer(left)['ready']:.0f} s"
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            return str(error)[:300]
        finally:
            peer.close()

    wanted = [(name, setting) for name in rows.ROWS for setting in rows.SETTINGS if setting not in ("eager", "graph")]
    wanted.sort(key=lambda one: (rows.is_long(one[1]), "ResNet" not in one[0]))
    told = []
    with concurrent.futures.ThreadPoolExecutor(max(2, len(os.sched_getaffinity(0)) // 2)) as pool:
        begun = {pool.submit(compile_one, *one): one for one in wanted}
        for done in concurrent.futures.as_completed(begun):
            told.append([*begun[done], done.result()])
            print("{}, {}: {}".format(*told[-1]), flush=True)
            with open(compiled_file(args), "w") as file:
                json.dump(told, file)


def settings_of(name, args, reasons):
    """Those that take part; reasons get why another does not."""
    try:
        with open(compiled_file(args)) as file:
            told = {setting: said for of, setting, said in json.load(file) if of == name}
    except (OSError, ValueError):
        return list(rows.SETTINGS)  # nothing was compiled before
    late = {setting: said for setting in rows.SETTINGS if rows.is_long(setting)
            and not (said := told.get(setting, "not compiled in time")).startswith("compiled")}
    reasons.update(late)
    return [setting for setting in rows.SETTINGS if setting not in late]


def measure(name, args, seconds, samples):
    """In about so many seconds: ({setting: why it has no rate}, PyTorch's versions); samples get {"perigee": [...], "eager": ...}."""
    reasons, versions, end = {}, "", time.monotonic() + seconds
    turn = 0.05 if rows.REHEARSAL else 1.5 if "ResNet" in name else 0.75
    ours = Perigee(args.program, name, args.work)
    # They import PyTorch, and ask for nothing of the GPU before they are told to. No other row's are there: cores may be few.
    peers = {setting: PeerProcess(name, setting, args.work) for setting in settings_of(name, args, reasons)}
    ours.start(max(40.0, seconds - 25))  # finds libraries, compiles and tunes, with the GPU to itself
    apart = None  # what was tuned serves it too
    if "ResNet" not in name and ours.forms and not ours.form():
        apart = Perigee(args.program, name, args.work, (NO_OVERLAP,))

    def ask(setting, answer):
        try:
            return answer(peers[setting])
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            peers.pop(setting).close()
            reasons[setting] = str(error)[:300]
            return None

    for peer in peers.values():
        peer.send("prepare")  # compile, warm up, capture
    prepared_by = time.monotonic() + max(15.0, 0.6 * (end - time.monotonic()))
    for setting in list(peers):
        if reply := ask(setting, lambda peer: peer.answer(max(1.0, prepared_by - time.monotonic()))):
            versions = reply["with"]
    for _ in range(rows.TURNS):
        form = ours.form()
        if rate := ours.rate(turn):
            samples.setdefault("perigee", []).append(rate)
        if form != ours.form():
            samples.pop("perigee", None)  # of the form that failed
        if apart and (rate := apart.rate(turn)):
            samples.setdefault(NO_OVERLAP[0], []).append(rate)
        for setting in list(peers):
            if rate := ask(setting, lambda peer: peer.rate(turn)):
                samples.setdefault(setting, []).append(rate)
        if time.monotonic() > end:
            break
    for contestant in (ours, *([apart] if apart else []), *peers.values()):
        contestant.close()
    if ours.form():
        reasons["perigee's rate"] = "of " + ours.form()
    return {**(apart.said if apart else {}), **ours.said, **reasons}, versions


def floor_of(name, device, copy_gb_s):
    """(images/s that nothing on this GPU can beat, why)"""
    _, _, _, _, batch, precision, parameters, macs, per_parameter, _ = rows.ROWS[name]
    rates = next((r for key, r in rows.RATES.items() if key in device), None)
    times = []
    if rates:
        times.append((6 * macs * batch / rates[precision], "operations"))
    if copy_gb_s:
        times.append((parameters * per_parameter / (copy_gb_s * 1e9), "bytes"))
    if not times:
        return None, ""
    seconds, why = max(times)
    return batch / seconds, why


def judged(ratio, bar):
    """A ratio beside its bar. A rehearsal reaches none and fails none."""
    if not ratio:
        return f"not measured (bar {bar:g})" if bar else "not measured"
    if bar is None or rows.REHEARSAL:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} (bar {bar:g}) {'PASS' if ratio >= bar else 'FAIL'}"


def kernels(args, say):
    """Bandwidths of our own kernels; the copy's in GB/s."""
    small = ["--elements", "5000"] if rows.REHEARSAL else []
    try:
        result = json.loads(output_of([args.kernels, *small], 60))
    except (RuntimeError, OSError, ValueError) as error:
        say(f"| kernels alone | FAIL | {str(error)[:300]} |")
        return None, ""
    copy = result["copy_gb_s"]
    say(f"copy bandwidth {copy:.0f} GB/s on {result['device']}")
    for key, what, bar in (("adam_gb_s", "Adam over 100 M parameters", 0.85),
                           ("threshold_gb_s", "threshold encode of 100 M, 0.1 % sent", 0.60),
                           ("threshold_dense_gb_s", "the same, 1 % sent", None)):
        say(f"| {what} | {result[key]:.0f} GB/s | {judged(result[key] / copy, bar)} of copy bandwidth |")
    return copy, result["device"]


def row_text(name, samples, device, copy):
    middle = {mode: statistics.median(rates) for mode, rates in samples.items() if rates}
    ours, eager = middle.pop("perigee", None), middle.get("eager")
    middle.pop(NO_OVERLAP[0], None)
    best = max(middle, key=middle.get, default=None)
    floor, why = floor_of(name, device, copy)
    of_eager, of_best = rows.ROWS[name][-1]

    def rate(value):
        return f"{value:.0f}" if value else "not measured"

    return (f"| {name} | {rate(ours)} | {rate(eager)} | {rate(middle.get(best))} ({best or '-'}) | "
            f"{judged(ours and eager and ours / eager, of_eager)} | {judged(ours and best and ours / middle[best], of_best)} | "
            f"{rate(floor)} {why} |")


def rates_text(name, samples):
    """Every setting: median, and how far its turns lie apart."""
    texts = (f"{mode} {statistics.median(rates):.0f} ({100 * (max(rates) / min(rates) - 1):.1f} %)" for mode, rates in samples.items())
    return f"    {name}, images/s (apart): {', '.join(texts) or 'none'}"


def overlap_text(name, samples):
    """What it brings that kernels overlap."""
    apart = samples.get(NO_OVERLAP[0])
    if not apart or "perigee" not in samples:
        return f"    {name}, overlap: not measured"
    gained = 1e6 * rows.ROWS[name][4] * (1 / statistics.median(apart) - 1 / statistics.median(samples["perigee"]))
    return f"    {name}, overlap: {gained:.1f} us of a step less than without"


def counted(name):
    if name not in COUNTERS:
        return f"    {name}: launches outside the graph and waits of the host were not measured"
    return f"    {name}, a step: " + ", ".join(f"{key} {value:g}" for key, value in COUNTERS[name].items())


def counted_together(names):
    """What the real runtime counted: bars of 0 and 0."""
    what = "| launches outside the graph, waits of the host, a step |"
    if any(name not in COUNTERS for name in names):
        return f"{what} not measured (bar 0 and 0) |"
    launches, waits = (max(COUNTERS[name][key] for name in names) for key in ("launches", "host_waits"))
    result = "PASS" if launches == waits == 0 else "FAIL"
    return f"{what} {launches:g}, {waits:g} (bar 0 and 0) {result} | the most of {len(names)} networks |"


def profiles(args, names, end, say):
    """Where a step's time goes: whole in profile.txt, the head of each here."""
    for name in names:
        left = end - time.monotonic()
        if left < 10:
            say(f"    {name}: no time was left for a profile")
            continue
        try:
            text = output_of([args.profile, rows.make_job(name, args.work)], min(left - 3, 40))
        except (RuntimeError, OSError) as error:
            say(f"    {name}, profile: {str(error)[:300]}")
            continue
        with open(os.path.join(args.out, "profile.txt"), "a") as file:
            file.write(f"---- {name}\n{text}\n")
        for line in [name, *text.splitlines()[:2 if rows.REHEARSAL else 9]]:
            say(f"    {line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="train_bench")
    parser.add_argument("--kernels", help="gpu_kernel_bench")
    parser.add_argument("--profile", help="gpu_step_profile")
    parser.add_argument("--out", required=True, help="folder of bench.txt, bench.json, profile.txt")
    parser.add_argument("--work", required=True, help="folder of data sets and logs")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--compile", action="store_true", help="only have PyTorch compile what it will run")
    args = parser.parse_args()
    if args.rehearse:
        rows.rehearse()
    if args.compile:
        compile_all(args)
        return 0
    end = time.monotonic() + args.seconds
    lines, everything = [], {}

    def say(text):
        """Printed at once: a run that ends early has printed what was measured until then."""
        lines.append(text)
        print(text, flush=True)
        with open(os.path.join(args.out, "bench.txt"), "w") as file:
            file.write("\n".join(lines) + "\n")

    copy, device = kernels(args, say)
    say("| network, batch | Perigee images/s | PyTorch eager | its best (setting) | times eager | times best | floor images/s |")
    say("|---|---|---|---|---|---|---|")
    told, barred = "", [name for name in rows.ROWS if any(rows.ROWS[name][-1])]
    weights = {name: 0.5 if name not in barred else 3 if "ResNet" in name else 1 for name in rows.ROWS}
    profiled = 1.0  # weight of all profiles
    for number, name in enumerate(rows.ROWS):
        if name not in barred and profiled:
            say(counted_together(barred))
            profiles(args, barred, end, say)
            profiled = 0
        left = end - time.monotonic()
        if left < 15:
            say(f"| {name} | not measured: no time was left |")
            continue
        samples = {}
        # More than its share, for most rows need less.
        share = min(1.5 * left * weights[name] / (sum(list(weights.values())[number:]) + profiled), left - 10)
        try:
            reasons, versions = measure(name, args, share, samples)
        except Exception as error:  # of this row alone
            reasons, versions = {"the row": f"{type(error).__name__}: {str(error)[:300]}"}, ""
        everything[name] = {"samples": samples, "reasons": reasons, "counters": COUNTERS.get(name), "with": versions}
        say(row_text(name, samples, device, copy))
        say(rates_text(name, samples))
        if "ResNet" not in name:
            say(overlap_text(name, samples))
        say(counted(name))
        for setting, reason in reasons.items():
            say(f"    {name}, {setting}: {reason}")
        if versions and not told:
            say(f"    {versions}")
            told = versions
        with open(os.path.join(args.out, "bench.json"), "w") as file:
            json.dump(everything, file, indent=1)
    text = "\n".join(lines)
    print(f"bars met {text.count(' PASS')}, missed {text.count(' FAIL')}, not measured {text.count('not measured (bar')}")
    return 1 if any("perigee" not in everything[name]["samples"] for name in barred if name in everything) else 0


if __name__ == "__main__":
    sys.exit(main())
