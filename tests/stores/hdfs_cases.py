"""hdfs:// by WebHDFS, with a real NameNode and two DataNodes."""
import itertools
import json
import threading
import time
import urllib.request

from kit import Tool, at_most, digest, environment, one, random_bytes, says, test
from servers import FaultProxy


@test
def hdfs_calls(world):
    """Each call, with a file of several blocks."""
    server = world.hdfs
    content = random_bytes(9_000_000, 10)
    env = environment(world.folder, PERIGEE_STORE_CACHE_MB="0", **server.env)
    with Tool(env) as tool:
        url = server.url + "/calls/a b=c/é.bin"
        assert tool("stat", url)["kind"] == 0
        answer = tool("put", url, world.file("hdfs", content))
        assert answer == {"written": True}, answer
        there = tool("stat", url)
        assert there["size"] == len(content), there
        assert tool("stat", server.url + "/calls")["kind"] == 2
        assert tool("read", url) == {"size": len(content), "sha256": digest(content)}
        assert tool("range", url, 4_000_000, 500_000)["sha256"] == digest(content[4_000_000:4_500_000])
        assert tool("list", server.url + "/calls/a b=c") == {"entries": [f"é.bin:{len(content)}"]}  # no temporary is left
        assert tool("put", url, world.file("hdfs2", b"small"), "absent") == {"written": False}
        assert tool("put", url, world.file("hdfs2", b"small"), "=another") == {"written": False}
        assert tool("read", url)["size"] == len(content)
        assert tool("put", url, world.file("hdfs2", b"small")) == {"written": True}
        assert tool("read", url)["size"] == 5
        # A folder of the name: a plain rename would move the file into it.
        assert tool("put", server.url + "/calls/folder/x", world.file("hdfs2", b"small")) == {"written": True}
        assert tool("put", server.url + "/calls/folder", world.file("hdfs2", b"small"), "absent") == {"written": False}
        assert tool("list", server.url + "/calls/folder") == {"entries": ["x:5"]}
        tool("remove", url)
        assert tool("stat", url)["kind"] == 0
        says(tool("read", url), "there is no such file in the store")
        tool("put", server.url + "/empty", world.file("hdfs3", b""))
        assert tool("read", server.url + "/empty")["size"] == 0
        # Names that this DataNode decodes twice, or breaks.
        for name, size in itertools.product(("a+b/é+x.bin", "100%25/%41 %.bin", "q?x;y/#&=.bin", "日本/語+.bin"), (5, 5_000_000)):
            odd, content = f"{server.url}/odd/{name}", random_bytes(size, size)
            assert tool("put", odd, world.file("odd", content)) == {"written": True}, name
            assert tool("read", odd) == {"size": size, "sha256": digest(content)}, name
            assert tool("put", odd, world.file("odd", content), "absent") == {"written": False}, name
            assert tool("list", odd.rsplit("/", 1)[0]) == {"entries": [f"{name.split('/')[1]}:{size}"]}, name
        assert [entry.endswith("/") for entry in tool("list", server.url + "/odd")["entries"]] == [True] * 4, tool("list", server.url + "/odd")
    says(one({**env, "HADOOP_USER_NAME": "stranger"}, "put", server.url + "/theirs", world.file("x", b"x")), "access is denied to the user 'stranger'",
         "HADOOP_USER_NAME")
    with at_most(15):
        says(one({**env, "PERIGEE_STORE_TRIES": "2"}, "stat", f"hdfs://127.0.0.1:{server.rpc}/x"), f"127.0.0.1:{server.rpc}/x",
             "does not speak WebHDFS", "PERIGEE_WEBHDFS")


