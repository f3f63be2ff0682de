"""Layers of sequences, and fields that say what of a sequence counts, for error_cases.py."""

# Two sequences of 2 features x 3 steps, each with a class.
SEQUENCES = "pg.data.arrays { x = { { { 1, 2, 3 }, { 4, 5, 6 } }, { { 3, 2, 1 }, { 6, 5, 4 } } }, y = { 0, 1 } }"

# (layers before a dense layer, cause, remedy, fix): on such sequences.
LAYERS = [
    # recurrent layers
    ('pg.lstm { 3, bidirectional = "sum", reverse = true }', "has no meaning for a layer that goes both ways", "drop one of the two", (", reverse = true", "")),
    ('pg.gru { 3, bidirectional = "sum", returns = "state" }', "asks a layer that goes both ways for its one last state", "all or last", ('"state"', '"last"')),
    ('pg.gru { 3, layer_norm = true, reset = "before" }', "layer_norm needs the reset gate behind the product", "leave 'reset' out", (', reset = "before"', "")),
    ("pg.bidirectional { pg.dense { 3 } }", "does not go through a sequence", "lstm, gru or rnn", ("dense { 3 }", "gru { 3 }")),
    ("pg.bidirectional { pg.gru { 3, reverse = true } }", "has 'reverse' beside the two directions that it gets here", "leave reverse out",
     (", reverse = true", "")),
    ('pg.bidirectional { pg.gru { 3, bidirectional = "sum" } }', "has 'bidirectional' beside the two directions that it gets here", "leave bidirectional out",
     (', bidirectional = "sum"', "")),
    ('pg.bidirectional { pg.lstm { 3, returns = "both" } }', "joins one result with one other", "returns = all or last", ('"both"', '"last"')),
    ('setmetatable({ type = "bidirectional" }, getmetatable(pg.dense { 3 }))', "is missing", "lstm, gru or rnn", None),
    ('pg.lstm { 3, state = "carry", reverse = true }', "cannot go on for a layer that begins at the last step", "leave out reverse and bidirectional",
     (', state = "carry", reverse = true', "")),
    ('pg.time_distributed { pg.sequential { pg.reshape { { 2, 1 } }, pg.gru { 3, state = "carry", returns = "last" } } }',
     "carries no state where each step is an example of its own", "put it in front of time_distributed", (', state = "carry"', "")),
    ("pg.time_distributed { pg.dropout { 0.5 } }", "the layer inside draws random numbers", "put dropout before or behind time_distributed",
     ("pg.time_distributed { pg.dropout { 0.5 } }", "pg.dropout { 0.5 }")),
    ("pg.time_distributed { pg.sequential { pg.reshape { { 2, 1 } }, pg.attention { attention_dropout = 0.5 }, pg.flatten {} } }",
     "the layer inside draws random numbers", "put dropout before or behind time_distributed", ("{ attention_dropout = 0.5 }", "{}")),
    ("pg.time_distributed { pg.reshape { { 2, 1 } } }", "the layer must make one row of features of a step; got 2x1, expected one dimension",
     "end the layers inside with flatten {}", ("pg.reshape { { 2, 1 } }", "pg.sequential { pg.reshape { { 2, 1 } }, pg.flatten {} }")),
    ("pg.flatten {}, pg.reshape { { 1, 2, 3 } }, pg.mask {}", "takes a sequence: steps, or features x steps, of each example; got", "", (", pg.mask {}", "")),
    ("pg.lambda(function(x) return (pg.scan(function(h) return h end, pg.zeros(2), nil, { mask = x })) end)", "is a sequence of one value a step",
     "[examples, steps]", None),
    # attention
    ("pg.flatten {}, pg.attention {}", "needs a sequence (features x steps)", "put reshape {features, steps} in front", ("flatten {}", "reshape { { 2, 3 } }")),
    ('pg.attention { align = "first" }', "has no effect; got causal = false, expected causal = true, or no align", "causal = true, or no align",
     ('align = "first"', 'causal = true, align = "first"')),
    ("pg.attention { heads = 3 }", "do not divide the features", "a divisor of 2", ("heads = 3", "heads = 2")),
    ("pg.attention { heads = 3 }", "do not divide the features", "or give head_size", ("heads = 3", "heads = 3, head_size = 2")),
    ("pg.attention { heads = 2, kv_heads = 4 }", "do not divide the heads", "a divisor of 2", ("kv_heads = 4", "kv_heads = 2")),
    ('pg.attention { heads = 2, positions = "rotary" }', "rotary positions turn pairs of features; got heads of 1 feature", "take fewer heads",
     ("heads = 2", "heads = 1")),
    ('pg.attention { positions = "rotary", rotary_fraction = 0.5 }', "'rotary_fraction' leaves no pair of features to turn; got number 0.5", "at least 2 of 2",
     (", rotary_fraction = 0.5", "")),
    ("pg.attention { project = false, out = 3 }", "has no effect", "no such option, or project = true", ("project = false", "project = true")),
    ("pg.attention { heads = 2, kv_heads = 1, project = false }", "cannot compare the features of keys with those of queries; got 2, expected 1: 1 for each of kv_heads",
     "leave project out", (", project = false", "")),
    ("pg.flatten {}, pg.reshape { { 1, 6 } }, pg.upsampling { 1000000 }, pg.attention {}", "too many scores in one example",
     "at most 2^34", ("1000000", "34")),
    ("pg.learned_attention { 4, heads = 3 }", "do not divide the features", "or give head_size", ("heads = 3", "heads = 3, head_size = 2")),
    ("pg.recurrent_attention { 4, heads = 3 }", "do not divide the features", "a divisor of 4", ("heads = 3", "heads = 2")),
    ("pg.positions { length = 2 }", "is less than the steps of the input", "at least 3", ("length = 2", "length = 3")),
    ('pg.positions { length = 3, kind = "sinusoidal" }', "has no effect", "kind = 'learned'", ("sinusoidal", "learned")),
    # dense layers
    ('pg.flatten {}, pg.dense { 3, over = "steps" }', "needs a sequence (features x steps)", "leave over out", (', over = "steps"', "")),
    ('pg.dense { 3, tied = "dense7" }', "no layer in front of it named 'dense7' has a weight", "", (', tied = "dense7"', "")),
    ('pg.dense { 3, name = "front" }, pg.dense { 6, tied = "behind" }', "no layer in front of it named 'behind' has a weight", "known: front", None),
    ('pg.dense { 3 }, pg.dense { 6, tied = "dens1" }', "no layer in front of it named 'dens1' has a weight", "did you mean 'dense1'?", None),
    ('pg.dense { 3 }, pg.dense { 6, tied = "dense1" }', "'tied' names 'dense1', whose weight does not fit", "leave tied out", (', tied = "dense1"', "")),
    ('pg.dense { 6 }, pg.dense { 7, tied = "dense1" }', "'tied' names 'dense1', whose weight does not fit", "or give this layer 6 outputs",
     ("7, tied", "6, tied")),
    ('pg.dense { 4, bias_init = { type = "blocks", values = { 1, 2, 3 } } }', "the values do not cut the tensor into equal parts; got 3 values", "as many as divide 4",
     ("values = { 1, 2, 3 }", "values = { 1, 2 }")),
]

