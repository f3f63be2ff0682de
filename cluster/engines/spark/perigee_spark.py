"""Perigee on Spark: trains on a DataFrame with the executors that are there, and predicts over one.

    import perigee_spark
    model = perigee_spark.train("models/lenet.lua", train=df, test=df2, workers=4, shape=(1, 28, 28), set={"epochs": 5})
    model.transform(df2).select("prediction").show()

The driver runs `perigee train --listen`; each of `workers` ordinary tasks runs `perigee worker --join`. README.md has the rest.
"""
import collections
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings


class PerigeeError(RuntimeError):
    """What `perigee` itself said when it failed."""


def _by_value():
    """Sends these functions with the tasks, so that no --py-files is needed."""
    from pyspark import cloudpickle
    cloudpickle.register_pickle_by_value(sys.modules[__name__])


def _start(command, secret=None, **more):
    """A child that ends with its starter. `secret` goes to its standard input, so that a starter that is killed leaves no file with it."""
    def die_with_parent():
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: Spark kills its Python workers without a word
    child = subprocess.Popen(command, stdin=subprocess.PIPE if secret else subprocess.DEVNULL, text=True, errors="replace", preexec_fn=die_with_parent,
                             **more)
    if secret:
        with contextlib.suppress(BrokenPipeError), child.stdin:  # it ended at once: its exit code and its words say why
            child.stdin.write(secret)
    return child


