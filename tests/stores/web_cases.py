"""https:// (by http://) and sftp://, and everything of the program that takes a path."""
import contextlib
import json
import pathlib
import random
import re
import socket
import ssl
import threading

from kit import ROOT, Tool, digest, environment, one, perigee, random_bytes, says, test
from servers import FaultProxy, Web, call


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
def web_answers_without_a_size(world):
    """HTTP/1.0 to the end of the connection: how much there is shows only then."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while client := server.accept()[0]:
                with client:
                    client.recv(65536)
                    client.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nabc")

    threading.Thread(target=serve, daemon=True).start()
    url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
    says(one(environment(world.folder, PERIGEE_STORE_CACHE_MB="0"), "read", url), url, "the server does not say how large the file is", "download it first")
    server.close()


@test
def webhdfs_that_is_none(world):
    """Another web server where a NameNode should be: what it says is no JSON."""
    proxy = FaultProxy("http://127.0.0.1:9")
    try:
        proxy.fault = lambda *_: ("status", 200, "<html>hello</html>")
        address = proxy.url.removeprefix("http://")
        says(one(environment(world.folder, PERIGEE_WEBHDFS=proxy.url), "stat", f"hdfs://{address}/x"), "the NameNode's answer is no JSON",
             "is the address that of WebHDFS? " + proxy.url)
    finally:
        proxy.stop()


@test
def blocks_of_a_broken_answer(world):
    """What came whole before a connection broke is in the cache: the next reader asks for the rest alone. An answer that is not the part
    which was asked for leaves nothing there."""
    content = random_bytes(20_000_000, 10)
    folder = world.folder / "broken"
    folder.mkdir(exist_ok=True)
    (folder / "large.bin").write_bytes(content)
    server = Web(folder, True)
    proxy = FaultProxy(server.url)
    cache = world.folder / "broken_cache"
    env = environment(world.folder, XDG_CACHE_HOME=str(cache), PERIGEE_STORE_TRIES="1")
    url, asked = proxy.url + "/large.bin", []

    def listen(fault):
        proxy.fault = lambda method, path, headers: asked.append(headers.get("Range")) or (fault if headers.get("Range") != "bytes=0-0" else None)

    try:
        version = {"ETag": f'"{(folder / "large.bin").stat().st_mtime_ns}"'}
        listen(("status", 200, "x" * (20_000_000 - 1), version))
        says(one(env, "read", url), "too few bytes")
        assert not list(cache.rglob("blocks/*/*")), "blocks of another answer"
        listen("short")
        says(one(env, "read", url), "the store cannot be reached")
        assert len(list(cache.rglob("blocks/*/*"))) == 2
        listen(None)
        asked.clear()
        assert one(env, "read", url) == {"size": len(content), "sha256": digest(content)}
        assert asked == ["bytes=0-0", f"bytes={8 << 20}-19999999"], asked
    finally:
        proxy.stop()
        server.stop()


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
        says(tool("read", root + "/sub"), "/sub: is a folder of the store; expected a file")
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


@test
def sftp_changed_between_two_reads(world):
    """Its answers tell no version: the folder is listed again before a part counts, or is kept for other processes."""
    server = world.sshd
    first, second = random_bytes(9_000_000, 43), random_bytes(9_500_000, 44)
    env = environment(world.folder, XDG_CACHE_HOME=str(world.folder / "sftp-changing"), **server.env)
    file = server.root / "changing.bin"
    url = server.url + str(file)
    file.write_bytes(first)
    with Tool(env) as tool, Tool(env) as other:
        for each in (tool, other):
            assert each("range", url, 10, 1000)["sha256"] == digest(first[10:1010])
        world.file("changed", second).replace(file)
        for each in (tool, other):
            says(each("range", url, 5_000_000, 1000), "the file was changed while it was in use")
            assert each("range", url, 5_000_000, 1000)["sha256"] == digest(second[5_000_000:5_001_000]), "it can be read again"
        file.write_bytes(b"short")
        assert other("stat", url)["size"] == 5
        file.write_bytes(b"longer")
        says(other("read", url), "the file was changed while it was in use")


@test
def words_of_a_stored_text(world):
    """The text is read piece by piece, more than once, and pages that were read are dropped: the vectors are those of the local file, whether its
    blocks come from the server or from the cache."""
    folder = world.folder / "texts"
    folder.mkdir()
    draw = random.Random(5)
    names = [f"w{i}" for i in range(200)]
    (folder / "text.txt").write_text("\n".join(" ".join(draw.choices(names, k=20)) for _ in range(60_000)))
    server = Web(folder, True)
    env = environment(world.folder, XDG_CACHE_HOME=str(world.folder / "texts-cache"))
    try:
        vectors = []
        for name, text in (("local", folder / "text.txt"), ("there", server.url + "/text.txt"), ("kept", server.url + "/text.txt")):
            out = world.folder / f"{name}.bin"
            status, output = perigee(env, "vectors", "train", text, "--size", 8, "--epochs", 2, "--threads", 1, "--out", out)
            assert status == 0, output
            vectors.append(out.read_bytes())
        assert vectors[0] == vectors[1], "other vectors while the text comes"
        assert vectors[0] == vectors[2], "other vectors from the cache"
    finally:
        server.stop()


@test
def web_parts_that_are_others(world):
    """A server that does not look at If-Match, sends another part, or all of it: an error, and no mixture in the cache."""
    folder = world.folder / "others"
    folder.mkdir()
    first, second = random_bytes(9_000_000, 41), random_bytes(9_000_000, 42)
    (folder / "x.bin").write_bytes(first)
    server = Web(folder, True)
    proxy = FaultProxy(server.url)
    env = environment(world.folder, XDG_CACHE_HOME=str(world.folder / "others_cache"))
    try:
        with Tool(env) as tool:
            assert tool("range", proxy.url + "/x.bin", 10, 1000)["sha256"] == digest(first[10:1010])
            (folder / "x.bin").write_bytes(second)
            says(tool("range", proxy.url + "/x.bin", 8_500_000, 1000), "the file was changed while it was in use")
            assert tool("range", proxy.url + "/x.bin", 8_500_000, 1000)["sha256"] == digest(second[8_500_000:8_501_000])
        for answer, *texts in ((("status", 200, "z" * 9_000_000), "sends another part of the file than was asked for", "the whole file", "no_proxy=127.0.0.1"),
                               (("status", 206, "z" * 4_194_304, {"Content-Range": "bytes 0-4194303/9000000"}), "sends another part", "bytes 0-4194303/9000000"),
                               (("status", 206, "z" * 4_194_304), "sends another part", "a part without its place"),
                               (("status", 206, "z" * 4_194_304, {"Content-Range": "bytes 4194304-8388607/9000001"}), "was changed while it was in use")):
            proxy.fault = lambda method, path, headers, answer=answer: answer if headers.get("Range") != "bytes=0-0" else None
            says(one({**env, "XDG_CACHE_HOME": str(world.folder / "none")}, "range", proxy.url + "/x.bin", 5_000_000, 10), *texts)
        assert not list((world.folder / "none").rglob("blocks/*/*")), "blocks of another answer"
    finally:
        proxy.stop()
        server.stop()


@test
def web_dates_that_are_others(world):
    """A server without tags, or with weak ones, that does not look at If-Unmodified-Since: its date tells."""
    date = lambda day: f"Sun, {day:02} Nov 2026 10:00:00 GMT"
    for number, tag in enumerate(({}, {"ETag": 'W/"1"'})):
        day, proxy = [1], FaultProxy("http://127.0.0.1:9")

        def answer(method, path, headers, tag=tag, day=day):
            begin, end = (int(x) for x in headers["Range"].split("=")[1].split("-"))
            return "status", 206, str(day[0]) * (end - begin + 1), {"Content-Range": f"bytes {begin}-{end}/9000000", "Last-Modified": date(day[0]), **tag}

        proxy.fault = answer
        try:
            with Tool(environment(world.folder, XDG_CACHE_HOME=str(world.folder / f"dates{number}"))) as tool:
                assert tool("range", proxy.url + "/x", 10, 10)["sha256"] == digest(b"1" * 10), tag
                day[0] = 2
                says(tool("range", proxy.url + "/x", 8_500_000, 10), "the file was changed while it was in use")
                assert tool("range", proxy.url + "/x", 10, 10)["sha256"] == digest(b"2" * 10), tag
        finally:
            proxy.stop()


@test
def web_answers_in_chunks(world):
    """Without a length: how much there is shows only at the end."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while client := server.accept()[0]:
                with client:
                    client.recv(65536)
                    client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")

    threading.Thread(target=serve, daemon=True).start()
    url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
    says(one(environment(world.folder), "read", url), url, "the server does not say how large the file is", "download it first")
    server.close()


