"""Models that are asked for what they cannot give, for error_cases.py: records of another kind, other networks, damaged files."""
import json
import struct

from error_forms import ARRAYS, command, prompt, script

WORKERS = ("run = pg.start(pg.experiment { network = pg.sequential { pg.flatten {}, pg.dense { 10 } }, loss = 'cross_entropy', optimizer = pg.sgd { "
           "lr = 0.1 }, epochs = 1000000, "
           "data = { train = pg.data.digits { size = 64, endless = false }.train } }, { workers = 1, threads = 1, out = 'few' }) ")
TRAINED = ("train", "trial.lua", "--out", "model")
TWO_INPUTS = """(function()
    local x, z = pg.input "x", pg.input "z"
    return pg.graph { inputs = { x, z }, outputs = { pg.dense { 2 } (pg.concat {} (x, z)) } }
  end)()"""
STACK = """(function()
    local x = pg.input "x"
    return pg.graph { inputs = { x }, outputs = { pg.dense { 2 } (pg.unstack { 2, index = 0 } (pg.stack {} (x, x))) } }
  end)()"""
PAIRS = "pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, z = { { 1 }, { 2 } }, y = { 0, 1 } }"


def lua(text):
    return "-e", text


def written(name, text):
    return lua(f"local f = io.open([[{name}]], 'wb') f:write([=[{text}]=]) f:close()")


def predicted(name, file, content, place, cause, hint="", train=ARRAYS, **parts):
    """A file that a model of arrays is to judge."""
    make = content if isinstance(content, tuple) else written(file, content)
    return script(name, place, cause, hint, train=train, args=("predict", "model", file), after=(TRAINED, make), **parts)


def resumed(name, place, cause, hint, fix, *args, **parts):
    """A model that is trained, and then used with other settings."""
    return script(name, place, cause, hint, fix, args=args, after=(TRAINED,), **parts)


def model_file(name, digest, place, cause, hint="", **metadata):
    """A file of a network without numbers. The digest is that of its header: a change of one asks for the other."""
    about = {"inputs": [{"name": "x", "dtype": "f32", "shape": [2]}], "network": [{"type": "dense", "out": 1}], "perigee": 0,
             "target": {"name": "y", "dtype": "f32", "shape": [1]}} | metadata
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in about.items() if value is not None}
    header = json.dumps({"__metadata__": texts | {"xxh3": digest}}, separators=(",", ":")).ljust(512)
    length = "".join(chr(byte) for byte in struct.pack("<Q", len(header)))
    return command(name, ("eval", "bad.safetensors"), "bad.safetensors" + place, cause, hint, file="bad.safetensors", script=length + header)


