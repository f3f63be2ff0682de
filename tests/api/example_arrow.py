#!/usr/bin/env python3
"""A data frame becomes a model, and the model's answers a data frame; no numbers are written to a file: example_arrow.py [LIBPERIGEE].

Perigee takes any object that has __arrow_c_stream__ (pyarrow, polars, DuckDB, pandas 2.2) and gives one. Needs pyarrow or polars.
"""
import ctypes
import json
import sys

import pyarrow

perigee = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libperigee.so.0")
pointer_in, capsule_of = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
pointer_in.restype, pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
capsule_of.restype, capsule_of.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def made(kind, owner, function, *arguments):
    """The handle that a function gives, or its message as an exception."""
    out = ctypes.c_void_p()
    if getattr(perigee, function)(*arguments, ctypes.byref(out)) != 0:
        message = getattr(perigee, f"perigee_{kind}_message")
        message.restype = ctypes.c_char_p
        raise RuntimeError(message(owner).decode())
    return out


class Answers:
    """A prediction, as pyarrow.table(), polars.DataFrame() and others take it: they read its numbers where they lie."""

    def __init__(self, prediction):
        self.prediction = prediction

    def __arrow_c_stream__(self, requested_schema=None):
        self.stream = (ctypes.c_void_p * 5)()  # struct ArrowArrayStream
        perigee.perigee_prediction_arrow(self.prediction, self.stream)
        return capsule_of(ctypes.addressof(self.stream), b"arrow_array_stream", None)


def stream_of(frame):
    capsule = frame.__arrow_c_stream__()
    stream_of.kept = capsule  # until it is taken over
    return ctypes.c_void_p(pointer_in(capsule, b"arrow_array_stream"))


sizes = [30.0, 41.5, 52.0, None, 75.0, 80.0, 33.0, 95.0] * 8
flats = pyarrow.table({"size": sizes, "city": ["Oslo", "Rome"] * 32, "dear": ["yes" if (s or 50) > 45 else "no" for s in sizes]})

context = made("context", None, "perigee_context_create", None)
source = made("context", context, "perigee_source_from_arrow", context, b"flats", stream_of(flats))
text = json.dumps({"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.1}, "epochs": 30, "seed": 1,
                   "data": {"batch": 16, "train": {"type": "table", "host": "train", "target": "dear",
                                                   "steps": [{"impute": "size", "by": "mean"}, {"normalize": "size"}]}}}).encode()
job = made("context", context, "perigee_job_parse", context, text, ctypes.c_size_t(len(text)), 0, None, None)
perigee.perigee_job_bind(job, b"train", source)
trainer = made("job", job, "perigee_trainer_create", job, None)
perigee.perigee_trainer_run(trainer, None)
model = made("trainer", trainer, "perigee_trainer_model", trainer)

asked = pyarrow.table({"city": ["Rome", "Oslo"], "size": [90.0, 31.0]})
answers = pyarrow.table(Answers(made("model", model, "perigee_model_predict_arrow", model, stream_of(asked), None)))
print(answers.column_names, answers.column(2).to_pylist())
