"""The network between the nodes of a cluster is slow, cut, silent, lossy, or gone: by relays, and by the kernel's firewall."""
import json
import os
import shutil
import signal
import subprocess
import time

from fault_kit import fault, monotonic, skip_unless, wait_a_moment
from fault_points import points, write_points
from fault_world import END_PATIENCE, LOOKS, PATIENCE, Failure
from harness import Skip

# ---- the network ----


@fault("F6", repeat=2)
def slow_link(world, rng, blows):
    """One worker's links carry 2 MB/s: everything is slower, no worker is evicted."""
    world.start(3, relay_data=True)
    mark = world.events.mark()
    world.data("w2").bytes_per_s = 2_000_000
    world.control("w2").bytes_per_s = 2_000_000
    world.steps(4, mark, workers=3)
    world.note_blame(mark)
    world.data("w2").bytes_per_s = world.control("w2").bytes_per_s = 0


@fault("F8", repeat=2)
def latency(world, rng, blows):
    """100 ms, give or take 50, on the links of every worker: none is evicted."""
    world.start(3, relay_data=True)
    mark = world.events.mark()
    for index in range(3):
        world.data(f"w{index}").delay_ms, world.data(f"w{index}").jitter_ms = 100, 50
    world.steps(4, mark, workers=3)
    world.note_blame(mark)
    for index in range(3):
        world.data(f"w{index}").heal()


@fault("F9", repeat=20)
def partition(world, rng, blows):
    """One worker is cut off from all others for 3 s: evicted, and back when the network is."""
    strike_with_silence(world, rng, blows, ("up", "down"))


@fault("F10", repeat=20)
def one_way_partition(world, rng, blows):
    """One worker's messages are lost in one direction or both, for 4 s."""
    strike_with_silence(world, rng, blows, None)


def strike_with_silence(world, rng, blows, directions):
    world.start(3, relay_data=True)
    for _ in range(blows):
        name = rng.choice(list(world.workers))
        silent = directions or (rng.choice(["up", "down"]),)
        mark = world.events.mark()
        wait_a_moment(rng)
        struck = monotonic()
        world.control(name).silence(*silent)
        # Bytes up to the coordinator's relay leave the relay before the worker.
        world.data(name).silence(*({"up": "down", "down": "up"}[way] for way in silent))
        line = world.expect("worker_lost", name, mark)
        world.record_recovery("partition" if directions else "one-way partition", struck, mark, line)
        world.heal_all()
        healed = monotonic()
        world.steps(1, workers=3)
        world.figures.add("partition healed: all take part again after ms", 1000 * (monotonic() - healed))
        world.note_blame(mark, {name})


@fault("F9", repeat=2, policies=("allreduce", "served"))
def cut_off_at_the_end(world, rng, blows):
    """One worker is cut off from everybody when the run ends, and for a moment longer: it hears of the end, and ends as the others do. So
    does one that is started after the end."""
    end_without(world, rng, lambda name: (world.control(name).silence(), world.data(name).silence()), lambda name: world.heal_all())


@fault("F4", repeat=2, policies=("allreduce", "served"))
def stopped_at_the_end(world, rng, blows):
    """The same with SIGSTOP and SIGCONT."""
    end_without(world, rng, lambda name: world.worker(name).signal(signal.SIGSTOP), lambda name: world.worker(name).signal(signal.SIGCONT))


def end_without(world, rng, strike, heal):
    world.start(3, relay_data=True)
    mark = world.events.mark()
    name = rng.choice(list(world.workers))
    strike(name)
    world.expect("worker_lost", name, mark)
    world.let_go()
    world.wait("the end of the run", lambda e: e.get("event") == "end", mark, END_PATIENCE)
    ended = monotonic()
    late = world.start_worker("late")  # while the launcher waits for the other one
    heard = late.wait(PATIENCE + LOOKS) == 0
    heal(name)
    healed = monotonic()
    in_time = healed - ended < 3  # of the launcher's 10 s; a worker tries again within 2 s, and for at most 4 s
    world.worker(name).wait(PATIENCE if in_time else PATIENCE + LOOKS)
    if not in_time:
        raise Skip(f"the machine is too slow: it took {healed - ended:.0f} s until the worker could be reached")
    if not heard:
        raise Failure(f"a worker that comes after the end does not hear of it: {late.said()}")
    if any(e.get("event") == "worker_unreached" for e in world.events.since(mark)):
        raise Failure(f"the launcher names {name} as unreached, which heard of the end")
    world.figures.add("cut off when the run ended: ends after ms", 1000 * (monotonic() - healed))


