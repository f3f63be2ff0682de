"""Mistakes with documents, pairs of texts, tokenizers and what is learned from texts, for error_cases.py."""
from error_forms import job, prompt, script

TABLE = "text,label\n" + "".join(f"the cat sat {word},{'ab'[i % 2]}\n" for i, word in enumerate(["here", "there", "today", "again"] * 3))
GAPS = "text,label\nthe cat sat,a\nthe dog sat,\n"
MANY = "text,label\n" + "".join(f"word,{number}\n" for number in range(65537))
TOKENIZER = '{"model":{"type":"WordLevel","vocab":{"[UNK]":0,"a":1,"b":2},"unk_token":"[UNK]"},"pre_tokenizer":{"type":"Whitespace"}}'
SAID = "input\toutput\n" + "a\tx\nab\txy\n" * 4
FILES = {"said.tsv": SAID, "gap_said.jsonl": '{"input": "a", "output": "x"}\n{"input": "b"}\n', "talk.csv": TABLE, "gaps_talk.csv": GAPS, "many_talk.csv": MANY, "tokenizer.json": TOKENIZER}


def documents(options, file="talk.csv"):
    return f'pg.data.documents {{ "{file}", {options} }}'


def pairs(options, file="said.tsv"):
    return f'pg.data.text_pairs {{ "{file}", {options} }}'


# A decoder that looks at what an encoder has read.
TRANSLATES = """(function()
    local x, d = pg.input "x", pg.input "d"
    local memory = pg.sequential { pg.embedding { 3, 4 }, pg.gru { 4 } } (x)
    local written = pg.sequential { pg.embedding { 4, 4 }, pg.gru { 4 } } (d)
    return pg.graph { inputs = { x, d }, outputs = { pg.dense { 4, over = "steps" } (pg.attention {} (written, memory)) } }
  end)()"""
TRANSLATION = ("train", "trial.lua", "--out", "translation")


def translated(name, args, place, cause, hint="", **parts):
    """A model that reads one text and writes another, which is asked in another way."""
    return script(name, place, cause, hint, train=pairs(""), more='inputs = { "x", "d" },', network=parts.pop("network", TRANSLATES),
                  args=(args[0], "translation", *args[1:]), after=(TRANSLATION,), **parts)


DOCUMENTS = "pg.sequential { pg.dense { 2 } }"
COUNTS = 'features = "count"'
FITTED = 'fitted = { features = "tfidf", unit = "word", lowercase = true, ngrams = 1, terms = { "cat", "dog" }, idf = { 1 } }'

