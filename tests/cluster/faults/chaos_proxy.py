"""A TCP relay that misbehaves on request: delay, jitter, bandwidth, cuts at a byte, silence in one direction, resets, flipped bits.

The kernel's netem is not everywhere, and it cannot cut a connection at a given byte. Used in-process by the fault tests:

    with ChaosProxy() as proxy:
        proxy.target = ("127.0.0.1", port)      # may be set after the proxy's own address was handed out
        proxy.delay_ms, proxy.jitter_ms = 100, 50
        proxy.cut("up", after=1234)             # the connection that carries the 1234th byte is closed after it
        proxy.silence("down")                   # bytes are accepted and go nowhere: a one-way partition
        proxy.heal()

"up" is from the one who connects to the target, "down" the way back.
"""
import asyncio
import random
import socket
import struct
import threading

CHUNK = 16 * 1024
HOST = "127.0.0.2"  # another one than the nodes': to them the other end is on another machine, so no bytes pass it by in shared memory
QUEUED = 4 << 20  # bytes in flight of one direction, as a long fat pipe would hold


class ChaosProxy:
    def __init__(self, target=None, seed=1):
        self.target = target
        self.delay_ms = self.jitter_ms = 0.0
        self.bytes_per_s = 0  # 0: unlimited
        self.carried = {"up": 0, "down": 0}
        self.connections = 0
        self._random = random.Random(seed)
        self._cut = {}
        self._flip = {}
        self._silent = set()
        self._refuse = False
        self._writers = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-proxy", daemon=True)

    # ---- what tests call, from any thread ----

    def __enter__(self):
        self._thread.start()
        if not self._ready.wait(20):
            raise TimeoutError("the proxy did not start")
        return self

    def __exit__(self, *_):
        self._call(self._shutdown)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)

    def cut(self, direction, after):
        """Closes the connection that carries byte `after` (counted over all connections) of that direction; the byte still passes."""
        self._cut[direction] = after

    def cut_is_due(self, direction):
        """False: the byte has passed, and its connection is closed."""
        return direction in self._cut

    def flip(self, direction, at):
        self._flip[direction] = at

    def silence(self, *directions):
        self._silent.update(directions or ("up", "down"))

    def refuse(self, on=True):
        """New connections are closed at once."""
        self._refuse = on

    def reset(self):
        """Every connection ends with RST."""
        self._call(self._reset)

    def heal(self):
        self._silent.clear()
        self._cut.clear()
        self._flip.clear()
        self._refuse = False
        self.delay_ms = self.jitter_ms = 0.0
        self.bytes_per_s = 0

    # ---- the proxy's own thread ----

    def _call(self, function):
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (function(), done.set()))
        done.wait(20)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, HOST, 0))
        self.port = server.sockets[0].getsockname()[1]
        self.address = f"{HOST}:{self.port}"
        self._ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    def _reset(self):
        for writer in list(self._writers):
            sock = writer.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def _shutdown(self):
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader, writer):
        self.connections += 1
        if self._refuse or self.target is None:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target, local_addr=(HOST, 0))
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, far_writer)
        self._writers.update(pair)
        try:
            await asyncio.gather(self._carry(reader, far_writer, "up", pair), self._carry(far_reader, writer, "down", pair))
        except asyncio.CancelledError:
            pass  # the proxy ends
        finally:
            for end in pair:
                end.transport.abort()
            self._writers.difference_update(pair)

    async def _carry(self, reader, writer, direction, pair):
        """Reads into a queue of (due time, bytes) that a second task sends, so that a delay is no limit to the bandwidth."""
        queue, room = asyncio.Queue(), asyncio.Semaphore(QUEUED // CHUNK)

        async def send():
            free = 0.0
            while True:
                due, data = await queue.get()
                now = self._loop.time()
                if self.bytes_per_s:
                    free = max(free, now) + len(data) / self.bytes_per_s
                    due = max(due, free)
                if due > now:
                    await asyncio.sleep(due - now)
                room.release()
                if not data:
                    writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()

        sender = asyncio.ensure_future(send())
        try:
            last = 0.0
            while True:
                data = await reader.read(CHUNK)
                if data and direction in self._silent:
                    continue
                data, cut = self._damage(data, direction)
                due = self._loop.time() + (self.delay_ms + self._random.uniform(-1, 1) * self.jitter_ms) / 1000
                last = max(last, due)  # one connection keeps its order
                await room.acquire()
                queue.put_nowait((last, data))
                if cut:
                    await asyncio.sleep(max(0.0, last - self._loop.time()) + 0.005)
                    for end in pair:
                        end.transport.abort()
                    return
                if not data:
                    await sender
                    return
        except (ConnectionError, OSError):
            for end in pair:
                end.transport.abort()
        finally:
            sender.cancel()

    def _damage(self, data, direction):
        begin = self.carried[direction]
        self.carried[direction] += len(data)
        flip, cut = self._flip.get(direction), self._cut.get(direction)
        # A byte that passed before it could be chosen: then the next one, so that no damage is missed.
        if flip is not None and data and flip < begin + len(data):
            del self._flip[direction]
            data = bytearray(data)
            data[max(0, flip - begin)] ^= 0x10
            data = bytes(data)
        if cut is not None and cut < begin + len(data):
            del self._cut[direction]
            return data[: max(0, cut - begin) + 1], True
        return data, False
