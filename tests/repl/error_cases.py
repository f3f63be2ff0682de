"""Errors that users meet: how each is made, and what its message must say. errors_test.py runs them.

A case says where the mistake is (`place`), what it is (`cause`), and what the message advises (`hint`). Its `fix` follows the advice; what comes
of it must then run. A fix is (old, new): the script's or the command's `old` becomes `new`, and every word of `new` that is not in `old` is in the
message. "nearest" takes the name that the message proposes. None: the message has nothing that can be followed by a change of the text.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).with_name("errors")))
import error_cloud  # noqa: E402
import error_clusters  # noqa: E402
import error_commands  # noqa: E402
import error_layers  # noqa: E402
import error_lua  # noqa: E402
import error_models  # noqa: E402
import error_natives  # noqa: E402
import error_networks  # noqa: E402
import error_newcomers  # noqa: E402
import error_others  # noqa: E402
import error_programs  # noqa: E402
import error_prompts  # noqa: E402
import error_sequences  # noqa: E402
import error_sound  # noqa: E402
import error_sources  # noqa: E402
import error_tables  # noqa: E402
import error_texts  # noqa: E402
import error_training  # noqa: E402
import error_vectors  # noqa: E402
import error_unsupervised  # noqa: E402
from error_forms import ARRAYS, DEFAULTS, SCRIPT, Case, command, job, prompt, script  # noqa: E402, F401

VALIDATION = ', validation = pg.data.csv { "two.csv", target = "y" }'
GRAPH = """(function()
    local x = pg.input "x"
    local body = pg.dense { 8, activation = "relu" } (x)
    return pg.graph { inputs = { x }, outputs = { kind = pg.dense { 3 } (body), size = pg.dense { 1 } (body) } }
  end)()"""
FIELDS = "pg.data.arrays { x = { { 1, 2 }, { 3, 4 }, { 5, 6 } }, c = { 0, 1, 2 }, v = { { 1 }, { 2 }, { 3 } } }"


CTC = "pg.data.arrays { x = { { { 1, 2, 3 } }, { { 2, 1, 4 } } }, y = { { 1, -1 }, { 2, 1 } } }"

CASES = [
    # the job
    script("an unknown loss", "trial.lua:5: loss", "there is no loss 'MSE'", "did you mean 'mse'?", "nearest", "MSE", loss='"MSE"',
           network="pg.sequential { pg.dense { 1 } }", train='pg.data.csv { "number.csv" }'),
    script("a misspelt loss", "trial.lua:5: loss", "there is no loss 'cros_entropy'", "did you mean 'cross_entropy'?", "nearest",
           "cros_entropy", loss='"cros_entropy"'),
    script("a loss that is nothing like one", "trial.lua:5: loss", "there is no loss 'quux'", "one of", loss='"quux"'),
    script("a layer as loss", "trial.lua:5: loss", "'inputs' must name two values", "the output and the target", loss="pg.lambda(function(x) return x end)"),
    script("an optimiser that changes nothing by its parameters", "trial.lua:6: ", "the traced function gives 1 as its parameter",
           "computed from those that it is given: parameter, gradient", ("function() return 1 end", "function(parameter, gradient) return parameter - gradient end"),
           optimizer="function() return 1 end"),
    script("a table of --set that is none", "--set clip", "the value is neither JSON nor a table of plain values", "{ type = \"norm\" }", ("type = norm", "type = \"norm\""),
           args=("train", "trial.lua", "--set", "clip={ type = norm }")),
    script("a loss that looks at nothing", "trial.lua:5: ", "the traced function returns 1; expected a value computed from its parameters", "",
           ("return 1", "return pg.cross_entropy(o, t)"), loss="function(o, t) return 1 end"),
    script("a list of losses", "trial.lua:5: 'loss'", "has the wrong type", 'loss = { first = "mse"', loss='{ "cross_entropy" }'),
    script("an unknown optimiser", "trial.lua:6: optimizer", "unknown optimizer", "did you mean 'adam'?", "nearest", "adm", optimizer='"adm"'),
    script("a figure as evaluation", "trial.lua:9: metrics", "there is no evaluation 'accuracy'", "it is a figure of 'classification'",
           ('"accuracy"', '"classification"'), more='metrics = { "accuracy" },'),
    script("a misspelt evaluation", "trial.lua:9: metrics", "there is no evaluation 'rok'", "did you mean 'roc'?", "nearest", "rok",
           more='metrics = { "rok" },'),
    script("a rate of no parameter", "trial.lua:9: lr_scale", "'dens1.weight' is a pattern that no parameter matches", "did you mean 'dense1.weight' or 'dense2.weight'?",
           "nearest", "dens1.weight", more='lr_scale = { ["dens1.weight"] = 0.1 },'),
    script("a plateau of nothing", "trial.lua:9: reduce_on_plateau", "names a figure that nothing measures on the validation data",
           "did you mean 'validation.loss'?", "nearest", "validation.los", more='reduce_on_plateau = { metric = "validation.los" },', data=VALIDATION),
    script("an unknown key of early stopping", "trial.lua:9: early_stopping", "unknown key 'patence'", "did you mean 'patience'?", "nearest",
           "patence", more="early_stopping = { patence = 2, metric = 'validation.loss' },", data=VALIDATION),
    script("a clip without its type", "trial.lua:9: clip", "'norm' is no option but a type", 'type = "norm"', ("norm = 1", 'type = "norm"'),
           more="clip = { norm = 1 },"),
    script("a loss that is not finite", "trial.lua: step", "the loss is not finite", 'clip = { type = "norm" }',
           ("pg.sgd { lr = 1e9 }", 'pg.sgd { lr = 1e9 }, clip = { type = "norm" }'), optimizer="pg.sgd { lr = 1e9 }", loss='"mse"',
           network="pg.sequential { pg.dense { 1 } }", train='pg.data.csv { "number.csv" }', writes_run=True),
    script("an average that is switched on", "trial.lua:9: 'swa'", "has the wrong type; got boolean true", "for example swa = { from_epoch = 8 }",
           ("swa = true", "swa = { from_epoch = 1 }"), more="swa = true,"),
    script("early stopping that is switched on", "trial.lua:9: 'early_stopping'", "has the wrong type; got boolean true",
           'for example early_stopping = { metric = "validation.loss", patience = 3 }',
           ("early_stopping = true", 'early_stopping = { metric = "validation.loss", patience = 3 }'), more="early_stopping = true,", data=VALIDATION),
    script("a share that is a text", "trial.lua:9: ema: 'decay'", "has the wrong type; got string", "for example decay = 0.9999",
           ('"much"', "0.9999"), more='ema = { decay = "much" },'),
    # what is watched
    script("a misspelt figure", "trial.lua:9: early_stopping", "names a figure that nothing measures on the validation data",
           "did you mean 'validation.loss'?", "nearest", "validation.los", more='early_stopping = { metric = "validation.los" },', data=VALIDATION),
    script("a figure of another evaluation", "trial.lua:9: early_stopping", "'auc'", "did you mean 'validation.roc.auc'?", "nearest",
           "validation.auc", more='early_stopping = { metric = "validation.auc" }, metrics = { "classification", "roc" },', data=VALIDATION),
    script("a figure without its part", "trial.lua:9: early_stopping", "'roc'", "did you mean 'validation.roc.auc'?", "nearest",
           "roc.auc", more='early_stopping = { metric = "roc.auc" }, metrics = { "classification", "roc" },', data=VALIDATION),
    script("a figure that could be measured", "trial.lua:9: early_stopping", "'auc'", 'metrics = { "roc" }',
           ("early_stopping", 'metrics = { "roc" }, early_stopping'), more='early_stopping = { metric = "validation.auc" },', data=VALIDATION),
    script("a part that is not there", "trial.lua:9: early_stopping", "names a part of the data that the job does not have", "'train.loss'",
           ("test.loss", "train.loss"), more='early_stopping = { metric = "test.loss" },'),
    script("a figure of checkpoint.best", "trial.lua:9: checkpoint", "names a figure that nothing measures", "did you mean 'validation.accuracy'",
           "nearest", "validation.acuracy", more='checkpoint = { best = "validation.acuracy" },', data=VALIDATION),
    # data
    script("more classes than outputs", "trial.lua:5: loss", "the data have more classes than the network has outputs",
           "give layer 'dense2' 3 outputs: pg.dense { 3 }", ("pg.dense { 2 }", "pg.dense { 3 }"),
           train='pg.data.csv { "three.csv", target = "y" }'),
    script("a label beyond the outputs", "trial.lua: step 1", "field 'c' of example", "give layer 'kind' more outputs",
           network=GRAPH.replace("{ 3 }", "{ 2 }"), train=FIELDS, writes_run=True,
           loss='{ kind = { type = "cross_entropy", target = "c" }, size = { type = "mse", target = "v" } }'),
    script("ctc without steps", "loss", "ctc does not fit the network's output and the target", "labels NxL padded with -1", loss='"ctc"'),
    script("a blank that is no class", "loss", "must be one of the 3 classes", "", ("blank = 9", "blank = 0"), loss="pg.loss.ctc { blank = 9 }",
           network="pg.sequential { pg.conv1d { 3, kernel = 1 } }",
           train="pg.data.arrays { x = { { { 1, 2, 3 } }, { { 2, 1, 4 } } }, y = { { 1 }, { 2 } } }"),
    script("figures of steps for ctc", "metrics", "needs a target for each step, and the labels of 'ctc' have no place among the steps",
           "'transcription', 'bleu' or 'chrf'", ('"tokens"', '"bleu"'), loss='"ctc"', network="pg.sequential { pg.conv1d { 3, kernel = 1 } }",
           train=CTC, data=f", test = {CTC}", more='metrics = { "tokens" },'),
    script("figures of sequences for classes", "metrics", 'is of sequences of labels, and each example has one class; got "chrf"',
           "'classification' or another evaluation of classes", ('"chrf"', '"classification"'), more='metrics = { "chrf" },', data=VALIDATION),
    script("figures of sequences for numbers", "evaluation 'chrf'", "goes by sequences of labels", "a label for each step, or the loss 'ctc'",
           more='metrics = { "chrf" },', loss='"mse"', network="pg.dense { 1 }", train='pg.data.csv { "number.csv", target = "y" }',
           data=', test = pg.data.csv { "number.csv", target = "y" }', writes_run=True),
    script("figures of numbers of another count", "regression", "outputs and targets have different sizes; got 3 and 2", "the same number of values per example",
           ("pg.dense { 3 }", "pg.dense { 2 }"), loss="function(o, t) return pg.mean(o) + pg.mean(t) end", network="pg.sequential { pg.dense { 3 } }",
           train="pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { { 1, 2 }, { 3, 4 } } }", more='metrics = { "regression" },', writes_run=True,
           data=", test = pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { { 1, 2 }, { 3, 4 } } }"),
    script("figures of another number of classes", "evaluation", "outputs and targets have different numbers of classes; got 2 and 3", "",
           ("pg.dense { 2 }", "pg.dense { 3 }"), loss="function(o, t) return pg.mean(o) + pg.mean(t) end", network="pg.sequential { pg.dense { 2 } }",
           train="pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { { 1, 0, 0 }, { 0, 1, 0 } } }", more='metrics = { "classification" },', writes_run=True,
           data=", test = pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { { 1, 0, 0 }, { 0, 1, 0 } } }"),
    script("an index beyond an embedding", "trial.lua: step 1", "is no index of embedding 'embed1'",
           network="pg.sequential { pg.embedding { size = 3, out = 4 }, pg.dense { 2 } }",
           train="pg.data.arrays { x = { 1, 2, 3, 4 }, y = { 0, 1, 0, 1 } }", writes_run=True),
    script("a test file with another class", "badtest.csv:2: column 'y'", "this class is not in the training part; got 'red.'",
           "did you mean 'red'?", data=', test = pg.data.csv { "badtest.csv", target = "y" }'),
    script("a file that is not there", "nowhere/two.csv", "cannot be opened", "it is in PERIGEE_DATA: pg.data_path",
           ('"nowhere/two.csv"', 'pg.data_path "nowhere/two.csv"'), train='pg.data.csv { "nowhere/two.csv", target = "y" }',
           environment={"PERIGEE_DATA": "shared"}),
    script("a file that is not there, without PERIGEE_DATA", "nowhere/two.csv", "cannot be opened", "once PERIGEE_DATA names their folder",
           train='pg.data.csv { pg.data_path "nowhere/two.csv", target = "y" }'),
    script("another delimiter", "trial.lua:7: data: train", "leaves no column to learn from", 'delimiter = ";"',
           ('"semicolon.csv"', '"semicolon.csv", delimiter = ";"'), train='pg.data.csv { "semicolon.csv" }'),
    script("another delimiter, with commas in numbers", "decimal.csv:2", "another number of fields than the first", 'delimiter = ";"',
           train='pg.data.csv { "decimal.csv" }'),
    script("a column that is not there", "trial.lua:7: data: train", "names a column that the table does not have", "did you mean 'y'?",
           None, train='pg.data.csv { "two.csv", target = "Y" }'),
    script("a column unlike any", "trial.lua:7: data: train", "'species' of two.csv, expected one of 'a', 'b', 'y'",
           train='pg.data.csv { "two.csv", target = "species" }'),
    script("a column of a table with another delimiter", "trial.lua:7: data: train", "names a column that the table does not have",
           'delimiter = ";"', ('"semicolon.csv"', '"semicolon.csv", delimiter = ";"'), train='pg.data.csv { "semicolon.csv", target = "y" }'),
    script("a column of a table without a header", "trial.lua:7: data: train", "'y' of bare.csv, which has no header line", "target = -1",
           ('"y"', "-1"), train='pg.data.csv { "bare.csv", target = "y" }', after=(("-e", "os.execute [[sed 1d two.csv > bare.csv]]"),)),
    script("a column of a table of a header alone", "trial.lua:7: data: train", "names a column of a table that has no rows",
           "at least one row below it", train='pg.data.csv { "header.csv", target = "y" }'),
    script("a column of a header that looks like none", "trial.lua:7: data: train", "names a column that the table does not have",
           "header = true", ('target = "y"', 'target = "y", header = true'), train='pg.data.csv { "words.csv", target = "y" }',
           after=(("-e", r"os.execute [[printf 'a,y\nup,red\ndown,green\n' > words.csv]]"),)),
    script("numbers for a loss of classes", "trial.lua:5: loss", "the loss is of classes, and the target has other numbers", 'loss = "mse"',
           ('"cross_entropy"', '"mse"'), train='pg.data.csv { "number.csv", target = "y" }', network="pg.sequential { pg.dense { 1 } }"),
    script("classes for a loss of numbers", "trial.lua:5: loss", "the target does not fit the network's output", 'loss = "cross_entropy"',
           ('"mse"', '"cross_entropy"'), loss='"mse"'),
    script("a picture that is damaged", "pictures/a/2.png", "the PNG is damaged", "delete the file or replace it", writes_run=False,
           train='pg.data.images { "pictures", size = 4 }', network="pg.sequential { pg.flatten {}, pg.dense { 2 } }",
           after=(("-e", "os.execute 'mkdir -p pictures/a pictures/b' for _, name in ipairs { 'a/1', 'a/2', 'b/1' } do "
                         "pg.save('pictures/' .. name .. '.png', pg.zeros(4, 4, { dtype = 'u8' })) end os.execute 'truncate -s 50 pictures/a/2.png'"),)),
    script("an unknown option of a source", "trial.lua:7: data source csv", "has no option 'targt'", "did you mean 'target'?", "nearest",
           "targt", train='pg.data.csv { "two.csv", targt = "y" }'),
    script("an option of a transform", "trial.lua:7: transform rotate", "has no option 'degree'", "did you mean 'degrees'?", "nearest", "degree ",
           train='pg.data.digits().train:map { pg.transform.rotate { degree = 3 } }:take(20)', network="pg.sequential { pg.dense { 10 } }"),
    # a model to begin with
    script("a head with a new name", "trial.lua:9: pretrained", "kept/model.safetensors, which has no 'head.weight'", 'skip = { "head.*" }',
           ('"kept"', '"kept", skip = { "head.*" }'), more='pretrained = { model = "kept" },',
           network='pg.sequential { pg.dense { 8, activation = "relu" }, pg.dense { 2, name = "head" } }',
           after=(("train", "kept.lua", "--out", "kept"),)),
    script("a head of another size", "trial.lua:9: pretrained", "'dense2.weight' of f32[2x8] instead of f32[3x8]", '"dense2.*"',
           ('"kept"', '"kept", skip = { "dense2.*" }'), more='pretrained = { model = "kept" },',
           network='pg.sequential { pg.dense { 8, activation = "relu" }, pg.dense { 3 } }', after=(("train", "kept.lua", "--out", "kept"),)),
    script("a pattern that freezes nothing", "trial.lua:9: pretrained", "has a pattern that no parameter matches; got 'dens1.weight'", "did you mean 'dense1.weight'",
           "nearest", "dens1.weight", more='pretrained = { model = "kept", freeze = { "dens1.weight" } },',
           after=(("train", "kept.lua", "--out", "kept"),)),
    # the command line
    command("a run that is not there", ("train", "--resume", "kepd"), "--resume kepd", "there is no run or checkpoint of this name"),
    command("a run to attach to that is not there", ("attach", "runs/kepd"), "runs/kepd", "there is no folder of this name",
            "the folder of a run, or HOST:PORT of a coordinator"),
    command("folds and workers of others", ("train", "kept.lua", "--folds", "2", "--listen", "127.0.0.1:0"), "--folds", "makes several runs",
            "leave out --listen"),
    command("processes of an unknown launcher", ("train", "kept.lua", "--engine", "auto"), "the environment variable WORLD_SIZE=4",
            "tells of several processes, but not which of them this is", "say --engine none", ("auto", "none"), environment={"WORLD_SIZE": "4"}),
    command("processes without a secret", ("train", "kept.lua"), "--secret", "the 4 processes of torch need a secret", "--secret cluster.key",
            environment={"WORLD_SIZE": "4", "RANK": "1", "MASTER_ADDR": "10.0.0.1"}),
    command("processes whose first one does not come", ("train", "kept.lua"), "torch rank 1", "rank 0 did not write where it is",
            "start the job in a folder that all machines share, or give every process --secret",
            environment={"WORLD_SIZE": "2", "RANK": "1", "TORCHELASTIC_RUN_ID": "lone", "PERIGEE_MEETING_SECONDS": "1"}),
    command("a job file of no cluster", ("submit", "kept.lua"), "submit", "one kind of cluster has to be named", "submit --slurm 4 kept.lua"),
    command("a script too large for Kubernetes", ("submit", "--k8s", "2", "trial.lua"), "trial.lua", "is too large for a ConfigMap", "put it into the image",
            script="-- " + "x" * 900_000),
    command("a job's name that clusters refuse", ("submit", "--k8s", "2", "kept.lua", "--name", "Kept_1"), "--name", "is no name that clusters take; got 'Kept_1'",
            "'kept-1' is one", ("Kept_1", "kept-1")),
    command("an image with a blank", ("submit", "--k8s", "2", "kept.lua", "--image", "a b"), "--image", "has a letter that the file cannot hold; got 'a b'",
            "use letters, digits"),
    command("a picture as script", ("submit", "--k8s", "2", "kept/model.safetensors"), "kept/model.safetensors", "is no text", "name a script",
            after=(("train", "kept.lua", "--out", "kept"),)),
    command("a dry run of workers", ("train", "kept.lua", "--dry-run", "--workers", "2"), "--dry-run", "works in this process alone",
            "leave out the workers; `perigee describe --workers` says what they would do"),
    prompt("a rate that is to fall", 'pg.find_rate(dofile "kept.lua", { from = 1, to = 0.1 })', "goes from a small rate above 0 to a larger one",
           "got from = 1, to = 0.1", ("from = 1, to = 0.1", "from = 0.1, to = 1")),
    prompt("a rate by few steps", 'pg.find_rate(dofile "kept.lua", { steps = 3 })', "makes 10 to 10000 steps; got steps = 3", "10", ("3", "10")),
    prompt("an unknown option of a rate", 'pg.find_rate(dofile "kept.lua", { step = 20 })', "pg.find_rate has no option 'step'", "did you mean 'steps'?",
           ("step ", "steps ")),
    prompt("a rate of a file", 'pg.find_rate("kept.lua")', "pg.find_rate takes an experiment; got", "", ('"kept.lua"', 'dofile "kept.lua"')),
    command("a timeline of folds", ("train", "kept.lua", "--folds", "2", "--trace", "t.json"), "--trace", "is a timeline of one run", "leave out one"),
    command("seeds that are none", ("train", "kept.lua", "--seeds", "1,x"), "--seeds", "is no number of seeds and no list of them; got '1,x'",
            "--seeds 1,2,7", ("1,x", "1,2,7")),
    command("a seed twice", ("train", "kept.lua", "--seeds", "1,1"), "--seeds", "has the seed 1 twice", "--seeds 1,2,7", ("1,1", "1,2,7")),
    command("no seed", ("train", "kept.lua", "--seeds", "0"), "--seeds", "is no number of seeds; got '0'", "--seeds 3", ("0", "3")),
    command("too many seeds", ("train", "kept.lua", "--seeds", ",".join(map(str, range(1001)))), "--seeds", "has 1001 seeds"),
    command("folds of one run", ("train", "kept.lua", "--folds", "2", "--resume", "kept"), "--resume kept", "is one run", "leave them out",
            after=(("train", "kept.lua", "--out", "kept"),)),
    command("other folds", ("train", "kept.lua", "--folds", "3", "--resume", "folds"), "--resume folds", "the runs in this folder are others; got --folds 3",
            "--folds 2", ("3", "2"), after=(("train", "kept.lua", "--folds", "2", "--out", "folds"),)),
    command("no epochs", ("train", "kept.lua", "--epochs", "0"), "--epochs", "must be greater than 0; got 0", fix=("0", "1")),
    command("a script that is not there", ("train", "kepd.lua"), "kepd.lua", "there is no such file", "did you mean 'kept.lua'?", "nearest",
            "kepd.lua"),
    command("an unknown option", ("train", "kept.lua", "--epoch", "1"), "perigee train", "'--epoch' is no option", "did you mean '--epochs'?",
            "nearest", "--epoch"),
    command("a setting that is not there", ("train", "kept.lua", "--set", "optimizer.lrr=1"), "--set optimizer.lrr", "there is no 'lrr' here",
            "did you mean 'lr'?", "nearest", "lrr"),
    command("a folder that holds a run", ("train", "kept.lua", "--out", "kept"), "kept", "this folder already holds a run",
            "continue it with --resume kept", ("--out", "--resume"), after=(("train", "kept.lua", "--out", "kept"),)),
    # tensors
    prompt("a label out of range", 'pg.cross_entropy(pg.ones(2, 3), pg.tensor({ 1, 5 }, { dtype = "i64" }))', "label 2 of i64[2]",
           "got 5, expected 1 to 3", ("5", "3"), place="cross_entropy"),
    prompt("a label 0", 'pg.cross_entropy(pg.ones(1, 3), pg.tensor({ 0 }, { dtype = "i64" }))', "label 1 of i64[1]", "expected 1 to 3",
           ("{ 0 }", "{ 1 }"), place="cross_entropy"),
    prompt("a label out of range in a compiled function",
           'pg.compile(function(x, y) return pg.cross_entropy(x, y):sum() end)(pg.ones(1, 3), pg.tensor({ 4 }, { dtype = "i64" }))',
           "label 1 of i64[1]", "expected 1 to 3", ("{ 4 }", "{ 3 }"), place="cross_entropy"),
    prompt("a label out of range that a compiled function holds",
           '(function(y) return pg.compile(function(x) return pg.cross_entropy(x, y):sum() end)(pg.ones(1, 3)) end)(pg.tensor({ 4 }, { dtype = "i64" }))',
           "label 1 of i64[1]", "expected 1 to 3", ("{ 4 }", "{ 3 }"), place="cross_entropy"),
    prompt("a place out of range in one_hot", 'pg.one_hot(pg.tensor({ 5 }, { dtype = "i64" }), 3)', "index 1 of i64[1]",
           "got 5, expected 1 to 3", ("{ 5 }", "{ 3 }"), place="one_hot"),
    prompt("a remainder by 0", 'pg.tensor({ 3 }, { dtype = "i64" }):mod(0)', "the divisor is 0", 'x:to "f32"', (":mod", ':to "f32":mod'),
           place="mod"),
    prompt("a singular matrix", "pg.zeros(2, 2):inv()", "the matrix is singular", place="error: inv"),
    prompt("tensors joined as text", "pg.ones(2) .. pg.ones(2)", "joins texts", "pg.concatenate { a, b }",
           ("pg.ones(2) .. pg.ones(2)", "pg.concatenate { pg.ones(2), pg.ones(2) }")),
    prompt("a place outside", "pg.ones(2):take({ 9 })", "index 9 lies outside dimension 1", "expected 1 to 2", ("9", "2")),
    prompt("an unknown function", "pg.randm(2)", "there is no pg.randm", "did you mean 'rand' or 'randn'?", "nearest", "randm"),
    prompt("an unknown method", "pg.ones(2):summ()", "a tensor has no method 'summ'", "did you mean 'sum'", "nearest", "summ"),
    prompt("an unknown dtype", 'pg.ones(2):to "float32"', "there is no dtype 'float32'", "did you mean 'f32'?", "nearest", "float32"),
    prompt("shapes that do not fit", "pg.ones(2) + pg.ones(3)", "shapes do not fit together", "each dimension, from the last, equal or 1",
           place="add"),
]

CASES += [script(f"training: {cause}", place, cause, hint, fix, **parts) for place, cause, fix, hint, parts in error_training.JOBS]
CASES += [prompt(f"-e '{expression}'", expression, cause, fix=fix) for expression, cause, fix in error_prompts.PROMPTS]

CASES += [
    # data
    job("has rows of unequal length", ("{ 3 }", "{ 3, 4 }"), train="pg.data.arrays { x = { { 1, 2 }, { 3 } }, y = { 0, 1 } }"),
    job("has an element of the wrong type", ('"a"', "2"), train='pg.data.arrays { x = { { 1, "a" }, { 3, 4 } }, y = { 0, 1 } }'),
    job("has another number of examples than", ("{ 0, 1, 1 }", "{ 0, 1 }"), train="pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { 0, 1, 1 } }"),
    job("there are no arrays", train="pg.data.arrays { classes = 2 }"),
    job("'x' is no array; got 3, expected a list of numbers", train="pg.data.arrays { x = 3 }"),
    job("the label of record 1 is out of range", ("classes = 2", "classes = 6"),
        train="pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { 0, 5 }, classes = 2 }", network="pg.sequential { pg.dense { 6 } }"),
    job("the class names are not as many as the classes", None,
        train='pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { 0, 1 }, class_names = { "one" }, classes = 2 }'),
    job("'class_names.size' is neither names nor a number of classes", ('"big"', '2'),
        train='pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { 0, 1 }, size = { 0, 1 }, class_names = { size = "big" } }'),
    job("'class_names' names a field that there is not; got 'sise'", ("sise", "size"), hint="did you mean 'size'?",
        train='pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { 0, 1 }, size = { 0, 1 }, class_names = { sise = 2 } }'),
    job("these are no class labels", ("0.5", "0"),
        train='pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { 0, 1 }, size = { 0.5, 1 }, class_names = { size = 2 } }'),
    job("must be one character", ('";;"', '","'), train='pg.data.csv { "two.csv", delimiter = ";;", target = "y" }'),
    job("a name, or a number from", ("target = 9", "target = -1"), train='pg.data.csv { "two.csv", target = 9 }'),
    job('missing = "mean" fills such values in', ('"gaps.csv"', '"gaps.csv", missing = "mean"'), train='pg.data.csv { "gaps.csv" }', place="gaps.csv:"),
    job("the table has a header line and no rows", train='pg.data.csv { "header.csv", header = true }', place="header.csv"),
    job("is not a number in every row", train='pg.data.csv { "two.csv", target = "y", task = "regress" }', place="two.csv"),
    job("there is no such folder", train='pg.data.images { "nopictures" }', place="nopictures"),
    job("unknown value", ('"men"', '"mean"'), hint="did you mean 'mean'?", train='pg.data.csv { "gaps.csv", missing = "men" }'),
    job("the data have no field 'z'", ('"z"', '"x"'), hint="one of: x, y", more='inputs = { "z" },', place="trial.lua:9: inputs: "),
    job("the data have no field 'z'", ('"z"', '"x"'), hint="one of: x, y", more='inputs = { "z" },', place="trial.lua:4",
        network='pg.graph { inputs = { pg.input "z" }, outputs = { pg.dense { 2 } (pg.input "z") } }'),
    job("'z', which the network takes as input, is not among the job's inputs", ('"z"', '"x"'), hint='inputs = { "z" }', place="trial.lua:4",
        network='(function() local x = pg.input "z" return pg.graph { inputs = { x }, outputs = { pg.dense { 2 } (x) } } end)()'),
    job("pg.graph takes its nodes by name", hint="inputs = { x }, outputs = { y }", place="trial.lua:4", network='pg.graph { pg.dense { 2 } }'),
    job("data.train is a table of parts", ("pg.data.digits {},", "pg.data.digits {}.train,"), hint="pg.data.digits {}.train", more='steps = 3,', place="trial.lua:7",
        train="pg.data.digits {}", network="pg.sequential { pg.flatten {}, pg.dense { 10 } }"),
    job("data.train is 'two.csv'; expected a source of data", ('"two.csv"', 'pg.data.csv { "two.csv" }'), hint='pg.data.csv { "two.csv" }',
        place="trial.lua:7", train='"two.csv"'),
    job("data.train is a function", None, hint="call it: ", place="trial.lua:7",
        train="pg.data.digits", network="pg.sequential { pg.flatten {}, pg.dense { 10 } }"),
    job("the shape of 'dense1.weight' goes by the number of examples in a batch", hint="keep the batch", train='pg.data.csv { "two.csv", target = "y" }',
        network="pg.sequential { pg.lambda(function(x) return x:take(x:to 'i64' * 0 + 1, 2) end), pg.dense { 2 } }"),
    job("names an example that is not there", train='setmetatable({ type = "subset", source = ' + ARRAYS + ', indices = { 7 } }, getmetatable(' + ARRAYS + '))'),
    # the network
    job("names must be unique", ('name = "a" }, pg.dense { 2, name = "a" }', 'name = "a" }, pg.dense { 2, name = "b" }'),
        network='pg.sequential { pg.dense { 2, name = "a" }, pg.dense { 2, name = "a" } }'),
    job("is out of range", ("{ 0 }", "{ 2 }"), hint="of at least 1", network="pg.sequential { pg.dense { 0 } }"),
    job("conv2d", network="pg.sequential { pg.conv2d { 4, kernel = 3 } }"),
    job("does the last layer have as many outputs as there are classes?", loss='"cross_entropy"', train="pg.data.arrays { x = { { 1, 2 } }, y = { { 1, 2, 3 } } }"),
    job("the target does not fit the network's output", loss='"mse"', train="pg.data.arrays { x = { { 1, 2 } }, y = { { 1, 2, 3 } } }"),
    job("must have one number for each of the 2 outputs", ("{ 1 }", "{ 1, 2 }"), loss='{ type = "cross_entropy", weights = { 1 } }'),
    job("the network has no output 'kid'", ("kid =", "kind ="), hint="did you mean 'kind'?", network=GRAPH, train=FIELDS,
        loss='{ kid = { type = "cross_entropy", target = "c" }, size = { type = "mse", target = "v" } }'),
    job("a job that trains needs a 'loss'", ("loss = nil", 'loss = "cross_entropy"'), hint='"cross_entropy"', loss="nil"),
    job("a job that trains needs an optimiser", ("optimizer = nil", "optimizer = pg.adam { lr = 1e-3 }"), hint="pg.adam { lr = 1e-3 }",
        optimizer="nil"),
    job("has the wrong type", ('"many"', "2"), hint="an integer", network='pg.sequential { pg.dense { "many" } }'),
    job("rely", ("rely", "relu"), hint="did you mean 'relu'", network='pg.sequential { pg.dense { 2, activation = "rely" } }'),
    # values that no job can hold
    job("a number must be finite", ("1 / 0", "1"), more="regularization = { l2 = 1 / 0 },"),
    job("this table mixes list entries and named entries", optimizer='{ type = "sgd", lr = { 1, a = 2 } }'),
    job("this table contains itself", optimizer="(function() local t = { type = 'sgd' } t.lr = t return t end)()"),
    job("unknown key 'seeed'", ("seeed", "seed"), hint="did you mean 'seed'?", more="seeed = 3,"),
    job("has an unknown value", ('"bf61"', '"bf16"'), hint="did you mean 'bf16'?", more='precision = "bf61",'),
    job("is out of range", ("steps = -1", "steps = 1"), hint="from 0", more="steps = -1,"),
    job("'log' has the wrong type; got boolean true, expected an object", ("log = true", "log = { histograms = 0.05 }"), "for example log = { histograms = 0.05 }", more="log = true,"),
    # optimiser
    job("did you mean 'norm'?", ("nrm", "norm"), more='clip = { type = "nrm" },'),
    job("did you mean 'cosine'?", ('"cosin"', '"cosine"'), optimizer='{ type = "sgd", lr = { type = "cosin", from = 0.1 } }'),
    job("unknown key 'momentun'", ("momentun", "momentum"), hint="did you mean 'momentum'?", optimizer='{ type = "sgd", momentun = 0.9 }'),
    # scripts
    Case("a script that returns nothing", "trial.lua", "the script returns nothing", script="x = 1\n"),
    Case("a script that returns something else", "trial.lua", "the script does not return an experiment", script="return 3\n"),
    Case("a script with a mistake", "trial.lua:1", "attempt to index global 'pg'", script="return pg.experiment {}\n"),
    command("no script", ("train",), "train", "a script or a job is needed", "perigee train models/lenet.lua"),
    command("an unknown log", ("train", "kept.lua", "--log", "prety"), "--log", "there is no such log", "did you mean 'pretty'?", "nearest", "prety"),
    command("a setting without a value", ("train", "kept.lua", "--set", "epochs"), "--set epochs", "a setting has the form path=value",
            "--set optimizer.lr=0.01", None),
    command("no run to go on with", ("train", "kept.lua", "--resume"), "--resume", "there is no run of 'trial' with a checkpoint in runs/"),
    command("a job of another kind", ("train", "two.csv"), "two.csv", "this is no job", ".lua, .json, .yaml or .yml"),
    command("an unknown command", ("trian", "kept.lua"), "'trian'", "is no command of `perigee`", "did you mean 'train'?", "nearest", "trian"),
    command("an unknown evaluation", ("eval", "kept", "--part", "train", "--metric", "rok"), "metrics", "there is no evaluation 'rok'", "did you mean 'roc'?", "nearest",
            "rok", after=(("train", "kept.lua", "--out", "kept"),)),
    command("a folder without a model", ("eval", "shared"), "shared", "this folder has no model.safetensors", "the folder of a finished run"),
]


def json_job(cause, network="", fix=None, hint="", place="trial.json", text="", args=("train", "trial.json")):
    """A mistake in a job that is written as JSON: in its network, or in the whole text."""
    whole = text or ('{"network": ' + network + ', "loss": "mse", "optimizer": "adam", "data": {"train": '
                     '{"type": "csv", "file": "number.csv"}}}')
    return Case("the JSON " + (text or network)[:110], place, cause, hint, fix, script=whole, args=args, file="trial.json")


def graph(nodes, outputs='["a"]'):
    return '{"type": "graph", "inputs": ["x"], "nodes": [' + nodes + '], "outputs": ' + outputs + "}"


NODE = '{"name": "a", "layer": {"type": "dense", "out": 1}, "inputs": ["x"]}'
CASES += [
    json_job("a layer needs a 'type'", '[{"kind": "dense", "out": 1}]', ("kind", "type")),
    json_job("has an element of the wrong type", "[3]", ("[3]", '[{"type": "dense", "out": 1}]')),
    json_job("a layer's 'name' must be a string|'name' has the wrong type", '[{"type": "dense", "out": 1, "name": 3}]', ('"name": 3', '"name": "a"')),
    json_job("1 to 100 letters, digits, '_' or '-'", '[{"type": "dense", "out": 1, "name": "a b"}]', ("a b", "a-b")),
    json_job("a network needs a list of at least one layer", "[]", ("[]", '[{"type": "dense", "out": 1}]')),
    json_job("there is no layer 'dens'", '[{"type": "dens", "out": 1}]', ('"dens"', '"dense"'), hint="did you mean 'dense'"),
    json_job("there is no node or input", graph(NODE.replace('["x"]', '["b"]')), ('["b"]', '["x"]')),
    json_job("name it in 'outputs', use it, or remove it", graph(NODE + ", " + NODE.replace('"a"', '"b"')), ('"outputs": ["a"]', '"outputs": ["a", "b"]')),
    json_job("a network must not have cycles", graph(NODE.replace('["x"]', '["b"]') + ", " + NODE.replace('"a"', '"b"').replace('["x"]', '["a"]'))),
    json_job("'nodes' must be a list of 1 to", graph("")),
    json_job('{"name": ..., "layer": ..., "inputs": [...]}', graph("3")),
    json_job("a node has the name of the input", graph(NODE.replace('"a"', '"x"'), '["x"]')),
    json_job("has no effect: this layer has no parameters", '[{"type": "flatten", "regularization": {"l2": 1}}, {"type": "dense", "out": 1}]'),
    json_job("a job must be an object", text="[]"),
    json_job("a job needs a 'network'", text='{"data": {}}'),
    json_job("appears twice", text='{"name": "a", "name": "b"}', place="trial.json:1:"),
    json_job("trial.json:2:", text='{"name": "a"\n"epochs": 1}', place="trial.json:2:"),
    json_job("Number too big to be stored in double", text='{"epochs": 1e999}', place="trial.json:1:"),
    json_job("objects and arrays are nested deeper than", text="[" * 80, place="trial.json:1:"),
    json_job("the list has no element '9'", '[{"type": "dense", "out": 1}]', ("network.9", "network.1"), place="--set network.9.out",
             args=("train", "trial.json", "--set", "network.9.out=1")),
    # data
    job("has shares that are more than the whole", ("0.9, 0.9", "0.5, 0.5"), train=ARRAYS + ":split { 0.9, 0.9 }"),
    job("a number above 0 and at most 1", ("{ 0, 1 }", "{ 0.5, 0.5 }"), train='pg.data.csv { "two.csv", target = "y" }:split { 0, 1 }'),
    job("an integer from 2 to 2", ("(5, 1)", "(2, 1)"), train=ARRAYS + ":k_fold(5, 1)"),
    job("sources with other fields cannot be joined", place="trial.lua:7: data: train",
        train=ARRAYS + " .. pg.data.arrays { x = { { 1, 2, 3 } }, y = { 1 } }"),
    job("a folder of files per class: jpg, png", train='pg.data.images { "shared", size = 8 }', place="shared"),
    job("a field with the number of a class", ('by_label "x"', 'by_label "y"'), train=ARRAYS + ':by_label "x"'),
    job("the text is shorter than one window", place="", train='pg.data.text { "two.csv", context = 60000 }'),
    job("is not the number of streams", hint="expected batch = 2", train='pg.data.text { "two.csv", context = 4, streams = 2 }', place="data"),
    job("mixes streams", train='pg.data.text { "two.csv", context = 4, streams = 10 }, shuffle = true', place="data"),
    job("for each stream", train='pg.data.text { "two.csv", context = 400, streams = 10 }', place=""),
    job("is missing: the network carries 'lstm1.h' from batch to batch", (', state = "carry"', ""), "leave out state",
        train='pg.data.text { "two.csv", context = 4, targets = "every" }', place="data",
        network='pg.sequential { pg.embedding { 40, 4 }, pg.lstm { 4, state = "carry" }, pg.dense { 40, over = "steps" } }'),
    job("belongs to windows that stand alone", train='pg.data.text { "two.csv", context = 4, streams = 10, stride = 2 }', place=""),
    job("the MNIST files are not here", train='pg.data.mnist { folder = "shared" }.train', place="shared"),
    job("names an unknown transform", hint="did you mean 'flip'?", train="setmetatable({ type = 'map', source = " + ARRAYS
        + ", transforms = { { type = 'flp' } } }, getmetatable(" + ARRAYS + "))"),
    job("field 'x' is no image", train=ARRAYS + ":map { pg.transform.flip {} }"),
]

TEXTS = (("train", "texts.lua", "--out", "texts"),)
KEPT = (("train", "kept.lua", "--out", "kept"),)
CASES += [
    command("a model that is not there", ("predict", "kepd", "two.csv"), "kepd", "there is no such file"),
    command("a file of no kind", ("predict", "kept", "kept.lua"), "kept.lua", "this kind of file cannot be predicted", "csv, tsv, json", after=KEPT),
    command("a file that is not there to predict", ("predict", "kept", "tow.csv"), "tow.csv", "there is no such file", after=KEPT),
    command("a text from a model of a table", ("generate", "kept", "--prompt", "a"), "generate", "this is no model of text", after=KEPT),
    command("an option that is out of range", ("generate", "kept", "--prompt", "a", "--top-p", "2"), "generate", "'top_p' is out of range; got 2", after=KEPT),
    command("a text from a network of another kind", ("generate", "values", "--prompt", "a"), "generate", "does not foretell the text's units",
            "under a loss such as cross_entropy", after=(("train", "values.lua", "--out", "values"),)),
    command("a prompt of another alphabet", ("generate", "texts", "--prompt", "aZ"), "--prompt: byte 1", "not in the model's vocabulary", after=TEXTS),
    command("an empty prompt", ("generate", "texts", "--prompt", ""), "--prompt", "there is nothing to go on from", after=TEXTS),
    command("no prompt", ("generate", "texts"), "--prompt", "the model goes on with a text, and has none", after=TEXTS),
    command("an input for a model that reads none", ("generate", "texts", "--input", "a"), "--input",
            "the model goes on with a text and reads no other", "a prompt, and no input", after=TEXTS),
    command("beams that are to draw", ("generate", "texts", "--prompt", "a", "--beams", "2", "--top-k", "5"), "generate",
            "belongs to draws, and beams search without them", "beams = 1", after=TEXTS),
    command("a stop text of nothing", ("generate", "texts", "--prompt", "a", "--stop", ""), "generate", "has an empty text", after=TEXTS),
    command("a text from a number", ("-e", 'pg.load_model("texts"):generate(5)'), "", "generate takes a text, or options", "got 5", after=TEXTS),
    command("a stream that is none", ("-e", 'pg.load_model("texts"):generate { "a", stream = 1 }'), "", "stream is true, or a function", "got 1",
            after=TEXTS),
    command("a part that the job does not have", ("eval", "kept"), "--part", "the model's job has no data of this name", after=KEPT),
    command("data that are no JSON", ("eval", "kept", "--data", "{x}"), "--data:1:2", "not JSON", after=KEPT),
    command("data without a file", ("eval", "kept", "--data", '{"type": "csv"}'), "--data", "'file' is missing", after=KEPT),
    command("data of an unknown kind", ("eval", "kept", "--data", '{"type": "cvs", "file": "two.csv"}'), "--data",
            "names an unknown data source", "did you mean 'csv'?", after=KEPT),
    command("a shell that is none", ("completion", "bsh"), "bsh", "there is no script for this shell", "did you mean 'bash'", "nearest", "bsh"),
    command("a folder that is no run", ("ledger", "shared"), "shared", "no ledger is here", "runs with --workers, --agents or --listen have one"),
    command("a folder without a run to report", ("report", "shared"), "shared", "there is no run in this folder", "", ),
    command("a run to report that is not there", ("report", "kepd"), "kepd", "there is no such folder", "did you mean 'kept'?", "nearest", "kepd", after=KEPT),
    command("a device that is none", ("train", "kept.lua", "--device", "gpu"), "--device", "there is no such device; got 'gpu'", "did you mean 'cuda'?"),
    command("a GPU that is not there", ("train", "kept.lua", "--device", "cuda:99"), "", "cuda:99", "`perigee doctor` says more"),
    command("an address that is none", ("status", "nowhere"), "nowhere", "an address needs a port", "host:port"),
    command("nothing to watch", ("watch",), "watch", "there is no run in runs/", "perigee watch RUN"),
    command("a folder without a run", ("watch", "shared"), "shared", "there is no run in this folder", "a folder with log.jsonl"),
    command("a folder to attach to without a run", ("attach", "shared"), "shared", "there is no run in this folder", "HOST:PORT of a coordinator"),
    command("a model of another program", ("eval", "net.onnx"), "net.onnx", "is a file of ONNX, which Perigee does not read", "models/README.md"),
    command("a picture that is too large", ("-e", 'pg.plot(pg.ones(5000, 2), { kind = "image" })'), "plot", "this image is too large to be shown",
            "give file = \"image.png\"", environment={"PERIGEE_GRAPHICS": "sixel"}),
    command("a file to describe that is not there", ("describe", "kepd.lua"), "kepd.lua", "there is no such file", "did you mean 'kept.lua'?", "nearest",
            "kepd.lua"),
    command("a checkpoint of another network", ("train", "trial.json", "--resume", "kept"), "kept", "another", after=KEPT, file="trial.json",
            script='{"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "adam", "data": {"train": {"type": "csv", "file": '
            '"two.csv"}}}'),
]

DIGITS = {"train": error_layers.IMAGES}
CASES += [job(cause, fix, network="pg.sequential { " + layer + ", pg.dense { 10 } }", **DIGITS) for layer, cause, fix in error_layers.LAYERS]
CASES += [job(cause, fix, train=error_layers.IMAGES + ":map { " + transform + " }", network="pg.sequential { pg.dense { 10 } }", place="", )
          for transform, cause, fix in error_layers.TRANSFORMS]
CASES += [job(cause, fix, optimizer="pg.sgd { lr = " + rate + " }") for rate, cause, fix in error_layers.RATES]

SEQUENCES = """pg.data.arrays { x = { { { 1, 2, 3 } }, { { 4, 5, 6 } } }, y = { { 0, 1, 0 }, { 1, 0, -1 } }, n = { 3, 2 },
    m = { { 1, 1, 1 }, { 1, 1, 0 } }, w = { 1, 2 } }"""
STEPS = "pg.sequential { pg.conv1d { 2, 1 } }"
LENGTHS = ', lengths = { x = "n" }'


def steps(cause, fix=None, hint="", data=LENGTHS, train=SEQUENCES, network=STEPS, **parts):
    """A mistake about lengths, masks and weights."""
    return job(cause, fix, hint, data=data, train=train, network=network, **parts)


CASES += [
    steps("is neither an input nor a target of the job", ("z =", "x ="), data=', lengths = { z = "n" }', hint="one of 'x', 'y'"),
    steps("is no target of the job", ("weights = { x", "weights = { y"), data=LENGTHS + ', weights = { x = "w" }', hint="one of 'y'"),
    steps("cannot be a mask of 'x'", ('"n"', '"m"'), data=', masks = { x = "n" }', hint="one for each step"),
    steps("must name a field of the data", data=", lengths = { x = 3 }"),
    steps("is no length of 'x'", ("{ 3, 4 }", "{ 3, 3 }"), train=SEQUENCES.replace("{ 3, 2 }", "{ 3, 4 }").replace("-1", "0"), writes_run=True),
    steps("is no mask of 'x'", ("7", "0"), data=', masks = { x = "m" }', train=SEQUENCES.replace("{ 1, 1, 0 }", "{ 1, 1, 7 }"), hint="0 or 1", writes_run=True),
    steps("is no weight of 'y'", ("-2", "2"), data=LENGTHS + ', weights = "w"', train=SEQUENCES.replace("{ 1, 2 }", "{ 1, -2 }"), writes_run=True),
    steps("is no class of the network's output", ("0, 5", "0, 1"), train=SEQUENCES.replace("{ 0, 1, 0 }", "{ 0, 5, 0 }"), hint="0 to 1", writes_run=True),
    steps("nothing in the batch counts", ("{ 0, 0 }", "{ 3, 2 }"), train=SEQUENCES.replace("{ 3, 2 }", "{ 0, 0 }"), hint="at least one step", writes_run=True),
    steps("has one number for each example, and no steps", ('y = "n"', 'x = "n"'), data=', lengths = { y = "n" }',
          train="pg.data.arrays { x = { { { 1, 2 } }, { { 3, 4 } } }, y = { 0, 1 }, n = { 1, 2 } }",
          network="pg.sequential { pg.global_pool {}, pg.dense { 2 } }"),
    steps("mixes the steps of a sequence", ("flatten", "global_pool"), hint="put global_pool", place="trial.lua:4",
          network="pg.sequential { pg.flatten {}, pg.dense { 2 } }", train=SEQUENCES.replace("{ { 0, 1, 0 }, { 1, 0, -1 } }", "{ 0, 1 }")),
    steps('padding "same" with a stride', ('padding = "same"', "padding = 1"), place="trial.lua:4",
          network='pg.sequential { pg.conv1d { 4, 3, stride = 2, padding = "same" }, pg.global_pool {}, pg.dense { 2 } }',
          train=SEQUENCES.replace("{ { 0, 1, 0 }, { 1, 0, -1 } }", "{ 0, 1 }")),
    steps("knows no weights", ('"f_measure"', '"binary_cross_entropy"'), data=', weights = "w"', loss='"f_measure"',
          network="pg.sequential { pg.flatten {}, pg.dense { 1 } }", train=SEQUENCES.replace("{ { 0, 1, 0 }, { 1, 0, -1 } }", "{ { 0 }, { 1 } }")),
    steps("has no value for each step", ('"cosine_proximity"', '"mse"'), loss='"cosine_proximity"', network="pg.sequential { pg.conv1d { 1, 1 } }",
          train=SEQUENCES.replace("{ { 0, 1, 0 }, { 1, 0, -1 } }", "{ { { 0, 1, 0 } }, { { 1, 0, 0 } } }")),
    job("is the target", ("weight = -1", "weight = 0"), train='pg.data.csv { "number.csv", weight = -1 }', network="pg.sequential { pg.dense { 1 } }",
        loss='"mse"'),
]

CASES += [script(f"{layers}: {cause}", "trial.lua:4", cause, hint, fix, network="pg.sequential { " + layers + ", pg.flatten {}, pg.dense { 2 } }",
                 train=error_sequences.SEQUENCES) for layers, cause, hint, fix in error_sequences.LAYERS]
CASES += [script(f"{layer} ({inputs}): {cause}", "trial.lua:8", cause, hint, fix, network=error_sequences.graph(layer, inputs),
                 train=error_sequences.SEQUENCES) for layer, inputs, cause, hint, fix in error_sequences.GRAPHS]
CASES += [script(f"data{data}: {cause}", "trial.lua:", cause, hint, fix, data=data, network=error_sequences.STRIDE, train=error_sequences.SERIES)
          for data, cause, hint, fix in error_sequences.FIELDS]
CASES += [Case(f"op {op} of {operands}: {cause}", place, cause, hint, fix, script=error_sequences.program(op, operands, attributes, results),
               args=("train", "trial.json"), file="trial.json")
          for op, operands, attributes, results, place, cause, hint, fix in error_sequences.OPS]
CASES += [
    job("needs features to normalise", ("{ 1, 2 }", "{ { 1 }, { 2 } }"), "give each example a row of features", place="trial.lua:4", train="pg.data.arrays { x = { 1, 2 }, y = { 0, 1 } }",
        network="pg.sequential { pg.layernorm {}, pg.dense { 2 } }"),
    job("are equally long, and both are patterns of 'dense1.weight'", ('["*.weight"]', '["dense1.weight"] = 0.1, ["*.weight"]'),
        "give 'dense1.weight' a longer pattern", more='lr_scale = { ["dense1.*"] = 0.1, ["*.weight"] = 0.2 },'),
    script("streams under a policy whose rounds have no result", "trial.lua:", "has no result that all workers hold at the end of each round", "a policy of gradients",
           ("streaming { every = 4 }", "allreduce {}"), more="averaging = pg.averaging.streaming { every = 4 },", args=("train", "trial.lua", "--workers", "2"),
           **error_sequences.CARRYING),
    script("streams that the shards do not divide", "trial.lua:", "deals out the 10 streams to the workers of a policy of parameters", "a number that divides 10",
           ("shards = 3", "shards = 2"), data=", shards = 3", more="averaging = pg.averaging.periodic { every = 4 },", args=("train", "trial.lua", "--workers", "2"),
           **error_sequences.CARRYING),
    script("more workers than shards of streams", "--workers", "are more than the shards of the streams", "--set data.shards=2", ("shards = 1", "shards = 2"),
           data=", shards = 1", more="averaging = pg.averaging.periodic { every = 4 },", args=("train", "trial.lua", "--workers", "2"), **error_sequences.CARRYING),
    script("streams that the coordinator reads", "trial.lua:", "along streams, which workers read themselves", '"worker"', ('at = "coordinator"', 'at = "worker"'),
           data=', at = "coordinator"', args=("train", "trial.lua", "--workers", "2"), **error_sequences.CARRYING),
    script("a step of streams that has not each once", "trial.lua:", "is not the number of streams, each of which is a row of every step", "or none",
           ("global_batch = 20", "global_batch = 10"), data=", global_batch = 20", args=("train", "trial.lua", "--workers", "2"), **error_sequences.CARRYING),
    script("rows that cannot be updated lazily", "trial.lua: rows of 'embed1.weight'", "cannot be updated lazily: the job has constraints", 'rows = "dense"',
           ('"lazy"', '"dense"'), more='constraint = { type = "max_norm", max = 1 },', network='pg.sequential { pg.embedding { 40, 4, rows = "lazy" }, pg.conv1d { 40, 1 } }',
           train=error_sequences.SHARED_STREAM["train"]),
    command("a model file whose lengths are of no input", ("eval", "bad.safetensors"), "bad.safetensors: inputs", "'n' is of no input; got 'z', expected the name of an input with steps", "train and save the model again",
            script=error_sequences.MODEL, file="bad.safetensors"),
    job("have different sums of weights, and a step divides its gradient by one", ('c = "w"', 'c = "w", v = "w"'), "give all targets the same lengths, masks and weights",
        writes_run=True, network=GRAPH, train=FIELDS.replace("v =", "w = { 1, 2, 3 }, v ="), data=', weights = { c = "w" }',
        loss='{ kind = { type = "cross_entropy", target = "c" }, size = { type = "mse", target = "v" } }'),
]
CASES += [script(f"training: {cause}", place, cause, hint, fix, **parts) for place, cause, fix, hint, parts in error_training.JOBS]
for part in (error_sources, error_programs, error_networks, error_lua, error_cloud, error_commands, error_models, error_texts, error_vectors,
             error_newcomers, error_sound, error_unsupervised, error_clusters, error_tables, error_others):
    CASES += part.CASES
CASES += [prompt(f"-e '{expression}'", expression, cause, fix=fix) for expression, cause, fix in error_natives.PROMPTS + error_sequences.PROMPTS]