CASES = [
    job("is of no kind that can be read", None, "a folder, or a .tar, .csv", network=DOCUMENTS,
        train=documents(COUNTS, "trial.lua")),
    job("there are no documents here", ('"shared"', '"talk.csv"'), place="shared", network=DOCUMENTS, train=documents(COUNTS, "shared")),
    job("'length' is missing", ('"talk.csv"', '"talk.csv", length = 4'), "how many units of each document are read", train=documents(""),
        network='pg.sequential { pg.embedding { 100, 4 }, pg.gru { 4, returns = "last" }, pg.dense { 2 } }'),
    job("belongs to features of ids", (", length = 3", ""), 'features = "ids"', network=DOCUMENTS, train=documents(COUNTS + ", length = 3")),
    job("belongs to features that count terms", (", ngrams = 2", ', ngrams = 2, features = "tfidf"'), 'features = "tfidf"', network=DOCUMENTS,
        train=documents("ngrams = 2")),
    job("is no column of the table", ('"txt"', '"text"'), "text", network=DOCUMENTS, train=documents(COUNTS + ', text = "txt"')),
    job("the row has no text or no label", ("gaps_talk", "talk"), place="gaps_talk.csv:3", network=DOCUMENTS,
        train=documents(COUNTS, "gaps_talk.csv")),
    job("has too many classes", None, "at most 65536", network=DOCUMENTS, train=documents(COUNTS, "many_talk.csv")),
    job("this label is none of the classes", ('"a", "c"', '"a", "b"'), place="talk.csv:3", network=DOCUMENTS,
        train=documents(COUNTS + ', classes = { "a", "c" }')),
    job("leaves no documents", ("folds = 60, fold = 7", "folds = 2, fold = 1"), "fewer", network=DOCUMENTS,
        train=documents(COUNTS + ', folds = 60, fold = 7, part = "test"')),
    job("is no language that there are rules for", ('"englisch"', '"english"'), "english", network=DOCUMENTS,
        train=documents(COUNTS + ', stem = "englisch"')),
    job("there is no term to count", ("min_count = 99", "min_count = 1"), "min_count", place="talk.csv", network=DOCUMENTS,
        train=documents(COUNTS + ", min_count = 99")),
    job("must have a number for each term", ("idf = { 1 }", "idf = { 1, 2 }"), network=DOCUMENTS,
        train=documents(FITTED)),
    # pairs of texts
    job("is of no kind that has rows of texts", None, "a .csv, .tsv, .json or .jsonl", train=pairs("", "trial.lua")),
    job("'input' is no column of the table", ('"inptu"', '"input"'), "'input', 'output'", train=pairs('input = "inptu"'), network=TRANSLATES,
        more='inputs = { "x", "d" },'),
    job("the row has not both texts", None, place="gap_said.jsonl", train=pairs("", "gap_said.jsonl")),
    job("there is nothing to read in this input", None, place="pair 2", train='pg.data.text_pairs { inputs = { "a", "" }, outputs = { "x", "y" } }'),
    job("'outputs' are not as many as 'inputs'", None, "expected 2", train='pg.data.text_pairs { inputs = { "a", "b" }, outputs = { "x" } }'),
    job("'file' has the texts, and 'inputs' has others", None, train=pairs('inputs = { "a" }')),
    job("'input' is a column of a file", None, train='pg.data.text_pairs { inputs = { "a" }, outputs = { "x" }, input = "asked" }'),
    job("'file' is missing", None, "the lists 'inputs' and 'outputs'", train='pg.data.text_pairs { inputs = { "a" } }'),
    job("'min_count' belongs to vocabularies that are learned", None, "a tokenizer has its own",
        train=pairs('tokenizer = "tokenizer.json", min_count = 2')),
    translated("a translation of nothing", ("generate", "--prompt", "x"), "--input",
               "the model reads one text and writes another, and has none to read; got a prompt alone", "an input"),
    translated("a translation of an empty text", ("generate", "--input", ""), "--input", "there is nothing to read"),
    translated("a translation of another alphabet", ("generate", "--input", "aZ"), "--input: byte 1", "not in the model's vocabulary"),
    translated("a translation of a text that is too long", ("generate", "--input", "aba"), "--input",
               "the text is longer than what the model reads; got 3 characters", "at most 2"),
    translated("a translation that begins with all of it", ("generate", "--input", "ab", "--prompt", "xyx"), "--prompt",
               "the model writes no texts as long as this beginning; got 3 characters", "at most 2"),
    translated("a network that foretells no output", ("generate", "--input", "ab"), "generate",
               "the network does not foretell the units of an output", "x, a text's numbers, and d",
               network=TRANSLATES.replace("pg.dense { 4", "pg.dense { 3"),
               loss="pg.loss.cross_entropy { ignore = 3 }"),
    translated("a table for a model that writes texts", ("predict", "two.csv"), "two.csv", "the model reads one text and writes another; got a table",
               "perigee generate MODEL --input TEXT"),
    # texts by a tokenizer
    job("belongs to vocabularies that are learned", (", min_count = 2", ""), "a tokenizer has its own", loss='"cross_entropy"',
        network="pg.sequential { pg.embedding { 3, 4 }, pg.flatten {}, pg.dense { 3 } }",
        train='pg.data.text { "two.csv", context = 4, tokenizer = "tokenizer.json", min_count = 2 }'),
    job("is that of the tokenizer", ('"word"', '"token"'), "token", loss='"cross_entropy"',
        network="pg.sequential { pg.embedding { 3, 4 }, pg.flatten {}, pg.dense { 3 } }",
        train='pg.data.text { "two.csv", context = 4, tokenizer = "tokenizer.json", unit = "word" }'),
    job("needs 'tokenizer', a file that says what a token is", ('unit = "token"', 'tokenizer = "tokenizer.json"'), loss='"cross_entropy"',
        network="pg.sequential { pg.embedding { 3, 4 }, pg.flatten {}, pg.dense { 3 } }",
        train='pg.data.text { "two.csv", context = 4, unit = "token" }'),
]

TRAIN = 'pg.train_tokenizer { "two.csv", '
ENCODER = 'pg.tokenizer "tokenizer.json"'
# (expression, cause, fix), as in error_prompts.py
PROMPTS = [
    ("pg.tokenizer(7)", "tokenizer takes the name of a file", ("7", '"tokenizer.json"')),
    (f"({ENCODER}):encode(7)", "tokenizer:encode takes a text", ("7", '"a b"')),
    (f'({ENCODER}):encode "\\255"', "byte 0: this is not UTF-8", ("\\255", "a")),
    (f"({ENCODER}):decode(1)", "tokenizer:decode takes a list of numbers", ("1", "{ 1 }")),
    (f"({ENCODER}):decode {{ 3 }}", "there is no such token; got 3, expected 0 to 2", ("3", "2")),
    (f"({ENCODER}):token {{}}", "tokenizer:token takes a number or a text", ("{}", '"a"')),
    ("pg.train_tokenizer(7)", "train_tokenizer takes files and options", ("7", '"two.csv"')),
    ("pg.train_tokenizer {}", "train_tokenizer takes the names of files", ("{}", '{ "two.csv" }')),
    (TRAIN + "sise = 300 }", "train_tokenizer has no option 'sise'", ("sise", "size")),
    (TRAIN + "size = 300.5 }", "'size' is a whole number above 0", ("300.5", "300")),
    (TRAIN + "size = 255 }", "256 (the bytes and the special tokens) to", ("255", "256")),
    (TRAIN + "out = 7 }", "train_tokenizer: 'out' is the name of a file", ("7", '"t.json"')),
    (TRAIN + "special = { 7 } }", "'special' is a list of texts", ("7", '"<end>"')),
]
CASES += [prompt(f"-e '{expression}'", expression, cause, fix=fix) for expression, cause, fix in PROMPTS]
