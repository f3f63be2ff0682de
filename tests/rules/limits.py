"""Limits of the house: entries of a folder, lines of a function, form of a commit's subject, how a comment begins. lint.py runs them."""
import collections
import re
import subprocess

MOST_ENTRIES = 40
OF_ONE_KIND = {"src/nn/layers"}  # one file per layer

MOST_LINES = 60
FUNCTION_FOLDERS = ("src/", "cluster/", "kernels/", "repl/", "lua/")

# Commits before this keep the form that they have. A time and no hash, so that a shallow clone is checked too.
SUBJECTS_SINCE = "2026-11-23T20:30:00Z"
SUBJECT = re.compile(r"^[a-z][a-z0-9/_.-]*(, ?[a-z][a-z0-9/_.-]*)*: .{1,}$")
MOST_COLUMNS = 72

# Folders whose comments are sentences: none begins with "Of" or "What".
PLAIN_COMMENTS = ("cluster/", "kernels/", "lua/", "models/", "repl/", "src/", "tests/")
COMMENT = {".py": "#", ".lua": "--", ".build": "#", ".sh": "#", ".cpp": "//", ".h": "//", ".hpp": "//", ".cu": "//", ".cuh": "//"}


def folder_problems(files):
    """(folder, problems) of every folder that holds a file."""
    entries = collections.defaultdict(set)
    for file in files:
        parts = file.split("/")
        for depth in range(len(parts)):
            entries["/".join(parts[:depth])].add(parts[depth])
    for folder, names in sorted(entries.items()):
        many = len(names) > MOST_ENTRIES and folder not in OF_ONE_KIND
        yield folder or ".", [f": {len(names)} entries; at most {MOST_ENTRIES}: group them by subject"] if many else []


def without_text(source):
    """C++ with comments, strings and characters blanked and lines kept."""
    pattern = r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), source, flags=re.S)


def functions(source):
    """(name, first line, lines) of the functions of a C++ file: braces after a parameter list, outside of any other function."""
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda line: re.sub(r"[^\n]", " ", line[0]), without_text(source), flags=re.M)
    depth, begins, name, statement = 0, None, "", 0
    inside = None  # the depth of the function's brace
    for at, char in enumerate(text):
        if char == "{":
            head = " ".join(text[statement:at].split())
            called = re.search(r"([\w:~]+|operator\s*\S+)\s*\(", head)
            scope = re.match(r"(?:inline |static |extern |template ?<.*> ?)*(?:namespace|class|struct|union|enum)\b(?![^{]*\))", head)
            if inside is None and called and not scope and not head.endswith(("=", ",", "(")):
                inside, name, begins = depth, called[1], text.count("\n", 0, at) + 1
            depth += 1
        elif char == "}":
            depth -= 1
            if inside == depth:
                inside = None
                if re.match(r"\s*[{,]", text[at + 1:at + 200]):  # these braces initialise a member; the body follows
                    continue
                last = text.count("\n", 0, at) + 1
                yield name, begins, last - begins + 1
        if inside is None and char in "{};":
            statement = at + 1


def function_problems(file, source):
    if not file.startswith(FUNCTION_FOLDERS):
        return
    for name, line, lines in functions(source):
        if lines > MOST_LINES:
            yield f":{line}: {name} has {lines} lines; at most {MOST_LINES}"


def comment_problems(file, source):
    mark = next((mark for suffix, mark in COMMENT.items() if file.endswith(suffix)), None)
    if not mark or not file.startswith(PLAIN_COMMENTS):
        return
    begins = re.compile(rf"(?:^|\s){re.escape(mark)}+ ?(Of|What)\b")
    continued = False  # the second line of a comment may begin with any word
    for number, line in enumerate(source.splitlines(), 1):
        if (found := begins.search(line)) and not (continued and line.lstrip().startswith(mark)):
            yield f':{number}: a comment is a sentence and does not begin with "{found[1]}"'
        continued = line.lstrip().startswith(mark)


def file_problems(file, source):
    if file.endswith((".cpp", ".h", ".hpp", ".cu", ".cuh")):
        yield from function_problems(file, source)
    yield from comment_problems(file, source)


def subject_problems(root):
    """(commit, problems) of the new commits; merges have subjects of git's."""
    log = subprocess.run(["git", "log", "--no-merges", f"--since={SUBJECTS_SINCE}", "--format=%h %s"], cwd=root, capture_output=True, text=True)
    for line in log.stdout.splitlines() if log.returncode == 0 else ():
        commit, subject = line.split(" ", 1)
        yield commit, subject_faults(subject)


def subject_faults(subject):
    if not SUBJECT.match(subject):
        return [f": '{subject}': a subject is `area: imperative`"]
    return [f": '{subject}': {len(subject)} columns; at most {MOST_COLUMNS}"] if len(subject) > MOST_COLUMNS else []