# (layer, inputs, cause, remedy, fix): in a graph, after dense layers. m has 4 features x 5 steps, s is a row of 4 numbers.
GRAPHS = [
    ("pg.lstm { 4, layers = 2 }", "x, s", "a first state is for one layer in one direction", "write the layers one by one", (", layers = 2", "")),
    ("pg.gru { 4 }", "x, m", "the first state must be a row of units; got 4x5, expected 4", "a dense layer in front makes a row of that size", ("x, m", "x, s")),
    ("pg.lstm { 4, projection = 3 }", "x, s", "the first state must be a row of units; got 4, expected 3", "a dense layer in front makes a row of that size",
     (", projection = 3", "")),
    ('pg.gru { 4, state = "carry" }', "x, s", "cannot go on where the first states are inputs", "drop one of the two", (', state = "carry"', "")),
    ("pg.additive_attention {}", "x, m, x", "needs a value for each key", "expected 5", ("x, m, x", "x, m")),
    ("pg.attention { project = false }", "x, m", "cannot compare the features of keys with those of queries", "leave project out", ("project = false", "")),
    ("pg.transformer {}", "x, m", "has a memory that it does not look at", "write cross = true", ("transformer {}", "transformer { cross = true }")),
    ("pg.transformer { cross = true }", "x", "has no memory to look at", "leave cross out", ("cross = true", "")),
]


