"""What no other file has: shapes that layers and ops of a program want, predictions by the reference, a print that cannot, for error_cases.py."""
from error_forms import ARRAYS, command, job, prompt, script
from error_programs import line, op

IMAGES = "pg.data.arrays { x = { { { { 1, 2 }, { 3, 4 } } }, { { { 1, 2 }, { 3, 4 } } } }, y = { 0, 1 } }"
SUM = """(function()
    local x = pg.input "x"
    return pg.graph { inputs = { x }, outputs = { pg.dense { 2 } (pg.add {} (x, pg.dense { 3 } (x))) } }
  end)()"""
# Rows that a worker of a cluster holds, as a job names them.
PARTITION = """pg.data.partition { name = "p", rows = 2, hash = "0123456789abcdef",
    fields = { { name = "x", dtype = "f32", shape = { 2 }, classes = 0 }, { name = "y", dtype = "i64", shape = {}, classes = 2 } } }"""

CASES = [
    prompt("a print that cannot", "tostring = function() return {} end print(1)", "'tostring' must return a string to 'print'"),
    script("predictions by the reference", "--device", "the reference computes in training only; got 'ref'", "cpu, cuda, cuda:N or auto", ("ref", "cpu"),
           args=("predict", "model", "two.csv", "--device", "ref"), after=(("train", "trial.lua", "--out", "model"),)),
    job("its inputs have different shapes; got 2x3 beside 2x2", ("pg.dense { 3 } (x)", "pg.dense { 2 } (x)"),
        "make them equal with a 1x1 conv2d, dense, cropping or concat", place="trial.lua:", network=SUM),
    job("has the wrong number of sizes; got 3", ("{ 0, 1, 1 }", "{ 1, 1 }"), "expected 1, 2 or 4", place="trial.lua:", train=IMAGES,
        network="pg.sequential { pg.zero_padding { { 0, 1, 1 } }, pg.flatten {}, pg.dense { 2 } }"),
    op('reduce_sum("x") "axes": [1.5]', "expected a list of integers"),
    line('{"op": "constant", "attrs": {"shape": [1, 1, 1, 1], "values": [1]}, "in": [], "out": ["k"]}, {"op": "constant", "attrs": {"shape": [2], '
         '"values": [1, 1]}, "in": [], "out": ["z"]}, {"op": "conv2d", "in": ["v", "k", "z"], "out": ["y"]}', "the bias has the wrong shape; got 2, expected 1"),
    op('pool2d("v") "kernel": [9, 9]', "than its (padded) input", "pad it, make it smaller, or drop a pooling layer"),
    script("a partition that this process has to read", "partition 'p'", "lies with a worker, and this process has to read its examples",
           "give weights of classes as numbers, and train with --listen", train=PARTITION),
    job("'name' must be a name; expected 1 to 200 bytes", ('name = ""', 'name = "p"'), train=PARTITION.replace('"p"', '""')
        .replace("hash =", f"source = {ARRAYS}, hash =").replace("0123456789abcdef", "3ca84bc0144a717f")),
    job("has other rows than the partition; got 2 rows with hash 3ca84bc0144a717f", ("0123456789abcdef", "3ca84bc0144a717f"),
        train=PARTITION.replace("hash =", f"source = {ARRAYS}, hash =")),
    command("a partition of drawn examples", ("data", "partition", "p", '{"type": "digits", "size": 32}'), "partition 'p'",
            "its examples are other ones in each epoch, and so have no hash", "put random transforms around the partition in the job"),
    job('\'file\' is missing; expected a file, or "host": the name of a table that the program has handed over', ("pg.data.table {", "pg.data.csv { 'two.csv',"),
        train='pg.data.table { target = "y" }'),
]
