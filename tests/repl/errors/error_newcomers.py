"""What people who come from Keras, PyTorch and pandas try first, for error_cases.py."""
from error_forms import ARRAYS, command, job, json_job, prompt, script

FLOWERS = 'pg.data.csv { "three.csv", target = "y" }'
ONE_OUTPUT = "pg.sequential { pg.dense { 1 } }"
DIGITS = "pg.data.digits().train:take(20)"
KEPT = (("train", "kept.lua", "--out", "kept"),)
SAVED = 'model = pg.load_model("kept") '


def key(name, value, hint, fix=None, **parts):
    """A key of the job that others have."""
    return script(f"the key '{name}' of others", "trial.lua:9", f"unknown key '{name}'", hint, fix, more=f"{name} = {value},", **parts)


def option(layer, name, hint, fix=None):
    return job(f"has no option '{name}'", fix, hint, place="trial.lua:4", network="pg.sequential { " + layer + ", pg.flatten {}, pg.dense { 10 } }", train=DIGITS)


CASES = [
    # classes for a loss of amounts
    script("words for a loss of amounts", "trial.lua:5: loss", "is of amounts, and the target is one of classes",
           "take loss = \"cross_entropy\" and 3 outputs: give layer 'dense1' 3 outputs: pg.dense { 3 }",
           ('pg.dense { 1 } },\n  loss = "mse"', 'pg.dense { 3 } },\n  loss = "cross_entropy"'), network=ONE_OUTPUT, loss='"mse"', train=FLOWERS),
    script("integers for a loss of amounts", "trial.lua:5: loss", "got 2 classes ('0', '1')", 'task = "regress"',
           ('target = "y"', 'target = "y", task = "regress"'), network=ONE_OUTPUT, loss='"mae"',
           train='pg.data.csv { "semicolon.csv", delimiter = ";", target = "y" }'),
    script("three classes for yes or no", "trial.lua:5: loss", "'binary_cross_entropy' is of amounts", "'green', 'red'", network=ONE_OUTPUT,
           loss='"binary_cross_entropy"', train=FLOWERS),
    script("two outputs for one number", "trial.lua:5: loss", "the target does not fit the network's output",
           "the network has 2 outputs, and the target 1 number in each example", ("{ 2 }", "{ 1 }"), loss='"mse"',
           network="pg.sequential { pg.dense { 2 } }", train='pg.data.csv { "number.csv", target = "y" }'),
    script("softmax over one output", "trial.lua:4", "softmax over a single output is always 1", 'activation = "sigmoid"', ('"softmax"', '"sigmoid"'), loss='"mse"',
           network='pg.sequential { pg.dense { 1, activation = "softmax" } }', train='pg.data.csv { "number.csv", target = "y" }'),
    prompt("a function as activation", "pg.dense { 8, activation = pg.relu }", "dense: an activation is called by its name", 'activation = "relu"',
           ("pg.relu", '"relu"')),
    job("the keys of 'data' have names; got 1 as a key", None, "data = { train = ..., test = ... }", data=', pg.data.csv { "two.csv" }'),
    # weights of classes
    key("class_weight", "{ 1, 2 }", "it is an option of the loss"),
    script("weights in the place of their rule", "trial.lua:5: loss", "'class_weight' is no list of weights", "weights = { 1, 2, 3 }",
           ("class_weight", "weights"), loss='pg.loss.cross_entropy { class_weight = { 1, 2 } }'),
    # keys of a job
    key("batch_size", "32", "data = { train = ..., batch = 32 }", ("batch_size = 32,", "")),
    key("test", "1", "data = { train = ..., validation = ..., test = ..."),
    key("callbacks", "{}", "early_stopping, checkpoint, reduce_on_plateau"),
    key("verbose", "1", "--log plain"),
    key("learning_rate", "0.1", "optimizer = pg.adam { lr = 0.001 }"),
    key("monitor", "'loss'", 'early_stopping = { metric = "validation.loss", patience = 3 }'),
    key("validation_split", "0.1", "train, validation = source:split { 0.9, 0.1, seed = 1 }"),
    key("validation_data", "1", "data = { train = ..., validation = ... }"),
    key("shuffle", "true", "it stands beside the data"),
    key("patience", "3", "early_stopping = {"),
    key("lr_scheduler", "1", "optimizer = pg.adam { lr = pg.cosine { from = 1e-3 } }"),
    key("dataloader", "1", "did you mean 'data'?|data = { train = source"),
    key("num_epochs", "1", "epochs|its options"),
    key("criterion", '"mse"', "did you mean|loss"),
    # options of layers
    option("pg.conv2d { 2, kernel_size = 3 }", "kernel_size", "did you mean 'kernel'?", ("kernel_size", "kernel")),
    option("pg.conv2d { filters = 2, kernel = 3 }", "filters", "did you mean 'out'?", ("filters", "out")),
    option("pg.conv2d { 2, kernel = 3, strides = 2 }", "strides", "did you mean 'stride'?", ("strides", "stride")),
    option("pg.maxpool { pool_size = 2 }", "pool_size", "did you mean 'kernel'?", ("pool_size", "kernel")),
    option("pg.flatten {}, pg.dense { units = 2 }", "units", "did you mean 'out'?", ("units", "out")),
    option("pg.flatten {}, pg.dense { out_features = 2 }", "out_features", "did you mean 'out'?", ("out_features", "out")),
    option("pg.flatten {}, pg.dense { 2, in_features = 3 }", "in_features", "leave it out", (", in_features = 3", "")),
    option("pg.flatten {}, pg.dense { 2, input_shape = { 3 } }", "input_shape", "leave it out", (", input_shape = { 3 }", "")),
    option("pg.dropout { p = 0.5 }", "p", "did you mean 'rate'?", ("p =", "rate =")),
    prompt("LSTM's options", "pg.lstm { hidden_size = 8 }", "lstm has no option 'hidden_size'", "did you mean 'units'?", ("hidden_size", "units")),
    prompt("LSTM's layers", "pg.lstm { 8, num_layers = 2 }", "lstm has no option 'num_layers'", "did you mean 'layers'?", ("num_layers", "layers")),
    prompt("Adam's rate", "pg.adam { learning_rate = 0.1 }", "has no option 'learning_rate'", "did you mean 'lr'?", ("learning_rate", "lr")),
    prompt("sizes in PyTorch's order", "pg.dense(784, 10)", "dense takes only out without a name", "a layer finds the size of its input out",
           ("784, 10", "10")),
    # names of pg
    *[prompt(f"pg.{name}", f"return pg.{name}", f"there is no pg.{name}", f"did you mean '{here}'?", (name, here)) for name, here in (
        ("Linear", "dense"), ("Dense", "dense"), ("maxpooling2d", "maxpool"), ("MaxPool2d", "maxpool"), ("LSTM", "lstm"), ("BatchNorm2d", "batchnorm"),
        ("GlobalAveragePooling2D", "global_pool"), ("Model", "graph"), ("StepLR", "step"), ("CosineAnnealingLR", "cosine"))],
    prompt("pg.fit", "pg.fit()", "there is no pg.fit", "`perigee train FILE` trains"),
    prompt("pg.DataLoader", "return pg.DataLoader", "there is no pg.DataLoader", "did you mean 'data'?", ("DataLoader", "data")),
    prompt("pg.data.ImageFolder", 'pg.data.ImageFolder "a"', "there is no data source 'ImageFolder'", "did you mean 'images'?", ("ImageFolder", "images")),
    prompt("ToTensor", "pg.transform.ToTensor {}", "there is no transform 'ToTensor'", "leave it out"),
    prompt("the schedule as layer", "pg.linear { 8 }", "schedule linear takes no values without a name", "a layer of weights is pg.dense { 10 }",
           ("pg.linear { 8 }", "pg.dense { 10 }")),
    prompt("an op as layer", "pg.sequential { pg.relu {} }", "pg.relu is an op", 'as a layer it is pg.activation { "relu" }',
           ("pg.relu {}", 'pg.activation { "relu" }')),
    prompt("a text as layer", 'pg.sequential { "relu" }', "entry 1 of pg.sequential is 'relu'; expected a layer", 'pg.activation { "relu" }',
           ('"relu"', 'pg.activation { "relu" }')),
    json_job("an activation as layer of JSON", '{"network": [{"type": "relu"}, {"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "adam", '
             '"data": {"train": {"type": "csv", "file": "two.csv"}}}', "trial.json", "there is no layer 'relu'",
             '{"type": "activation", "activation": "relu"}', ('{"type": "relu"}', '{"type": "activation", "activation": "relu"}')),
    # methods
    *[prompt(f"{call} with a dot", start + call, f"{call.split('(')[0].split(' ')[0]} is a method", f"call it with a colon: {colon}(...)", fix)
      for start, call, colon, fix in (
          ("net = pg.sequential { pg.dense { 2 } } ", "net.init(1, { 3 })", "net:init", ("net.init", "net:init")),
          (f"source = {ARRAYS} ", "source.take(1)", "source:take", ("source.take", "source:take")),
          (f"source = {ARRAYS} ", "source.fields()", "source:fields", ("source.fields", "source:fields")),
          ("opt = pg.adam {} ", "opt.reset()", "opt:reset", ("opt.reset", "opt:reset")))],
    prompt("a model's method with a dot", SAVED + 'model.predict "two.csv"', "model.predict is a method", "call it with a colon: model:predict(...)",
           ("model.predict", "model:predict"), after=KEPT),
    prompt("a run's method with a dot", 'run = pg.start("kept.lua", { folder = false }) run.wait()', "run.wait is a method, and got nothing",
           "call it with a colon: run:wait(...)", ("run.wait", "run:wait")),
    prompt("a tensor's method with a dot", "pg.ones(3).sum()", "sum takes a tensor; got nothing", "x:sum()", (".sum", ":sum")),
    # traced functions
    script("math.abs in a loss", "trial.lua:5", "math.abs takes numbers and not traced values or tensors", "write pg.abs(x)", ("math.abs", "pg.abs"),
           loss="function(o, t) return math.abs(o - t):mean(2) end", network=ONE_OUTPUT, train='pg.data.csv { "number.csv", target = "y" }'),
    script("math.max at a loss's end", "trial.lua:5", "math.max takes numbers", "write pg.maximum(x, y)", ("math.max", "pg.maximum"),
           loss="function(o, t) return math.max(o - t, 0) end", network=ONE_OUTPUT, train='pg.data.csv { "number.csv", target = "y" }'),
    script("a kept math.exp in a layer", "trial.lua:4", "number expected, got cdata", "functions of pg take it",
           network="pg.sequential { pg.lambda((function() local exp = math.exp return function(x) return exp(x) end end)()), pg.dense { 2 } }"),
    # tables
    script("decimal commas", "decimal.csv:2: column 'a'", "the numbers have decimal commas; got '0,5'", 'decimal = ","',
           ('delimiter = ";"', 'delimiter = ";", decimal = ","'), train='pg.data.csv { "decimal.csv", delimiter = ";", target = "y" }'),
    script("decimal commas in a table with steps", "decimal.csv: record 1: column 'a'", "the numbers have decimal commas; got '0,5'", "a step makes numbers of them",
           ('target = "y"', 'target = "y", steps = { { derive = { ["a"] = "real(replace(`a`, \',\', \'.\'))", ["b"] = "real(replace(`b`, \',\', \'.\'))" } } }'),
           train='pg.data.table { "decimal.csv", target = "y" }'),
    script("a decimal comma of another kind", "trial.lua:7: data source csv|trial.lua:7: data: train", "'decimal' has an unknown value; got ';'", "one of '.', ','",
           ('decimal = ";"', 'decimal = ","'), train='pg.data.csv { "decimal.csv", delimiter = ";", target = "y", decimal = ";" }'),
    script("a decimal comma that separates", "trial.lua:7: data: train", "'decimal' is the delimiter too", 'delimiter = ";"',
           train='pg.data.csv { "two.csv", target = "y", decimal = "," }'),
    script("a table's name misspelt", "tow.csv", "cannot be opened", "did you mean 'two.csv'?", ("tow.csv", "two.csv"),
           train='pg.data.csv { "tow.csv", target = "y" }'),
    json_job("a source without its type", '{"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "adam", "data": {"train": {"type": '
             '"take", "count": 9, "source": {"type": "take", "count": 9, "source": {"file": "two.csv"}}}}}', "data: train: source: 'type'",
             "'type' is missing", 'such as "csv"', ('{"file"', '{"type": "csv", "file"')),
    # pictures
    script("pictures without folders", "trial.lua:7: data: train", "the data have no field 'y'; got images (2 examples",
           "put the files of each class into a folder of its own", train='pg.data.images { "flat", size = 4 }', network="pg.sequential { pg.flatten {}, pg.dense { 2 } }",
           after=(("-e", "os.execute 'mkdir flat' for i = 1, 2 do pg.save('flat/' .. i .. '.png', pg.zeros(4, 4, { dtype = 'u8' })) end"),)),
    script("a picture as folder", "two.csv", "is a file; expected a folder", train='pg.data.images { "two.csv", size = 4 }'),
    script("a folder of pictures misspelt", "share", "there is no such folder", "did you mean 'shared'?", train='pg.data.images { "share", size = 4 }'),
    prompt("a transform that is not called", f"x = {ARRAYS} x:map {{ pg.transform.flip }}", "map: transform 1 is a function", "pg.transform.flip {}",
           ("transform.flip }", "transform.flip {} }")),
    prompt("augmentation by an option", 'pg.data.images { "shared", size = 4, augment = true }', "has no option 'augment'", "source:map {", (", augment = true", "")),
    prompt("sentences of a number", "pg.sentences(3)", "sentences takes a text; got", "", place=""),
    script("masked tokens in their own field", "trial.lua:", "'target' is the field itself; got 'x'", "the name of another field",
           train='pg.data.text { "kept.lua", context = 8 }:masked_lm { field = "x", target = "x" }'),
    script("masked numbers that are no tokens", "trial.lua:", "'field' has no tokens", "i64 numbers of a text: pg.data.text, pg.data.documents",
           train='pg.data.csv { "two.csv", target = "y" }:masked_lm { target = "z" }'),
    command("decimal commas in what is foretold", ("predict", "kept", "comma.csv"), "comma.csv", "this is no number; got '0,5'",
            "write its decimals behind a point, as the training data have them", after=KEPT),
    # the command line
    command("nothing to predict", ("predict", "kept"), "`perigee predict`", "needs an argument more: files, images (JPEG, PNG), tables", after=KEPT),
    command("no model to judge", ("eval",), "`perigee eval`", "needs an argument more: model, a model file"),
    command("a table to predict, misspelt", ("predict", "kept", "tow.csv"), "tow.csv", "there is no such file", "did you mean 'two.csv'?", ("tow.csv", "two.csv"), after=KEPT),
    command("a run to watch, misspelt", ("watch", "kepd"), "kepd", "there is no run in this folder", "did you mean 'kept'?", ("kepd", "kept"), after=KEPT),
    command("a run to attach to, misspelt", ("attach", "kepd"), "kepd", "there is no folder of this name", "did you mean 'kept'?", after=KEPT),
    *[command(f"perigee {word}", (word,), word, "is no command of `perigee`", hint, None) for word, hint in (
        ("fit", "did you mean 'train'?"), ("test", "did you mean 'eval'?"), ("info", "did you mean 'describe'?"), ("kept.lua", "did you mean `perigee train kept.lua`?"),
        ("two.csv", "`perigee data analyse two.csv`"), ("export", "RUN/model.safetensors"), ("convert", "libperigee"), ("serve", "libperigee"),
        ("plot", "`perigee report RUN`"), ("ls", "runs are folders in runs/"), ("resume", "`perigee train --resume RUN`"), ("init", "`perigee help train`"))],
    command("a run as command", ("kept",), "'kept'", "is no command of `perigee`", "`perigee report kept` and `perigee eval kept`", after=KEPT),
    command("results by another option", ("predict", "kept", "two.csv", "-o", "o.csv"), "'-o'", "is no option of `perigee predict`", "did you mean '--out'?", ("-o", "--out"),
            after=KEPT),
    command("results as CSV by an option", ("predict", "kept", "two.csv", "--csv"), "'--csv'", "is no option of `perigee predict`", "--out results.csv",
            ("--csv", "--out=results.csv"), after=KEPT),
    command("results as one JSON document", ("predict", "kept", "two.csv", "--out", "o.json"), "--out", "results cannot be written to a file of this name", "did you mean 'o.jsonl'?",
            ("o.json", "o.jsonl"), after=KEPT),
    command("a run by its name alone", ("predict", "mine", "two.csv"), "mine", "there is no such file", "did you mean 'runs/mine'?", ("mine", "runs/mine"),
            after=(("train", "kept.lua", "--out", "runs/mine"),)),
    command("a table to judge on, misspelt", ("eval", "kept", "--data", "tow.csv"), "--data tow.csv", "there is no such file", "did you mean 'two.csv'?", ("tow.csv", "two.csv"),
            after=KEPT),
    # what others write in Lua's place
    *[prompt(f"{name} in Lua", line, cause, hint, fix) for name, line, cause, hint, fix in (
        ("import", "import torch", "'=' expected near 'torch'", "`pg` is there at the prompt", None),
        ("a list in brackets", "pg.tensor([1, 2])", "unexpected symbol near '['", "a list is written in braces: { 1, 2, 3 }", ("[1, 2]", "{ 1, 2 }")),
        ("+=", "x = 1 x += 1", "'=' expected near '+'", "it is written out: x = x + 1", ("x += 1", "x = x + 1")),
        ("!=", "return 1 != 2", "near '!'", "`a ~= b`", ("!=", "~=")),
        ("&&", "return 1 && 2", "near '&'", "`and`", ("&&", "and")),
        ("range", "for i in range(10): print(i)", "'do' expected", "a loop is for i = 1, 10 do ... end", None),
        ("lambda", "f = lambda x: x", "function arguments expected", "a function is function(x)", None),
        ("a dictionary", 'x = {"a": 1}', "expected near ':'", "a table is { name = 1", None),
        ("options in parentheses", "pg.dense(out=10)", "expected near '='", "options stand in braces: pg.dense {", None),
        ("a comment of C", "x = 1 // one", "near '/'", "a comment begins with --", ("//", "--")),
        ("len", "return len({ 1 })", "global 'len' (a nil value)", "#x is the length of x", None),
        ("numpy", "return np.zeros(3)", "global 'np' (a nil value)", "pg.zeros(2, 3)", None),
        ("pandas", 'pd.read_csv("two.csv")', "global 'pd' (a nil value)", "pg.data.csv {", None),
        ("True", "x = True", "there is no 'True' in Lua", "it is called true", ("True", "true")),
        ("None", "return None", "there is no 'None' in Lua", "it is called nil", ("None", "nil")))],
    script("False in a script", "trial.lua:9", "there is no 'False' in Lua", "it is called false", ("False", "false"), more="deterministic = False,"),
    script("a list in brackets in a script", "trial.lua:9", "unexpected symbol near '['", "a list is written in braces", more='metrics = ["roc"],'),
    prompt("layers in a module of their own", "pg.nn.Linear(3, 4)", "there is no pg.nn", "layers are functions of pg itself"),
    prompt("an activation without its name", 'pg.dense(10, "relu")', "dense takes only out without a name", 'activation = "relu"', ('(10, "relu")', '{ 10, activation = "relu" }')),
    *[prompt(f"pg.table's {key}", f'return pg.table("two.csv").{key}', "pg.table shows a file and has no '" + key + "'", "{ rows = 20 }", None) for key in ("shape", "head", "describe")],
    script("a figure of the only evaluation", "trial.lua:9: early_stopping", "'roc.auc'", "did you mean 'validation.auc'?", "nearest", "validation.roc.auc",
           more='metrics = { "roc" }, early_stopping = { metric = "validation.roc.auc" },', data=', validation = pg.data.csv { "two.csv", target = "y" }'),
    # what others write in a job
    prompt("a source as the data", f'pg.experiment {{ network = pg.dense {{ 2 }}, loss = "mse", optimizer = pg.adam {{}}, data = {ARRAYS} }}',
           "data is a userdata; expected { train = ..., test = ..., batch = ... }", "data = { train = source, batch = 32 }"),
    script("a share as part", "trial.lua:7", "data.validation is 0.2", "train, validation = source:split { 0.8, 0.2, seed = 1 }", data=", validation = 0.2"),
    script("a function of tensors as loss", "trial.lua:5", "loss: cross_entropy is a function of pg", 'loss = "cross_entropy"', ("pg.cross_entropy", '"cross_entropy"'),
           loss="pg.cross_entropy"),
    script("a loss that is not called", "trial.lua:5", "loss: cross_entropy is a function of pg", 'loss = "cross_entropy"', ("pg.loss.cross_entropy", '"cross_entropy"'),
           loss="pg.loss.cross_entropy"),
    script("an optimiser that is not called", "trial.lua:6", "optimizer: adam is a function of pg", "pg.adam { lr = 0.001 }", ("pg.adam", "pg.adam { lr = 0.001 }"),
           optimizer="pg.adam"),
    prompt("a transform as list", f"x = {ARRAYS} x:map(pg.transform.flip)", "map takes a list of transforms; got a function", "source:map { pg.transform.flip {} }"),
    prompt("a transform by its name", f'x = {ARRAYS} x:map {{ "flip" }}', "map: transform 1 is 'flip'", "pg.transform.flip {}", ('"flip"', "pg.transform.flip {}")),
    *[prompt(f"a network's {name}", f"net = pg.sequential {{ pg.dense {{ 2 }} }} net:{name}()", f"a network has no '{name}'", hint) for name, hint in (
        ("fit", "pg.experiment { network = net"), ("predict", "net(x) computes"), ("cuda", 'device = "cuda"'), ("add", "layers are listed"))],
    script("a comma that is missing", "trial.lua:9", "'}' expected", "separated by commas", ("1 seed", "1, seed"), more="threads = 1 seed = 1,"),
    # dates
    *[script(f"dates with {cause}", place, cause, hint, train=f'pg.data.csv {{ "{file}", target = "y", dates = {{ "when" }} }}', network="pg.dense { 1 }", loss='"mse"')
      for file, place, cause, hint in (
          ("nodate.csv", "nodate.csv:3: column 'when'", "this is no date; got 'soon'", "2023-05-09 or 09.05.2023"),
          ("daymonth.csv", "daymonth.csv: column 'when'", "what is the day of its dates, and what is the month, cannot be told", "write them as 2023-05-09"))],
    command("another way to write dates than in training", ("predict", "dated", "isodates.csv"), "isodates.csv:2: column 'when'", "this is no date; got '2021-05-01'",
            "a date as in the training data: 09.05.2023", after=(("train", "dates.lua", "--out", "dated"),)),
    *[command(f"train {word}", ("train", "kept.lua", word), word.split("=")[0], "is no option of `perigee train`", hint, fix, word) for word, hint, fix in (
        ("--batch-size=20", "did you mean '--batch'?", ("--batch-size", "--batch")), ("--gpu", "did you mean '--device'?", None), ("--verbose", "--log plain", None),
        ("--patience", "early_stopping = {", None), ("--validation-split", "source:split", None))],
    command("a file to judge without --data", ("eval", "kept", "two.csv"), "two.csv", "is no argument of `perigee eval`", "--data two.csv", ("two.csv", "--data=two.csv"), after=KEPT),
    command("a model without test data", ("eval", "kept"), "--part", "the model's job has no data of this name; got 'test'", "--part train", None, after=KEPT),
    command("a setting that others have", ("train", "kept.lua", "--set", "batch_size=3"), "--set batch_size", "there is no 'batch_size' here",
            "did you mean 'data.batch'?", ("batch_size", "data.batch")),
    command("the batch at the top", ("train", "kept.lua", "--set", "batch=3"), "--set batch", "there is no 'batch' here", "did you mean 'data.batch'?", ("batch=", "data.batch=")),
    command("a setting of the data that others have", ("train", "kept.lua", "--set", "data.batch_size=3"), "--set data.batch_size", "there is no 'batch_size' here",
            "did you mean 'batch'?", ("batch_size", "batch")),
    # places of tensors
    prompt("a batch of one as its example", "x = pg.ones(1, 3) return x[2]", "index 2 lies outside dimension 1; got f32[1x3]", "x[{ 1, 2 }]", ("x[2]", "x[{ 1, 2 }]")),
    prompt("a place from 0", "x = pg.ones(3) return x[0]", "index 0 lies outside dimension 1", "places count from 1", ("[0]", "[1]")),
    # a loaded model, a run, a source
    prompt("a run's loss", 'run = pg.start("kept.lua", { folder = false }) return run.loss', "a run has no 'loss'", "run.progress shows it", (".loss", ".progress")),
    prompt("a run's training", 'run = pg.start("kept.lua", { folder = false }) run:train()', "a run has no 'train'", "run:wait()", (":train()", ":wait()")),
    prompt("a network to start", "pg.start(pg.sequential { pg.dense { 1 } })", "got a network", "pg.experiment { network = net"),
    prompt("a source's columns", f"return {ARRAYS}.columns", "a source has no 'columns'", "source:fields()", (".columns", ":fields()")),
    prompt("a source's order", f"x = {ARRAYS} x:shuffle()", "a source has no 'shuffle'", "data = { shuffle = false }"),
    prompt("an example without its axis", SAVED + "model(pg.ones(2))", "input 'x' does not fit; got f32[2]", "x:unsqueeze(1)", ("(2))", "(2):unsqueeze(1))"), after=KEPT),
    prompt("a tensor to predict", SAVED + "model:predict(pg.ones(1, 2))", "predict takes the name of a file, or columns by name; got a tensor",
           "model(x) takes tensors as they are", (":predict", ""), after=KEPT),
    prompt("a model's network", SAVED + "return model.network", "a model has no 'network'", "model:summary()", (".network", ":summary()"), after=KEPT),
    prompt("a model's method misspelt", SAVED + "return model.predikt", "a model has no 'predikt'", "did you mean 'predict'?", ("predikt", "predict"), after=KEPT),
]