def graph(layer, inputs):
    """A network with the layer."""
    return f"""(function()
    local x = pg.input "x"
    local m = pg.reshape {{ {{ 4, 5 }} }} (pg.dense {{ 20 }} (x))
    local s = pg.dense {{ 4 }} (x)
    return pg.graph {{ inputs = {{ x }}, outputs = {{ pg.dense {{ 2 }} (pg.flatten {{}} ({layer} ({inputs}))) }} }}
  end)()"""


# Sequences of 1 feature x 4 steps with a class for each of 2 steps, the steps that count, and weights.
SERIES = """pg.data.arrays { x = { { { 1, 2, 3, 4 } }, { { 5, 6, 7, 8 } } }, y = { { 0, 1 }, { 1, 0 } },
    n = { 4, 2 }, k = { 2, 1 }, w = { { 1, 2, 3 }, { 4, 5, 6 } }, v = { 1, 2 } }"""
STRIDE = "pg.sequential { pg.conv1d { 2, kernel = 2, stride = 2 } }"

# (data, cause, remedy, fix): a network takes each two steps of such a sequence together.
FIELDS = [
    (', lengths = { x = "w" }', "cannot be a length of 'x'", "an integer for each example", ('"w" }', '"n", y = "k" }')),
    (', weights = "w"', "cannot be a weight of 'y'", "a number for each example, or 2, one for each step", ('"w"', '"v"')),
    (', lengths = { x = "n" }', "the steps of 'y' are not those of an input, so nothing says which count", "lengths = { y =", ('x = "n"', 'x = "n", y = "k"')),
]

# A run of a text whose batches go on from each other.
STREAM = ("run = pg.start(pg.experiment { network = pg.sequential { pg.embedding { 40, 4 }, pg.conv1d { 40, 1 } }, loss = 'cross_entropy', optimizer = 'adam', "
          "epochs = 1000000, data = { train = pg.data.text { 'two.csv', context = 4, streams = 2, targets = 'every' }, batch = 2 } }, "
          "{ folder = false, threads = 1 }) ")

# The same for two workers.
SHARED_STREAM = {"network": "pg.sequential { pg.embedding { 40, 4 }, pg.conv1d { 40, 1 } }",
                 "train": 'pg.data.text { "two.csv", context = 4, streams = 10, targets = "every" }'}

# The same with a network that carries what it has read from batch to batch.
CARRYING = {**SHARED_STREAM, "network": "pg.sequential { pg.embedding { 40, 4 }, pg.gru { 40, state = 'carry' } }"}

# A session of a network that reads 2 features.
SESSION = "s = pg.sequential { pg.gru { 3 }, pg.dense { 3, over = 'steps' } }:init(1, { 2, 4 }):session() "
ATTENTION = "s = pg.sequential { pg.attention { 1, causal = true } }:init(1, { 2, 4 }):session() "

# A session of a network whose steps look at a memory.
MEMORY = ('m, x = pg.input "m", pg.input "x" s = pg.graph { inputs = { m, x }, outputs = { pg.attention { 1 } (pg.gru { 2 } (x), pg.gru { 2, reverse = true } (m)) } }'
          ':init(1, { m = { 2, 3 }, x = { 2, 4 } }):session() ')