@fault("F11", repeat=20)
def flapping_link(world, rng, blows):
    """Every connection of one worker is reset once a second: it comes back each time, and no descriptor stays behind."""
    world.start(3, relay_data=True)
    for _ in range(blows):
        world.control("w1").reset()
        world.data("w1").reset()
        time.sleep(1)
    world.steps(1, workers=3)


@fault("F13", repeat=24)
def cut_at_a_byte(world, rng, blows):
    """A connection is cut after an arbitrary byte, to the coordinator or between workers, in either direction."""
    damage(world, rng, blows, lambda relay, way, at: relay.cut(way, after=at))


EXCHANGE_BYTES = 2400  # of a connection between two workers and each way: handshake, Link, the first chunks


@fault("F13", repeat=24, policies=("allreduce",))
def cut_at_every_byte(world, rng, blows):
    """The connection between two workers is cut after so many bytes of it, and the next one some bytes later, and so on: `--repeat 4800`
    cuts after each byte of the handshake and of a whole exchange, both ways."""
    write_points(world.folder, world.examples, rng)
    write_points(world.folder / "test", 64, rng)
    world.write_job(train=points(), test=points("test/"), hidden="", checkpoint="every_epochs = 1000")
    world.start(2, relay_data=True)
    stride = 2 * EXCHANGE_BYTES / blows
    relays = [world.data("w0"), world.data("w1")]  # usually who came later connects, sometimes the other
    for relay in relays:
        relay.reset()
    for blow in range(blows):
        at = min(2 * EXCHANGE_BYTES - 1, int(blow * stride + rng.random() * stride))
        way = ("up", "down")[at % 2]
        mark = world.events.mark()
        for relay in relays:
            relay.cut(way, after=relay.carried[way] + at // 2)
        world.poll(f"byte {at // 2} of the next connection passes {way}", lambda way=way: not all(relay.cut_is_due(way) for relay in relays))
        for relay in relays:
            relay.heal()
        if blow % 4 == 3:
            world.wait("a line about it", lambda e: e.get("event") in ("link_lost", "worker_lost"), mark)
            world.steps(1, workers=2)
            for relay in relays:
                relay.reset()


@fault("F29", repeat=12)
def flipped_bit(world, rng, blows):
    """One bit of what passes between two nodes is flipped: the connection is given up, and nothing of it is believed."""
    damage(world, rng, blows, lambda relay, way, at: relay.flip(way, at=at))


def damage(world, rng, blows, strike):
    world.start(3, relay_data=True)
    for _ in range(blows):
        name, way = rng.choice(list(world.workers)), rng.choice(["up", "down"])
        before = {relay: dict(relay.carried) for relay in [world.control(name)] + [world.data(n) for n in world.workers]}
        used = lambda: [relay for relay in before if relay.carried[way] > before[relay][way]]  # noqa: E731
        world.poll("bytes pass", used)
        time.sleep(0.1)
        relay = rng.choice(used())
        # Within the next exchanges: some frames of 40 to 100 bytes, or chunks of 100 KB together.
        at = relay.carried[way] + rng.randrange(200 if relay.to_coordinator else 200_000)
        mark = world.events.mark()
        strike(relay, way, at)
        world.poll("the byte passes", lambda: relay.carried[way] > at)
        world.wait("a line about it", lambda e: e.get("event") in ("link_lost", "worker_lost"), mark)
        world.steps(1, workers=3)


# ---- networks of the kernel's: names, links and firewalls of our own ----


class Net:
    """A bridge in a network namespace of its own, where the coordinator lives, and one namespace for each worker."""

    def __init__(self, workers):
        self.names = []
        skip_unless(os.geteuid() == 0 and shutil.which("ip") and shutil.which("nft"), "needs root, ip and nft")
        self.hub = self._add("hub")
        self._ip(self.hub, "link add br0 type bridge")
        self._ip(self.hub, "addr add 10.77.0.1/24 dev br0")
        self._ip(self.hub, "link set br0 up")
        self._ip(self.hub, "link set lo up")
        for index in range(workers):
            name = self._add(f"w{index}")
            self._ip(self.hub, f"link add v{index} type veth peer name eth0 netns {name}")
            self._ip(self.hub, f"link set v{index} master br0 up")
            self._ip(name, f"addr add 10.77.0.{index + 2}/24 dev eth0")
            self._ip(name, "link set eth0 up")
            self._ip(name, "link set lo up")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in reversed(self.names):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def _add(self, name):
        name = f"perigee-{os.getpid()}-{name}"
        done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
        skip_unless(done.returncode == 0, "network namespaces are not permitted: " + done.stderr.strip())
        self.names.append(name)
        return name

    def _ip(self, where, command):
        done = subprocess.run(["ip", "-n", where, *command.split()], capture_output=True, text=True)
        if done.returncode:
            self.__exit__()
            raise Skip(f"ip {command}: {done.stderr.strip()}")

    def inside(self, name):
        return ("ip", "netns", "exec", f"perigee-{os.getpid()}-{name}")

    def limit(self, index, mbit):
        """The connection of one worker carries so many megabits a second, each way."""
        for where, device in ((self.hub, f"v{index}"), (self.names[index + 1], "eth0")):
            self._hold(where, device, mbit)

    def free(self, index):
        """It carries what it can again."""
        for where, device in ((self.hub, f"v{index}"), (self.names[index + 1], "eth0")):
            subprocess.run(["tc", "-n", where, "qdisc", "del", "dev", device, "root"], check=True)

    def _hold(self, where, device, mbit):
        burst = max(16_000, mbit * 1_000_000 // 8 // 100)
        command = f"qdisc replace dev {device} root tbf rate {mbit}mbit burst {burst} latency 300ms"
        done = subprocess.run(["tc", "-n", where, *command.split()], capture_output=True, text=True)
        skip_unless(done.returncode == 0, f"tc {command}: {done.stderr.strip()}")

    def split(self, far, mbit):
        """These workers are at another site: what goes between the two passes one connection of so many megabits a second, each way."""
        self._ip(self.hub, "link add br1 type bridge")
        self._ip(self.hub, "link set br1 up")
        self._ip(self.hub, "link add x0 type veth peer name x1")
        for index in far:
            self._ip(self.hub, f"link set v{index} master br1")
        for end in (0, 1):
            self._ip(self.hub, f"link set x{end} master br{end} up")
            self._hold(self.hub, f"x{end}", mbit)

    def crossed(self):
        """Bytes that have gone between the sites, both ways, as the kernel counts them."""
        return self.sent("hub", "x0") + self.sent("hub", "x1")

    def sent(self, name, device="eth0"):
        """Bytes that have left through a device, as the kernel counts them."""
        command = ["ip", "-j", "-s", "-n", f"perigee-{os.getpid()}-{name}", "link", "show", device]
        shown = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(shown.stdout)[0]["stats64"]["tx"]["bytes"]

    def lose(self, name, percent):
        rules = "flush ruleset\n"
        if percent:
            rules += "table inet lossy {\n" + "".join(
                f"chain {hook} {{\ntype filter hook {hook} priority 0;\nnumgen random mod 100 < {percent} drop\n}}\n"
                for hook in ("input", "output")) + "}\n"
        done = subprocess.run([*self.inside(name), "nft", "-f", "-"], input=rules, capture_output=True, text=True)
        skip_unless(done.returncode == 0, "nft is not permitted: " + done.stderr.strip())

    def part(self, name, address):
        """Nothing passes any more between this one and that address."""
        rules = "table inet lossy {\n" + "".join(
            f"chain {hook} {{\ntype filter hook {hook} priority 0;\nip {end} {address} drop\n}}\n"
            for hook, end in (("input", "saddr"), ("output", "daddr"))) + "}\n"
        done = subprocess.run([*self.inside(name), "nft", "-f", "-"], input=rules, capture_output=True, text=True)
        skip_unless(done.returncode == 0, "nft is not permitted: " + done.stderr.strip())

    def link(self, name, state):
        subprocess.run(["ip", "-n", f"perigee-{os.getpid()}-{name}", "link", "set", "eth0", state], check=True)


def start_in(net, world, workers=3):
    """No relay holds this run up: it is long, and interrupted at the end."""
    world.write_job(epochs=200 * world.epochs)
    world.start_coordinator(host="10.77.0.1", prefix=net.inside("hub"))
    for index in range(workers):
        world.start_worker(f"w{index}", join=world.address, prefix=net.inside(f"w{index}"))
    world.steps(2, workers=workers)
    world.note_usage()


@fault("F6", repeat=1, policies=("periodic",))
def narrow_network(world, rng, blows):
    """2 Mbit/s for each worker, where a checkpoint is under way for five seconds: its sender is not taken for dead."""
    with Net(2) as net:
        for index in range(2):
            net.limit(index, 2)
        world.write_job(epochs=200, hidden='pg.dense { 128, activation = "relu" },', averaging='periodic { every = 16, codec = "int4" }',
                        checkpoint="every_epochs = 1")
        world.start_coordinator(host="10.77.0.1", prefix=net.inside("hub"))
        for index in range(2):
            world.start_worker(f"w{index}", join=world.address, prefix=net.inside(f"w{index}"))
        world.steps(1, workers=2)
        world.note_usage()
        world.wait("three epochs", lambda e: e.get("event") == "epoch" and e.get("epoch") == 3)
        lost = [e for e in world.events.since(0) if e.get("event") == "worker_lost"]
        world.figures.add("narrow network: evictions", len(lost))
        if len(lost) > 1:  # one, because the machine is busy, is permitted
            raise Failure(f"healthy workers were taken for lost: {lost[:3]}")
        world.interrupt()


@fault("F6", repeat=1, policies=("periodic",))
def stop_on_a_narrow_network(world, rng, blows):
    """2 Mbit/s for each worker: the run says that its policy does not fit and which would; asked to end, it says how long its last checkpoint
    takes, gives it up where it may not take so long, and waits where it may."""
    with Net(2) as net:
        for index in range(2):
            net.limit(index, 2)
        world.write_job(epochs=20_000, hidden='pg.dense { 400, activation = "relu" },', checkpoint="every_epochs = 10000",
                        averaging="periodic { every = 16, deadline_ms = 60000 }")
        for wait in ("3s", "3min"):
            again = world.coordinator is not None
            world.start_coordinator("--stop-wait", wait, resume=again, host="10.77.0.1", prefix=net.inside("hub"))
            for index in range(2):
                world.start_worker(f"w{index}", join=world.address, prefix=net.inside(f"w{index}")).expected = None
            mark = world.events.mark()
            world.steps(2, mark, workers=2)
            asked = monotonic()
            world.coordinator.signal(signal.SIGTERM)
            code, said = world.coordinator.wait(240), world.coordinator.stderr()
            world.figures.add(f"narrow network, --stop-wait {wait}: from SIGTERM to the end ms", 1000 * (monotonic() - asked))
            end = [e for e in world.events.since(mark) if e.get("event") == "end"]
            written = "no checkpoint was written" not in said and end and end[0].get("checkpoint")
            lost = [e for e in world.events.since(mark) if e.get("event") == "worker_lost"]
            if code != 128 + signal.SIGTERM or bool(written) != (wait == "3min") or len(lost) > 1 or "needs about" not in said:
                raise Failure(f"--stop-wait {wait}: ended with {code}: {end}, lost {lost[:2]}: {said[-1500:]}")
            if not again and not ("does not fit the link" in said and "pg.averaging." in said):
                raise Failure(f"it does not say that the policy does not fit: {said[-1500:]}")
            if again and said.find("does not fit the link") > 200:
                raise Failure(f"it knows before it begins that the policy does not fit, and does not say so: {said[-1500:]}")
            for child in world.children:
                child.close()
            world.children.clear()
        world.finished = True


@fault("F7", repeat=3, policies=("allreduce",))
def packet_loss(world, rng, blows):
    """1, 5, then 20 % of all packets of one worker are lost, both ways: slower, but right."""
    with Net(3) as net:
        start_in(net, world)
        for percent in (1, 5, 20):
            mark = world.events.mark()
            net.lose("w1", percent)
            world.steps(2, mark)
            world.figures.add(f"{percent} % loss: evictions", sum(e["event"] == "worker_lost" for e in world.faults(mark)))
            net.lose("w1", 0)
            world.steps(1, workers=3)
        world.interrupt()


@fault("F12", repeat=20, policies=("allreduce",))
def half_open(world, rng, blows):
    """A worker's network goes away without a word, and the worker is killed: the connection stays half open and is given up."""
    with Net(3) as net:
        start_in(net, world)
        for _ in range(blows):
            name = rng.choice(list(world.workers))
            mark = world.events.mark()
            wait_a_moment(rng)
            struck = monotonic()
            net.link(name, "down")
            world.worker(name).kill()
            line = world.expect("worker_lost", name, mark)
            world.record_recovery("half-open connection", struck, mark, line)
            net.link(name, "up")
            world.start_worker(name, join=world.address, prefix=net.inside(name))
            world.steps(1, workers=3)
        world.interrupt()


@fault("F12", repeat=3, policies=("allreduce",))
def half_open_between_workers(world, rng, blows):
    """Two workers stop hearing each other without a word, while the coordinator hears both: the link has no heartbeat and is
    closed, the same workers form again, and when no new link comes up one of the two has to go."""
    with Net(3) as net:
        start_in(net, world)
        for _ in range(blows):
            one, other = rng.sample(range(3), 2)
            wait_a_moment(rng)
            mark, struck = world.events.mark(), monotonic()
            net.part(f"w{one}", f"10.77.0.{other + 2}")
            line = world.wait("the line about the link", lambda e, struck=struck: e.get("event") in ("link_lost", "worker_lost")
                              and e["monotonic_s"] > struck, mark)
            world.record_recovery("half-open connection between workers", struck, mark, line)
            net.lose(f"w{one}", 0)
            world.steps(1, workers=3)
            world.note_blame(mark, {f"w{one}", f"w{other}"})
        world.interrupt()
