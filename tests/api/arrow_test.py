#!/usr/bin/env python3
"""Tables of pyarrow, polars and DuckDB handed over by Arrow's C stream interface, by ctypes: arrow_test.py LIBPERIGEE. Prints TAP.

The same rows as a Parquet file give the same parameters to the last bit, whichever library holds them, and a prediction is read by these libraries
where it lies. Needs pyarrow; polars and DuckDB where they are there. `./perigee test engines` installs all three.
"""
import ctypes
import datetime
import decimal
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import pyarrow as pa
    import pyarrow.parquet
except ImportError:
    print("1..0 # SKIP pyarrow is not installed (pip install pyarrow polars duckdb)")
    sys.exit(0)
try:
    import polars
except ImportError:
    polars = None
try:
    import duckdb
except ImportError:
    duckdb = None

perigee = ctypes.CDLL(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.environ["PERIGEE_LIBRARY"]))
USAGE, DATA = 2, 3
ROWS = 300
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Skip(Exception):
    pass


class Stream(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")]


class TensorInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * 8),
                ("bytes", ctypes.c_size_t), ("trainable", ctypes.c_int32), ("state", ctypes.c_int32)]


class OutputInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32), ("shape", ctypes.c_int64 * 8),
                ("bytes", ctypes.c_size_t), ("classes", ctypes.c_int64), ("layer", ctypes.c_int32), ("data", ctypes.c_void_p)]


class Exported:
    """A prediction, as libraries of tables take it."""

    def __init__(self, prediction):
        self.prediction = prediction

    def __arrow_c_stream__(self, requested_schema=None):
        self.stream = Stream()
        assert perigee.perigee_prediction_arrow(self.prediction, ctypes.byref(self.stream)) == 0, message_of("prediction", self.prediction)
        return ctypes.pythonapi.PyCapsule_New(ctypes.addressof(self.stream), b"arrow_array_stream", None)


def message_of(kind, handle):
    function = getattr(perigee, f"perigee_{kind}_message")
    function.restype = ctypes.c_char_p
    return function(handle).decode()


def made(owner, handle, name, *arguments):
    out = ctypes.c_void_p()
    status = getattr(perigee, name)(*arguments, ctypes.byref(out))
    assert status == 0, message_of(owner, handle)
    return out


CONTEXT = made("context", None, "perigee_context_create", None)


def stream_of(capsule):
    stream_of.kept = capsule  # which releases its stream when it goes, unless that was taken over
    return ctypes.c_void_p(ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"arrow_array_stream"))


def source_of(table, name=b"rows"):
    capsule = table.__arrow_c_stream__()
    return made("context", CONTEXT, "perigee_source_from_arrow", CONTEXT, name, stream_of(capsule))


def job_of(data, **changes):
    text = json.dumps({"network": [{"type": "dense", "out": 8, "activation": "tanh"}, {"type": "dense", "out": 3}], "loss": "cross_entropy",
                       "optimizer": {"type": "adam", "lr": 0.05}, "epochs": 3, "seed": 4, "threads": 1, "data": data, **changes}).encode()
    return made("context", CONTEXT, "perigee_job_parse", CONTEXT, text, ctypes.c_size_t(len(text)), 0, b"job.json", None)


def trained(job, source=None):
    """The trainer after the job's end, and its model."""
    if source is not None:
        assert perigee.perigee_job_bind(job, b"train", source) == 0, message_of("job", job)
    trainer = made("job", job, "perigee_trainer_create", job, None)
    assert perigee.perigee_trainer_run(trainer, None) == 0, message_of("trainer", trainer)
    return trainer, made("trainer", trainer, "perigee_trainer_model", trainer)


def parameters(model):
    found = b""
    for index in range(perigee.perigee_model_tensor_count(model)):
        info = TensorInfo(size=ctypes.sizeof(TensorInfo))
        assert perigee.perigee_model_tensor(model, index, ctypes.byref(info)) == 0
        numbers = ctypes.create_string_buffer(info.bytes)
        assert perigee.perigee_model_read(model, info.name, numbers, ctypes.c_size_t(info.bytes)) == 0
        found += numbers.raw
    return found


def freed(**handles):
    for kind, handle in handles.items():
        getattr(perigee, f"perigee_{kind.rstrip('0123456789')}_free")(handle)


def draws():
    state = 1
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (state >> 33) / 2**31


