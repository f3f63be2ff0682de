"""Files of a few kilobytes that want far more memory than they have bytes, one or several for each reader of tables: tests/data/hostile_test.cpp.

    python3 tests/data/hostile/make_hostile.py out; tar --sort=name -C out -c . | xz -9e > tests/data/hostile/files.tar.xz

Needs numpy, pyarrow, h5py, zstandard (pip).
"""
import gzip
import io
import json
import os
import struct
import sys
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import zstandard

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)


def put(name, content):
    os.makedirs(os.path.dirname(os.path.join(folder, name)) or ".", exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)


def zst(content): return zstandard.ZstdCompressor(level=19).compress(content)


def parquet(name, table, **options):
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    put(name, out.getvalue())


def arrow(name, table, chunk=None):
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
        file.write_table(table, max_chunksize=chunk or len(table))
    put(name, out.getvalue())


# Rows that are all alike: good files, which are read in parts.
million = np.zeros(1 << 20)
parquet("constant.parquet", pa.table({"a": million, "b": million.astype(int), "c": ["a constant text of thirty bytes"] * (1 << 20)}))
arrow("constant.arrow", pa.table({"a": million, "b": million.astype(int)}))
# A row group of 16 million rows, and of 4 million in 40 columns.
parquet("rows.parquet", pa.table({"a": np.zeros(1 << 24, np.int8)}), row_group_size=1 << 24, data_page_size=1 << 28)
parquet("cells.parquet", pa.table({f"c{i}": np.zeros(1 << 21, np.int8) for i in range(20)}), row_group_size=1 << 21)
# 100,000 rows that name one text of 64 KiB.
word = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), ["x" * 65536])
parquet("words.parquet", pa.table({"a": word}))
arrow("words.arrow", pa.table({"a": word}))
# One page, or buffer, of 128 MiB of zeros.
for codec in ("zstd", "gzip", "brotli"):
    parquet(f"page_{codec}.parquet", pa.table({"a": np.zeros(1 << 24)}), compression=codec, use_dictionary=False, data_page_size=1 << 28, row_group_size=1 << 24, write_batch_size=1 << 24)
parquet("text_page.parquet", pa.table({"a": ["y" * (100 << 20)]}), compression="zstd", use_dictionary=False)
parquet("prefixes.parquet", pa.table({"a": ["y" * 20000] * 20000}), compression="zstd", use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"})
arrow("buffer.arrow", pa.table({"a": np.zeros(1 << 24)}))
arrow("text.arrow", pa.table({"a": ["y" * (100 << 20)]}))
arrow("lists.arrow", pa.table({"a": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(1 << 24)), 1 << 12)}))
parquet("lists.parquet", pa.table({"a": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(1 << 23)), 1 << 12).cast(pa.list_(pa.float64()))}))

# Streams that unpack to 200 MB: one line, many lines, and a quote that does not end.
line = b"1," * (100 << 20)
put("line.csv.zst", zst(line))
put("quote.csv.zst", zst(b'a,b\n1,"' + b"x" * (200 << 20)))
put("quote.csv.gz", gzip.compress(b'a,b\n1,"' + b"x" * (80 << 20)))
put("fields.csv.zst", zst(b"," * (64 << 20) + b"\n"))
put("lines.csv.zst", zst(b"a,b\n" + b"1,2\n" * (20 << 20)))
put("line.jsonl.zst", zst(b'{"a": [' + b"1," * (100 << 20)))
put("keys.jsonl.zst", zst(b'{"a": 1}\n' * (8 << 20)))
put("svm.svm.zst", zst(b"1 1:1\n" * (20 << 20)))
put("tf.tfrecord.zst", zst(b"\0" * (200 << 20)))

def zipped(files, level=9):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, content in files.items(): archive.writestr(name, content)
    return out.getvalue()


npy = io.BytesIO()
np.save(npy, np.zeros(1 << 24))
put("zeros.npz", zipped({"x.npy": npy.getvalue()}))
sheet = b'<worksheet><sheetData>' + b'<row r="1"><c r="A1"><v>1</v></c></row>' * (4 << 20) + b"</sheetData></worksheet>"
book = {"[Content_Types].xml": b"<Types/>", "_rels/.rels": b"<Relationships/>",
        "xl/workbook.xml": b'<workbook xmlns:r="r"><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": b'<Relationships><Relationship Id="rId1" Type="worksheet" Target="worksheets/sheet1.xml"/></Relationships>'}
put("rows.xlsx", zipped({**book, "xl/worksheets/sheet1.xml": sheet}))
put("strings.xlsx", zipped({**book, "xl/sharedStrings.xml": b"<sst>" + b"<si><t>x</t></si>" * (6 << 20) + b"</sst>",
                            "xl/worksheets/sheet1.xml": b'<worksheet><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c></row></sheetData></worksheet>'}))
put("cells.xlsx", zipped({**book, "xl/worksheets/sheet1.xml": b"<worksheet><sheetData>" + b'<row><c r="XFD1"><v>1</v></c></row>' * 20000 + b"</sheetData></worksheet>"}))

for name, shape, chunks in (("zeros.h5", (1 << 24,), (1 << 24,)), ("chunks.h5", (1 << 27,), (1 << 20,)), ("wide.h5", (1 << 17, 1024), (1 << 12, 1024))):
    path = os.path.join(folder, name)
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", shape, "f4", chunks=chunks, compression="gzip", compression_opts=9)
        if name == "zeros.h5": data[:] = 0
with h5py.File(os.path.join(folder, "text.h5"), "w") as file:
    file.create_dataset("x", (100_000,), "S4096", chunks=(1000,), compression="gzip")

# A shard of MDS whose samples unpack to 200 MB.
body = struct.pack("<III", 1, 12, 12 + 4 + (200 << 20)) + struct.pack("<I", 200 << 20) + b"z" * (200 << 20)
put("mds/shard.00000.mds.zstd", zst(body))
put("mds/index.json", json.dumps({"version": 2, "shards": [{
    "format": "mds", "version": 2, "column_names": ["t"], "column_encodings": ["str"], "column_sizes": [None], "compression": "zstd", "hashes": [], "samples": 1,
    "size_limit": 1 << 28, "raw_data": {"basename": "shard.00000.mds", "bytes": len(body), "hashes": {}},
    "zip_data": {"basename": "shard.00000.mds.zstd", "bytes": len(zst(body)), "hashes": {}}}]}).encode())
