"""Networks, losses, rules and JSON that are wrong, for error_cases.py."""
from error_forms import command, job, json_job

IMAGES = "pg.data.digits().train:take(20)"
SINGLE = "pg.data.arrays { x = { 1, 2 }, y = { 0, 1 } }"


def layers(text, cause, fix=None, hint="", train=IMAGES, **parts):
    """A mistake in the layers in front of a dense layer."""
    network = "pg.sequential { " + text + ", pg.flatten {}, pg.dense { 10 } }"
    return job(cause, fix, hint, "trial.lua:4", train=train, **({"network": network} | parts))


def graph(layer, inputs, outputs="a"):
    """A graph whose node `a` is that layer."""
    return f"""(function()
    local x, z = pg.input "x", pg.input "y"
    local a = {layer} ({inputs})
    return pg.graph {{ inputs = {{ x }}, outputs = {{ {outputs} }} }}
  end)()"""


def json_network(text, place, cause, fix=None, hint="", loss='"mse"', optimizer='"adam"', more=""):
    """A mistake in a network that is written as JSON."""
    whole = f'{{"network": {text}, "loss": {loss}, "optimizer": {optimizer}, {more} "data": {{"train": {{"type": "csv", "file": "number.csv"}}}}}}'
    return json_text(whole, place, cause, fix, hint, f"the network {text}, {loss}, {optimizer}, {more}")


def json_text(text, place, cause, fix=None, hint="", name=""):
    return json_job((name or f"the JSON {text}")[:100] + f": {cause}"[:30], text, place, cause, hint, fix)


GRAPH = '{"type": "graph", "inputs": ["x"], "nodes": [{"name": "a", "layer": {"type": "dense", "out": 1}, "inputs": ["x"]}], "outputs": ["a"]}'
DENSE = '[{"type": "dense", "out": 1}]'
JOB = "trial.json"


def rates(rate, cause, fix=None, hint=""):
    return json_network(DENSE, "trial.json: optimizer", cause, fix, hint, optimizer='{"type": "sgd", "lr": ' + rate + "}")


