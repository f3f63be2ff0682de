#!/usr/bin/env python3
"""Misuse of the C ABI as a program in another language makes it, by ctypes: refusals_test.py LIBPERIGEE. Each message says the function or the thing, what
is wrong, what came and what is wanted. Prints TAP. What a C or C++ program does wrong is in misuse_test.cpp and extend_test.cpp.
"""
import ctypes
import json
import sys

perigee = ctypes.CDLL(sys.argv[1])
USAGE, DATA, MODEL, F32, MAX_RANK = 2, 3, 4, 1, 8
INFER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
FORWARD = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
OPEN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Struct(ctypes.Structure):
    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(self), **fields)


class PredictOptions(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("layers", ctypes.c_void_p), ("layer_count", ctypes.c_int32), ("format", ctypes.c_int32),
                ("name", ctypes.c_char_p), ("beams", ctypes.c_int64)]


class TrainOptions(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("threads", ctypes.c_int32), ("folder", ctypes.c_char_p), ("resume", ctypes.c_char_p),
                ("event", ctypes.c_void_p), ("user", ctypes.c_void_p), ("workers", ctypes.c_int32), ("agents", ctypes.c_char_p),
                ("listen", ctypes.c_char_p), ("secret", ctypes.c_char_p), ("min_workers", ctypes.c_int32)]


class Array(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * MAX_RANK), ("data", ctypes.c_void_p)]


class OpDefinition(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("operands", ctypes.c_int32), ("shared", ctypes.c_uint32),
                ("options", ctypes.c_void_p), ("defaults", ctypes.c_void_p), ("option_count", ctypes.c_int32), ("infer", INFER), ("forward", FORWARD),
                ("backward", ctypes.c_void_p), ("user", ctypes.c_void_p)]


def message_of(kind, handle):
    function = getattr(perigee, f"perigee_{kind}_message")
    function.restype = ctypes.c_char_p
    return function(handle).decode()


def made(name, *arguments):
    """What the function gives as its last argument."""
    handle = ctypes.c_void_p()
    status = getattr(perigee, name)(*arguments, ctypes.byref(handle))
    return status, handle


def says(got, wanted, text, message):
    assert got == wanted and text in message, (got, message)


CONTEXT = made("perigee_context_create", None)[1]
KEPT = []  # callbacks, which live as long as the process


def job_of(**changes):
    text = json.dumps({"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "sgd", "epochs": 1,
                       "data": {"batch": 2, "train": {"type": "arrays", "x": [[1, 2], [3, 4]], "y": [0, 1]}}, **changes}).encode()
    status, job = made("perigee_job_parse", CONTEXT, text, ctypes.c_size_t(len(text)), 0, b"job.json", None)
    assert status == 0, message_of("context", CONTEXT)
    return job


def trainer_refuses(job, wanted, text):
    status, _ = made("perigee_trainer_create", job, None)
    says(status, wanted, text, message_of("job", job))


def model_of(job):
    status, trainer = made("perigee_trainer_create", job, None)
    assert status == 0, message_of("job", job)
    status, model = made("perigee_trainer_model", trainer)
    assert status == 0, message_of("trainer", trainer)
    return model


def of_predictions():
    model = model_of(job_of())
    rows = b"[[1, 2]]"
    status, _ = made("perigee_model_predict_records", model, rows, ctypes.c_size_t(len(rows)), ctypes.byref(PredictOptions(format=99)))
    says(status, USAGE, "there is no such format; got 99, expected a perigee_record_format", message_of("model", model))
    records = b'{"x": [1, 2]}'
    status, prediction = made("perigee_model_predict_records", model, records, ctypes.c_size_t(len(records)), None)
    assert status == 0, message_of("model", model)
    room = ctypes.create_string_buffer(1000)
    status = perigee.perigee_prediction_output(prediction, 1, room)
    says(status, USAGE, "perigee_prediction_output: no such output; got 1, expected 0 to 0", message_of("prediction", prediction))


def of_memories():
    model = model_of(job_of(network=[{"type": "gru", "units": 2}], loss="mse",
                            data={"batch": 1, "train": {"type": "arrays", "x": [[[1, 2, 3]]], "y": [[[1, 2, 3], [3, 2, 1]]]}}))
    status, session = made("perigee_session_open", model, ctypes.c_int64(1))
    assert status == 0, message_of("model", model)
    status = perigee.perigee_session_remember(session, ctypes.c_size_t(3), ctypes.create_string_buffer(8), ctypes.c_size_t(8))
    says(status, USAGE, "perigee_session_remember: the model has no such memory; got 3, expected less than 0", message_of("session", session))


def of_phases():
    job = job_of(phases=[{"epochs": 1}, {"epochs": 1}])
    status, _ = made("perigee_job_train", job, ctypes.byref(TrainOptions(folder=b"run", listen=b"127.0.0.1:0")))
    says(status, USAGE, "perigee_job_train: the phases of a job end with their workers; got workers that join by 'listen', expected workers or agents",
         message_of("job", job))


def registered(name, infer):
    definition = OpDefinition(name=name, operands=1, infer=INFER(infer), forward=FORWARD(lambda *_: None))
    KEPT.append(definition)
    assert perigee.perigee_register_op(CONTEXT, ctypes.byref(definition)) == 0, message_of("context", CONTEXT)
    return job_of(network=[{"type": "lambda", "inputs": ["x"], "outputs": ["t1"],
                            "program": [{"op": "host", "attrs": {"name": name.decode()}, "in": ["x"], "out": "t1"}]}, {"type": "dense", "out": 2}])


def of_ops():
    def odd_rank(_user, _operands, _options, output, _message, _bytes):
        ctypes.cast(output, ctypes.POINTER(Array)).contents.rank = MAX_RANK + 1
        return 0
    trainer_refuses(registered(b"mine.silent", lambda *_: 1), MODEL, "the operands of op 'mine.silent' do not fit; got f32[")
    trainer_refuses(registered(b"mine.odd", odd_rank), MODEL, "op 'mine.odd' says that its output has a rank or dtype that does not exist")


def of_sources():
    silent = OPEN(lambda *_: DATA)
    KEPT.append(silent)
    assert perigee.perigee_register_source(CONTEXT, b"silent", silent, None) == 0, message_of("context", CONTEXT)
    trainer_refuses(job_of(data={"batch": 2, "train": {"type": "host", "name": "silent"}}), DATA,
                    "data 'silent': the program's function could not open them; got status 3")


if __name__ == "__main__":
    CHECKS = [of_predictions, of_memories, of_phases, of_ops, of_sources]
    print(f"1..{len(CHECKS)}")
    failed = 0
    for number, check in enumerate(CHECKS, 1):
        try:
            check()
            print(f"ok {number} {check.__name__}", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"not ok {number} {check.__name__}\n# {error}", flush=True)
    sys.exit(failed > 0)