# (expression, cause, fix): as in error_prompts.py.
PROMPTS = [
    (SESSION + "s:step(pg.randn(1, 3, 1))", "with any number of steps as the last dimension", ("1, 3, 1", "1, 2, 1")),
    (SESSION + "s:step(3)", "session:step takes a tensor of [rows, ..., steps]; got", ("step(3)", "step(pg.randn(1, 2, 1))")),
    (SESSION + "s:set_state(3)", "set_state takes a table of tensors by name, as state() gives it; got", ("set_state(3)", "set_state(s:state())")),
    (SESSION + "s:set_state {}", "expected a tensor; state() gives a table of all", ("set_state {}", "set_state(s:state())")),
    (SESSION + 's:set_state { ["gru1.h"] = pg.ones(2, 3) }', "session:set_state: the tensor 'gru1.h' does not fit", ("(2, 3)", "(1, 3)")),
    ('pg.sequential { pg.gru { 3 } }:init(1, { 2, 4 }):session("a")', "session takes the number of sequences side by side; got", ('"a"', "2")),
    ("pg.sequential { pg.gru { 3 } }:init(1, { 2, 4 }):session(0)", "is out of range", ("(0)", "(1)")),
    ("pg.sequential { pg.gru { 3, reverse = true } }:init(1, { 2, 4 }):session()", "a session is for layers that look back by their state, or at one step alone",
     (", reverse = true", "")),
    ('pg.sequential { pg.activation { { type = "softmax", axis = 2 } } }:init(1, { 2, 4 }):session()',
     "the activation goes over an axis that is not that of the features, which a session does not have at once", ("axis = 2", "axis = 1")),
    ('pg.sequential { pg.gru { 3, returns = "last" } }:init(1, { 2, 4 }):session()', "a session is for a network that gives an output for each step",
     (', returns = "last"', "")),
    ('a, b = pg.input "a", pg.input "b" pg.graph { inputs = { a, b }, outputs = { pg.gru { 3 } (a + b) } }:init(1, { a = { 2, 4 }, b = { 2, 4 } }):session()',
     "joins a step with a sequence that is there as a whole", None),
    (MEMORY + "s:step(pg.randn(1, 2, 1))", "the network looks at a memory that the session was not given", ("s:step", "s:remember { m = pg.randn(1, 2, 3) }:step")),
    (MEMORY + "s:remember(3)", "session:remember takes a table of tensors by name; got 3", ("remember(3)", "remember { m = pg.randn(1, 2, 3) }")),
    (MEMORY + "s:remember {}", "session:remember: 'm' is nothing; expected a tensor", ("{}", "{ m = pg.randn(1, 2, 3) }")),
    (MEMORY + "s:remember { m = pg.randn(1, 3, 3) }", "session:remember: the tensor 'm' does not fit", ("1, 3, 3", "1, 2, 3")),
    (MEMORY + "s:remember { n = pg.randn(1, 2, 3) }", "session:remember: the network has no memory 'n'", ("{ n", "{ m")),
    (ATTENTION + "s:step(pg.randn(1, 2, 5))", "the model looks at no more steps than its context has", ("1, 2, 5", "1, 2, 4")),
    (ATTENTION + "s:step(pg.randn(1, 2, 1)) state = s:state() state.steps = pg.full({ 1 }, -1) s:set_state(state):step(pg.randn(1, 2, 1))",
     "the state says that it has read a number of steps that no session reaches", ("-1", "1")),
    (STREAM + "run.batch = 4", "each row of the batch is a stream of the text", ("run.batch = 4", "run.batch = 2")),
]

# A file of a model whose lengths belong to an input that it does not have. The digest is that of this header: a change of one asks for the other.
HEADER = r'''{"__metadata__":{"inputs":"[{\"name\": \"x\", \"dtype\": \"f32\", \"shape\": [2]}, {\"name\": \"n\", \"dtype\": \"f32\", \"shape\": [], \
\"role\": \"length\", \"of\": \"z\"}]","network":"{}","perigee":"0","target":"{\"name\":\"y\",\"dtype\":\"i64\",\"shape\":[]}",\
"xxh3":"09153fa7f725a1dcac4085627e6ad680"}}'''.replace("\\\n", "").ljust(512)
MODEL = "\0\2" + 6 * "\0" + HEADER  # its length in front: 8 bytes

# A job that writes an op itself. Of an example: x is 2 steps of 3 heads of 2 features, t has its heads and features changed for each other, u its
# steps and heads, z is 2 steps of 6 numbers, and v is 3 steps of 4.
PROGRAM = """{"network": [{"type": "layernorm"}, {"type": "lambda", "inputs": ["x"], "program": [
  {"op": "transpose", "in": ["x"], "attrs": {"order": [0, 1, 3, 2]}, "out": ["t"]},
  {"op": "transpose", "in": ["x"], "attrs": {"order": [0, 2, 1, 3]}, "out": ["u"]},
  {"op": "reshape", "in": ["x"], "attrs": {"shape": [-1, 2, 6]}, "out": ["z"]},
  {"op": "constant", "in": [], "attrs": {"shape": [2, 6], "values": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}, "out": ["w"]},
  {"op": "constant", "in": [], "attrs": {"shape": [2], "values": [0, 0]}, "out": ["b"]},
  {"op": "reshape", "in": ["x"], "attrs": {"shape": [-1, 3, 4]}, "out": ["v"]},
  {"op": "constant", "in": [], "attrs": {"shape": [1, 4], "values": [0, 0, 0, 0]}, "out": ["k"]},
  OP], "outputs": ["y"]}, {"type": "dense", "out": 1}], "loss": "mse", "optimizer": "adam",
  "data": {"train": {"type": "arrays", "x": [[[[1, 2], [3, 4], [5, 6]], [[1, 2], [3, 4], [5, 6]]]], "y": [[1]]}}}"""

