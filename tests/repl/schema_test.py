#!/usr/bin/env python3
"""The JSON Schema of jobs, checked with PyPI's jsonschema: schema_test.py PROGRAM FOLDER. Prints TAP.

The package is installed into a virtual environment in FOLDER once. The jobs of all models fit the schema; a misspelt key, a wrong type and a
value out of range do not.
"""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from runner.examples import experiments  # noqa: E402
JSONSCHEMA = "jsonschema==4.23.0"


def restart_with_jsonschema(folder):
    """Runs this script again by the environment's Python."""
    environment = pathlib.Path(folder) / "jsonschema"
    python = environment / "bin" / "python"
    if not (environment / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", JSONSCHEMA], check=True)
        (environment / "installed").touch()
    return subprocess.run([python, __file__, *sys.argv[1:2]]).returncode


def described(program, script):
    """The script's job; none where it reads data that are not here."""
    with tempfile.TemporaryDirectory(prefix="perigee-schema-") as folder:
        done = subprocess.run([program, "describe", "--json", script], capture_output=True, text=True, cwd=folder)
    if done.returncode == 3 and not os.environ.get("PERIGEE_DATA"):
        return None
    if done.returncode:
        raise RuntimeError(f"{script.name}: {done.stderr}")
    return json.loads(done.stdout)


def changed(job, path, value):
    """A copy of the job with another value at the path."""
    job = copy.deepcopy(job)
    at = job
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return job


def main():
    import jsonschema
    program = str(pathlib.Path(sys.argv[1]).resolve())
    schema = json.loads(subprocess.run([program, "schema"], capture_output=True, text=True, check=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    number = failures = 0

    def check(name, wrong):
        nonlocal number, failures
        number += 1
        failures += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} {name}" + "".join(f"\n# {line}" for line in wrong), flush=True)

    jobs = {script.stem: described(program, script) for script in experiments()}
    for name, job in jobs.items():
        if job is None:
            number += 1
            print(f"ok {number} the job of {name} fits # SKIP its data are not here", flush=True)
            continue
        check(f"the job of {name} fits", [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(job)])
    lenet = jobs["lenet"]
    for name, path, value in [
            ("an unknown key", ["epoch"], 3),
            ("an unknown key of a section", ["data", "bach"], 3),
            ("a key that is gone", ["data", "prefetch"], 3),
            ("an unknown option of a layer", ["network", "layers", 0, "kernal"], 5),
            ("an unknown option of an optimiser", ["optimizer", "momentun"], 0.5),
            ("an unknown option of a schedule", ["optimizer", "lr"], {"type": "cosine", "from": 0.1, "warmupp": 0.1}),
            ("an unknown layer", ["network", "layers", 0, "type"], "conv2"),
            ("a wrong type", ["epochs"], "five"),
            ("a wrong type in a layer", ["network", "layers", 0, "out"], "many"),
            ("a value out of range", ["data", "batch"], 0),
            ("a number out of an option's range", ["optimizer"], {"type": "adam", "beta1": 2}),
            ("an unknown choice", ["data", "at"], "nowhere"),
    ]:
        check(f"{name} is refused", [] if list(validator.iter_errors(changed(lenet, path, value))) else [f"{path} = {value!r} passes"])
    tables = subprocess.run([program, "schema", "--markdown"], capture_output=True, text=True, check=True).stdout
    missing = [key for key in schema["properties"] if f"| `{key}` |" not in tables]
    missing += [name for name in schema["$defs"]["layer name"]["enum"] if f"### {name}\n" not in tables]
    check("the tables have every key and every layer", missing)
    print(f"1..{number}")
    return 1 if failures or len(jobs) < 5 else 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 2 else restart_with_jsonschema(sys.argv[2]))
