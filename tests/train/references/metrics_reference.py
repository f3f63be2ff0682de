#!/usr/bin/env python3
"""Writes metrics_reference.json: figures computed the slow, obvious way (definitions as in scikit-learn, zero_division=0), which
evaluation_test.cpp compares with. Needs Python only. Usage: metrics_reference.py > metrics_reference.json"""
import json
import math
import random

random.seed(7)


def softmax(row):
    top = max(row)
    powers = [math.exp(v - top) for v in row]
    return [p / sum(powers) for p in powers]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def classification(rows, labels, classes, top):
    said = [row.index(max(row)) for row in rows]
    matrix = [[sum(1 for a, s in zip(labels, said) if a == i and s == j) for j in range(classes)] for i in range(classes)]
    precision, recall, f1, f2 = [], [], [], []
    for c in range(classes):
        predicted, actual, right = sum(r[c] for r in matrix), sum(matrix[c]), matrix[c][c]
        if predicted + actual == 0:
            continue  # scikit-learn averages over the labels that appear
        p, r = right / predicted if predicted else 0, right / actual if actual else 0
        precision.append(p), recall.append(r)
        f1.append(2 * p * r / (p + r) if p + r else 0)
        f2.append(5 * p * r / (4 * p + r) if p + r else 0)
    # Matthews correlation as Pearson's correlation of the one-hot tables, summed over classes
    n = len(labels)
    cov = lambda x, y: sum(mean((x[i] == c) * 1.0 * (y[i] == c) for i in range(n)) - mean((v == c) * 1.0 for v in x) * mean((v == c) * 1.0 for v in y)
                           for c in range(classes))
    within = sum(1 for row, a in zip(rows, labels) if a in sorted(range(classes), key=lambda c: -row[c])[:top])
    return {"accuracy": sum(s == a for s, a in zip(said, labels)) / n, "top": within / n, "precision": mean(precision), "recall": mean(recall),
            "f1": mean(f1), "f2": mean(f2), "mcc": cov(labels, said) / math.sqrt(cov(labels, labels) * cov(said, said)), "confusion": matrix}


def auc(scores, positive):
    """The share of (positive, negative) pairs in the right order; ties count half."""
    pos = [s for s, p in zip(scores, positive) if p]
    neg = [s for s, p in zip(scores, positive) if not p]
    return sum((a > b) + 0.5 * (a == b) for a in pos for b in neg) / (len(pos) * len(neg))


def average_precision(scores, positive):
    total, area, before = sum(positive), 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        chosen = [p for s, p in zip(scores, positive) if s >= threshold]
        recall = sum(chosen) / total
        area += (recall - before) * sum(chosen) / len(chosen)
        before = recall
    return area


def calibration(rows, labels, bins):
    boxes = [[] for _ in range(bins)]
    for row, a in zip(rows, labels):
        boxes[min(int(max(row) * bins), bins - 1)].append((max(row), row.index(max(row)) == a))
    gaps = [(len(b), abs(mean(c for c, _ in b) - mean(float(r) for _, r in b))) for b in boxes if b]
    return {"ece": sum(n * g for n, g in gaps) / len(rows), "mce": max(g for _, g in gaps),
            "brier": mean(sum((p - (c == a)) ** 2 for c, p in enumerate(row)) for row, a in zip(rows, labels)),
            "negative_log_likelihood": mean(-math.log(row[a]) for row, a in zip(rows, labels))}


def regression(out, wanted):
    n, m_out, m_wanted = len(out), mean(out), mean(wanted)
    squared = sum((o - w) ** 2 for o, w in zip(out, wanted))
    spread = sum((w - m_wanted) ** 2 for w in wanted)
    cross = sum((o - m_out) * (w - m_wanted) for o, w in zip(out, wanted))
    return {"mse": squared / n, "mae": mean(abs(o - w) for o, w in zip(out, wanted)), "rmse": math.sqrt(squared / n), "rse": squared / spread,
            "r2": 1 - squared / spread, "correlation": cross / math.sqrt(spread * sum((o - m_out) ** 2 for o in out))}


n, classes = 60, 4
labels = [random.choice([0, 0, 0, 1, 1, 2]) for _ in range(n)]  # class 3 never occurs
# Sixteenths, so that there are ties and float32 holds every number exactly.
logits = [[random.randint(-16, 16) / 16 + (1.0 if c == a else 0) - (3 if c == 3 else 0) for c in range(classes)] for a in labels]
rows = [[round(p * 256) / 256 for p in softmax(row)] for row in logits]
rows = [[max(p, 1 / 256) for p in row] for row in rows]
binary_scores = [random.randint(0, 16) / 16 for _ in range(n)]
binary_labels = [int(random.random() < 0.2 + 0.6 * s) for s in binary_scores]
columns = [[random.randint(-64, 64) / 16 for _ in range(n)] for _ in range(2)]
predicted = [[v * 0.75 + random.randint(-8, 8) / 16 for v in column] for column in columns]

print(json.dumps({
    "labels": labels, "rows": rows,
    "classification": classification(rows, labels, 3 + 1, 2),
    "calibration": calibration(rows, labels, 10),
    "roc": [{"auc": auc([r[c] for r in rows], [a == c for a in labels]), "average_precision": average_precision([r[c] for r in rows], [a == c for a in labels])}
            for c in range(3)],
    "binary_scores": binary_scores, "binary_labels": binary_labels,
    "binary": {"auc": auc(binary_scores, binary_labels), "average_precision": average_precision(binary_scores, binary_labels)},
    "wanted": columns, "predicted": predicted, "regression": [regression(p, w) for p, w in zip(predicted, columns)],
}))
