"""Who has no business in a cluster: other secrets, recorded conversations, garbage, slowness, and great numbers."""
import random
import resource
import socket
import threading
import time

from fault_kit import fault, monotonic
from fault_world import PATIENCE, Failure
from harness import write_secret

FLOODERS, FLOOD_S = 4, 30


@fault("F20", repeat=20, policies=("allreduce",))
def wrong_credentials(world, rng, blows):
    """Workers with another secret, with none, and a genuine worker's first bytes played again: refused, and the run does not notice."""
    world.start(2)
    mark = world.events.mark()
    other = world.folder / "other.key"
    write_secret(other)
    for name, secret in (("wrong", other), ("none", False)):
        child = world.start_worker(name, join=world.address, secret=secret)
        if secret is False:
            child.expected = None  # it cannot know whom it talks to; it would go on trying
            world.steps(2)
            child.close()
            world.children.remove(child)
        else:
            child.expected = (child.wait(),)
            if child.expected == (0,) or "secret" not in child.said():
                raise Failure(f"{name}: ended with {child.expected}: {child.said()}")
    recorded = record_handshake(world)
    for _ in range(blows):
        with socket.create_connection(("127.0.0.1", world.port), PATIENCE) as replay:
            replay.settimeout(PATIENCE)
            try:
                for part in recorded:
                    replay.sendall(part)
                while replay.recv(65536):
                    pass
            except OSError:
                pass
    joined = [e for e in world.events.since(mark) if e.get("event") == "worker_joined" and e.get("worker") not in ("w0", "w1", "recorded")]
    if joined:
        raise Failure(f"a stranger got in: {joined}")
    world.check_usage()


def record_handshake(world):
    """What a genuine worker sends until it has joined."""
    listener = socket.create_server(("127.0.0.1", 0))
    parts = []

    def relay():
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", world.port))

        def carry(source, target, keep):
            try:
                while data := source.recv(65536):
                    if keep:
                        parts.append(data)
                    target.sendall(data)
            except OSError:
                pass
            for end in (source, target):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        back = threading.Thread(target=carry, args=(server, client, False), daemon=True)
        back.start()
        carry(client, server, True)
        back.join(PATIENCE)
        client.close()
        server.close()
    thread = threading.Thread(target=relay, daemon=True)
    thread.start()
    child = world.start_worker("recorded", join=f"127.0.0.1:{listener.getsockname()[1]}")
    child.expected = None
    world.poll("bytes to replay", lambda: sum(map(len, parts)) > 300)
    time.sleep(0.5)
    child.close()
    world.children.remove(child)
    thread.join(PATIENCE)
    listener.close()
    return list(parts)


@fault("F19", repeat=1, policies=("allreduce",))
def strangers(world, rng, blows):
    """Garbage, hellos byte by byte, and 10,000 idle connections before any proof: a genuine worker still gets in."""
    world.start(2)
    mark, before = world.events.mark(), world.coordinator.usage()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    sockets, over = [], threading.Event()
    slow = threading.Thread(target=trickle, args=(world.port, 20, over))
    slow.start()
    try:
        for _ in range(min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)):
            sockets.append(socket.create_connection(("127.0.0.1", world.port), PATIENCE))
        world.figures.add("idle connections made", len(sockets))
        held = world.coordinator.usage().sockets - before.sockets
        if held > 600:
            raise Failure(f"strangers hold {held} connections")
        for at in range(0, len(sockets), 40):  # some send garbage, some a TLS hello's first bytes and no more
            try:
                sockets[at].sendall(rng.randbytes(rng.choice([1, 5, 100, 70_000])) if at % 80 else b"\x16\x03\x01\x02\x00\x01")
            except OSError:
                pass
        world.steps(2, workers=2)
        world.start_worker("late")
        world.steps(1, workers=3)
    finally:
        over.set()
        for sock in sockets:
            sock.close()
        slow.join(PATIENCE)
    world.note_blame(mark)


def trickle(port, count, over):
    """So many connections say hello by one byte at a time, and begin anew when they are closed, until it is over."""
    sockets = {}
    hello = b"\x16\x03\x01\x02\x00" + bytes(512)
    while not over.wait(0.2):
        for at in range(count):
            try:
                if at not in sockets:
                    sockets[at] = [socket.create_connection(("127.0.0.1", port), 5), 0]
                sock, sent = sockets[at]
                sock.sendall(hello[sent:sent + 1])
                sockets[at][1] = sent + 1
            except OSError:
                if at in sockets:
                    sockets.pop(at)[0].close()
    for sock, _ in sockets.values():
        sock.close()


@fault("F19", repeat=4, policies=("allreduce",))
def flood_from_a_workers_address(world, rng, blows):
    """Random bytes, handshakes that cannot be, and silence at full rate from the address of a worker that is killed and comes back: it is in
    again while the flood goes on, after a few hundred milliseconds."""
    world.write_job(epochs=200 * world.epochs)  # workers without relays do not hold this run up: it is interrupted
    world.start(2)
    mark, before = world.events.mark(), world.coordinator.usage()
    world.figures.add("a worker killed without a flood: in again after ms, with the start of its process", come_again(world, "w0"))
    for blow in range(blows):
        over, made = threading.Event(), [0] * FLOODERS
        flood = [threading.Thread(target=pour, args=(world.port, rng.randrange(1 << 30), over, made, place)) for place in range(FLOODERS)]
        for thread in flood:
            thread.start()
        try:
            world.poll("the flood", lambda made=made: sum(made) > 200 * FLOODERS)
            world.figures.add("flood from a worker's address: in again after ms, with the start of its process", come_again(world, f"w{blow % 2}"))
            if not all(thread.is_alive() for thread in flood):
                raise Failure("the flood was over before the worker was in")
        finally:
            over.set()
            for thread in flood:
                thread.join(PATIENCE)
        world.figures.add("flood: connections", sum(made))
        world.note_blame(mark, {"w0", "w1"})
        world.poll("the strangers' sockets are closed", lambda: world.coordinator.usage().sockets - before.sockets < 16)
    world.interrupt()


def come_again(world, name):
    """Kills a worker and starts it anew, without its relay: from the address that strangers have as well. Milliseconds until it is in."""
    world.worker(name).kill()
    mark, struck = world.events.mark(), monotonic()
    world.start_worker(name, join=world.address)
    joined = world.wait("the worker to be in again", lambda e: e.get("event") == "worker_joined" and e.get("worker") == name, mark, FLOOD_S)
    world.steps(1, workers=2)
    return 1000 * (joined["monotonic_s"] - struck)


def pour(port, seed, over, made, place):
    """Connections one after the other, each with something that is no proof; some stay open, so that they have to be got rid of."""
    rng, kept = random.Random(seed), []
    while not over.is_set():
        try:
            sock = socket.create_connection(("127.0.0.1", port), 5)
            kind = rng.random()
            if kind < 0.6:
                sock.sendall(rng.randbytes(rng.choice([1, 100, 4000])))
            elif kind < 0.8:
                sock.sendall(b"\x16\x03\x01\x00\x05" + bytes([255] * 5))
            if kind > 0.9:
                kept.append(sock)
            else:
                sock.close()
        except OSError:
            pass
        made[place] += 1
        if len(kept) > 100:
            kept.pop(0).close()
    for sock in kept:
        sock.close()
