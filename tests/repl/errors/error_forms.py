"""The forms of a case, which error_cases.py and the files of errors/ fill in."""
from dataclasses import dataclass, field

SCRIPT = """local pg = require "perigee"
return pg.experiment {
  name = "trial",
  network = NETWORK,
  loss = LOSS,
  optimizer = OPTIMIZER,
  data = { train = TRAIN, batch = 10DATA },
  epochs = 1,
  MORE
}
"""
DEFAULTS = {
    "NETWORK": 'pg.sequential { pg.dense { 8, activation = "relu" }, pg.dense { 2 } }',
    "LOSS": '"cross_entropy"',
    "OPTIMIZER": "pg.adam { lr = 0.01 }",
    "TRAIN": 'pg.data.csv { "two.csv", target = "y" }',
    "DATA": "",
    "MORE": "",
}
ARRAYS = "pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { 0, 1 } }"


@dataclass
class Case:
    name: str
    place: str
    cause: str
    hint: str = ""
    fix: object = None  # (old, new), "nearest" or None
    wrong: str = ""  # of "nearest": the name that is wrong
    parts: dict = field(default_factory=dict)  # of SCRIPT
    script: str = ""  # instead of SCRIPT
    args: tuple = ("train", "trial.lua")
    stdin: str = ""
    environment: dict = field(default_factory=dict)
    writes_run: bool = False  # training began, so that there is a run folder
    after: tuple = ()  # commands that must work before the case
    file: str = "trial.lua"  # of the script


def script(name, place, cause, hint="", fix=None, wrong="", writes_run=False, args=("train", "trial.lua"), environment=None, after=(), **parts):
    return Case(name, place, cause, hint, fix, wrong, {key.upper(): value for key, value in parts.items()}, "", args, "", environment or {},
                writes_run, after)


def prompt(name, expression, cause, hint="", fix=None, wrong="", place="", after=()):
    return Case(name, place, cause, hint, fix, wrong, args=("-e", expression), after=after)


def command(name, args, place, cause, hint="", fix=None, wrong="", after=(), **more):
    return Case(name, place, cause, hint, fix, wrong, args=args, after=after, **more)


def json_job(name, text, place, cause, hint="", fix=None, **more):
    """A mistake in a job that is written as JSON."""
    return Case(name, place, cause, hint, fix, script=text, args=("train", "trial.json"), file="trial.json", **more)


def job(cause, fix=None, hint="", place="trial.lua", **parts):
    """A mistake in a script; its place is of the script, where none is given."""
    text = ", ".join(f"{key} = {value}" for key, value in parts.items())
    return script(f"a job with {text}"[:120], place, cause, hint, fix, train=parts.pop("train", ARRAYS), **parts)