@test
def hdfs_faults(world):
    """Before the NameNode: safe mode that ends, Kerberos, answers that are none."""
    server = world.hdfs
    proxy = FaultProxy(f"http://127.0.0.1:{server.port}")
    env = environment(world.folder, PERIGEE_STORE_CACHE_MB="0", PERIGEE_STORE_TRIES="3", PERIGEE_WEBHDFS=proxy.url, **server.env)
    exception = lambda name: f'{{"RemoteException": {{"exception": "{name}", "message": "it says so\\n at java"}}}}'
    try:
        with Tool(env) as tool:
            proxy.first(1, ("status", 403, exception("SafeModeException")))
            assert tool("put", "hdfs://namenode/faults", world.file("f", b"faults")) == {"written": True}
            proxy.first(1, "lost", lambda method, path: "op=RENAME" in path)
            answer = tool("put", "hdfs://namenode/lost", world.file("f", b"once"), "absent")
            assert answer == {"written": True}, answer
            for answer, *texts in ((("status", 403, exception("SafeModeException")), "refuses the request", "SafeModeException: it says so", "dfsadmin"),
                                   (("status", 403, exception("StandbyException")), "refuses the request", "it is on standby: name both"),
                                   (("status", 401, ""), "asks for Kerberos", "PERIGEE_HDFS_TOKEN"),
                                   (("status", 200, "<html>"), "is no JSON", "WebHDFS"), (("status", 200, "{}"), "HTTP status 200"),
                                   (("status", 500, ""), "answers with an error, 3 times")):
                proxy.fault = lambda *_, answer=answer: answer
                says(tool("list", "hdfs://namenode/"), *texts)
    finally:
        proxy.stop()


@test
def hdfs_neighbours(world):
    """As of S3: from the second file of a folder on a listing tells of all. Hadoop 2.7 lists whole folders; pages are as Hadoop's documentation has
    them, made by the proxy of the whole listing."""
    server = world.hdfs
    proxy = FaultProxy(f"http://127.0.0.1:{server.port}")
    env = environment(world.folder, PERIGEE_WEBHDFS=proxy.url, XDG_CACHE_HOME=str(world.folder / "hdfs-cache"), **server.env)
    files = {f"{i:02}.bin": random_bytes(1000, i) for i in range(12)}
    try:
        with Tool(env) as tool:
            for name, content in files.items():
                assert tool("put", f"hdfs://namenode/near/{name}", world.file("one", content)) == {"written": True}

        def read_all():
            proxy.seen.clear()
            with Tool(env) as tool:
                for name, content in files.items():
                    assert tool("read", f"hdfs://namenode/near/{name}")["sha256"] == digest(content), name
            return [path.split("op=")[1].split("&")[0] for _, path in proxy.seen]

        one_listing = ["GETFILESTATUS", "LISTSTATUS_BATCH", "LISTSTATUS"]
        assert read_all() == ["GETFILESTATUS", "OPEN", *one_listing[1:], *["OPEN"] * 11]
        assert read_all() == one_listing, "all in the cache"
        files["05.bin"] = random_bytes(1000, 77)
        with Tool(env) as tool:
            tool("put", "hdfs://namenode/near/05.bin", world.file("one", files["05.bin"]))
        assert read_all() == [*one_listing, "OPEN"], "another version, which the listing tells"
        denied = ("status", 403, '{"RemoteException": {"exception": "AccessControlException", "message": "no"}}')
        proxy.fault = lambda method, path, headers: denied if "op=LISTSTATUS" in path else None
        assert read_all() == [*one_listing[:2], *["GETFILESTATUS"] * 11], "asked for a listing once"
        whole = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{server.port}/webhdfs/v1/near?op=LISTSTATUS&user.name={env['HADOOP_USER_NAME']}").read())

        def page(method, path, headers):
            if "op=LISTSTATUS_BATCH" not in path:
                return None
            after = path.split("startAfter=")[1].split("&")[0]
            rest = [each for each in whole["FileStatuses"]["FileStatus"] if each["pathSuffix"] > after]
            return "status", 200, json.dumps({"DirectoryListing": {"partialListing": {"FileStatuses": {"FileStatus": rest[:8]}},
                                                                   "remainingEntries": len(rest[8:])}})

        proxy.fault = page
        with Tool(env) as tool:  # one folder that may not be listed, or is away, says nothing of the others
            for name, content in files.items():
                assert tool("put", f"hdfs://namenode/far/{name}", world.file("one", content)) == {"written": True}
        for answer in (denied, ("status", 404, '{"RemoteException": {"exception": "FileNotFoundException", "message": "no"}}'), ("status", 503, "")):
            proxy.fault = lambda method, path, headers, answer=answer: answer if "/far?op=LISTSTATUS" in path or "/far/?op=LISTSTATUS" in path else page(method, path, headers)
            proxy.seen.clear()
            with Tool(env) as tool:
                for name in files:
                    tool("read", f"hdfs://namenode/far/{name}")
                asked = sum("LISTSTATUS" in path for _, path in proxy.seen)
                assert asked > 1 if answer[1] == 503 else asked == 1, (answer, proxy.seen)
                proxy.seen.clear()
                for name in files:
                    tool("read", f"hdfs://namenode/near/{name}")
            assert [path.split("op=")[1].split("&")[0] for _, path in proxy.seen] == ["GETFILESTATUS", "LISTSTATUS_BATCH", "LISTSTATUS_BATCH"], (answer, proxy.seen)
        proxy.fault = page
        assert read_all() == ["GETFILESTATUS", "LISTSTATUS_BATCH", "LISTSTATUS_BATCH"], "two pages of eight"
    finally:
        proxy.stop()


