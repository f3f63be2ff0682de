#!/usr/bin/env python3
"""Files whose columns have types (Parquet, Arrow) as `perigee data convert` reads them, against pyarrow: columnar_test.py PROGRAM. Prints TAP.

The oracles of PERIGEE_DATA are files and what pyarrow 26 read from them; where pyarrow can be imported, it writes files of every type, encoding and
compression too. Both are skipped where they are not there.
"""
import base64
import datetime
import decimal
import gzip
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
ORACLES = pathlib.Path(os.environ.get("PERIGEE_DATA", "/nowhere")) / "oracles"
try:
    import pyarrow
    import pyarrow.feather
    import pyarrow.ipc
    import pyarrow.parquet
except ImportError:
    pyarrow = None


class Skip(Exception):
    pass


def converted(path, *more):
    """The rows as objects, or the message of the refusal."""
    done = subprocess.run([PROGRAM, "data", "convert", str(path), "out.jsonl", *more], capture_output=True, timeout=120, check=False)
    if done.returncode != 0:
        assert done.returncode in (3, 7), (path, done.returncode, done.stderr)
        return None, done.stderr.decode(errors="replace")
    text = pathlib.Path("out.jsonl").read_bytes().decode(errors="surrogateescape")
    return [json.loads(line, strict=False) for line in text.split("\n") if line], ""


def milliseconds(text):
    """A time as the table writes it: ISO 8601 without what is finer."""
    if len(text) == 10:
        return text
    head, _, fraction = text.partition(".")
    fraction = (fraction.rstrip("Z") + "000")[:3]
    head = head.rstrip("Z").removesuffix("+00:00").replace(" ", "T")
    return head if fraction == "000" else f"{head}.{fraction}"


def same(found, wanted):
    if isinstance(wanted, bytes):
        # Bytes that are no UTF-8 become U+FFFD in JSON.
        return isinstance(found, str) and found.replace("\ufffd", "") == wanted.decode(errors="ignore").replace("\ufffd", "")
    if isinstance(wanted, datetime.datetime):
        wanted = wanted.isoformat().replace("+00:00", "")
    elif isinstance(wanted, datetime.date):
        wanted = wanted.isoformat()
    if isinstance(wanted, float) and math.isnan(wanted):
        return found is None  # JSON has none
    if isinstance(wanted, float) and math.isinf(wanted):
        return found is None
    if isinstance(wanted, decimal.Decimal):
        wanted = float(wanted)
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(same(a, b) for a, b in zip(found, wanted))
    if isinstance(wanted, str) and isinstance(found, str):
        day = found if len(found) > 10 else found + "T00:00:00"
        return found == wanted or milliseconds(day) == milliseconds(wanted if len(wanted) > 10 else wanted + "T00:00:00")
    if isinstance(wanted, str) and isinstance(found, float):
        return found == float(wanted)
    if isinstance(wanted, float) or isinstance(found, float):
        return found is not None and wanted is not None and float(found) == float(wanted)
    return found == wanted


def compare(name, rows, columns):
    count = len(next(iter(columns.values())))
    assert len(rows) == count, (name, len(rows), count)
    for column, values in columns.items():
        for number, (row, value) in enumerate(zip(rows, values)):
            assert same(row[column], value), f"{name}: {column}[{number}]: {row[column]!r}, not {value!r}"


