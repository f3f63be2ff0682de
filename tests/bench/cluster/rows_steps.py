"""What is sent of each step's gradients, 4 workers, MLP 784-128-64-10 on MNIST, 6 epochs over all workers together, batch 32 each.

    compressed   (E3) the largest 1 % and 1 bit of each element, with error feedback and without; DGC 0.1 % with a warm-up of one epoch;
                 against dense gradients, in a star
    presets      powersgd, signsgd, Signum and demo beside them
    strom        threshold with fixed tau and with Deeplearning4j's adaptive one: accuracy, bytes, and what is left unsent at the end
"""
import statistics

from experiment_kit import MLP, train

EPOCH = 469  # steps of 4 workers
WARM_UP = {"type": "map", "by": "step",
           "values": {"0": 0.25, str(EPOCH // 4): 0.0625, str(EPOCH // 2): 0.0156, str(EPOCH * 3 // 4): 0.004, str(EPOCH): 0.001}}
COSINE = {"type": "cosine", "from": 0.05}
MOMENTUM = {"type": "sgd", "lr": COSINE, "momentum": 0.9}
PLAIN = {"type": "sgd", "lr": COSINE}


def arm(seeds, averaging, optimizer, epochs=6):
    """([test accuracy in % by seed], mean bytes that all workers sent, the last step events)."""
    accuracy, sent, last = [], [], []
    for seed in seeds:
        job = {**MLP, "seed": seed, "epochs": epochs, "optimizer": optimizer, "averaging": {"topology": "star", **averaging}}
        end, steps, _ = train(job, "--workers", 4)
        accuracy.append(100 * end["test"]["accuracy"])
        sent.append(end["bytes_sent"])
        last.append(steps[-1])
    return accuracy, statistics.mean(sent), last


def up(sent, payloads):
    """Of a star of 4: 3 sums come up for 3 that go down, or 3 payloads for 9."""
    return sent / (4 if payloads else 2)


def told(rows, name, accuracy, share):
    rows.line(f"| {name} | {', '.join(f'{a:.2f}' for a in accuracy)} | {statistics.mean(accuracy):.2f} | {share} |")


def compressed(rows, seeds):
    print("| gradients | test accuracy by seed, % | mean | sent up, share of dense |\n|---|---|---|---|")
    mean = {}
    dense, sent, _ = arm(seeds, {"type": "allreduce"}, MOMENTUM)
    dense_up = up(sent, False)
    mean["dense"] = statistics.mean(dense)
    told(rows, "dense", dense, "1")
    for name, codec in (("top 1 %", {"type": "topk", "share": 0.01}), ("1 bit", {"type": "sign"})):
        for feedback in (True, False):
            own = name if feedback else name + ", no feedback"
            accuracy, sent, _ = arm(seeds, {"type": "allreduce", "codec": {**codec, "feedback": feedback}}, MOMENTUM)
            mean[own] = statistics.mean(accuracy)
            told(rows, own, accuracy, f"1/{dense_up / up(sent, True):.0f}")
    dgc = {"type": "dgc", "share": WARM_UP}
    accuracy, sent, _ = arm(seeds, dgc, PLAIN)
    first = arm(seeds[:1], dgc, PLAIN, epochs=1)[1]
    mean["dgc"] = statistics.mean(accuracy)
    whole, after = dense_up / up(sent, True), dense_up * 5 / 6 / up(sent - first, True)
    told(rows, "DGC 0.1 %, warm-up of one epoch", accuracy, f"1/{whole:.0f}, after the warm-up 1/{after:.0f}")
    for name, bar in (("top 1 %", 1), ("1 bit", 10)):
        gained = mean[name] - mean[name + ", no feedback"]
        rows.line(f"{name}: feedback gains {gained:.2f} points (bar {bar})", gained >= bar)
    loss = mean["dense"] - mean["dgc"]
    rows.line(f"DGC is {loss:.2f} points below dense (bar 0.6)", loss <= 0.6)
    rows.line(f"DGC sends 1/{whole:.0f} of the bytes with its warm-up (bar 1/40), 1/{after:.0f} after it (bar 1/300)",
              whole >= 40 and after >= 300)


def presets(rows, seeds):
    print("| policy, optimiser | test accuracy by seed, % | mean | bytes that all sent, MB |\n|---|---|---|---|")
    small = {"type": "sgd", "lr": {"type": "cosine", "from": 1e-3}}
    for name, averaging, optimizer in (("powersgd rank 2, 0.05, 0.9", {"type": "powersgd"}, MOMENTUM),
                                       ("signsgd, 0.001", {"type": "signsgd"}, small),
                                       ("signsgd momentum 0.9 (Signum), 0.001", {"type": "signsgd", "momentum": 0.9}, small),
                                       ("demo, 0.001", {"type": "demo"}, small)):
        accuracy, sent, _ = arm(seeds, {**averaging, "topology": "auto"}, optimizer)
        told(rows, name, accuracy, f"{sent / 1e6:.1f}")


def strom(rows, seeds):
    print("| tau | test accuracy by seed, % | mean | bytes that all sent, MB | norm of what was left unsent |\n|---|---|---|---|---|")
    mean = {}
    taus = (4e-4, 1e-3, 4e-3, 1.6e-2, 6.4e-2)
    arms = [(tau, {"tau": tau, "adaptive": False}) for tau in taus] + [("adaptive", {"tau": 4e-3, "adaptive": True})]
    for name, options in arms:
        accuracy, sent, last = arm(seeds, {"type": "threshold", "clip": 0, **options, "topology": "auto"}, MOMENTUM)
        mean[name] = statistics.mean(accuracy)
        norms = ", ".join(f"{step['residual_norm']:.2f}" for step in last)
        told(rows, name, accuracy, f"{sent / 1e6:.1f} | {norms}")
    best = max(mean[tau] for tau in taus)
    low, high = mean[taus[0]], mean[taus[-1]]
    rows.line(f"the best tau is neither the smallest nor the largest: {best:.2f} against {low:.2f} and {high:.2f}",
              best > low and best > high)
    rows.line(f"adaptive is {best - mean['adaptive']:+.2f} points below the best fixed tau (bar 0.3)", best - mean["adaptive"] <= 0.3)


ROWS = {"compressed": compressed, "presets": presets, "strom": strom}