def certificate(world, name, host, *dates):
    """Of an authority that is the test's own: (certificate, key), and the authority's file."""
    place = world.folder / "tls"
    place.mkdir(exist_ok=True)
    run = lambda *words: call("openssl", *words, cwd=place)
    if not (place / "ca.pem").exists():
        run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "30")
        (place / "index.txt").write_text("")
        (place / "ca.conf").write_text("[ca]\ndefault_ca=c\n[c]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\n"
                                       "unique_subject=no\ncopy_extensions=copy\n[p]\ncommonName=supplied\n")
    run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={host}", "-addext", f"subjectAltName={host}")
    run("ca", "-batch", "-config", "ca.conf", "-create_serial", "-cert", "ca.pem", "-keyfile", "ca.key", "-in", f"{name}.csr", "-out", f"{name}.pem", *dates)
    return place / f"{name}.pem", place / f"{name}.key", place / "ca.pem"


@test
def web_certificates(world):
    """Expired, for another name, of an authority that is not known: one line that says which and what to do; the right one is accepted."""
    folder = world.folder / "secured"
    folder.mkdir()
    (folder / "x").write_bytes(b"secured")
    now, ended = ("-days", "30"), ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z")
    for name, host, dates, known, *texts in (("good", "IP:127.0.0.1", now, True), ("ended", "IP:127.0.0.1", ended, True, "expired", "clock"),
                                             ("other", "DNS:other.example", now, True, "use the name that it is made for"),
                                             ("good", "IP:127.0.0.1", now, False, "AWS_CA_BUNDLE=FILE")):
        pem, key, authority = certificate(world, name, host, *dates)
        server = Web(folder, True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem, key)
        server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
        try:
            env = environment(world.folder, **({"AWS_CA_BUNDLE": str(authority)} if known else {}))
            answer = one(env, "read", server.url.replace("http:", "https:") + "/x")
            if texts:
                says(answer, "the server's certificate is not accepted", *texts)
                missing = environment(world.folder, AWS_CA_BUNDLE=str(world.folder / "no-such-certificates.pem"))
                says(one(missing, "read", server.url.replace("http:", "https:") + "/x"), "the certificates of authorities cannot be read",
                     "no-such-certificates.pem", "AWS_CA_BUNDLE=FILE names them, as PEM")
            else:
                assert answer["size"] == 7, answer
        finally:
            server.stop()


@test
def sftp_host_keys(world):
    """Unknown, or another than before: each says which, and its remedy works."""
    server = world.sshd
    other, known = server.new_key("other"), world.file("known_hosts_changed", b"")
    port = server.url.rsplit(":", 1)[1]
    env = environment(world.folder, **{**server.env, "PERIGEE_SSH_KNOWN_HOSTS": str(known)})
    url = server.url + str(server.root)
    for lines, *texts in (("", "known_hosts has no key of this host"),
                          (f"[127.0.0.1]:{port} " + " ".join(other.with_suffix(".pub").read_text().split()[:2]) + "\n",
                           "known_hosts has another key of this host", "ssh-keygen")):
        known.write_text(lines)
        answer = one(env, "stat", url)
        says(answer, "the server's key is not the known one", f"ssh-keyscan -p {port} 127.0.0.1 >> {known}", *texts)
        for command in re.findall("`([^`]*)`", answer["error"]):
            call("sh", "-c", command)
        assert one(env, "stat", url)["kind"] == 2, known.read_text()
