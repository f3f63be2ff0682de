"""Programs of ops that do not fit, as a job's JSON may hold them, for error_cases.py: functions of layers, losses and schedules."""
from error_forms import json_job

# The values that an op may take, by example: x is 2 x 3 numbers; i are whole numbers, b true or false, s is one number, m a 2 x 2 matrix
# for all, v an image.
JOB = """{"network": [{"type": "layernorm"}, {"type": "lambda", "inputs": ["x"], "program": [
  {"op": "cast", "in": ["x"], "attrs": {"dtype": "i64"}, "out": ["i"]},
  {"op": "greater", "in": ["x", 2], "out": ["b"]}, {"op": "reduce_sum", "in": ["x"], "attrs": {"axes": [1, 2]}, "out": ["s"]},
  {"op": "constant", "in": [], "attrs": {"shape": [2, 2], "values": [1, 2, 3, 4]}, "out": ["m"]},
  {"op": "reshape", "in": ["x"], "attrs": {"shape": [-1, 1, 2, 3]}, "out": ["v"]},
  OP], "outputs": OUTPUTS}, {"type": "flatten"}, {"type": "dense", "out": 1}], "loss": LOSS, "optimizer": OPTIMIZER,
  "data": {"train": {"type": "arrays", "x": [[[1, 2, 3], [4, 5, 6]], [[3, 1, 2], [6, 4, 5]]], "y": [[1], [2]]}}}"""
USED = '{"op": "add", "in": ["x", 1], "out": ["y"]}'
DEFAULTS = {"OP": USED, "OUTPUTS": '["y"]', "LOSS": '"mse"', "OPTIMIZER": '"adam"'}
LAYER = "trial.json: lambda 'lambda1' (layer 2 of 4)"
GRADIENT = "trial.json: lambda 'lambda1' (layer 2 of 4): op '"


def job(name, place, cause, hint="", fix=None, **parts):
    text = JOB
    for key, value in (DEFAULTS | {key.upper(): value for key, value in parts.items()}).items():
        text = text.replace(key, value, 1)
    return json_job(name, text, place, cause, hint, fix)


def op(call, cause, hint="", fix=None, place=LAYER):
    """A mistake in one op: "NAME(OPERANDS) ATTRIBUTES"."""
    name, rest = call.split("(", 1)
    operands, attributes = rest.split(")", 1)
    text = f'{{"op": "{name}", "in": [{operands}], "attrs": {{{attributes.strip()}}}, "out": ["y"]}}'
    return job(f"op {call}: {cause}"[:120], place, cause, hint, fix, op=text)


def line(text, cause, hint="", fix=None, place=LAYER, **parts):
    """A mistake in how an op is written."""
    return job(f"the op {text[-60:]}: {cause}"[:120], place, cause, hint, fix, op=text, **parts)


def loss(program, outputs, cause, hint="", fix=None):
    """A mistake in a loss."""
    text = f'{{"type": "lambda", "inputs": ["o", "t"], "program": [{program}], "outputs": {outputs}}}'
    return job(f"the loss {text}"[:120], "trial.json: loss", cause, hint, fix, loss=text)


def rate(program, cause, hint="", fix=None, output='"r"'):
    """A mistake in a schedule."""
    text = f'{{"type": "sgd", "lr": {{"type": "lambda", "program": {program}, "output": {output}}}}}'
    return job(f"the rate {program}, {output}"[:120], "trial.json: optimizer: lr", cause, hint, fix, optimizer=text)