JOB = "trial.json: lambda 'lambda1'"
VJP = "lambda 'lambda1' (layer 2 of 3): op '"

# (op, operands, attributes, results, place, cause, remedy, fix)
OPS = [
    ("attention", "x x", "", "y", JOB, "has keys without values", "both, or neither", ('["x", "x"]', '["x", "x", "x"]')),
    ("attention", "x", "", "y", JOB, "needs kv_heads where there are no keys and values", "the number of key heads in the first operand",
     ('"attention", "in": ["x"], "attrs": {}', '"attention", "in": ["x"], "attrs": {"kv_heads": 1}')),
    ("attention", "x x x", '"kv_heads": 1', "y", JOB, "kv_heads is said by the keys", "no kv_heads where there are keys", ('"kv_heads": 1', "")),
    ("attention", "z", "", "y", JOB, "takes heads of features", "numbers [examples, steps, heads, features]", ('"in": ["z"]', '"in": ["x", "x", "x"]')),
    ("attention", "x", '"kv_heads": 2', "y", JOB, "kv_heads leaves too few heads for queries; got 2 of 3", "at most 1", ('"kv_heads": 2', '"kv_heads": 1')),
    ("attention", "x u u", "", "y", JOB, "the heads of queries are no multiple of those of keys", "each key head serves", ('["x", "u", "u"]', '["x", "x", "x"]')),
    ("attention", "x t t", "", "y", JOB, "the keys do not fit the queries", "the same examples and features", ('["x", "t", "t"]', '["x", "x", "x"]')),
    ("attention", "x x u", "", "y", JOB, "the values do not fit the keys", "the same examples, steps and heads", ('["x", "x", "u"]', '["x", "x", "x"]')),
    ("attention", "x x x x", "", "y", JOB, "the mask does not fit the keys", "x2", ('["x", "x", "x", "x"]', '["x", "x", "x"]')),
    ("attention", "x x x", "", "o y", VJP + "attention'", "the sums of attention cannot be differentiated", "use its first result for the loss",
     ('["o", "y"]', '["y"]')),
    ("scan", "z", '"carries": 0, "keep": true, "recompute": 2, "body": {"inputs": [], "program": [], "outputs": []}', "y", JOB, "and recompute exclude each other",
     "one of the two", None),
    ("rotary", "z", "", "y", JOB, "rotary turns heads of features", "numbers [examples, steps, heads, features]", ('"in": ["z"]', '"in": ["x"]')),
    ("rotary", "x", '"width": 1', "y", JOB, "rotary turns pairs of features", "an even number, at most all", ('"width": 1', '"width": 2')),
    ("rotary", "x", '"heads": 4', "y", JOB, "rotary turns more heads than there are", "at most 3", ('"heads": 4', '"heads": 3')),
    ("rotary", "x x", "", "y", JOB, "rotary: the positions do not fit the examples", "i64[", ('["x", "x"]', '["x"]')),
    ("rnn", "x w", "", "y", JOB, "takes sequences", "f32 or f64, examples x steps x features", None),
    ("gru", "z w b", '"reset": "before"', "y", JOB, "the recurrent bias is only for reset = after", "leave the third operand out, or take reset = after",
     ('"before"', '"after"')),
    ("gru", "z w", "", "o y", VJP + "gru'", "the gates of a recurrent op cannot be differentiated", "use its first result for the loss", ('["o", "y"]', '["y"]')),
    ("lstm", "v k", "", "o p y", VJP + "lstm'", "the gates of a recurrent op cannot be differentiated", "use its first two results for the loss",
     ('["o", "p", "y"]', '["y"]')),
]


def program(op, operands, attributes, results):
    """The job with the op."""
    names = ['"' + '", "'.join(each.split()) + '"' for each in (operands, results)]
    return PROGRAM.replace("OP", f'{{"op": "{op}", "in": [{names[0]}], "attrs": {{{attributes}}}, "out": [{names[1]}]}}')
