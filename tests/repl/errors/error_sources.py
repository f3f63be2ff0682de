"""Data that cannot be read, for error_cases.py: sources, tables, texts and transforms, most of them written as JSON."""
import json

from error_forms import command, job, json_job, script

ARRAYS = '{"type": "arrays", "x": [[1, 2], [3, 4]], "y": [0, 1]}'
JOB = '{"network": [{"type": "flatten"}, {"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "adam", "data": {"train": TRAIN}}'


def lua(text):
    """A command that runs it."""
    return "-e", text


def written(name, text):
    """A command that writes the file."""
    return lua(f"local f = io.open([[{name}]], 'wb') f:write({text}) f:close()")


def source(text, place, cause, hint="", fix=None, after=(), outputs=2, **more):
    """A mistake in a data source of a job that is written as JSON."""
    return json_job(f"the data {text}"[:110] + f": {cause}"[:40], JOB.replace('"out": 2', f'"out": {outputs}').replace("TRAIN", text), place,
                    cause, hint, fix, after=after, **more)


def around(kind, more, inner=ARRAYS):
    """A source around another."""
    return f'{{"type": "{kind}", "source": {inner}, {more}}}'

TRANSFORM = "trial.lua:7: "
TEN = "pg.sequential { pg.dense { 10 } }"
PETS = (lua('os.execute("mkdir -p pets/cat pets/dog") local p = pg.zeros(3, 2, 2, { dtype = "u8" }) pg.save("pets/cat/1.png", p) '
            'pg.save("pets/dog/1.png", p)'),)
HASH = "0123456789abcdef0123456789abcdef"
DIGEST = "df957216be9fa5f6d019862896f5c7e5"  # of 144 letters x
STORED_FILE = f'"shape": [2, 2], "file": "arrays/{HASH}.npy"'
KEPT = (("train", "kept.lua", "--out", "kept"),)
VOCABULARY = '{"type": "text", "unit": "char", "vocabulary": ["a"], "context": 4}'
HELD = "(function() local s = pg.data.arrays { x = pg.ones(4, 2), y = { 0, 1, 0, 1 } } s.x.shape = { 8 } return s end)()"
TRAIN = "trial.json: data: train"
SAVED = (lua('pg.save("x.npy", pg.ones(4, 2)) pg.save("y.npy", pg.tensor({ 0, 1, 0, 1 }, { dtype = "i64" })) '
             'pg.save("a.npz", { inputs = pg.ones(4, 2), y = pg.tensor({ 0, 1, 0, 1 }, { dtype = "i64" }) })'),)

EMPTY_ZIP = written("empty.npz", r'"PK\5\6" .. ("\0"):rep(18)')
IDX = written("x.idx", r'"\0\0\8\2\0\0\0\3\0\0\0\2\1\2\3\4\5\6"'), written("y.idx", r'"\0\0\8\1\0\0\0\2\0\1"'), \
    written("z.idx", r'"\0\0\8\1\0\0\0\3\0\1\1"')


def text(options, place, cause, fix=None, hint=""):
    """A mistake in a text."""
    return source('{"type": "text", "file": "two.csv", "context": 4, ' + options + "}", place, cause, hint, fix, outputs=200)


def table(records, cause, hint="", fix=None):
    """A mistake in a file of records that a model is to judge."""
    return command(f"the records {records}"[:80], ("predict", "kept", "new.jsonl"), "new.jsonl", cause, hint, fix, after=KEPT, file="new.jsonl",
                   script=records)


def table_job(option, place, cause, content, hint="", fix=None):
    """A mistake in a table that a job trains from."""
    return script(f"a table with {option}", place, cause, hint, fix, train='pg.data.csv { "blank.csv", target = "y", ' + option + " }",
                  after=(written("blank.csv", json.dumps(content)),))


def transform(text, cause, hint="", fix=None):
    return source(around("map", '"transforms": [' + text + "]"), TRAIN, cause, hint, fix)