CASES = [
    # layers
    layers("pg.conv2d { 4 }", "'kernel' is missing; expected an integer or {height, width}", ("{ 4 }", "{ 4, kernel = 3 }")),
    layers('pg.conv2d { 4, kernel = 3, padding = "sam" }', "'padding' has an unknown value; got 'sam', expected an integer, {height, width} or "
                                                           "'same'", ("sam", "same"), "did you mean 'same'?"),
    layers('pg.deconv2d { 4, kernel = 3, padding = "full" }',
           "'padding' has an unknown value; got 'full', expected an integer, {height, width} or 'same'", ("full", "same")),
    layers('pg.deconv2d { 4, kernel = 2, stride = 3, padding = "same" }',
           "'same' needs a kernel that is at least as large as the stride; got 2x2, expected 3x3", ("kernel = 2", "kernel = 3")),
    layers("pg.deconv2d { 4, kernel = 1, padding = 20 }", "the padding cuts everything off; got 20, expected less than 14", ("20", "4")),
    layers("pg.batchnorm {}", "needs channels to normalise; got a single number", train=SINGLE,
           network="pg.sequential { pg.batchnorm {}, pg.dense { 2 } }"),
    layers("pg.lrn {}", "needs channels to normalise across; got a single number", train=SINGLE,
           network="pg.sequential { pg.lrn {}, pg.dense { 2 } }"),
    layers("pg.reshape { { 0, 28 } }", "'shape' has a size that does not fit; got 0, expected sizes whose product is 784", ("0, 28", "28, 28")),
    layers("setmetatable({ type = 'residual' }, getmetatable(pg.flatten {}))", "'layers' is missing; expected a list of layers"),
    layers("pg.residual { pg.unstack { 2 } }", "adds one result to one other"),
    layers("pg.subset { axis = 1, from = 0, to = 0 }", "has no such dimension", train=SINGLE,
           network="pg.sequential { pg.subset { axis = 1, from = 0, to = 0 }, pg.dense { 2 } }"),
    job("the function takes another number of inputs; got 2, expected 1", place="trial.lua:6",
        network=graph("pg.lambda(function(x) return x end)", "x, x")),
    layers("pg.unstack { 3 }", "the batch is no stack of 3", None, "put a stack layer with as many inputs in front"),
    layers('pg.flatten {}, pg.dense { 4000, weight_init = "orthogonal" }', "is too large to be made orthogonal", ("orthogonal", "he_normal"),
           "use he_normal"),
    layers("setmetatable({ type = 'activation' }, getmetatable(pg.flatten {}))", "'activation' is missing; expected a name, as in \"relu\"",
           ("type = 'activation'", "type = 'activation', activation = 'relu'")),
    job("its inputs fit only when they differ in dimension 1 alone", place="trial.lua:6",
        network=graph("pg.concat {}", "x, pg.reshape { { 1, 2 } } (x)", "pg.dense { 2 } (pg.flatten {} (a))")),
    job("has the wrong number of inputs; got 2", hint="join them with concat, add, ... first", place="trial.lua:6",
        network=graph("pg.dense { 2 }", "x, x")),
    job("which the network takes as input", place="trial.lua", network=graph("pg.dense { 2 }", "x").replace('"x",', '"xx",')),
    job("already belongs to", ('"b" }, pg', '"b", share = "b" }, pg'), hint="rename the layer, or give both the same 'share'",
        network='pg.sequential { pg.dense { 2, name = "b" }, pg.dense { 2, name = "a", share = "b" } }'),
    job("with a layer of another shape", ("pg.dense { 4 }, pg.batchnorm", "pg.batchnorm"),
        network='pg.sequential { pg.batchnorm { name = "a", share = "a", scale = false, shift = false }, pg.dense { 4 }, '
        'pg.batchnorm { name = "b", share = "a", scale = false, shift = false }, pg.dense { 2 } }'),
    layers("pg.flatten {}, " + "pg.residual { pg.dense { 4 }, shortcut = " * 40 + "pg.dense { 4 }" + " }" * 40,
           "is nested too deeply; got 33, expected at most 32"),
    job("'defaults' has 'weigth_init', which no layer takes", ("weigth_init", "weight_init"), "did you mean 'weight_init'",
        network='pg.sequential { pg.dense { 2 }, defaults = { weigth_init = "xavier" } }'),
    job("'defaults' has 'name', which belongs to one layer", network='pg.sequential { pg.dense { 2 }, defaults = { name = "a" } }'),
    json_network('{"type": "sequential", "layers": ' + DENSE + ', "defaults": 3}', JOB, "'defaults' must be an object; got 3",
                 ('"defaults": 3', '"defaults": {}')),
    json_network("[[]]", JOB, "an object or a layer's name|has an element of the wrong type"),
    json_network('{"type": "sequential", "layers": [3]}', JOB, "this must be a layer; got 3, expected an object or a layer's name", ("[3]", DENSE)),
    json_network(GRAPH.replace('"nodes"', '"nods"'), JOB, "unknown key 'nods' of a network", ("nods", "nodes"), "did you mean 'nodes'"),
    json_network('{"type": "graph", "inputs": 3, "nodes": [], "outputs": ["a"]}', JOB, "'inputs' must be a list of names; got 3"),
    json_network("[" + ", ".join(['"flatten"'] * 10001) + "]", JOB, "a list of layers is too long; got 10001, expected at most"),
    json_network('[{"type": "residual", "layers": [{"type": "dense", "out": 1}], "shortcut": {"type": "graph", "inputs": ["a", "b"], "nodes": '
                 '[{"name": "c", "layer": "add", '
                 '"inputs": ["a", "b"]}], "outputs": ["c"]}}, {"type": "dense", "out": 1}]', JOB,
                 "a graph network gets another number of inputs than it names; got 1, expected 2"),
    # losses
    json_network(DENSE, "trial.json: loss", "'weights' must be numbers|'weights' has an element of the wrong type", ("[true]", "[1]"),
                 loss='{"type": "mse", "weights": [true]}'),
    job("f_measure is for yes and no; got", hint="1 or 2 outputs", loss='"f_measure"', network="pg.sequential { pg.dense { 3 } }",
        train="pg.data.arrays { x = { { 1 } }, y = { { 1, 0, 1 } } }"),
    job("outputs NxC with classes N or distributions NxC", loss='"cross_entropy"',
        network="pg.sequential { pg.lambda(function(x) return x:sum(2) end) }"),
    job("the network's output does not fit", ("mixtures = 5", "mixtures = 1"), place="trial.lua:5", loss="{ type = 'mixture_density', mixtures = 5 }",
        network="pg.sequential { pg.dense { 3 } }", train='pg.data.csv { "number.csv" }'),
    job("the target must be class numbers; got f32", ('"sparse_cross_entropy"', '"cross_entropy"'), "cross_entropy takes distributions",
        loss='"sparse_cross_entropy"',
        train="pg.data.arrays { x = { { 1 } }, y = { { 0.5, 0.5 } } }"),
    job("names no output; expected a loss, or one for each output", loss="{}"),
    # rules
    rates('{"type": "map", "values": {"soon": 1}}', "'soon' is not a time; got soon, expected a number of epochs or steps", ('"soon"', '"0"')),
    rates('{"type": "sequence", "parts": [{"until": 0.5, "schedule": 1}, {"until": 0.5, "schedule": 1}, {"schedule": 1}]}',
          "'until' does not come after the part before it",
          ('{"until": 0.5, "schedule": 1}, {"until": 0.5', '{"until": 0.4, "schedule": 1}, {"until": 0.5')),
    rates('{"type": "sequence", "parts": [{"until": 0.5}, {"schedule": 1}]}', "'schedule' is missing; expected a number or a schedule"),
    job("the function gives no finite number", optimizer="pg.sgd { lr = function(now) return 1 / now.step end }", place="trial.lua:6: optimizer: lr",
        hint="now.step + 1", fix=("now.step end", "(now.step + 1) end")),
    job("the traced function gives a table as its value", optimizer="pg.sgd { lr = function(now) return now end }", place="trial.lua:6",
        hint="step, epoch, progress"),
    # the job
    json_text('{"perigee": 7, "network": ' + DENSE + "}", JOB, "this job is in another format; got 7, expected 1", None,
              "it was written by another version of perigee"),
    json_network(DENSE, JOB, "'loss_scale' is for precision = \"fp16\" alone; got 8", hint="other precisions have the range of float32",
                 more='"loss_scale": 8,'),
    json_network(DENSE, JOB, "'loss_scale' is neither a number nor \"dynamic\"; got \"auto\"", more='"precision": "fp16", "loss_scale": "auto",'),
    json_network(DENSE, JOB, "no layer matches 'conv*'", hint="\"none\", \"auto\", \"all\", or names of layers", more='"recompute": ["conv*"],'),
    json_network(DENSE, JOB, "'memory_limit' is no amount of memory; got '5 elephants'", hint="text such as '512MiB' or '2GB'",
                 more='"memory_limit": "5 elephants",'),
    json_network(DENSE, JOB, "'metric' must name a part of the data and a figure; got 'loss', expected for example 'test.loss'",
                 more='"early_stopping": {"metric": "loss"},'),
    json_network(DENSE, JOB, "'metric' must name a part of the data and a figure; got 'val_loss', expected for example 'test.loss'",
                 more='"early_stopping": {"metric": "val_loss"},'),
    json_network(DENSE, JOB, "take more memory than is left", hint='recompute = "auto", a smaller batch, fewer threads, or a higher limit',
                 more='"memory_limit": 1,'),
    command("true or false", ("train", "kept.lua", "--set", 'data.train={"type": "text", "file": "two.csv", "context": 4, "fitted": {"unknown": 3, '
                                                            '"vocabulary": ["a"]}}'), "fitted",
            "'unknown' has the wrong type; got integer 3, expected true or false"),
    # JSON
    json_text('{"epochs": 99999999999999999999}', "trial.json:1:", "the integer is larger than 64 bits hold"),
    json_text('{"epochs": 1.8e308}', "trial.json:1:", "the number is larger than a double holds"),
    json_text('{"name": "\\udc00"}', "trial.json:1:", "the string has half of a surrogate pair"),
    json_text('{"\\udc00": 1}', "trial.json:1:", "the key has half of a surrogate pair"),
    json_text("[" + "0," * 4000000 + "0]", "trial.json:1:", "there are too many values"),
]
