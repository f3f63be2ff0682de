"""Runs that are published: killed at many moments, two writers, and training itself to and from stores."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

from kit import PROGRAM, ROOT, TOOL, Tool, digest, environment, one, perigee, random_bytes, says, test
from servers import FaultProxy


def write_state(folder, number, size):
    """A state whose files say its number: a reader sees whether two states are mixed."""
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    for name in ("job.json", "log.jsonl", "checkpoints/step.safetensors"):
        new = folder / (name + ".new.tmp")
        new.write_bytes(f"{number}\n".encode() + random_bytes(size, number))
        new.replace(folder / name)


def read_state(env, url, into):
    """The number of the published state, after every file has shown the same one."""
    shutil.rmtree(into, ignore_errors=True)
    answer = one(env, "fetch", url, into)
    assert "error" not in answer, answer
    files = [p for p in into.rglob("*") if p.is_file()]
    numbers = {int(p.read_bytes().split(b"\n")[0]) for p in files}
    assert len(numbers) == (1 if files else 0), f"mixed states {numbers}"
    for path in files:
        number, rest = path.read_bytes().split(b"\n", 1)
        assert rest == random_bytes(len(rest), int(number)), path
    return (numbers.pop() if numbers else 0), answer


def killed_while_publishing(world, env, url, moments):
    """A writer that is killed at a random moment leaves a state that verifies, and none older than what it said it had published."""
    draw, folder = random.Random(3), world.folder / "killed"
    shutil.rmtree(folder, ignore_errors=True)
    into, published, number, states = world.folder / "fetched", 0, 0, 0
    for moment in range(moments):
        process = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        write_state(folder, number + 1, 200_000)
        number += 1
        ask = lambda *fields: (process.stdin.write("\t".join(map(str, fields)) + "\n"), process.stdin.flush())
        ask("claim", url, folder)
        claimed = json.loads(process.stdout.readline())
        assert claimed["generation"] == moment + 1, claimed
        ask("publish")
        assert process.stdout.readline().strip() == "{}"
        published = number
        write_state(folder, number + 1, 200_000)
        number += 1
        ask("publish")
        time.sleep(draw.uniform(0, 0.5))
        process.kill()
        rest = process.stdout.read()
        process.wait()
        if rest.strip() == "{}":
            published = number
        found, answer = read_state(env, url, into)
        assert found in (published, number), (found, published, number)
        assert answer["generation"] == moment + 1
        states += found == number
    world.note(f"{url.split(':')[0]}: killed {moments} times while publishing: every state verifies; the killed one was there {states} times")
    with Tool(env) as tool:
        tool("claim", url, folder)
        left = [name for name in tool("list", url + "/objects")["entries"]]
        assert len(left) <= 12, f"objects are left: {len(left)}"
        for part in ("", "/objects", "/manifests"):
            rest = [name for name in tool("list", url + part)["entries"] if ".tmp-" in name]
            assert not rest, f"{part}: {rest}"


def two_writers(world, env, url, times):
    """Writers of different generations publish at once: the later one wins each time, and states are never mixed."""
    old_folder, new_folder = world.folder / "old-writer", world.folder / "new-writer"
    lost = 0
    for i in range(times):
        write_state(old_folder, 10 * i + 1, 2000)
        write_state(new_folder, 10 * i + 2, 2000)
        with Tool(env) as old, Tool(env) as new:
            assert "error" not in old("claim", url, old_folder)
            assert old("publish") == {}
            write_state(old_folder, 10 * i + 3, 2000)
            # Both at once: the claim of the later one, and a publication of the earlier one.
            for tool, fields in ((old, ["publish"]), (new, ["claim", url, str(new_folder)])):
                tool.process.stdin.write("\t".join(fields) + "\n")
                tool.process.stdin.flush()
            first, second = json.loads(old.process.stdout.readline()), json.loads(new.process.stdout.readline())
            assert "error" not in second, second
            if "error" in first:
                says(first, "another process has taken over this run", "generation")
                lost += 1
            write_state(old_folder, 10 * i + 4, 2000)
            stale = old("publish")
            says(stale, "another process has taken over this run")
            assert new("publish") == {}
            says(old("publish"), "another process has taken over this run")
        found, _ = read_state(env, url, world.folder / "fetched")
        assert found == 10 * i + 2, (found, i)
    world.note(f"{url.split(':')[0]}: two writers {times} times: the later one won each time, {lost} times already at the claim")


@test
def s3_killed_while_publishing(world):
    killed_while_publishing(world, world.s3(PERIGEE_STORE_CACHE_MB="0"), "s3://bucket/runs/killed", 8 if world.quick else 50)


@test
def hdfs_killed_while_publishing(world):
    env = environment(world.folder, PERIGEE_STORE_CACHE_MB="0", **world.hdfs.env)
    killed_while_publishing(world, env, world.hdfs.url + "/runs/killed", 8 if world.quick else 50)


@test
def sftp_killed_while_publishing(world):
    env = environment(world.folder, PERIGEE_STORE_CACHE_MB="0", **world.sshd.env)
    killed_while_publishing(world, env, world.sshd.url + str(world.sshd.root) + "/runs/killed", 4 if world.quick else 20)


@test
def s3_two_writers(world):
    two_writers(world, world.s3(PERIGEE_STORE_CACHE_MB="0"), "s3://bucket/runs/two", 10 if world.quick else 100)


@test
def hdfs_two_writers(world):
    env = environment(world.folder, PERIGEE_STORE_CACHE_MB="0", **world.hdfs.env)
    two_writers(world, env, world.hdfs.url + "/runs/two", 5 if world.quick else 100)


@test
def s3_published_damage(world):
    """A damaged object: the state before it, with a warning. Manifests that lead elsewhere are refused."""
    env, url, folder = world.s3(PERIGEE_STORE_CACHE_MB="0"), "s3://bucket/runs/damaged", world.folder / "damaged"
    with Tool(env) as tool:
        says(tool("fetch", url, world.folder / "fetched"), "no run is published here", "--out")
        for number in (1, 2):
            write_state(folder, number, 100)
            if number == 1:
                tool("claim", url, folder, "fresh")
            tool("publish")
        says(tool("claim", url, folder, "fresh"), "a run is published here already", "--resume")
    world.moto.boto("""