@test
def hdfs_without_a_data_node(world):
    """A DataNode is killed while files are read, and while they are written: nothing is lost."""
    server = world.hdfs
    content = random_bytes(24 << 20, 11)
    file = world.file("hdfs-large", content)
    env = environment(world.folder, PERIGEE_STORE_CACHE_MB="0", PERIGEE_STORE_STALL_S="3", PERIGEE_STORE_TRIES="10", **server.env)
    with Tool(env) as tool:
        assert tool("put", server.url + "/kept", file) == {"written": True}
        time.sleep(3)  # until both have it
        for call, check in ((("read", server.url + "/kept"), {"size": len(content), "sha256": digest(content)}),
                            (("put", server.url + "/written", file), {"written": True})):
            killer = threading.Timer(0.05, server.data_nodes[1].stop)
            killer.start()
            with at_most(120):
                answer = tool(*call)
            killer.join()
            assert answer == check, answer
            server.data_nodes[1] = server.begin_data_node(1)
            time.sleep(6)
        assert tool("read", server.url + "/written")["sha256"] == digest(content)


@test
def hdfs_with_two_name_nodes(world):
    """The one on standby, or that is away, gives way to the other; also while files are read."""
    server = world.hdfs
    standby, active = FaultProxy(f"http://127.0.0.1:{server.port}"), FaultProxy(f"http://127.0.0.1:{server.port}")
    says_so = ("status", 403, '{"RemoteException": {"exception": "StandbyException", "message": "Operation category READ is not supported"}}')
    standby.fault = lambda *_: says_so
    content = random_bytes(9_000_000, 31)
    base = environment(world.folder, PERIGEE_STORE_CACHE_MB="0", PERIGEE_STORE_TRIES="4", **server.env)
    try:
        for number, addresses in enumerate((f"{standby.url},{active.url}", f"http://127.0.0.1:9,{active.url}/", f"{active.url},{standby.url}")):
            url = f"hdfs://cluster/two/{number}.bin"
            with Tool({**base, "PERIGEE_WEBHDFS": addresses}) as tool:
                assert tool("put", url, world.file("two", content)) == {"written": True}, addresses
                assert tool("range", url, 10, 1000)["sha256"] == digest(content[10:1010]), addresses
                if number == 2:  # they change places
                    standby.fault, active.fault = active.fault, standby.fault
                assert tool("read", url) == {"size": len(content), "sha256": digest(content)}, addresses
                assert tool("list", "hdfs://cluster/two")["entries"][number] == f"{number}.bin:{len(content)}"
        url = f"webhdfs://127.0.0.1:9,127.0.0.1:{server.port}/two/0.bin"
        assert one(base, "read", url)["sha256"] == digest(content)
        says(one(base, "read", "hdfs://no-such-service.invalid/x"), "no machine has the name of this NameNode", "PERIGEE_WEBHDFS=http://first:9870")
        says(one(base, "stat", "hdfs://,/x"), "names no NameNode")
        away = ("status", 307, "", {"Location": "http://no-such-node.invalid:9864/webhdfs/v1/two/0.bin?op=OPEN"})
        standby.fault = lambda method, path, headers: away if "op=OPEN" in path else None
        says(one({**base, "PERIGEE_WEBHDFS": standby.url, "PERIGEE_STORE_TRIES": "1"}, "read", "hdfs://cluster/two/0.bin"),
             "the NameNode names a DataNode that this machine does not find", "/etc/hosts")
    finally:
        standby.stop()
        active.stop()