def table(count, nulls, seed=1):
    draw = random.Random(seed)
    arrow = pyarrow
    day = datetime.date(1960, 1, 1)
    when = datetime.datetime(1965, 3, 1)

    def column(make, kind):
        return arrow.array([None if nulls and draw.random() < nulls else make() for _ in range(count)], kind)

    def text():
        return "".join(draw.choice("abcäöü€😀 ,\"'") for _ in range(draw.randrange(12)))

    later = lambda: when + datetime.timedelta(microseconds=draw.randrange(9 * 10**15))
    return arrow.table({
        "i8": column(lambda: draw.randrange(-128, 128), arrow.int8()), "i16": column(lambda: draw.randrange(-2**15, 2**15), arrow.int16()),
        "i32": column(lambda: draw.randrange(-2**31, 2**31), arrow.int32()), "i64": column(lambda: draw.randrange(-2**63, 2**63), arrow.int64()),
        "u8": column(lambda: draw.randrange(256), arrow.uint8()), "u16": column(lambda: draw.randrange(2**16), arrow.uint16()),
        "u32": column(lambda: draw.randrange(2**32), arrow.uint32()), "u64": column(lambda: draw.randrange(2**63), arrow.uint64()),
        "few": column(lambda: draw.randrange(3) * 1000, arrow.int64()),
        "f32": column(lambda: draw.gauss(0, 1e3), arrow.float32()), "f64": column(lambda: draw.gauss(0, 1e3), arrow.float64()),
        "flag": column(lambda: draw.random() < .3, arrow.bool_()), "text": column(text, arrow.string()), "large": column(text, arrow.large_string()),
        "city": column(lambda: draw.choice(["Rome", "Oslo", "Bern"]), arrow.string()),
        "raw": column(lambda: bytes(draw.randrange(97, 123) for _ in range(draw.randrange(9))), arrow.binary()),
        "fixed": column(lambda: bytes(draw.randrange(97, 123) for _ in range(5)), arrow.binary(5)),
        "day": column(lambda: day + datetime.timedelta(days=draw.randrange(40000)), arrow.date32()),
        "ms": column(lambda: later().replace(microsecond=0), arrow.timestamp("ms")), "us": column(later, arrow.timestamp("us")),
        "ns": column(later, arrow.timestamp("ns")), "s": column(lambda: later().replace(microsecond=0), arrow.timestamp("s", tz="UTC")),
        "price": column(lambda: decimal.Decimal(draw.randrange(-10**9, 10**9)).scaleb(-2), arrow.decimal128(11, 2)),
        "long": column(lambda: decimal.Decimal(draw.randrange(-10**30, 10**30)).scaleb(-5), arrow.decimal128(38, 5)),
        "list": column(lambda: [draw.gauss(0, 1) for _ in range(draw.randrange(4))], arrow.list_(arrow.float64())),
        "whole": column(lambda: [draw.randrange(100) for _ in range(draw.randrange(4))], arrow.list_(arrow.int32())),
    })


def values_of(found):
    columns = {}
    for name in found.column_names:
        column = found[name]
        if pyarrow.types.is_timestamp(column.type):
            column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
        columns[name] = column.to_pylist()
    return columns


def needs_pyarrow():
    if pyarrow is None:
        raise Skip("pyarrow is not installed")


def test_parquet_of_every_kind():
    needs_pyarrow()
    write = pyarrow.parquet.write_table
    for nulls in (0, .2, 1):
        data = table(1500, nulls)
        wanted = values_of(data)
        plain = [name for name in data.column_names if name not in ("list", "whole")]
        deltas = {name: "DELTA_BINARY_PACKED" for name in ("i8", "i32", "i64", "u32", "few", "day", "us")} | {
            "text": "DELTA_BYTE_ARRAY", "city": "DELTA_LENGTH_BYTE_ARRAY", "large": "DELTA_LENGTH_BYTE_ARRAY", "f32": "BYTE_STREAM_SPLIT", "f64": "BYTE_STREAM_SPLIT",
            "fixed": "DELTA_BYTE_ARRAY", "flag": "RLE"}
        forms = [{"compression": codec, "data_page_version": version, "use_dictionary": dictionary}
                 for codec in ("none", "snappy", "gzip", "zstd", "lz4", "brotli") for version in ("1.0", "2.0") for dictionary in (True, False)]
        forms += [{"use_dictionary": False, "column_encoding": deltas, "data_page_version": version} for version in ("1.0", "2.0")]
        forms += [{"row_group_size": 100, "data_page_size": 300, "write_page_checksum": True}, {"use_deprecated_int96_timestamps": True},
                  {"store_decimal_as_integer": True}]
        for form in forms:
            write(data, "t.parquet", **form)
            rows, message = converted("t.parquet")
            if form.get("compression") == "brotli" and rows is None and "libbrotli" in message:
                continue
            assert rows is not None, (form, message)
            compare(f"{form}, {nulls} missing", rows, wanted)
        assert plain


