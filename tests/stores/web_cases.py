"""https:// (by http://) and sftp://, and everything of the program that takes a path."""
import json
import pathlib

from kit import ROOT, Tool, digest, environment, one, perigee, random_bytes, says, test
from servers import FaultProxy, Web


@test
def web_calls(world):
    """With ranges and without; what cannot be done says so."""
    content = random_bytes(9_000_000, 8)
    folder = world.folder / "web"
    folder.mkdir(exist_ok=True)
    (folder / "a b.bin").write_bytes(content)
    (folder / "empty").write_bytes(b"")
    for ranges in (True, False):
        server = Web(folder, ranges)
        try:
            env = environment(world.folder, PERIGEE_STORE_CACHE_MB="0")
            with Tool(env) as tool:
                url = server.url + "/a b.bin"
                assert tool("read", url) == {"size": len(content), "sha256": digest(content)}, ranges
                assert tool("range", url, 4_000_000, 500_000)["sha256"] == digest(content[4_000_000:4_500_000]), ranges
                assert tool("read", server.url + "/empty")["size"] == 0
                assert tool("stat", server.url + "/nothing")["kind"] == 0
                says(tool("read", server.url + "/nothing"), "there is no such file in the store")
                says(tool("list", server.url + "/"), "cannot be listed", "s3://")
                says(tool("put", server.url + "/x", folder / "empty"), "can only be read")
        finally:
            server.stop()
    proxy = FaultProxy("http://127.0.0.1:9")
    try:
        proxy.fault = lambda *_: ("status", 403, "")
        says(one(environment(world.folder), "stat", proxy.url + "/x"), "access is denied", "user:password")
    finally:
        proxy.stop()


@test
def sftp_calls(world):
    """OpenSSH's own server. A file appears whole, and is not replaced when it must be absent."""
    server = world.sshd
    content = random_bytes(9_000_000, 9)
    with Tool(environment(world.folder, **server.env)) as tool:
        root = server.url + str(server.root)
        url = root + "/sub/a \"b\".bin"
        assert tool("stat", url)["kind"] == 0
        assert tool("put", url, world.file("sftp", content)) == {"written": True}
        assert (server.root / "sub" / 'a "b".bin').read_bytes() == content
        assert tool("stat", url)["size"] == len(content)
        assert tool("stat", root + "/sub")["kind"] == 2
        assert tool("read", url) == {"size": len(content), "sha256": digest(content)}
        assert tool("range", url, 4_000_000, 500_000)["sha256"] == digest(content[4_000_000:4_500_000])
        assert "sub/" in tool("list", root)["entries"]
        assert tool("put", url, world.file("small", b"small"), "absent") == {"written": False}
        assert tool("put", url, world.file("small", b"small")) == {"written": True}
        assert tool("read", url)["size"] == 5
        assert [p.name for p in (server.root / "sub").iterdir()] == ['a "b".bin']  # no temporary is left
        tool("remove", url)
        assert tool("stat", url)["kind"] == 0
    unknown = world.file("known_hosts_of_others", b"")
    says(one(environment(world.folder, **{**server.env, "PERIGEE_SSH_KNOWN_HOSTS": str(unknown)}), "stat", url), "the server's key", "ssh-keyscan")
    stranger = server.new_key("stranger")
    says(one(environment(world.folder, **{**server.env, "PERIGEE_SSH_KEY": str(stranger)}), "stat", url), "does not let this user in", "sftp")
