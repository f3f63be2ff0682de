"""Lines of the prompt and scripts that are wrong, for error_cases.py: tensors, recorded and traced functions, networks and runs."""
from error_forms import Case, command, job, prompt

NETWORK = "net = pg.sequential { pg.dense { 2 } } "
INIT = NETWORK + "net:init(1, { 3 }) "
MODEL = 'model = pg.load_model("kept") '
KEPT = (("train", "kept.lua", "--out", "kept"),)
EMPTY = (("-e", 'os.execute("mkdir -p empty")'),)
EXPERIMENT = ("pg.experiment { network = pg.sequential { pg.flatten {}, pg.dense { 10 } }, loss = 'cross_entropy', optimizer = pg.sgd { lr = 0.1 }, "
              "epochs = 1000000, "
              "data = { train = pg.data.digits { size = 64, endless = false }.train } }")
RUN = f"run = pg.start({EXPERIMENT}, {{ folder = false, threads = 1 }}) "
WORKERS = f"run = pg.start({EXPERIMENT}, {{ workers = 1, threads = 1, out = 'few' }}) "
MANY = "pg.data.arrays { x = (function() local t = {} for i = 1, 70000 do t[i] = { 1, 2 } end t[#t + 1] = LAST return t end)() }"
STEP = 'p = { a = pg.ones(2) } opt = pg.adam {} opt:step(p, { a = pg.ones(2) }) '


def line(expression, cause, fix=None, hint="", after=()):
    return prompt(f"-e '{expression[-90:]}'", expression, cause, hint, fix, after=after)


def nested(depth):
    return "{ a = " * depth + "1" + " }" * depth


