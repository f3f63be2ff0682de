"""The program with addresses where it takes paths: the same bits as with local files."""
import os
import pathlib
import random
import struct

from kit import PROGRAM, ROOT, Tool, digest, environment, one, perigee, test
from servers import FaultProxy, Missing

MNIST = pathlib.Path(os.environ.get("PERIGEE_DATA", "/nowhere")) / "mnist"


def upload(env, root, folder):
    with Tool(env) as tool:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            answer = tool("put", f"{root}/{path.relative_to(folder)}", path)
            assert answer == {"written": True}, answer


def table(world):
    draw = random.Random(1)
    return world.file("t.csv", ("a,b,y\n" + "".join(f"{draw.random():.3f},{draw.random():.3f},{'no yes'.split()[i % 2]}\n" for i in range(200))).encode())


def script(world, data, epochs=4, more=""):
    return world.file("job.lua", f"""local pg = require "perigee"
return pg.experiment {{ name = "stored", network = pg.sequential {{ pg.dense {{ 8, activation = "relu" }}, pg.dense {{ 2 }} }}, loss = "cross_entropy",
  optimizer = pg.sgd {{ lr = 0.1 }}, data = {{ train = pg.data.csv {{ "{data}", target = "y" }}, batch = 20 }}, epochs = {epochs}, seed = 3, {more} }}
""".encode())


def trained(world, env, *arguments):
    status, output = perigee(env, "train", *arguments, "--log", "plain", "--threads", "1", cwd=world.folder)
    assert status == 0, output
    return output


def parameters(path):
    """The tensors of a model file: its metadata name the data's folder, which differ."""
    content = pathlib.Path(path).read_bytes()
    return digest(content[8 + int.from_bytes(content[:8], "little"):])


def same_mnist(world, env, root):
    local = {**env, "PERIGEE_DATA": str(MNIST.parent)}
    there = {**env, "PERIGEE_DATA": root}
    upload(env, root + "/mnist", MNIST)
    kind = root.split(":")[0]
    for name, each in ((f"{kind}-local", local), (f"{kind}-there", there)):
        trained(world, each, ROOT / "models" / "lenet.lua", "--steps", "20", "--out", world.folder / name)
    assert parameters(world.folder / f"{kind}-local" / "model.safetensors") == parameters(world.folder / f"{kind}-there" / "model.safetensors")


def need_mnist():
    if not MNIST.is_dir():
        raise Missing("PERIGEE_DATA names no folder with mnist/")


@test
def s3_mnist(world):
    need_mnist()
    same_mnist(world, world.s3(), "s3://bucket/data")


@test
def hdfs_mnist(world):
    need_mnist()
    same_mnist(world, environment(world.folder, **world.hdfs.env), world.hdfs.url + "/data")


@test
def s3_run(world):
    """Published, killed, resumed from the store: the model of an uninterrupted run; eval, predict, pretrained read it there."""
    env = world.s3(PERIGEE_STORE_CACHE_MB="0")
    data = table(world)
    one(env, "put", "s3://bucket/t.csv", data)
    trained(world, env, script(world, data), "--out", world.folder / "whole")
    whole = parameters(world.folder / "whole" / "model.safetensors")
    trained(world, env, script(world, "s3://bucket/t.csv"), "--out", "s3://bucket/runs/one")
    world.moto.boto("s3.download_file('bucket', 'runs/one/model.safetensors', sys.argv[1])", str(world.folder / "one.safetensors"))
    assert parameters(world.folder / "one.safetensors") == whole
    status, output = perigee(env, "train", script(world, data), "--out", "s3://bucket/runs/one", cwd=world.folder)
    assert status == 2 and "a run is published here already" in output and "--resume" in output, output
    # Stopped half-way on one machine, continued on another that has nothing but the address.
    status, output = perigee(env, "train", script(world, "s3://bucket/t.csv"), "--epochs", "2", "--threads", "1", "--out", "s3://bucket/runs/continued", cwd=world.folder)
    assert status == 0, output
    elsewhere = world.folder / "elsewhere"
    elsewhere.mkdir()
    status, output = perigee(env, "train", script(world, "s3://bucket/t.csv"), "--resume", "s3://bucket/runs/continued", "--threads", "1", "--log", "plain", cwd=elsewhere)
    assert status == 0, output
    world.moto.boto("s3.download_file('bucket', 'runs/continued/model.safetensors', sys.argv[1])", str(world.folder / "continued.safetensors"))
    assert parameters(world.folder / "continued.safetensors") == whole
    model = "s3://bucket/runs/continued/model.safetensors"
    for command in (("eval", model, "--data", "s3://bucket/t.csv"), ("eval", "s3://bucket/runs/continued", "--data", "s3://bucket/t.csv"),
                    ("predict", model, "s3://bucket/t.csv", "--json")):
        local = [str(world.folder / "continued.safetensors") if word in (model, "s3://bucket/runs/continued") else str(data) if word.startswith("s3:") else word
                 for word in command]
        (status, there), (_, here) = perigee(env, *command), perigee(env, *local)
        names = lambda text: text.replace(str(data), "DATA").replace("s3://bucket/t.csv", "DATA")
        assert status == 0 and (command[0] == "eval" or names(there) == names(here)), (there, here)
    trained(world, env, script(world, data, more='pretrained = "s3://bucket/runs/continued"'), "--steps", "2", "--out", world.folder / "after")
    for bad, text in (("s3://bucket/runs/none", "no run is published here"), ("gs://bucket/x", "this kind of store is not known")):
        status, output = perigee(env, "train", "--resume", bad, cwd=elsewhere)
        assert status in (2, 3) and text in output, output
    status, output = perigee(env, "train", script(world, data), "--steps", "2", "--out", "https://127.0.0.1/x", cwd=elsewhere)
    assert status == 2 and "can only be read" in output or "cannot be" in output, output
    for missing in ("s3://bucket/none.safetensors",):
        status, output = perigee(env, "eval", missing)
        assert status == 3 and "there is no such file in the store" in output, output


@test
def s3_images(world):
    """A folder of images: listed once, read ahead, the same bits."""
    folder = world.folder / "images"
    draw = random.Random(2)
    for i in range(60):
        path = folder / "ab"[i % 2] / f"{i:03}.bmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = b"BM" + struct.pack("<IIIIiiHHIIiiII", 54 + 192, 0, 54, 40, 8, 8, 1, 24, 0, 192, 2835, 2835, 0, 0)
        path.write_bytes(head + draw.randbytes(192))
    env = world.s3()
    upload(env, "s3://bucket/images", folder)
    models = []
    for name, data in (("local", folder), ("there", "s3://bucket/images")):
        job = world.file("images.lua", f"""local pg = require "perigee"
return pg.experiment {{ name = "images", network = pg.sequential {{ pg.flatten {{}}, pg.dense {{ 2 }} }}, loss = "cross_entropy",
  optimizer = pg.sgd {{ lr = 0.1 }}, data = {{ train = pg.data.images {{ "{data}", size = {{ 8, 8 }} }}, batch = 6 }}, epochs = 2, seed = 3 }}
""".encode())
        trained(world, env, job, "--out", world.folder / f"images-{name}")
        models.append(parameters(world.folder / f"images-{name}" / "model.safetensors"))
    assert models[0] == models[1]
    proxy = FaultProxy(world.moto.url)
    try:
        trained(world, {**env, "AWS_ENDPOINT_URL": proxy.url}, job, "--out", world.folder / "images-again")
        # The cache has all pictures: what is the folder, which folders has it, and which files have those.
        assert len(proxy.seen) <= 5, proxy.seen
    finally:
        proxy.stop()