def rows():
    """A column of each type that a table of pyarrow may have and a network can learn from."""
    draw = draws()
    one = [next(draw) for _ in range(ROWS)]
    two = [next(draw) for _ in range(ROWS)]
    gap = [next(draw) < 0.1 for _ in range(ROWS)]
    zone = datetime.timezone.utc
    start = datetime.datetime(2021, 5, 17, 12, 30, tzinfo=zone)
    cities = ["Oslo", "Rome", "a city with a long name", ""]
    pieces = {
        "double": pa.array([None if g else a * 10 - 5 for a, g in zip(one, gap)], pa.float64()),
        "float": pa.array([b - 0.5 for b in two], pa.float32()),
        "byte": pa.array([int(a * 200) - 100 for a in one], pa.int8()),
        "ubyte": pa.array([int(a * 250) for a in two], pa.uint8()),
        "short": pa.array([int(b * 6000) - 3000 for b in two], pa.int16()),
        "ushort": pa.array([int(b * 60000) for b in one], pa.uint16()),
        "int": pa.array([None if g else int(a * 1e6) for a, g in zip(two, gap)], pa.int32()),
        "uint": pa.array([int(a * 4e9) for a in one], pa.uint32()),
        "long": pa.array([int(a * 1e12) for a in one], pa.int64()),
        "ulong": pa.array([int(a * 1e15) for a in two], pa.uint64()),
        "flag": pa.array([a < b for a, b in zip(one, two)], pa.bool_()),
        "city": pa.array([None if g else cities[int(a * 3)] for a, g in zip(one, gap)], pa.string()),
        "kind": pa.array([("x", "y", "zed")[int(b * 3)] for b in two]).dictionary_encode(),
        "price": pa.array([decimal.Decimal(int(a * 10000)) / 100 for a in one], pa.decimal128(10, 2)),
        "day": pa.array([start.date() + datetime.timedelta(days=int(b * 900)) for b in two], pa.date32()),
        "moment": pa.array([start + datetime.timedelta(seconds=int(a * 1e7), microseconds=1500) for a in one], pa.timestamp("us", "UTC")),
        "label": pa.array([("low", "middle", "high")[min(2, int((a + b) * 1.5))] for a, b in zip(one, two)]),
    }
    return pa.table(pieces)


STEPS = [{"impute": ["double", "int"], "by": "mean"}, {"impute": "city", "value": "nowhere"},
         {"derive": {"hour": "hour(moment)", "weekday": "weekday(moment)", "year": "year(day)"}}, {"drop": ["moment", "day"]},
         {"normalize": ["double", "float", "byte", "ubyte", "short", "ushort", "int", "uint", "long", "ulong", "price", "hour", "year"]}]
OPTIONS = {"type": "table", "steps": STEPS, "target": "label"}


def from_file(table):
    pyarrow.parquet.write_table(table, "rows.parquet")
    trainer, model = trained(job_of({"batch": 10, "train": {**OPTIONS, "file": os.path.abspath("rows.parquet")}}))
    return trainer, model


def handed(table):
    source = source_of(table)
    job = job_of({"batch": 10, "train": {**OPTIONS, "host": "train"}})
    trainer, model = trained(job, source)
    freed(source=source, job=job)
    return trainer, model


def with_other_forms(table):
    """The same rows in the other forms of Arrow: large texts, views of texts, slices in several batches, a struct."""
    column = table["city"].combine_chunks()
    large = table.set_column(table.column_names.index("city"), "city", column.cast(pa.large_string()))
    views = table.set_column(table.column_names.index("city"), "city", column.cast(pa.string_view()))
    padded = pa.concat_tables([table.slice(7, 11), table, table.slice(1, 5)]).combine_chunks()
    sliced = pa.Table.from_batches(padded.slice(11, ROWS).to_batches(max_chunksize=37))
    assert sliced.num_rows == ROWS and sliced.column(0).num_chunks > 3
    plain = table.set_column(table.column_names.index("kind"), "kind", table["kind"].cast(pa.string()))
    return {"large_string": large, "string_view": views, "slices": sliced, "plain text": plain}


def parameters_of(handles):
    trainer, model = handles
    found = parameters(model)
    freed(trainer=trainer, model=model)
    return found


def pyarrow_trains_as_parquet():
    wanted = parameters_of(from_file(rows()))
    assert len(wanted) > 500
    assert parameters_of(handed(rows())) == wanted
    for name, table in with_other_forms(rows()).items():
        assert parameters_of(handed(table)) == wanted, name
    other = rows().set_column(0, "double", pa.array([0.5] * ROWS))
    assert parameters_of(handed(other)) != wanted, "the comparison sees no difference"