def test_arrow_of_every_kind():
    needs_pyarrow()
    for nulls in (0, .2, 1):
        data = table(1500, nulls)
        data = data.append_column("coded", data["city"].dictionary_encode())
        wanted = values_of(data)
        for codec in (None, "zstd", "lz4"):
            for stream in (False, True):
                options = pyarrow.ipc.IpcWriteOptions(compression=codec)
                opened = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
                with opened("t.arrow", data.schema, options=options) as writer:
                    writer.write_table(data, max_chunksize=400)
                rows, message = converted("t.arrow")
                assert rows is not None, (codec, stream, message)
                compare(f"{codec} stream {stream}, {nulls} missing", rows, wanted)
        pyarrow.feather.write_feather(data, "t.feather")
        rows, message = converted("t.feather")
        assert rows is not None, message
        compare("feather", rows, wanted)


def test_nested_columns_are_refused_by_name():
    needs_pyarrow()
    data = pyarrow.table({"a": [1, 2], "names": [["x"], ["y", "z"]], "deep": [[[1]], [[2]]]})
    pyarrow.parquet.write_table(data, "nested.parquet")
    with pyarrow.ipc.new_file("nested.arrow", data.schema) as writer:
        writer.write_table(data)
    for name in ("nested.parquet", "nested.arrow"):
        rows, message = converted(name)
        assert rows is None and "'names" in message and "is not read" in message, message
        pathlib.Path("schema.json").write_text(json.dumps({"columns": [{"name": "a", "type": "real"}]}))  # as the message advises
        assert converted(name, "--schema", "schema.json")[0] == [{"a": 1.0}, {"a": 2.0}]


def test_oracle_of_formats():
    if not (ORACLES / "formats").is_dir():
        raise Skip("PERIGEE_DATA has no oracles")
    expected = json.loads((ORACLES / "formats" / "table.expected.json").read_text())
    expected["blob"] = [None if value is None else bytes.fromhex(value) for value in expected["blob"]]
    files = sorted((ORACLES / "formats").glob("*.parquet")) + sorted((ORACLES / "formats").glob("table*.arrow"))
    assert files
    for file in files:
        rows, message = converted(file)
        assert rows is not None, (file, message)
        compare(file.name, rows, {name: values for name, values in expected.items() if name in rows[0]})
        assert len(rows[0]) >= len(expected) - 1, (file, set(expected) - set(rows[0]))


def test_parquet_testing():
    """Files of Apache's own; pyarrow's nanoseconds do not reach the year 9999, of which one has a time."""
    folder = ORACLES / "third_party" / "parquet-testing"
    if not folder.is_dir():
        raise Skip("PERIGEE_DATA has no oracles")
    with gzip.open(folder / "expected_pyarrow.json.gz") as file:
        expected = json.load(file)["files"]
    compared = refused = 0
    for name, about in expected.items():
        if "error" in about or not (folder / name).exists() or "int96_from_spark" in name:
            continue
        rows, message = converted(folder / name)
        if rows is None:
            assert "is not read: it is in a list" in message or "checksum does not match" in message, (name, message)
            refused += 1
            continue
        flat = {column: [special(value) for value in values] for column, values in about["values"].items() if rows and column in rows[0]}
        if flat:
            compare(name, rows[:len(next(iter(flat.values())))], flat)
        compared += len(flat)
    assert compared >= 90 and refused < 12, (compared, refused)


def special(value):
    if isinstance(value, str) and value.startswith("hex:"):
        return bytes.fromhex(value[4:])
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.get(value, value) if isinstance(value, str) else value


def main():
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    print(f"1..{len(tests)}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number, test in enumerate(tests, 1):
            try:
                test()
                print(f"ok {number} - {test.__name__}", flush=True)
            except Skip as reason:
                print(f"ok {number} - {test.__name__} # SKIP {reason}", flush=True)
            except Exception as error:  # the next test may still say something
                failed += 1
                print(f"not ok {number} - {test.__name__}\n# {type(error).__name__}: {str(error)[:2000]}", flush=True)
        os.chdir("/")
    sys.exit(failed > 0)


main()