CASES = [line(*each) for each in [
    # tensors
    ("pg.zeros { 1, {} }", "zeros takes sizes; got", ("{} }", "2 }")),
    ("pg.tensor { { 1 }, 2 }", "expected a list of 1", (", 2 }", ", { 2 } }")),
    ("pg.ones(2):unsqueeze(9)", "there is no place 9 for a dimension in", ("9", "1")),
    ("pg.solve(pg.eye(2), 'a')", "solve takes tensors; got 'a'", ("'a'", "pg.ones(2)")),
    ("pg.solve(pg.eye(2), {})", "solve: takes another number of operands; got 1, expected 2", ("{}", "pg.ones(2)")),
    ("pg.ones(2).concatenate {}", "concatenate takes a list of tensors; got", ("{}", "{ pg.ones(2) }")),
    ("pg.ones(2).add(1, 2)", "add needs at least one tensor", ("(1, 2)", "(pg.ones(1), 2)")),
    ("pg.ones(1).item(3)", "item takes a tensor of one element; got 3", ("item(3)", "item(pg.ones(1))")),
    ("pg.ones(1, 1, 1, 1, 1, 1, 1, 1)[{ pg.newaxis }]", "an index gives too many dimensions; got f32[1x1x1x1x1x1x1x1], expected at most 8"),
    ("pg.ones(3)[{ pg.ones(2) }]", "masks and places stand alone, x[mask], or choose along an axis, x:take(places, axis)"),
    ("x = pg.ones(3) x[true] = 1", "a tensor is indexed by numbers or a table; got true", ("true", "1")),
    ("return pg.ones(3):data()[4]", "index 4 lies outside 1 to 3", ("[4]", "[3]")),
    ("pg.zeros(2, 0):take({ 1 }, 2)", "none: the dimension is empty"),
    ("pg.ones(2):take { 1.5 }", "take: a place is a whole number; got 1.5", ("1.5", "1")),
    ("pg.text_scores('a', { 'b' })", "text_scores takes two lists of texts; argument 1 is", ("'a'", "{ 'a' }")),
    ("pg.text_scores({ 1 }, { 'b' })", "text_scores: text 1 is", ("1", "'a'")),
    ("pg.text_scores({ 'a' }, {})", "text_scores: 1 texts, and 0 that were wanted", ("{}", "{ 'b' }")),
    ("pg.list(3)", "list takes a table; got 3", ("3", "{ 3 }")),
    ("pg.plot(pg.ones(2, 3))", 'how is f32[2x3] to be plotted? kind = "line", "histogram", "image" or "confusion"',
     ("3))", '3), { kind = "image", file = "a.png" })')),
    ("pg.zeros(0)[1]", "none: the dimension is empty"),
    ("return pg.ones(1, 1, 1, 1, 1, 1, 1, 1)[pg.tensor(1):gt(0)]", "a mask of one element cannot add a dimension here"),
    ("pg.zeros(1000000, 1000000, 1000000)", "is too large for any memory"),
    ("pg.zeros(1000000, 10000000)", "not enough memory for"),
    ('pg.randn(2, { dtype = "i64" })', "such random numbers are not whole; got i64; use pg.randint"),
    ("x = pg.ones(2) x[1] = pg.ones(3)", "a value does not fit the shape that it is put into"),
    ("pg.one_hot(pg.tensor({ 1 }, { dtype = 'i64' }), 0)", "none: there is nothing to choose from"),
    # recorded functions
    ("pg.compile(function(x) return x[true] end)(pg.ones(2))", "a tensor is indexed by numbers or a table; got true", ("true", "1")),
    ("pg.compile(function(x) return x:narrow(1, 3, 9) end)(pg.ones(4))", "places 3 to 11 lie outside dimension 1 of", ("9", "2")),
    ("pg.compile(function(x) return x[{ pg.ones(1) }] end)(pg.ones(2))", "places choose along an axis, x:take(places, axis)"),
    ("(function() local y pg.grad(function(x) y = x return x:sum() end)(pg.ones(2)) pg.grad(function(x) return (x + y):sum() end)(pg.ones(2)) end)()",
     "this value belongs to another recorded function", ("x + y", "x")),
    ("pg.compile(function(x) while true do x = x + 1 end end)(pg.ones(2))", "the function records more than",
     ("while true do x = x + 1 end", "return x + 1"),
     "it may have one that never ends"),
    ("pg.grad(function(x) return x:to 'f32':sum() end)(pg.ones(2, { dtype = 'i64' }))", "there is no gradient with respect to",
     (", { dtype = 'i64' }", "")),
    ("pg.grad(function(x) return x:gt(0):to 'f32':sum() end)(pg.ones(2))", "only through 'greater', which has no derivative|which has no derivative"),
    # traced functions
    ("pg.lambda(function(x) return x * (1 / 0) end)", "a job cannot hold inf; a large number does as well: -1e9 where a softmax is to give 0",
     ("(1 / 0)", "1e9")),
    ("pg.lambda(function(x) return x + pg.ones(2000000) end)", "elements is too large to be written into a job; expected at most"),
    ("pg.lambda(function(x) return x[pg.ones(2):gt(0)] end)", "a mask gives a shape that depends on its values; write pg.where(mask, x, 0)",
     ("x[pg.ones(2):gt(0)]", "pg.where(pg.ones(2):gt(0), x, 0)")),
    ("pg.lambda(function(x) return x * x:size(2).half end)", "a size has no 'half'; it is a number", (".half", " / 2")),
    ('pg.lambda(function(x) return x + pg.parameter("w") end)', "parameter takes a name and a shape; got", ('"w"', '"w", { 2 }')),
    ('pg.lambda(function(x) return x + pg.parameter("w", { (x * 2).shape[2] }) end)',
     "is that of a value which the function makes; take the size of an argument", ("(x * 2).shape[2]", "x.shape[2]")),
    ("pg.data.digits {}:head(5)", "of it, take a part first, as it.", ("digits {}", "digits {}.train")),
    ("pg.lambda(function(x) return pg.matmul(pg.ones(2, 2), x) + pg.ones(2, 2):matmul(x) end)", "where a tensor and a traced value meet, write pg."),
    ("pg.experiment { metrics = { near = 3 } }", "metrics: 'near' is", None, "expected a function"),
    # loops
    ("pg.scan(3, pg.ones(2), pg.ones(2, 3))", "scan takes a function of one step; got 3", ("3, pg.ones(2), ", "function(h) return h end, pg.ones(2), ")),
    ("pg.scan(function(h) return h end, pg.ones(2), pg.ones(2, 3), { revers = true })", "scan has no option 'revers'; did you mean 'reverse'?",
     ("revers =", "reverse =")),
    ("pg.scan(function(h) return h end, pg.ones(2), pg.ones(2, 3), { mask = 3 })", "scan: mask is 3; expected a value of each step of each example"),
    ("pg.scan(function(h) return h end, pg.ones(2), pg.ones(3))", "expected a tensor (examples, ..., steps)"),
    ("pg.scan(function(h) return h end, pg.ones(2))", "scan: there is no step; give a sequence, or length = 10", ("ones(2))", "ones(2), nil, { length = 10 })")),
    ("pg.scan(function(h) return h end, true, pg.ones(2, 3))", "scan: what is carried is true; expected a value or a list of them"),
    ("pg.scan(function(h) return { h } end, pg.ones(2), pg.ones(2, 3))", "expected what it was given: one value", ("{ h }", "h")),
    ("pg.lambda(function(x) return (pg.scan(function(h) return 1 end, pg.ones(2), x)) end)",
     "the step of pg.scan gives 1; expected values computed from those that it is given", ("return 1", "return h")),
    ("pg.lambda(function(x) local y pg.scan(function(h) y = h return h end, pg.ones(2), x) return y end)",
     "this value belongs to a step of pg.scan; what the step returns leaves it"),
    # rules of one's own
    ("pg.rule { update = 3 }", "update is 3; expected function(p, g, s, now) ... end"),
    ("pg.rule { state = 3, update = function(p, g) return p - g end }", "state is 3; expected { \"m\" } or { m = 0 }"),
    ("pg.rule { state = { [true] = 0 }, update = function(p, g) return p - g end }", "a state is called true; expected a name"),
    ("pg.rule { update = function(p, g, s, now) return p - now.lrr * g end }", "there is no now.lrr; did you mean 'lr'?", ("lrr", "lr")),
    ("pg.rule { state = { 'm' }, update = function(p, g, s) return p - s.n * g end }", "there is no state 'n'"),
    ("pg.noise_scale(3, 3, 3)", "pg.noise_scale takes a function of a batch and what gives batches, as source:batches(32)"),
    ("pg.noise_scale(function() end, function() end, 'a')", "pg.noise_scale takes the size of the batches; got 'a'"),
    ("pg.noise_scale(function() end, function() end, 2)", "pg.noise_scale needs two batches or more; there was 0"),
    ("local n = 0 pg.noise_scale(function() return 'a' end, function() n = n + 1 return n end, 2)", "the gradient has 'a'; expected tensors"),
    # networks and models
    (INIT + "net:apply(3, pg.ones(1, 3))", "parameters are a table of tensors by name; got", None),
    (INIT + "net:apply({ ['dense1.weight'] = pg.ones(2, 2), ['dense1.bias'] = pg.ones(2) }, pg.ones(1, 3))",
     "parameter 'dense1.weight' has another shape; got f32[2x2], expected f32[2x3]",
     ("ones(2, 2)", "ones(2, 3)")),
    (INIT + "net(pg.ones(1, 4))", "input 'x' does not fit; got f32[1x4]", ("(1, 4)", "(1, 3)")),
    (INIT + "net(pg.ones(1, 3), pg.ones(1, 3))", "the network takes another number of tensors|takes",
     ("pg.ones(1, 3), pg.ones(1, 3)", "pg.ones(1, 3)")),
    (NETWORK + "net:init(1, pg.data.arrays { z = { { 1, 2 } } })", "init: the data have no field 'x', which the network reads", ("z =", "x =")),
    (NETWORK + 'net:init(1, "a")', "or tensors, or a source: net:init(1, {1, 28, 28}); got", ('"a"', "{ 3 }")),
    (MODEL + "model:predict(3)", "predict takes the name of a file, or columns by name; got", ("3)", "{ a = { 1 }, b = { 2 } })"), "", KEPT),
    (MODEL + "model:predict({ a = { 1 }, b = { 2 } }, { layers = { 3 } })", "must be names of layers", None, 'layers = { "hidden" }', KEPT),
    (MODEL + "model:predict({ a = { 1 }, b = { 2 } }, { beams = 1.5 })", "must be a whole number; got 1.5", ("1.5", "1"), "beams = 10", KEPT),
    (MODEL + 'model:predict({ a = { 1 }, b = { 2 } }, { layers = { "dens1" } })', "the network has no layer of this name", None,
     "did you mean 'dense1'", KEPT),
    # optimisers
    ("pg.adam {} :step(3, 3)", "expected a tensor, or a table of tensors", ("3, 3", "pg.ones(2), pg.ones(2)")),
    (STEP + "opt:step({ a = pg.ones(3) }, { a = pg.ones(3) })",
     "does not have the shape of the parameter at the first step; got f32[3], expected f32[2]",
     ("(3) }, { a = pg.ones(3)", "(2) }, { a = pg.ones(2)")),
    # runs
    (RUN + "run:predict(pg.ones(1, 1, 28, 28), { beams = 4 })", "run:predict searches label sequences for records; a tensor is raw"),
    (RUN + "run:predict(pg.ones(1, 1, 28, 28), { layers = { 'dense1' } })", "run:predict gives layers for records; a tensor is raw"),
    (RUN + "run:wait(0.4) run:plot('loss', { file = 'a.gif' })", "a chart's file has another name; expected name.svg or name.png",
     ("a.gif", "a.svg")),
    (WORKERS + "run.averaging.codec = 3", "'codec' of a run's averaging cannot be set; what can be: every"),
    (WORKERS + "run.averaging.every = 'a'", "every takes a number of steps; got 'a'"),
    (WORKERS + "repeat run:wait(0.1) until #run.workers == 1 run:kick(9)", "there is no worker 9; there are 1 to 1"),
    (RUN + "run:wait(0.4) run:plot 'losss'", "there is no curve 'losss'"),
    (f"pg.start({EXPERIMENT}, {{ workers = 2, folder = false }})", "a run of several workers keeps its ledger there; got false", None,
     "out = FOLDER"),
    (f"pg.start({EXPERIMENT}, {{ min_workers = 2 }})", "is missing: a run of several processes needs workers", None, "workers = 2"),
]]
CASES += [
    # what a job can hold
    job("tables are nested more than 64 deep", more="averaging = " + nested(70) + ","),
    job("a table's keys must be names, or 1, 2, 3, ...; got a boolean as a key", ("averaging = { [true] = 1 },", ""), more="averaging = { [true] = 1 },"),
    job("a list has holes (nil) or keys that are not 1, 2, 3, ...", ("nil, ", ""), loss='{ type = "cross_entropy", weights = { 1, nil, 3 } }',
        network="pg.sequential { pg.dense { 2 } }"),
    job("a list has holes (nil) or keys that are not 1, 2, 3, ...", ("nil, ", ""), more='metrics = { "classification", nil, "calibration" },'),
    job("has another length than the first of its kind", train=MANY.replace("LAST", "{ 1 }")),
    job("has too many dimensions", train=MANY.replace("{ 1, 2 }", "{ 1, { { { { { { { 2 } } } } } } } }".replace("1, ", ""))),
    # files that are not there
    prompt("a tensor of a misspelt file", 'pg.load "tow.csv"', "tow.csv: cannot be opened", "did you mean 'two.csv'?"),
    prompt("a table of a misspelt file", 'pg.table "tow.csv"', "tow.csv: cannot be opened", "did you mean 'two.csv'?", "nearest", "tow.csv"),
    prompt("a tensor of no file", 'pg.load "nothing-here.npy"', "nothing-here.npy: cannot be opened", "relative paths begin at /"),
    # scripts
    Case("a script without the module", "trial.lua:1", "global 'pg' (a nil value)", 'begin the script with: local pg = require "perigee"',
         ("return", 'local pg = require "perigee" return'),
         script="return pg.experiment { network = pg.sequential { pg.flatten {}, pg.dense { 2 } }, loss = 'cross_entropy', "
                "optimizer = pg.sgd { lr = 0.1 }, epochs = 1, data = { train = pg.data.csv { 'two.csv', target = 'y' } } }\n"),
    Case("a script of two values", "trial.lua", "the script returns more than one value; got 2", "end it with `return pg.experiment { ... }`",
         script="return 1, 2\n"),
    Case("a script of bytecode", "trial.lua", "this is compiled Lua bytecode, which is refused because it can crash the interpreter",
         "give the script that it was compiled from",
         script="\33LJ"),
    command("a folder without a job", ("train", "empty"), "empty", "this is a folder without a job.json", "a script, a job or a run folder",
            after=EMPTY),
    command("a pipe that is named like a script", ("train", "pipe.lua"), "pipe.lua", "this script cannot be read; got no regular file",
            after=(("-e", 'os.execute("mkfifo pipe.lua")'),)),
    Case("a script of too much memory", "", "the script needs too much memory; expected at most 2048 MiB", "keep large arrays in files",
         script='return string.rep("x", 2147483000)\n'),
    job("not enough memory for", place="", network="pg.sequential { pg.dense { 16777216 }, pg.dense { 16777216 } }"),
    command("a script that is too large", ("train", "large.lua"), "large.lua",
            "this script is too large; got 68157440 bytes, expected at most 64 MiB",
            after=(("-e", 'os.execute("truncate -s 65M large.lua")'),)),
    command("a job that is too large", ("train", "large.json"), "large.json", "is too large for a job; expected at most 64 MiB",
            after=(("-e", 'os.execute("truncate -s 65M large.json")'),)),
]