def polars_trains_as_parquet():
    if polars is None:
        raise Skip("polars is not installed")
    assert parameters_of(handed(polars.from_arrow(rows()))) == parameters_of(from_file(rows()))


def duckdb_trains_as_parquet():
    if duckdb is None:
        raise Skip("duckdb is not installed")
    table = rows()
    relation = duckdb.from_arrow(table)
    assert parameters_of(handed(relation)) == parameters_of(from_file(rows()))


def structs_become_columns():
    table = rows()
    place = pa.StructArray.from_arrays([table["city"].combine_chunks(), table["double"].combine_chunks()], ["city", "double"])
    nested = table.select(["float", "label"]).append_column("place", place).slice(3, 90)
    flat = pa.table({"float": nested["float"], "label": nested["label"], "place.city": nested["place"].combine_chunks().field("city"),
                     "place.double": nested["place"].combine_chunks().field("double")})
    data = {"batch": 10, "train": {"type": "table", "host": "train", "target": "label", "missing": "mean", "steps": [{"impute": "place.city", "value": "?"}]}}
    source, other = source_of(nested), source_of(flat)
    assert parameters_of(trained(job_of(data), source)) == parameters_of(trained(job_of(data), other))
    freed(source=source, source2=other)


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def numbers_are_read_in_place():
    """100 MB of numbers become no second 100 MB; they are released when the last handle is gone."""
    before = pa.total_allocated_bytes()
    count, width = 100_000, 256
    numbers = pa.array([0.25, 0.5, 0.75, 1.0] * (count * width // 4), pa.float32())
    x = pa.FixedSizeListArray.from_arrays(numbers, width)
    y = pa.array([i % 3 for i in range(count)], pa.int64())
    table = pa.table({"x": x, "y": y})
    del numbers, x, y
    gc.collect()
    held = pa.total_allocated_bytes() - before
    assert held > 100e6, held
    was = resident()
    source = source_of(table)
    job = job_of({"batch": 100, "train": {"type": "host", "name": "train"}})
    assert perigee.perigee_job_bind(job, b"train", source) == 0
    trainer = made("job", job, "perigee_trainer_create", job, None)
    for _ in range(20):
        assert perigee.perigee_trainer_step(trainer, None) == 0, message_of("trainer", trainer)
    grown = resident() - was
    assert grown < 40e6, f"{grown / 1e6:.0f} MB were allocated for a table of {held / 1e6:.0f} MB"
    del table
    gc.collect()
    assert pa.total_allocated_bytes() - before > 100e6, "the table was released while a trainer reads it"
    freed(source=source, job=job, trainer=trainer)
    gc.collect()
    assert pa.total_allocated_bytes() == before, "the table was not released"


def in_place_trains_as_arrays():
    draw = draws()
    x = [[next(draw), next(draw)] for _ in range(60)]
    y = [int(a + b > 1) for a, b in x]
    wanted = parameters_of(trained(job_of({"batch": 6, "train": {"type": "arrays", "x": x, "y": y}})))
    for numbers in (pa.float32(), pa.float64()):
        for label in (pa.int64(), pa.int32(), pa.uint8(), pa.int16(), pa.uint32()):
            table = pa.table({"x": pa.array(x, pa.list_(numbers, 2)), "y": pa.array(y, label)})
            source = source_of(pa.Table.from_batches(table.slice(0, 33).to_batches() + table.slice(33).to_batches()))
            assert parameters_of(trained(job_of({"batch": 6, "train": {"type": "host", "name": "train"}}), source)) == wanted, (numbers, label)
            freed(source=source)
    named = pa.table({"x": table["x"], "y": pa.array([("no", "yes")[v] for v in y]).dictionary_encode()})
    source = source_of(named)
    trainer, model = trained(job_of({"batch": 6, "train": {"type": "host", "name": "train"}}), source)
    prediction = made("model", model, "perigee_model_predict_arrow", model, stream_of(named.select(["x"]).__arrow_c_stream__()), None)
    names = pa.table(Exported(prediction)).column(2).to_pylist()
    assert set(names) <= {"no", "yes", "2"} and sum(a == ("no", "yes")[b] for a, b in zip(names, y)) > 45, names
    freed(source=source, trainer=trainer, model=model, prediction=prediction)


def dictionaries_of_batches_are_one():
    draw = draws()
    x = [[next(draw), next(draw)] for _ in range(60)]
    y = [("low", "middle", "high")[min(2, int((a + b) * 1.5))] for a, b in x]
    halves = [pa.table({"x": pa.array(x[part], pa.list_(pa.float32(), 2)), "y": pa.array(y[part]).dictionary_encode()}) for part in (slice(0, 31), slice(31, 60))]
    assert halves[0]["y"].chunk(0).dictionary != halves[1]["y"].chunk(0).dictionary
    batches = [half.to_batches()[0] for half in halves]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    whole = pa.table({"x": pa.array(x, pa.list_(pa.float32(), 2)), "y": pa.array(y).dictionary_encode()})
    found = []
    for table in (reader, whole):
        source = source_of(table)
        found.append(parameters_of(trained(job_of({"batch": 6, "train": {"type": "host", "name": "train"}}), source)))
        freed(source=source)
    assert found[0] == found[1]


def scripts_name_tables():
    """A job in Lua names the table as a job in JSON does."""
    script = b'''local pg = require "perigee"
        return pg.experiment { network = pg.sequential { pg.dense(8, { activation = "tanh" }), pg.dense(3) },
        loss = "cross_entropy", epochs = 3, seed = 4, threads = 1, optimizer = pg.adam { lr = 0.05 }, data = { batch = 10, train = pg.data.table { host = "train", target = "label", drop = { "moment", "day" },
        steps = { { impute = "*" } } } } }'''
    found = []
    for job in (made("context", CONTEXT, "perigee_job_parse", CONTEXT, script, ctypes.c_size_t(len(script)), 2, b"job.lua", None),
                job_of({"batch": 10, "train": {"type": "table", "host": "train", "target": "label", "drop": ["moment", "day"], "steps": [{"impute": "*"}]}})):
        source = source_of(rows())
        found.append(parameters_of(trained(job, source)))
        freed(source=source, job=job)
    assert found[0] == found[1]


def predictions_go_and_come():
    table = rows()
    trainer, model = from_file(table)
    def written(value):
        if isinstance(value, datetime.datetime):
            return value.isoformat().replace("+00:00", "Z")
        return "" if value is None else str(value)
    csv = "\n".join([",".join(table.column_names)] + [",".join(map(written, row.values())) for row in table.to_pylist()]).encode()
    by_text = made("model", model, "perigee_model_predict_records", model, csv, ctypes.c_size_t(len(csv)), None)
    tables = {"pyarrow": table, "without target": table.drop_columns(["label"])}
    if polars:
        tables["polars"] = polars.from_arrow(table)
    if duckdb:
        tables["duckdb"] = duckdb.from_arrow(table)
    wanted = pa.table(Exported(by_text))
    for name, given in tables.items():
        prediction = made("model", model, "perigee_model_predict_arrow", model, stream_of(given.__arrow_c_stream__()), None)
        assert pa.table(Exported(prediction)).equals(wanted), name
        freed(prediction=prediction)
    assert wanted.num_rows == ROWS and wanted["row"].to_pylist() == list(range(ROWS))
    output, classes = wanted.column_names[1], wanted.column_names[2]
    assert classes == output + "_class" and wanted.schema.field(output).type == pa.list_(pa.field("item", pa.float32(), False), 3), wanted.schema
    assert all(abs(sum(p) - 1) < 1e-5 for p in wanted[output].to_pylist())
    assert wanted[classes].to_pylist() == [("high", "low", "middle")[p.index(max(p))] for p in wanted[output].to_pylist()]
    right = sum(a == b for a, b in zip(wanted[classes].to_pylist(), table["label"].to_pylist()))
    assert right > 0.7 * ROWS, right
    # Where it lies, also when the prediction is gone.
    info = OutputInfo(size=ctypes.sizeof(OutputInfo))
    assert perigee.perigee_prediction_output(by_text, 0, ctypes.byref(info)) == 0
    assert wanted[output].chunk(0).values.buffers()[1].address == info.data
    stream = Stream()
    assert perigee.perigee_prediction_arrow(by_text, ctypes.byref(stream)) == 0
    freed(prediction=by_text, model=model, trainer=trainer)
    again = pa.RecordBatchReader._import_from_c(ctypes.addressof(stream)).read_all()
    assert again.equals(wanted)
    return wanted


def polars_and_duckdb_read_predictions():
    if polars is None or duckdb is None:
        raise Skip("polars or duckdb is not installed")
    table = rows()
    trainer, model = from_file(table)
    prediction = made("model", model, "perigee_model_predict_arrow", model, stream_of(table.__arrow_c_stream__()), None)
    wanted = pa.table(Exported(prediction)).to_pylist()
    frame = polars.DataFrame(Exported(prediction))
    found = [{k: list(v) if isinstance(v, (list, polars.Series)) else v for k, v in row.items()} for row in frame.to_dicts()]
    assert found == wanted
    reader = pa.RecordBatchReader.from_stream(Exported(prediction))
    column = frame.columns[2]
    counted = duckdb.sql(f'SELECT "{column}"::VARCHAR AS name, count(*) FROM reader GROUP BY name ORDER BY name').fetchall()
    names = [row[column] for row in wanted]
    assert counted == [(name, names.count(name)) for name in sorted(set(names))], counted
    freed(prediction=prediction, model=model, trainer=trainer)


def broken_streams_are_told_of():
    def batches():
        yield rows().to_batches()[0]
        raise ValueError("the sensor is unplugged")
    reader = pa.RecordBatchReader.from_batches(rows().schema, batches())
    out = ctypes.c_void_p()
    capsule = reader.__arrow_c_stream__()
    status = perigee.perigee_source_from_arrow(CONTEXT, b"sensor", stream_of(capsule), ctypes.byref(out))
    message = message_of("context", CONTEXT)
    assert status == DATA and out.value is None and "sensor: batch 2: the ArrowArrayStream gives no batch: " in message, message
    assert "the sensor is unplugged" in message, message
    status = perigee.perigee_source_from_arrow(CONTEXT, b"sensor", stream_of(capsule), ctypes.byref(out))
    message = message_of("context", CONTEXT)
    assert status == USAGE and "the ArrowArrayStream has been released" in message, message


def what_has_no_form_is_refused_by_name():
    whole, place = {"type": "table", "host": "train"}, {"type": "host", "name": "train"}
    cases = [
        (pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "y": [1]}), whole, "the column 'm' is not read: it is a map"),
        (pa.table({"a": pa.array([1, None]), "y": [1, 2]}), place, "column 'a': rows without a value are no examples"),
        (pa.table({"a": ["red", "blue"], "y": [1, 2]}), place, "column 'a': the column has no numbers of a field as it lies there"),
        (pa.table({"a": pa.array([2**63 + 5], pa.uint64()), "y": [1]}), whole, "an unsigned number beyond 2^63"),
        (pa.table({"a": pa.array([1.5]), "y": [1]}), {"type": "table", "host": "trian"}, "the data 'trian' live in the program"),
        (pa.table({"a": pa.array([1.5]), "y": [1]}), {"type": "table", "host": "train", "file": "x.csv"}, "'file' is of a file, and 'host' names a table"),
        (pa.table({"a": pa.array([1.5]), "y": [1]}), {"type": "table"}, "'file' is missing"),
        (pa.table({"a": pa.array([1.5]), "y": [1]}).slice(0, 0), place, "the table has no rows"),
    ]
    for table, train, text in cases:
        source = source_of(table)
        job = job_of({"batch": 1, "train": train})
        assert perigee.perigee_job_bind(job, b"train", source) == 0
        out = ctypes.c_void_p()
        status = perigee.perigee_trainer_create(job, None, ctypes.byref(out))
        message = message_of("job", job)
        assert status in (DATA, 4) and text in message, (status, message)
        freed(source=source, job=job)


def the_example_runs():
    example = pathlib.Path(__file__).with_name("example_arrow.py")
    done = subprocess.run([sys.executable, example, perigee._name], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout == "['row', 'output', 'output_class'] ['yes', 'no']\n", (done.stdout, done.stderr)


CHECKS = [pyarrow_trains_as_parquet, polars_trains_as_parquet, duckdb_trains_as_parquet, structs_become_columns, numbers_are_read_in_place,
          in_place_trains_as_arrays, dictionaries_of_batches_are_one, scripts_name_tables, predictions_go_and_come, polars_and_duckdb_read_predictions, broken_streams_are_told_of, what_has_no_form_is_refused_by_name, the_example_runs]

if __name__ == "__main__":
    print(f"1..{len(CHECKS)}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number, check in enumerate(CHECKS, 1):
            name = check.__name__.replace("_", " ")
            try:
                check()
                print(f"ok {number} {name}", flush=True)
            except Skip as reason:
                print(f"ok {number} {name} # SKIP {reason}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"not ok {number} {name}\n# {error}", flush=True)
        os.chdir("/")
    sys.exit(failed > 0)