CASES = [
    # records
    predicted("a record that is no object", "new.json", "3", "new.json", "these are no records; got integer", "an object, or a list of them"),
    predicted("a record without the input", "new.json", '{"z": [1, 2]}', "new.json: record 1", "there is no value for the model's input 'x'",
              "an object with the key 'x', a list of shape 2"),
    predicted("values of two shapes", "new.json", '[{"x": [1, 2]}, {"x": [1]}]', "new.json: 'x'", "the values have not one shape; got a list of 1",
              "a list of 2"),
    predicted("a value that is empty", "new.json", '{"x": []}', "new.json: 'x'", "the value is no array of the model's", "f32[2]"),
    predicted("arrays of another name", "new.npz", lua('pg.save("new.npz", { xx = pg.ones(2, 2) })'), "new.npz",
              "there is no array for the model's input 'x'"),
    predicted("arrays of another shape", "new.npy", lua('pg.save("new.npy", pg.ones(2, 3))'), "new.npy",
              "the examples do not fit the model's input 'x'; got f32[3], expected f32[2]"),
    predicted("one array for two inputs", "new.npy", lua('pg.save("new.npy", pg.ones(2, 3))'), "new.npy",
              "the model has 2 inputs, 'x', 'z'; got one array", "an .npz with an array for each",
              PAIRS, network=TWO_INPUTS, more='inputs = { "x", "z" },'),
    predicted("an image for a model of arrays", "new.png", lua('pg.save("new.png", pg.zeros(3, 3, { dtype = "u8" }))'), "new.png",
              "the model does not take images; got an image, expected 2"),
    script("a table for a model of images", "two.csv", "the model takes images 1x4x4; got a table", ".jpg, .png", train="pg.data.arrays { "
           "x = pg.zeros(4, 1, 4, 4), y = { 0, 1, 0, 1 } }", network="pg.sequential { pg.flatten {}, pg.dense { 2 } }",
           args=("predict", "model", "two.csv"), after=(TRAINED,)),
    script("a table to judge a model of images by", "two.csv", "the model takes images 1x4x4; got a table", "a folder of images for each class", train="pg.data.arrays { "
           "x = pg.zeros(4, 1, 4, 4), y = { 0, 1, 0, 1 } }", network="pg.sequential { pg.flatten {}, pg.dense { 2 } }",
           args=("eval", "model", "--data", "two.csv"), after=(TRAINED,)),
    script("an image for a model of a table", "new.png", "the model does not take images; got an image", "give a table with the columns",
           args=("predict", "model", "new.png"), after=(TRAINED, lua('pg.save("new.png", pg.zeros(3, 3, { dtype = "u8" }))'))),
    predicted("a folder without files", "empty", lua('os.execute("mkdir -p empty/more")'), "empty",
              "this folder has no files that the model takes; got 1 folders", "csv, tsv, json, jsonl, npy or npz"),
    predicted("a pipe with a name", "pipe", lua('os.execute("mkfifo pipe")'), "pipe", "is no regular file", "- reads standard input"),
    # other networks and rules
    resumed("another precision", "model", "the file was trained with another `precision`", "", None, "train", "--resume", "model", "--set",
            'precision="float64"', "--epochs", "2"),
    resumed("a layer whose output is of no example", "layer 'stack1'", "its output does not belong to one example each; got 4x2 for two examples", "",
            None, "predict", "model", "two.csv", "--layer", "stack1",
            network=STACK, train='pg.data.csv { "two.csv", target = "y" }'),
    resumed("a source of another shape", "", "does not fit the model", "", None, "eval", "model", "--data",
            '{"type": "arrays", "x": [[1, 2, 3]], "y": [0]}', train=ARRAYS),
    # model files
    model_file("a file without a network", "a649e44e5a0a4d5c1ab799fa46863604", "", "is no Perigee model; got no 'network' in its metadata",
               "give the model.safetensors of a run, or train one", network=None),
    model_file("a file without numbers", "7b92b51f846f646b106aa2ebb507f306", ": tensor 'dense1.weight'", "no such tensor|does not fit",
               "the file belongs to another network"),
    model_file("a file of an unknown dtype", "aa315b09c39f5b3fefb30762c9a8b056", ": metadata 'dtype'",
               "is no type of a network; got f16, expected f32 or f64", dtype="f16"),
    model_file("a file whose weights belong to nothing", "e722e839ea2b3b65cc61dd745d013642", ": target_roles", "'w' has no role",
               target_roles=[{"name": "w", "dtype": "f32", "shape": []}]),
    model_file("a file with a loss of no output", "a8293b751fadc9e649ec8d4cd7b124e9", ": loss",
               "is of an output that the network does not have; got output 6, expected 1 outputs",
               heads=[{"output": 5, "name": "y", "dtype": "f32", "shape": [1], "weight": 1, "loss": "mse"}]),
    # programs that differentiate, and tensors of two inputs
    prompt("a gradient of a gradient that has none", "pg.grad(function(x) return pg.grad(function(x) return x:lrn():sum() end)(x):sum() "
                                                     "end)(pg.ones(2, 2))", "op 'lrn_grad' has no derivative",
           "the function differentiates a gradient that cannot be differentiated again"),
    prompt("inputs of two lengths", "x, z = pg.input 'x', pg.input 'z' net = pg.graph { inputs = { x, z }, outputs = { pg.dense { 2 } (pg.concat {} "
                                    "(x, z)) } } net:init(1, { 2 }, { 1 }) "
           "net(pg.ones(2, 2), pg.ones(3, 1))", "input 'z' does not fit; got f32[3x1], expected as many examples as the others, each f32[1]", "",
           ("(3, 1)", "(2, 1)")),
    # runs
    script("a run folder whose log is a folder", "log/log.jsonl", "this file cannot be written; got Is a directory",
           args=("train", "trial.lua", "--out", "log"),
           after=(lua('os.execute("mkdir -p log/log.jsonl")'),)),
    prompt("an option that changes in one process alone", WORKERS + "for _ = 1, 20 do run:wait(0.05) end run.steps = 7",
           "run.steps: cannot change in a run of several workers",
           "an option of optimizer, clip or regularization, a weight of the loss"),
    script("half numbers that are too large", "trial.lua: step", "the gradient is not finite, whatever the loss scale",
           'try loss_scale = "dynamic" or a smaller one', writes_run=True,
           more='precision = "fp16", loss_scale = 16777216,', train="pg.data.arrays { x = { { 100, 200 }, { 300, 400 } }, y = { 0, 1 } }",
           args=("train", "trial.lua", "--epochs", "200")),
]