@test
def hdfs_changed_between_two_reads(world):
    """WebHDFS has no condition for a reading: the NameNode is asked again before a part counts, or is kept for other processes."""
    server, url = world.hdfs, world.hdfs.url + "/changing"
    first, second = random_bytes(9_000_000, 23), random_bytes(9_000_000, 24)
    env = environment(world.folder, XDG_CACHE_HOME=str(world.folder / "changing-cache"), **server.env)
    with Tool(env) as tool, Tool(env) as other:
        tool("put", url, world.file("first", first))
        for each in (tool, other):
            assert each("range", url, 10, 1000)["sha256"] == digest(first[10:1010])
        one(env, "put", url, world.file("second", second))
        for each in (tool, other):
            says(each("range", url, 8_500_000, 1000), "the file was changed while it was in use")
        for each in (tool, other):
            assert each("range", url, 8_500_000, 1000)["sha256"] == digest(second[8_500_000:8_501_000]), "it can be read again"


@test
def hdfs_changed_within_a_read(world):
    """Of a whole file: between its requests, and into a longer one of which the beginning would be taken for the whole. The question behind a
    reading is one, not one for each block."""
    server = world.hdfs
    proxy = FaultProxy(f"http://127.0.0.1:{server.port}")
    env = environment(world.folder, PERIGEE_STORE_CACHE_MB="0", PERIGEE_WEBHDFS=proxy.url, **server.env)
    direct = {**env, "PERIGEE_WEBHDFS": f"http://127.0.0.1:{server.port}"}
    large, lock, replaced = [world.file(f"large{i}", random_bytes(36 << 20, 60 + i)) for i in range(2)], threading.Lock(), []
    try:
        one(direct, "put", "hdfs://namenode/within", large[0])

        def replace(method, path, headers):
            if "op=OPEN" in path and "offset=0&" not in path:
                with lock:
                    if not replaced:
                        replaced.append(one(direct, "put", "hdfs://namenode/within", large[1]))

        proxy.fault = replace
        says(one(env, "read", "hdfs://namenode/within"), "the file was changed while it was in use")
        assert replaced == [{"written": True}], replaced
        proxy.fault = lambda *_: None
        for size, longer in ((1000, 300_000), (1000, 1001), (9_000_000, 9_500_000), (9_000_000, 9_000_000)):
            with Tool(env) as tool:
                tool("put", "hdfs://namenode/grown", world.file("grown", random_bytes(size, 62)))
                assert tool("read", "hdfs://namenode/grown")["size"] == size
                one(direct, "put", "hdfs://namenode/grown", world.file("grown", random_bytes(longer, 63)))
                says(tool("read", "hdfs://namenode/grown"), "the file was changed while it was in use")
                assert tool("read", "hdfs://namenode/grown")["sha256"] == digest(random_bytes(longer, 63)), "it can be read again"
        proxy.seen.clear()
        content = large[1].read_bytes()
        assert one(env, "range", "hdfs://namenode/within", 5_000_000, 12_000_000)["sha256"] == digest(content[5_000_000:17_000_000])
        assert [path.split("op=")[1].split("&")[0] for _, path in proxy.seen] == ["GETFILESTATUS", "OPEN", "GETFILESTATUS"], proxy.seen
    finally:
        proxy.stop()