m = json.loads(s3.get_object(Bucket="bucket", Key="runs/damaged/manifests/0000000003.json")["Body"].read())
s3.put_object(Bucket="bucket", Key="runs/damaged/objects/" + m["files"][0]["object"], Body=b"x" * m["files"][0]["bytes"])""")
    with Tool(env) as tool:
        assert tool("fetch", url, world.folder / "fetched")["sequence"] == 2
    assert "trying the state before it" in tool.warnings, tool.warnings
    for text in ('{"sequence":1,"generation":1,"writer":"w","files":[]}', "no json"):
        world.moto.boto("s3.put_object(Bucket='bucket', Key='runs/odd/manifests/0000000001.json', Body=sys.argv[1].encode())", text)
        assert "error" in one(env, "fetch", "s3://bucket/runs/odd", world.folder / "fetched")


# A manifest's content, its hash, which is right, and what is wrong with it all the same.
LIES = [
    ('"sequence":1,"generation":1,"writer":"w","files":[]', "bc2ab40cff81ecbf734c1b1f2649a299", ""),
    ('"sequence":-1,"generation":1,"writer":"w","files":[]', "960539d678567076a9480c7663a8fe7e", "lacks a number"),
    ('"sequence":1,"generation":1,"writer":7,"files":[]', "0722db9161e02df2a9df680f142c139a", "lacks a name"),
    ('"sequence":1,"generation":1,"writer":"w","files":{}', "6043ed53d2ca03ed1ecb7a318cff249f", "has no list of files"),
    ('"sequence":1,"generation":1,"writer":"w","files":[{"path":"../a","object":"a","bytes":1,"xxh3":"x"}]', "babf040dac5bd989ce4424c3283c3c82", "leads out of its folder"),
    ('"sequence":2,"generation":1,"writer":"w","files":[]', "e53f0e86a2af9ba41f66d06af5928b79", "has another number than its name"),
]


@test
def s3_manifests_that_lie(world):
    """The hash of a manifest says that it came whole, not that it is one."""
    env, fetched = world.s3(PERIGEE_STORE_CACHE_MB="0"), world.folder / "fetched-lies"
    for number, (content, hash_of_it, lie) in enumerate(LIES):
        url = f"s3://bucket/runs/lie{number}"
        text = f'{{{content},"xxh3":"{hash_of_it}"}}\n'
        world.moto.boto(f"s3.put_object(Bucket='bucket', Key='runs/lie{number}/manifests/0000000001.json', Body=sys.argv[1].encode())", text)
        answer = one(env, "fetch", url, fetched)
        if lie:
            says(answer, f"lie{number}/manifests/0000000001.json: this manifest {lie}", "delete this file: the state before it is the newest then")
            one(env, "remove", url + "/manifests/0000000001.json")
            says(one(env, "fetch", url, fetched), "no run is published here")
        else:
            assert answer == {"sequence": 1, "generation": 1}, answer


@test
def s3_published_content_that_is_other(world):
    """An object was replaced behind the back of its manifest, and there is no state before it."""
    env, url, folder = world.s3(PERIGEE_STORE_CACHE_MB="0"), "s3://bucket/runs/other", world.folder / "other"
    write_state(folder, 1, 100)
    with Tool(env) as tool:
        tool("claim", url, folder)
        tool("publish")
        tool("publish")
    world.moto.boto("""
for key in [each["Key"] for each in s3.list_objects_v2(Bucket="bucket", Prefix="runs/other/")["Contents"]]:
    if "/objects/" in key: s3.put_object(Bucket="bucket", Key=key, Body=b"x" * s3.head_object(Bucket="bucket", Key=key)["ContentLength"])
    if key.endswith("0000000001.json"): s3.delete_object(Bucket="bucket", Key=key)""")
    says(one(env, "fetch", url, world.folder / "fetched-other"), "/objects/", "is not the content that the manifest names", "or delete the manifest that names it")


@test
def s3_too_many_files(world):
    """They are counted before the first one is sent."""
    env, folder = world.s3(PERIGEE_STORE_CACHE_MB="0"), world.folder / "crowd"
    folder.mkdir()
    for number in range(10_001):
        (folder / str(number)).touch()
    with Tool(env) as tool:
        tool("claim", "s3://bucket/runs/crowd", folder)
        says(tool("publish"), "has too many files to publish; expected at most 10000", "keep data and other files outside of the run's folder")
        for number in range(1, 10_001):
            (folder / str(number)).unlink()
        assert tool("publish") == {}
        assert len(tool("list", "s3://bucket/runs/crowd/objects")["entries"]) == 1


@test
def s3_many_writers(world):
    """Every manifest that this one would write is there already."""
    proxy = FaultProxy(world.moto.url)
    env = world.s3(PERIGEE_STORE_CACHE_MB="0", AWS_ENDPOINT_URL=proxy.url, AWS_ENDPOINT_URL_S3=proxy.url)
    try:
        proxy.fault = lambda method, path, headers: ("status", 412, "") if method == "PUT" and "/manifests/" in path else None
        says(one(env, "claim", "s3://bucket/runs/many", world.folder), "many writers want this address at once", "--out")
    finally:
        proxy.stop()
