"""An op is one file: no code outside of ops/ asks whether a node is the op of some name, or keeps a table of such names. What a pass, the
plan compiler, a loss or an eager call must know of an op stands in its OpDef (src/graph/op.h). To append an op by name, and to register a
kernel for one, is no question. lint.py runs this."""
import pathlib
import re

# Folders whose code meets ops. Others have words of their own that sound alike: "pad" of pictures, "log" of a spectrum.
FOLDERS = ("cluster/", "kernels/", "lua/", "repl/", "src/api/", "src/device/", "src/eager/", "src/generate/", "src/graph/", "src/model/",
           "src/nn/", "src/optim/", "src/run/", "src/train/")
SUFFIXES = (".cpp", ".h", ".hpp", ".cu", ".cuh")

# Words that sound like ops and are none: file -> (words, why).
ALLOWED = {
    "cluster/cloud/aws_api.cpp": ({"host"}, "a header of HTTP"),
    "cluster/codec/cuda_codec.cpp": ({"sign"}, "a codec"),
    "src/api/operation.cpp": ({"cast", "gather", "take_along"}, "functions of the C API that check or convert more than the ops do"),
    "src/generate/text_model.cpp": ({"softmax"}, "the link of a job's loss"),
    "src/nn/activations.cpp": ({"log_softmax", "relu", "sigmoid", "softmax", "softplus", "tanh"}, "activations"),
    "src/nn/ctc_decode.cpp": ({"ctc"}, "a loss"),
    "src/nn/layers/attend.cpp": ({"rotary"}, "a value of the option `positions`"),
    "src/nn/layers/rbm.cpp": ({"linear", "softmax"}, "kinds of units"),
    "src/nn/layers/recurrent.cpp": ({"relu", "sigmoid", "tanh"}, "activations, of which kernels know some"),
    "src/optim/clip.cpp": ({"layer_norm"}, "a way to clip"),
    "src/optim/schedules/one_cycle.cpp": ({"linear"}, "a shape of the curve"),
}


def op_names(sources):
    """The ops that the texts of src/graph/ops/ define; leaves have names that say little, and no program may name them."""
    found = set()
    for source in sources:
        found.update(re.findall(r'\.name = "(\w+)"', source))
        found.update(re.findall(r'\belementwise_(?:unary|binary)\(\s*"(\w+)"', source))
    return found


def read_op_names(root):
    return op_names(path.read_text() for path in sorted((pathlib.Path(root) / "src/graph/ops").glob("*.cpp")))


def without_comments(source):
    blank = lambda text: re.sub(r"[^\n]", " ", text)
    return re.sub(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', lambda m: m[1] or blank(m[0]), source, flags=re.S)


def closing_brace(text, opening):
    depth = 0
    for at in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def questions(text, word):
    """(place, op) of comparisons with a name."""
    for found in re.finditer(rf'[!=]=\s*{word}|{word}\s*[!=]=|\bstr(?:n?case)?n?cmp\([^;]*?{word}|\bis_op\([^;]*?{word}'
                             rf'|\.(?:contains|starts_with|ends_with|compare)\(\s*{word}', text):
        yield found.start(), next(name for name in found.groups() if name)


def tables(text, word):
    """(place, ops) of constants that list names: two or more that each begin an entry, and lists of names beside each other."""
    head = re.compile(r"\bconst(?:expr)?\b(?P<type>[^;={}()]*?)\b\w+(?:\[\w*\])?\s*=?\s*(?=\{)")
    for found in head.finditer(text):
        if re.search(r"\b(Option|OpDef|LayerDef|Kernel|Schema)\b", found["type"]):
            continue
        inside = text[found.end():closing_brace(text, found.end())]
        names = re.findall(rf"(?:[{{,]\s*){word}(?=\s*[,}}]|\s*$)", inside)
        if len(set(names)) > 1:
            yield found.start(), sorted(set(names))
    for found in re.finditer(rf"[{{]\s*{word}\s*,\s*{word}\s*[,}}]", text):
        yield found.start(), sorted({name for name in found.groups() if name})


def op_name_problems(file, source, names):
    if not file.startswith(FOLDERS) or not file.endswith(SUFFIXES) or "/ops/" in file or not names:
        return
    text = without_comments(source)
    word = '"(' + "|".join(sorted(names)) + ')"'
    allowed = ALLOWED.get(file, (set(), ""))[0]
    line = lambda at: text.count("\n", 0, at) + 1
    told = set()
    for at, name in questions(text, word):
        if name not in allowed:
            yield f':{line(at)}: asks for the op "{name}": give OpDef a property, which the op\'s own file sets (tests/rules/op_names.py)'
            told.add(line(at))
    for at, listed in tables(text, word):
        listed = [name for name in listed if name not in allowed]
        if len(listed) > 1 and line(at) not in told and not file.startswith("kernels/"):
            told.add(line(at))
            yield f":{line(at)}: lists ops by name ({', '.join(listed)}): give OpDef a property (tests/rules/op_names.py)"