CASES = [
    # batch norm, layer norm and their likes
    op('batch_norm("s", 1, 1)', "normalises channels, dimension 1; got f32[2]", "floating-point numbers, N x C ..."),
    op('layer_norm("s", 1, 1)', "normalises rows of features; got f32[2]", "floating-point numbers, [..., features]"),
    line('{"op": "constant", "attrs": {"shape": [2], "values": [1, 1]}, "in": [], "out": ["g"]}, {"op": "batch_norm", "in": ["x", "g", "g"], "out": '
         '["z", "y"]}',
         "the statistics of batch_norm cannot be differentiated", "use them in assign only", place=GRADIENT),
    line('{"op": "constant", "attrs": {"shape": [3], "values": [1, 1, 1]}, "in": [], "out": ["g"]}, '
         '{"op": "layer_norm", "in": ["x", "g", "g"], "out": ["z", "y"]}', "the statistics of layer_norm cannot be differentiated",
         "use its first result for the loss", place=GRADIENT),
    op('lrn("s")', "normalises across channels, dimension 1; got f32[2]", "f32 or f64, N x C ..."),
    op('lrn("x") "k": 0', "k must be above 0", "", ('"k": 0', '"k": 1')),
    # waveforms
    op('stft("s") "window": 2, "hop": 1', "stft takes waveforms; got f32[2]", "f32 or f64 [examples, channels, steps]"),
    op('deltas("x", "s")', "the counts of steps do not fit the examples; got f32[2], expected i64[2]"),
    op('stft("x") "window": 9, "hop": 1, "fft": 8', "the Fourier transform does not fit the window; got 8", "a power of two, at least 16",
       ('"fft": 8', '"fft": 16')),
    op('stft("x", "m") "window": 2, "hop": 1', "the filters do not fit the bins; got f32[2x2], power 2", "f32[1x3] or more rows, power 1 or 2"),
    op('deltas("s")', "deltas takes sequences; got f32[2]", "f32 or f64 [examples, channels, steps]"),
    # element by element
    op('floor("i")', "an operand's dtype does not fit; got i64[2x2x3], expected a floating-point number", "cast it"),
    op('where("x", 1, 2)', "an operand's dtype does not fit; got f32[2x2x3], expected a boolean condition", "cast it"),
    op('broadcast_to("x") "shape": [3]', "a value does not broadcast to the shape; got f32[2x2x3], expected 3"),
    # products
    op('matmul("s", "m")', "matmul takes matrices; got f32[2] and f32[2x2]", "at least two dimensions each"),
    op('linear("s", "m")', "linear takes rows of features; got f32[2]", "floating-point numbers, [..., features]"),
    op('linear("x", "m")', "linear: the weight does not fit", "a weight [outputs, inputs] with 3 inputs"),
    line('{"op": "constant", "attrs": {"shape": [2, 3], "values": [1, 1, 1, 1, 1, 1]}, "in": [], "out": ["w"]}, '
         '{"op": "linear", "in": ["x", "w"], "attrs": {"keep": true}, "out": ["y"]}',
         "linear: keeps what is before the activation for gelu_tanh alone; got none", "",
         ('"keep": true', '"keep": true, "activation": "gelu_tanh"')),
    op('linear_cross_entropy("x", "m", "x", "s")', "linear_cross_entropy takes rows [N, K] and class numbers i64 [N]"),
    # images
    op('pool2d("x") "kernel": [2, 2]', "N,C,H,W"),
    line('{"op": "pool2d", "in": ["v"], "attrs": {"kernel": [2, 2], "padding": [2, 2, 2, 2]}, "out": ["y"]}',
         "the padding holds a whole pooling window; got 2",
         "less than the window's 2", ("[2, 2, 2, 2]", "[1, 1, 1, 1]")),
    line('{"op": "constant", "attrs": {"shape": [1, 1, 1, 1], "values": [1]}, "in": [], "out": ["k"]}, {"op": "constant", "attrs": {"shape": [1], '
         '"values": [1]}, "in": [], "out": ["z"]}, '
         '{"op": "conv2d_pool", "in": ["v", "k", "z"], "attrs": {"pool": [3, 3]}, "out": ["y"]}',
         "the pooling window is larger than the convolution's output; got 3x3", "at most 2x3",
         ("[3, 3]", "[2, 3]")),
    line('{"op": "constant", "attrs": {"shape": [1, 1, 1, 1], "values": [1]}, "in": [], "out": ["k"]}, {"op": "constant", "attrs": {"shape": [1], '
         '"values": [1]}, "in": [], "out": ["z"]}, '
         '{"op": "conv2d_pool", "in": ["v", "k", "z"], "attrs": {"pool": [20, 20]}, "out": ["y"]}',
         "the pooling window is too large to be fused; got 400", "at most 256 elements",
         ("[20, 20]", "[2, 3]")),
    # places
    op('gather("x", "i") "axis": 7', "axis out of range; got 7 for f32[2x2x3]", "-3 to 2"),
    op('gather("x", "x")', "indices have the wrong dtype; got f32[2x2x3]", "i64"),
    op('scatter_add("x", "i") "axis": 7, "size": 3', "axis out of range; got 7 for updates f32[2x2x3], indices i64[2x2x3]"),
    line('{"op": "constant", "attrs": {"shape": [3], "dtype": "i64", "values": [0, 1, 0]}, "in": [], "out": ["j"]}, '
         '{"op": "scatter_add", "in": ["x", "j"], "attrs": {"axis": 1, "size": 3}, "out": ["y"]}', "updates do not fit the indices; got f32[2x2x3]",
         "the dimensions of i64[3] at axis 1", ('"axis": 1', '"axis": 2')),
    op('arg_sort("x") "axis": 7', "axis out of range; got 7 for f32[2x2x3]", "-3 to 2"),
    op('take_along("x", "x")', "places have the wrong dtype; got f32[2x2x3]", "i64"),
    line('{"op": "constant", "attrs": {"shape": [1, 1, 1], "dtype": "i64", "values": [0]}, "in": [], "out": ["j"]}, '
         '{"op": "take_along", "in": ["x", "j"], "out": ["y"]}',
         "places have the shape of the tensor, but along the dimension; got i64[1x1x1] for f32[2x2x3]"),
    # sums and greatest elements
    op('reduce_sum("x") "axes": [7]', "axis out of range; got 7 for f32[2x2x3]", "-3 to 2"),
    line('{"op": "slice", "in": ["x"], "attrs": {"start": [0, 2], "stop": [2, 2]}, "out": ["z"]}, {"op": "arg_max", "in": ["z"], "attrs": {"axis": '
         '1}, "out": ["y"]}',
         "no largest or smallest of 0 elements; got f32[2x0x3]"),
    # shapes
    op('transpose("x") "order": [0, 1]', "the order must name every axis once; got f32[2x2x3]", "", ("[0, 1]}", "[0, 1, 2]}")),
    op('slice("x") "start": [0, 0, 0, 0]', "a slice has more dimensions than its operand; got f32[2x2x3]", "", ("[0, 0, 0, 0]", "[0, 0, 0]")),
    op('concatenate("x", "x") "axis": 7', "axis out of range; got 7 for f32[2x2x3]", "-3 to 2"),
    op('pad("x") "before": [0, 0, 0, 1]', "'before' has more dimensions than the operand; got f32[2x2x3]", "", ("[0, 0, 0, 1]", "[0, 0, 1]")),
    op('pad("x") "before": [0, 0, 9223372036854775807]', "a padded dimension overflows"),
    # classes
    op('softmax("x") "axis": 7', "axis out of range; got 7 for f32[2x2x3]", "-3 to 2; ops count axes from 0"),
    line('{"op": "reduce_sum", "in": ["x"], "out": ["z"]}, {"op": "softmax", "in": ["z"], "out": ["y"]}', "axis out of range; got -1 for f32[]",
         "no axis: it is one number"),
    op('cross_entropy("x", "i") "label_smoothing": 1', "label_smoothing out of range; got 1", "0 <= label_smoothing < 1"),
    # random numbers
    op('random_uniform(1)', "a draw per example needs a dimension of examples; got f32[]", 'use per = "step"'),
    line('{"op": "full", "in": [], "attrs": {"value": 1}, "out": ["n"]}, {"op": "broadcast_to", "in": ["n"], "attrs": {"shape": [4000000, 8000]}, '
         '"out": ["y0"]}, '
         '{"op": "random_uniform", "in": ["y0"], "attrs": {"per": "step"}, "out": ["y"]}', "too many random numbers in one draw", "at most 2^34"),
    # matrices
    op('det("s")', "takes matrices; got f32[2]", "at least two dimensions"),
    line('{"op": "qr", "in": ["x"], "out": ["q", "y"]}', "qr has no derivative where there are more columns than rows; got f32[",
         "factor the transpose, or the first columns", place=GRADIENT),
    # ops by another number of operands, or of another name
    op('subb("x", "x")', "there is no op 'subb'", "did you mean 'sub'?", ('"subb"', '"sub"')),
    op('zzz("x", "x")', "there is no op 'zzz'; known: ", "maximum, ", ('"zzz"', '"maximum"')),
    op('add("x")', "op 'add' has the wrong number of operands; got 1", "", ('"in": ["x"], "attrs": {}', '"in": ["x", "x"], "attrs": {}')),
    op('tril("x", "x")', "'in' has another number of operands than 'tril'; got 2", "", ('"x", "x"', '"x"')),
    op('add("x", "xx")', "there is no value 'xx' at this point", "", ('"xx"', '"x"')),
    op('state("x") "name": "x"', "there is no op 'state'"),
    # how ops are written
    line("3", "'program' has an element of the wrong type; got integer 3", "a list of {op, in, out, attrs}"),
    line('{"op": "add", "in": "x", "out": ["y"]}', "'in' must be a list of names or numbers", "", ('"in": "x"', '"in": ["x", "x"]')),
    line('{"op": "add", "in": ["x", null], "out": ["y"]}', "'in' must be a list of names, numbers and sizes; got null", "", ("null", "1")),
    line('{"op": "add", "in": ["x", 1], "out": ["y", "z"]}', "'out' must name the results; got 2, expected 1 to 1", "", ('["y", "z"]', '["y"]')),
    line('{"op": "add", "in": ["x", {"size": "x", "axis": 7}], "out": ["y"]}',
         "asks for the size of an axis that f32[2x2x3] does not have; got axis 7",
         "counted from 0", ("7", "2")),
    line('{"op": "add", "in": ["x", {"size": "x", "axis": 0}], "out": ["y"]}',
         "computes with the number of examples, which is another in each thread",
         "a loss is a mean over the examples without it"),
    line('{"op": "add", "in": ["x", {"mul": [1]}], "out": ["y"]}', "'in' has a size of other than two operands", "",
         ('{"mul": [1]}', '{"mul": [1, 2]}')),
    line('{"op": "add", "in": ["x", {"mul": [1, "x"]}], "out": ["y"]}', "'in' has a size that cannot be read; got string",
         '{"size": name, "axis": 1} or {"mul": [a, b]}',
         ('[1, "x"]', '[1, {"size": "x", "axis": 1}]')),
    line('{"op": "reshape", "in": ["x"], "attrs": {"shape": ' + "[" * 40 + "]" * 40 + '}, "out": ["y"]}', "'attrs' are nested too deeply"),
    line('{"op": "constant", "in": [], "attrs": {"shape": [2, 1, 1], "values": [1]}, "out": ["z"]}, ' + USED,
         "are not as many as the shape has elements; got 1, expected 2", "",
         ("[1]}", "[1, 2]}")),
    line('{"op": "constant", "in": [], "attrs": {"shape": [2, 1, 1], "values": [1, true]}, "out": ["z"]}, ' + USED, "'values'", "", ("true", "2")),
    line('{"op": "constant", "in": [], "attrs": {"shape": [1, 1, 1, 1, 1, 1, 1, 1, 1], "values": [1]}, "out": ["y"]}',
         "'shape' has too many dimensions; got 9"),
    line('{"op": "constant", "in": [], "attrs": {"shape": [2000000], "values": [1]}, "out": ["y"]}', "'shape' has too many elements for a constant",
         "at most 1048576"),
    # forms
    op('index("x") "entries": [[], [1, 2, 1, 1]]', "a range has a first place, a last one and a step; got [1,2,1,1]", "",
       ("[1, 2, 1, 1]", "[1, 2, 1]")),
    op('index("x") "entries": [[], [], [], []]', "an index has more entries than the value has dimensions; got f32[2x2x3]", "",
       ("[[], [], [], []]", "[[], [], []]")),
    op('index("x") "entries": [[], 3]', "an index leaves a dimension of f32[2x2x3]; got 3", "places from 1 to 2", ("[], 3]", "[], 2]")),
    op('index("x") "entries": [[], "all"]', 'an index has places, ranges, [] and "new"; got "all"', "", ('"all"', "[]")),
    op('index("x") "entries": [[], 1.5]', "a place of an index is no whole number; got 1.5", "", ("1.5", "1")),
    op('unsqueeze("x") "axis": 7', "there is no such axis; got 7 of f32[2x2x3]", "counted from 0 here"),
    op('diagonal("s")', "diagonals are of matrices, the last two dimensions; got f32[2]"),
    op('tril("s")', "triangles are of matrices, the last two dimensions; got f32[2]"),
    # functions as layers
    job("a layer of no value", LAYER, "'outputs' must name at least one value", outputs="[]", fix=('"outputs": []', '"outputs": ["y"]')),
    job("a parameter of no role", LAYER, "'role' is unknown; got gin", "weight, bias or gain", ('"gin"', '"gain"'),
        outputs='["y"], "parameters": [{"name": "w", "shape": [3], "role": "gin"}]'),
    job("a parameter of no size", LAYER, "'shape' must be a list of sizes; got 0", "", ("[0]", "[3]"),
        outputs='["y"], "parameters": [{"name": "w", "shape": [0]}]'),
    # losses
    loss("", '[]', "'outputs' must name one value; got 0", "", ("[]}", '["o"]}')),
    loss('{"op": "reduce_sum", "in": ["o"], "out": ["l"]}', '["l"]', "the function gives one number for the whole batch",
         "one for each example, or a mean: training takes the mean over all threads and workers"),
    # schedules
    rate("3", "'program' has the wrong type; got integer 3", "", ('"program": 3', '"program": [{"op": "add", "in": [1, 1], "out": "r"}]')),
    rate('[{"op": "add", "in": [1], "out": "r"}]', "'in' has another number of operands; expected 2", "", ('"in": [1],', '"in": [0.1, 0],')),
    rate('[{"op": "add", "in": [1, "stp"], "out": "r"}]', "'in' has an operand that is no number and no value of the program",
         "step, epoch, progress or a result",
         ("stp", "step")),
    rate('[{"op": "add", "in": [1, 1], "out": "step"}]', "'out' names a value for the second time; got step", "", ('"out": "step"', '"out": "r"')),
    rate("[]", "'output' names no value of the program; got r", "", ('"r"', '"progress"')),
]