def _run(program, *words):
    child = _start([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = child.communicate()
    if child.returncode:
        raise PerigeeError(f"perigee {words[0]}: exit code {child.returncode}: {err.strip()}")
    return out


def _private_file(folder, name, content):
    path = os.path.join(folder, name)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return path


def _array(column):
    """A column of Arrow as an array with one row per row: numbers, lists of numbers, or bytes."""
    import numpy
    import pyarrow
    if column.null_count:
        raise ValueError(f"{column.null_count} rows have no value; drop or fill them")
    kind = column.type
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        flat = column.flatten().to_numpy(zero_copy_only=False)
    elif pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
        flat = numpy.frombuffer(b"".join(column.to_pylist()), numpy.uint8)
    else:
        flat = column.to_numpy(zero_copy_only=False)
    if flat.dtype == numpy.float64:
        flat = flat.astype(numpy.float32)
    if len(column) and flat.size % len(column):
        raise ValueError("the rows have lists of different lengths")
    return flat if flat.size == len(column) else numpy.ascontiguousarray(flat).reshape(len(column), -1)


def _features(batch, names, shape):
    import numpy
    arrays = [_array(batch.column(name)) for name in names]
    arrays = [a if a.dtype == numpy.uint8 and len(names) == 1 else a.astype(numpy.float32, copy=False) for a in arrays]  # bytes stay bytes
    return numpy.concatenate([a.reshape(len(a), -1) for a in arrays], axis=1).reshape(len(arrays[0]), *(shape or (-1,)))


def _write(batches, folder, features, label, shape, classes):
    """A partition as a file of arrays in the folder, whose name has the hash of what is in it: (partition, rows, name)."""
    import numpy
    import pyarrow
    from pyspark import TaskContext
    context = TaskContext.get()
    parts = [batch for batch in batches if batch.num_rows]
    if not parts:
        return context.partitionId(), 0, ""
    fields = {"x": numpy.concatenate([_features(batch, features, shape) for batch in parts])}
    if label:
        column = pyarrow.chunked_array([batch.column(label) for batch in parts]).combine_chunks()
        index = {text: number for number, text in enumerate(classes or [])}
        fields["y"] = numpy.array([index[text] for text in column.to_pylist()], numpy.int64) if classes else _array(column)
    bytes_of = b"".join(a.dtype.str.encode() + repr(a.shape).encode() + a.tobytes() for a in fields.values())
    name = f"part-{context.partitionId():05d}-{hashlib.sha256(bytes_of).hexdigest()[:24]}.npz"
    temporary = os.path.join(folder, f".{name}.{context.taskAttemptId()}")
    with open(temporary, "wb") as file:
        numpy.savez(file, **fields)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, os.path.join(folder, name))  # another attempt with the same rows writes the same file
    return context.partitionId(), len(fields["x"]), name


def _source(path, label, classes):
    return {"type": "npz", "file": path, "x": "x", **({"y": "y"} if label else {}), **({"class_names": classes} if classes else {})}


def _scratch():
    """A folder that ends with the task, or with the application: Spark removes what is under its own."""
    return tempfile.TemporaryDirectory(prefix="perigee-", dir=os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None)


_PART = "part int, rows long, name string, more binary"


def _task(columns, more, folder=None):
    """A task that writes its partition into the folder, or into one that ends with it. Its row has what `more` makes of the partition and its file.
    Without columns there is no file."""
    def task(batches):
        import pyarrow
        with contextlib.nullcontext(folder) if folder else _scratch() as place:
            part, rows, name = _write(batches if columns else [], place, *(columns or [None] * 4))
            collections.deque(batches, maxlen=0)
            made = pyarrow.array([more(part, os.path.join(place, name) if rows else None)], pyarrow.binary())
        yield pyarrow.RecordBatch.from_pydict({"part": pyarrow.array([part], pyarrow.int32()), "rows": [rows], "name": [name], "more": made})
    return task


def _listens(address):
    """Whether the coordinator is there; it refuses once the run is over."""
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except ConnectionError:
        return False
    except OSError as error:
        raise RuntimeError(f"{socket.gethostname()} cannot reach the driver at {address} ({error}): spark.driver.host must be an address that "
                           "executors reach, and no firewall between them") from error
    return True


def _work(program, address, secret, threads, *words):
    """This task's worker, from its start to the end of the run; the numbers of the partition and of its attempt."""
    from pyspark import TaskContext
    context = TaskContext.get()
    index = context.partitionId()
    if _listens(address):  # else the run was over before Spark came to this task
        gpu = context.resources().get("gpu")
        environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": ",".join(gpu.addresses)} if gpu else {})}
        name = f"spark-{index}.{context.taskAttemptId()}"
        command = [program, "worker", name, "--join", address, "--secret", "-", "--threads", str(threads), *words]
        child = _start(command, secret, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = "".join(collections.deque(child.stdout, maxlen=20))
        if child.wait() and _listens(address):
            raise RuntimeError(f"perigee worker {name} on {socket.gethostname()}: exit code {child.returncode}\n{text}")
        # A worker that was sent away ends well, too: the task is done only when the run is, else Spark starts it again.
        end = time.monotonic() + 60
        while _listens(address):
            time.sleep(0.2)
            if time.monotonic() > end:
                raise RuntimeError(f"perigee worker {name} left while the run goes on")
    return index, context.attemptNumber()


def _plain_tasks(context, workers):
    return lambda *how: dict(context.parallelize(range(workers), workers).mapPartitionsWithIndex(lambda *_: [_work(*how)]).collect())


def _held(part, path, columns):
    """What `perigee` is told of a partition: its name and where it is."""
    return f"train/{part}", json.dumps(_source(path, columns[1], columns[3]))


def _describe(program, columns):
    return _task(columns, lambda part, path: path and _run(program, "data", "partition", *_held(part, path, columns)).encode())


def _content(_, path):
    return path and pathlib.Path(path).read_bytes()


def _arrow_tasks(df, columns=None):
    """Through Arrow, as the rows went before: another kind of job would start new Python processes. With columns the tasks compute their partitions,
    keep them and serve them: a worker whose rows are other ones than the job's is refused."""
    def tasks(*how):
        def work(part, path):
            return str(_work(*how, *(("--partition", "=".join(_held(part, path, columns))) if path else ()))[1]).encode()
        return {row.part: int(row.more) for row in df.mapInArrow(_task(columns, work), _PART).collect()}
    return tasks


def _predict_task(program, model, features, shape, out):
    def predict(batches):
        import numpy
        import pyarrow
        with tempfile.TemporaryDirectory(prefix="perigee-") as folder:
            path = _private_file(folder, "model.safetensors", model.value)
            for batch in (each for each in batches if each.num_rows):
                numpy.savez(os.path.join(folder, "rows.npz"), x=_features(batch, features, shape))
                command = program, "predict", path, os.path.join(folder, "rows.npz"), "--json", "--threads", "1"
                lines = [json.loads(line) for line in _run(*command).splitlines()]
                values = [line.get("probabilities", line.get("values")) for line in lines]
                values = [list(v.values()) if isinstance(v, dict) else v if isinstance(v, list) else [v] for v in values]
                labels = [str(line["label"]) if "label" in line else str(v[0]) for line, v in zip(lines, values)]
                more = [pyarrow.array(labels), pyarrow.array(values, pyarrow.list_(pyarrow.float64()))]
                yield pyarrow.RecordBatch.from_arrays([*batch.columns, *more], names=[*batch.schema.names, out, out + "_values"])
    return predict


class Model:
    """A finished run: its folder, what `perigee` reported at the end, and the tasks that Spark ran more than once."""

    def __init__(self, folder, end, attempts, program, features, shape):
        self.folder, self.end, self.attempts = folder, end, attempts
        self._program, self._features, self._shape = program, features, shape

    def transform(self, df, output="prediction"):
        """The DataFrame with two more columns: `output`, the label (or the value, as text), and `output`_values, an array."""
        from pyspark.sql.types import ArrayType, DoubleType, StringType, StructType
        df = _as_arrays(df, self._features)
        with open(os.path.join(self.folder, "model.safetensors"), "rb") as file:
            model = df.sparkSession.sparkContext.broadcast(file.read())
        schema = StructType(list(df.schema.fields)).add(output, StringType()).add(output + "_values", ArrayType(DoubleType()))
        return df.mapInArrow(_predict_task(self._program, model, self._features, self._shape, output), schema)


def _as_arrays(df, names):
    """The DataFrame with Spark ML's vectors as arrays."""
    _by_value()
    for name in names:
        if name not in df.columns:
            raise ValueError(f"there is no column '{name}'; the columns are {', '.join(df.columns)}")
        if type(df.schema[name].dataType).__name__ == "VectorUDT":
            from pyspark.ml.functions import vector_to_array  # takes its time: for vectors alone
            df = df.withColumn(name, vector_to_array(name, "float32"))
    return df


def export(df, folder, features, label=None, shape=None, classes=None):
    """Writes the partitions as files into `folder` and returns the source of a job that reads them in the partitions' order."""
    os.makedirs(folder, exist_ok=True)
    names = [*features, *([label] if label else [])]
    df = _as_arrays(df, names).select(*names)
    files = [row.name for row in _partitions(df.mapInArrow(_task((list(features), label, shape, classes), lambda *_: None, folder), _PART))]
    if not all(os.path.exists(os.path.join(folder, name)) for name in files):
        raise FileNotFoundError(f"the driver does not see what the executors wrote into {folder}: give shared= a folder of all machines")
    return _joined([_source(os.path.join(folder, name), label, classes) for name in files])


def _partitions(df):
    found = [row for row in sorted(df.collect(), key=lambda row: row.part) if row.rows]
    if not found:
        raise ValueError("the DataFrame has no rows")
    return found


def _joined(sources):
    return sources[0] if len(sources) == 1 else {"type": "concat", "sources": sources}


def _resident(program, data, train, test, workers, folder, columns):
    """Puts the partitions of `train` into the job's data by what they are, and `test` by files of the driver; the tasks that hold them."""
    features, label, _, classes = columns
    names = [*features, *([label] if label else [])]
    train = _as_arrays(train, names).select(*names).coalesce(workers)
    data["train"] = _joined([json.loads(row.more) for row in _partitions(train.mapInArrow(_describe(program, columns), _PART))])
    data["at"] = "partitions"
    if test is not None:  # the coordinator serves it
        os.makedirs(folder, exist_ok=True)
        parts = _partitions(_as_arrays(test, names).select(*names).mapInArrow(_task(columns, _content), _PART))
        for row in parts:
            pathlib.Path(folder, row.name).write_bytes(row.more)
        data["test"] = _joined([_source(os.path.join(folder, row.name), label, classes) for row in parts])
    return _arrow_tasks(train, columns)


def train(job, train=None, test=None, *, workers=None, set=None, features="features", label="label", shape=None, data="export",
          shared="spark-data", out=None, min_workers=1, resume=None, program="perigee", on_event=None, arguments=(), spark=None):
    """Trains the job (a script, JSON or YAML) with Spark's executors and returns a Model; README.md says what the arguments are."""
    from pyspark.sql import SparkSession
    spark = spark or SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if not hasattr(spark, "_jsc"):
        raise ValueError("this is a session of Spark Connect, which has no tasks of our own; start it with a master")
    _by_value()
    context, conf = spark.sparkContext, spark.sparkContext.getConf()
    if conf.get("spark.speculation", "false") == "true":
        raise ValueError("spark.speculation starts a second copy of a slow task, which would train as one more worker: set it to false")
    safe = all(conf.get(key, "false") == "true" for key in ("spark.authenticate", "spark.network.crypto.enabled"))
    if not safe and not context.master.startswith("local"):
        warnings.warn("the run's secret goes to the executors unencrypted: set spark.authenticate and spark.network.crypto.enabled")
    threads = int(conf.get("spark.task.cpus", "1"))
    workers = workers or max(1, context.defaultParallelism // threads)
    features = [features] if isinstance(features, str) else list(features)
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in (set or {}).items()}
    if data not in ("export", "resident"):
        raise ValueError(f"data={data!r}: it is 'export', files that all machines see, or 'resident', tasks that keep their partitions")
    settings = [word for key, text in texts.items() for word in ("--set", f"{key}={text}")]
    with tempfile.TemporaryDirectory(prefix="perigee-") as folder:
        words, tasks = [job, *settings], _plain_tasks(context, workers)
        if train is not None:
            described = json.loads(_run(program, "describe", *words, "--json"))
            named = label in train.columns and train.schema[label].dataType.typeName() == "string"
            classes = [row[0] for row in train.select(label).distinct().orderBy(label).collect()] if named else None
            for part in ("train", "test"):
                described["data"].pop(part, None)
            if data == "resident":
                tasks = _resident(program, described["data"], train, test, workers, os.path.abspath(shared), (features, label, shape, classes))
            else:
                tasks = _arrow_tasks(spark.range(0, workers, 1, workers))
            for part, df in (("train", train), ("test", test)) if data == "export" else ():
                if df is not None:
                    described["data"][part] = export(df, os.path.abspath(shared), features, label, shape, classes)
            words = [os.path.join(folder, "job.json")]
            with open(words[0], "w") as opened:
                json.dump(described, opened)
        secret = secrets.token_hex(32) + "\n"  # a line of hexadecimal digits, as `perigee secret new` prints behind its comment
        command = [program, "train", *words, "--listen", conf.get("spark.driver.host", "127.0.0.1") + ":0", "--log", "json",
                   "--secret", "-", "--min-workers", str(min_workers), *arguments]
        command += ["--resume", resume] if resume else ["--out", out] if out else []
        return _lead(command, tasks, program, secret, threads, features, shape, on_event or _say)


def _say(event):
    if event.get("event") == "epoch":
        figures = {"loss": event.get("loss"), **{f"test {k}": (event.get("test") or {}).get(k) for k in ("loss", "accuracy")}}
        print(f"epoch {event['epoch']}: " + ", ".join(f"{k} {v:.4f}" for k, v in figures.items() if v is not None), flush=True)


def _lead(command, tasks, program, secret, threads, features, shape, on_event):
    """Runs the coordinator beside the driver, and the workers as one Spark job, to the end of both."""
    errors = tempfile.TemporaryFile(mode="w+")
    lead = _start(command, secret, stdout=subprocess.PIPE, stderr=errors)
    started, ended = threading.Event(), {}

    def read():
        for line in lead.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("event") == "start":
                ended["folder"] = os.path.abspath(event["folder"])
                started.set()
            elif event.get("event") == "end":
                ended["end"] = event
            try:
                on_event(event)
            except Exception as error:  # a listener's mistake must not stop the run
                warnings.warn(f"on_event: {error!r}")
        started.set()

    failure, attempts, reader = None, {}, threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        started.wait()
        if "folder" in ended:
            with open(os.path.join(ended["folder"], "cluster.json")) as file:
                attempts = tasks(program, json.load(file)["listen"], secret, threads)
    except BaseException as error:  # also a job that was cancelled, and Ctrl-C in a notebook: a checkpoint is left
        failure = error
        if "end" not in ended:
            lead.terminate()
    code = lead.wait()
    reader.join(10)
    if isinstance(failure, KeyboardInterrupt):
        raise failure
    if code:
        errors.seek(0)
        said = [line for line in str(failure or "").splitlines() if line.startswith("perigee: ")][:1]  # by a worker that ended its task
        raise PerigeeError("\n".join([*said, f"perigee train: exit code {code}: {errors.read()[-4000:].strip()}"]) +
                           (f"; the run is in {ended['folder']}, resume= goes on" if "folder" in ended else "")) from failure
    if failure and "end" not in ended:
        raise failure
    return Model(ended["folder"], ended.get("end", {}), attempts, program, features, shape)