def stored(more):
    """A source whose numbers lie in an array of a run."""
    return f'{{"type": "arrays", "x": {{"hash": "{HASH}", "dtype": "f32", {more}}}, "y": [0, 1]}}'


def stored_as(content, digest=HASH):
    """A command that writes such an array."""
    return lua(f"os.execute('mkdir -p arrays') local f = io.open('arrays/{digest}.npy', 'wb') f:write({content}) f:close()")

CASES = [
    # arrays in files and in memory
    source('{"type": "npy"}', TRAIN, "'x' is missing", "the path of a .npy file", None, SAVED),
    source('{"type": "npz", "file": "a.npz", "x": "input", "y": "y"}', TRAIN, "names an array that a.npz does not have", "did you mean 'inputs'?",
           ('"input"', '"inputs"'), SAVED),
    source('{"type": "npz", "file": "empty.npz"}', "empty.npz", "the archive has no arrays", after=(EMPTY_ZIP,)),
    source('{"type": "arrays", "handle": "mine"}', TRAIN, "'handle' names nothing that is in memory here"),
    source('{"type": "arrays", "x": [[[[[[[[[1]]]]]]]]], "y": [0]}', TRAIN, "must be a list with one element or list per example", "",
           ("[[[[[[[[[1]]]]]]]]]", "[[1]]")),
    source('{"type": "npy", "x": "s.npy", "y": "y.npy"}', "s.npy", "a scalar holds no examples; expected examples along the first dimension", "",
           ("s.npy", "x.npy"),
           SAVED + (lua('pg.save("s.npy", pg.tensor(3))'),)),
    source('{"type": "idx", "x": "x.idx", "y": "y.idx"}', "y.idx", "the labels are not as many as the examples; got 2, expected 3", "",
           ("y.idx", "z.idx"), IDX),
    source(around("subset", '"indices": []'), TRAIN, "the data source 'subset' has no examples", "", ("[]", "[0, 1]")),
    source('{"type": "host", "name": "mine"}', TRAIN, "the data 'mine' live in the program that embeds Perigee", "name a source that is in files"),
    # sources made of others
    source('{"type": "concat", "sources": []}', TRAIN, "'sources' must be a list of data sources", "", ("[]", "[" + ARRAYS + "]")),
    source(around("k_fold", '"folds": 2, "fold": 0', '{"type": "arrays", "x": [[1, 2]], "y": [0]}'), TRAIN, "'source' has too few examples; got 1",
           "at least 2"),
    source('{"type": "map", "source": ' + ARRAYS + "}", TRAIN, "'transforms' must be a list of transforms", "",
           ("[0, 1]}", '[0, 1]}, "transforms": []')),
    source(around("map", '"transforms": []', '{"type": "arrays", ' + ", ".join(f'"a{i}": [[1, 2]]' for i in range(65)) + "}"), TRAIN,
           "'source' has too many fields; got 65"),
    source(around("split", '"parts": [], "part": 0'), TRAIN, "'parts' must list the shares", "[0.8, 0.2]", ('"parts": []', '"parts": [0.8, 0.2]')),
    # images
    source('{"type": "images", "folder": "shared"}', TRAIN, "'size' is missing", "{height, width}, or one number for both"),
    source('{"type": "images", "folder": "pets", "size": 2, "classes": ["cats", "dog"]}', "pets/cat", "this folder is none of the classes",
           "did you mean 'cats'?",
           ("cats", "cat"), after=PETS),
    source('{"type": "images", "folder": "pets", "size": 2, "area": [0.5, 1]}', TRAIN, "'area' is of a part that is drawn", 'fit = "random"',
           ('"size": 2', '"size": 2, "fit": "random"'), after=PETS),
    source('{"type": "images", "folder": "pets", "size": 2, "fit": "random", "area": [1, 0.5]}', TRAIN, "'area' is no range; got [1,0.5]",
           "{least, most}, above 0 and up to 1", after=PETS),
    script("a blur without a middle", TRANSFORM, "'kernel' has no middle; got 4", "an odd number",
           train="pg.data.digits().train:map { pg.transform.blur { kernel = 4 } }:take(20)", network=TEN),
    script("a strength that is no level", TRANSFORM, "'magnitude' is no level; got 9", "less than levels = 5",
           train="pg.data.digits().train:map { pg.transform.rand_augment { levels = 5 } }:take(20)", network=TEN),
    script("a picture of no size", TRANSFORM, "'size' is missing", "{height, width}, or one number for both",
           train="pg.data.digits().train:map { pg.transform.resize {} }:take(20)", network=TEN),
    script("a picture of too great a size", TRANSFORM, "'size' is out of range", "1 to 8192",
           train="pg.data.digits().train:map { pg.transform.resize { size = { 9000, 9 } } }:take(20)", network=TEN),
    script("a hue of grey pictures", TRANSFORM, "'hue' needs an image of 3 channels",
           train="pg.data.digits().train:map { pg.transform.colour { hue = 0.1 } }:take(20)", network=TEN),
    # published data sets
    source('{"type": "cifar10", "folder": "shared"}', "cifar10", "the data set is not on this machine; looked in shared",
           "put cifar-10-binary.tar.gz"),
    source('{"type": "cifar10", "folder": "shared"}', "shared/cifar-10-binary.tar.gz", "the archive has no CIFAR-10 batches of this part",
           after=(lua('os.execute("tar czf shared/cifar-10-binary.tar.gz two.csv")'),)),
    source('{"type": "cifar10", "folder": "shared"}', "shared/data_batch_1.bin", "the file is cut short in record 0, at byte 5",
           "records of 3073 bytes",
           after=(written("shared/data_batch_1.bin", '"short"'),)),
    source('{"type": "mnist", "folder": "shared"}', "shared/train-images-idx3-ubyte",
           "this is not MNIST's array; got u8[3x2], expected u8[60000x28x28]",
           after=IDX + (lua('os.execute("cp x.idx shared/train-images-idx3-ubyte && cp z.idx shared/train-labels-idx1-ubyte")'),)),
    source('{"type": "mnist", "folder": "shared"}', "shared/train-images-idx3-ubyte.gz", "this is not the published file: its MD5 differs",
           '{"type": "idx"}', after=IDX + (lua('os.execute("gzip -c x.idx > shared/train-images-idx3-ubyte.gz && gzip -c z.idx > '
                                               'shared/train-labels-idx1-ubyte.gz")'),)),
    source('{"type": "mnist", "folder": "shared"}', "", "OpenSSL refuses this digest", "a FIPS configuration forbids MD5", environment={"OPENSSL_CONF": "fips.cnf"},
           after=IDX + (lua('os.execute("gzip -c x.idx > shared/train-images-idx3-ubyte.gz && gzip -c z.idx > shared/train-labels-idx1-ubyte.gz")'),
                        written("fips.cnf", '"openssl_conf = a\\n[a]\\nalg_section = b\\n[b]\\ndefault_properties = fips=yes\\n"'))),
    source('{"type": "mnist", "stand_in": false}', "mnist", "the data set is not on this machine and cannot be downloaded",
           "put the four .gz files into $PERIGEE_DATA/mnist",
           environment={"PERIGEE_DATA": "shared", "XDG_CACHE_HOME": "shared", "https_proxy": "http://127.0.0.1:9",
                        "http_proxy": "http://127.0.0.1:9"}),
    job("a label is out of range; got 5", ("{ 0, 5 }", "{ 0, 1 }"), "0 to 1", place="one_hot", network="pg.sequential { pg.dense { 2 } }",
        writes_run=True, more='target = "c", loss = "mse",',
        loss="nil", train='pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, c = pg.tensor({ 0, 5 }, { dtype = "i64" }) }:map { pg.transform.one_hot { '
                          '2, field = "c" } }'),
    # texts
    source('{"type": "text", "file": [], "context": 4}', TRAIN, "'file' is missing", "a text file, or a list of them"),
    text('"parts": {"train": 0.9, "test": 0.9}', TRAIN, "'train' and the other parts are more than the whole; got 1.8, expected a sum of at most 1",
         ('"test": 0.9', '"test": 0.1')),
    text('"parts": {"train": 0.9}, "part": "test"', TRAIN, "'test' is not among the parts; expected its share of the text, such as 0.1",
         ('0.9}', '0.9, "test": 0.1}')),
    text('"part": "test"', TRAIN, "'part' needs 'parts', the shares of the text", ('"part"', '"parts": {"train": 0.5, "test": 0.5}, "part"')),
    text('"unit": "word", "min_count": 1000, "unknown": false', TRAIN, "'min_count' leaves no vocabulary; got 1000", ("1000", "1")),
    text('"unknown": false, "max_vocabulary": 5', "two.csv: byte 0", "this is not in the vocabulary", ("false", "true"), "with unknown = true"),
    text('"fitted": ' + VOCABULARY + ', "unit": "word"', TRAIN, "'unit' is not what the vocabulary was fitted with", ('"word"', '"char"')),
    source('{"type": "text", "file": "empty.txt", "context": 4}', "empty.txt", "there is no text to learn a vocabulary from",
           after=(written("empty.txt", r'"\239\187\191"'),)),
    # tables
    table('[{"a": 1, "b": 0}, 3]', "a record is not an object; got integer", 'an object: {"age": 41, "city": "Rome"}', ("3", '{"a": 2, "b": 1}')),
    table('3', "these are no records; got integer", "an object, or a list of objects"),
    table('{"a": 1, "b": 0}\n[3]', "a line is not an object; got array", "", ("[3]", '{"a": 2, "b": 1}')),
    table("{" + ", ".join(f'"a{i}": 1' for i in range(65537)) + "}", "the records have more than 65536 keys"),
    table("[{" + ", ".join(f'"a{i}": 1' for i in range(65000)) + "}" + ", {}" * 4500 + "]", "the records have too many values"),
    table("[]", "there are no records; expected at least one object with values", "", ("[]", '[{"a": 2, "b": 1}]')),
    table(" ", "there are no records", "", (" ", '[{"a": 2, "b": 1}]')),
    table('{"a": [1, 2], "b": [0]}', "column 'b' has another length than 'a'; got 1, expected 2", "", ("[0]", "[0, 1]")),
    table('[{"a": {}, "b": 0}]', "the value of a column has the wrong type; got object", "a number, a text, true, false or null", None),
    table('[{"b": 1}]', "2 columns are missing|the column 'a' is missing"),
    table('[{"a": 1}, {"b": 1}]', "the record lacks 'a'|lacks", "null says that a value is not known"),
    table('[{"a": "much", "b": 1, "y": "red"}]', "this is no number; got 'much'", "", ('"much"', "0.5")),
    command("a table without a header line", ("predict", "kept", "bare.csv"), "bare.csv", "no header line, and the columns",
            "the first line names the columns",
            after=KEPT, file="bare.csv", script="1,2,3\n"),
    table_job('missing = "skip"', "blank.csv", "every row has a missing value", "a,b,y\n,1,0\n1,,1\n"),
    table_job('categorical = { "a" }', "blank.csv", "column 'a' has more than 1000 different values",
              "a,b,y\n" + "".join(f"{i},1,{i % 2}\n" for i in range(1001)),
              "leave it out with 'drop'", ("categorical =", "drop =")),
    source('{"type": "csv", "file": "two.csv", "fitted": {"type": "csv", "columns": []}}', TRAIN + ": fitted", "'columns' must be a list of columns"),
    source('{"type": "csv", "file": "two.csv", "fitted": {"type": "csv", "columns": [3]}}', TRAIN, "this must be an object; got integer 3"),
    # transforms
    transform('{"type": "normalize", "mean": 0}', "transforms[1]: 'std' is missing", "a number or one per channel",
              ('"mean": 0', '"mean": 0, "std": 1')),
    transform('{"type": "normalize", "mean": [0, 1], "std": [1, 1, 1]}', "'std' has another length than 'mean'; got 3, expected 2", "",
              ("[1, 1, 1]", "[1, 1]")),
    transform('{"type": "normalize", "mean": [], "std": 1}', "'mean' has the wrong type; got array, expected a number or a list of numbers", "",
              ("[]", "[0]")),
    transform('{"type": "standardize", "fitted": {"mean": [0, 1], "std": [1]}}', "'std' has another length than 'mean'", "", ("[1]", "[1, 1]")),
    transform('{"type": "minmax", "fitted": {"min": [0, 1], "max": [1]}}', "'max' has another length than 'min'", "", ("[1]", "[2, 2]")),
    job("holds NaN or infinite values: nothing can be fitted to it", ("0 / 0", "0"), place="trial.lua:7",
        train="pg.data.arrays { x = pg.tensor { { 0 / 0, 1 }, { 2, 3 } }, y = { 0, 1 } }:map { pg.transform.standardize {} }"),
    job("is empty: nothing can be fitted to it", place="trial.lua:7",
        train="pg.data.arrays { x = pg.zeros(2, 0), y = { 0, 1 } }:map { pg.transform.standardize {} }"),
    job("'saturation' needs an image of 3 channels", ("saturation = 0.5", "brightness = 0.5"), place="trial.lua:7",
        network="pg.sequential { pg.dense { 10 } }",
        train="pg.data.digits().train:map { pg.transform.colour { saturation = 0.5 } }:take(20)"),
    job("the image has 2 channels; expected 1 or 3", ("zeros(2, 2,", "zeros(2, 3,"), place="trial.lua:7", network="pg.sequential { pg.dense { 2 } }",
        train="pg.data.arrays { x = pg.zeros(2, 2, 4, 4), y = { 0, 1 } }:map { pg.transform.colour {} }"),
    # arrays of another run
    source('{"type": "arrays", "x": {"hash": "12", "dtype": "f32", "shape": [2, 2]}, "y": [0, 1]}', TRAIN, "names no array; got '12'",
           "32 digits, 0 to 9 and a to f"),
    source(stored('"shape": [2, -2]'), TRAIN, "a dimension is negative; got -2", "0 or more"),
    source(stored('"shape": [2, 2]').replace("f32", "f33"), TRAIN, "unknown element type; got 'f33'", "did you mean 'f32'"),
    source(stored('"shape": []'), TRAIN, "'shape' is of no array with examples; got f32[]"),
    source(stored('"shape": [2, 2], "file": "two.csv"'), TRAIN, "leads elsewhere than to an array of a run; got 'two.csv'", "in the run's folder"),
    source(stored('"shape": [2, 2]'), TRAIN, "the array lies neither in memory nor in a file here", "train from the script that has the numbers"),
    source(stored(STORED_FILE), HASH + ".npy", "has another size than the array that the job names; got 5 bytes", "train from the script again",
           after=(stored_as('"short"'),)),
    source(stored(STORED_FILE), HASH + ".npy", "is not the array that the job names; got content with hash", "train from the script again",
           after=(stored_as('("x"):rep(144)'),)),
    source(stored(STORED_FILE).replace(HASH, DIGEST), DIGEST + ".npy", "has another type than the job says; got another header",
           "train from the script again",
           after=(stored_as('("x"):rep(144)', DIGEST),)),
    job("'shape' is not that of the array in memory; got f32[8], expected f32[4x2]", ("{ 8 }", "{ 4, 2 }"), place="trial.lua:7", train=HELD),
]
