"""Errors of word vectors: pg.word_vectors, pg.load_vectors, pg.tsne and pg.kmeans, and `perigee vectors`."""
from error_forms import command, prompt

FILES = {"vectors.txt": "3 2\nking 1 2\nqueen 3 4\nsea -1 0.5\n", "corpus.txt": "a b c\nb c a\n" * 20}

LOADED = '(pg.load_vectors "vectors.txt")'
TRAIN = 'pg.word_vectors { "corpus.txt", epochs = 1, threads = 1, '
ROWS = "pg.randn(20, 3)"
# (expression, cause, fix), as in error_prompts.py
PROMPTS = [
    ("pg.load_vectors(7)", "load_vectors takes the name of a file", ("7", '"vectors.txt"')),
    (f"{LOADED}[1]", "vectors are found by their names", ("[1]", ".king")),
    (f"{LOADED}:vector(7)", "vectors:vector takes words; got 7", ("7", '"king"')),
    (f"{LOADED}:mean(7)", "vectors:mean takes words; got 7", ("7", '"king"')),
    (f'{LOADED}:nearest("king", 0)', "vectors:nearest: count is a whole number above 0", ("0", "1")),
    (f'{LOADED}:analogy("king", "queen")', "vectors:analogy takes three words", ('"queen"', '"queen", "sea"')),
    (f'{LOADED}:save("v.bin", "npz")', "format is", ("npz", "text")),
    (f"{LOADED}:tsne {{ words = {{}} }}", "vectors:tsne takes at least one word", ("{ words = {} }", '{ words = { "king", "king", "king", "king", "king", "king", "king" }, perplexity = 2 }')),
    (f'pg.word_vectors {{ "corpus.txt", model = "dbow", threads = 1 }}:infer("a", {{ epochs = 0 }})', "vectors:infer: epochs is a whole number above 0", ("epochs = 0", "epochs = 1")),
    (f'pg.word_vectors {{ "corpus.txt", model = "dbow", threads = 1 }}:infer("a", {{ lr = 0 }})', "vectors:infer: lr is a number above 0", ("lr = 0", "lr = 1")),
    (f'{LOADED}:infer "king"', "vectors from a file cannot learn a text", (f"{LOADED}:infer \"king\"", 'pg.word_vectors { "corpus.txt", model = "dbow", threads = 1 }:infer "a"')),
    ("pg.word_vectors(7)", "word_vectors takes files and options", ("7", '"corpus.txt"')),
    (TRAIN + "sise = 3 }", "word_vectors has no option 'sise'", ("sise", "size")),
    (TRAIN + "progress = 7 }", "word_vectors: progress is a function", ("7", "print")),
    ("pg.word_vectors { sequences = { 7 } }", "word_vectors: sequence 1 is 7; expected a list", ("7", '{ "a", "b" }')),
    ("pg.word_vectors { sequences = { { {} } } }", "word_vectors: element 1 of sequence 1", ("{ {} }", '{ "a", "b" }')),
    ("pg.tsne(7)", "tsne takes a tensor of rows", ("7", f"{ROWS}, {{ perplexity = 4 }}")),
    ("pg.kmeans(7, 2)", "kmeans takes a tensor of rows", ("7", ROWS)),
    (f"pg.kmeans({ROWS}, 2.5)", "kmeans: groups is a whole number above 0", ("2.5", "2")),
    (f"pg.kmeans({ROWS}, 2, {{ tris = 2 }})", "kmeans has no option 'tris'", ("tris", "tries")),
    ('pg.word_vectors { sequences = 7 }', "word_vectors: sequences are a list of lists, a function that gives lists, or a source", ("7", '{ { "a", "b" } }')),
    ("pg.word_vectors { sequences = pg.data.arrays { x = { { 0.5, 1 } } } }", "word_vectors: a source gives lists of whole numbers as x",
     ("{ x = { { 0.5, 1 } } }", '{ x = pg.tensor({ { 1, 2 } }, { dtype = "i64" }) }')),
    ("pg.word_vectors { sequences = pg.data.arrays { z = { { 1, 2 } } } }", "word_vectors: the source has no field x",
     ("{ z = { { 1, 2 } } }", '{ x = pg.tensor({ { 1, 2 } }, { dtype = "i64" }) }')),
    ("pg.neighbours(7)", "neighbours takes a tensor of rows", ("7", ROWS)),
    (f"pg.neighbours({ROWS}):nearest(pg.randn(4))", "the rows have another length than those of the index; got 4, expected 3", ("4", "3")),
    (f"pg.neighbours({ROWS}):nearest(pg.randn(3), 0)", "neighbours:nearest: count is a whole number above 0; got 0", ("0)", "1)")),
    ('pg.plot(pg.zeros(3, 3), { kind = "scatter" })', "a scatter plot takes places [points, 2]", ("3, 3", "3, 2")),
    ('pg.plot(pg.zeros(3, 2), { 1, 2 }, { kind = "scatter" })', "a scatter plot has a group for each point", ("1, 2 }", "1, 2, 1 }")),
    ('pg.plot(pg.zeros(3, 2), { kind = "scatter", names = { "a" } })', "a scatter plot has a name for each point; got 1 for 3 points", ('{ "a" }', '{ "a", "b", "c" }')),
    ('pg.plot(pg.zeros(3, 2) / 0, { kind = "scatter" })', "a scatter plot has a place that is not finite", (" / 0", "")),
    ("pg.kmeans(pg.zeros(3), 1)", "the tensor has no rows of numbers", ("zeros(3)", "zeros(3, 1)")),
    ("pg.kmeans(pg.zeros(3, 1) / 0, 1)", "the tensor has a number that is not finite", (" / 0", "")),
]
CASES = [prompt(f"-e '{expression}'", expression, cause, fix=fix) for expression, cause, fix in PROMPTS]
CASES += [
    command("vectors to nowhere", ("vectors", "train", "corpus.txt"), "perigee vectors train", "the vectors have no place to go", "--out FILE"),
    command("vectors of files of words alone", ("vectors", "train", "corpus.txt", "--out", "v.bin", "--documents", "d.bin"), "perigee vectors train",
            "files have no vectors with this model", "--model dbow or --model dm"),
    command("a job of vectors to nowhere", ("vectors", "job", "corpus.txt"), "perigee vectors job", "the job has no place to go", "--out JOB.json"),
    command("an analogy of two", ("vectors", "analogy", "vectors.txt", "king", "queen"), "perigee vectors analogy",
            "the command has another number of arguments; got 3, expected perigee vectors analogy VECTORS A B C"),
]
