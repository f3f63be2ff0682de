"""S3, by moto, which verifies every signature; with a proxy between that makes faults."""
import random
import time

from kit import ROOT, Tool, at_most, digest, environment, one, random_bytes, says, test
from servers import FaultProxy

SLOW_DOWN = ("status", 503, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")


def error_answer(status, code, message="no", headers=None):
    return ("status", status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>", headers or {})


@test
def s3_calls(world):
    """Each call, with a file of three blocks."""
    content = random_bytes(9_000_000)
    file = world.file("large", content)
    with Tool(world.s3()) as tool:
        url = "s3://bucket/calls/a b=c+d/é.bin"
        assert tool("stat", url) == {"kind": 0, "size": 0, "version": ""}
        assert tool("put", url, file) == {"written": True}
        there = tool("stat", url)
        assert there["kind"] == 1 and there["size"] == len(content), there
        assert tool("stat", "s3://bucket/calls")["kind"] == 2
        assert tool("stat", "s3://bucket")["kind"] == 2
        says(tool("put", "s3://bucket/", file), "s3://bucket/: names no file in the bucket")
        assert tool("read", url) == {"size": len(content), "sha256": digest(content)}
        assert tool("range", url, 4_000_000, 500_000)["sha256"] == digest(content[4_000_000:4_500_000])
        assert tool("list", "s3://bucket/calls") == {"entries": ["a b=c+d/"]}
        assert tool("list", "s3://bucket/calls/a b=c+d/") == {"entries": [f"é.bin:{len(content)}"]}
        says(tool("range", url, 9_000_000, 1), "ends before the bytes that are asked for")
        assert tool("put", url, file, "absent") == {"written": False}
        assert tool("put", url, file, "=" + there["version"]) == {"written": True}
        assert tool("put", url, file, '="0123"') == {"written": False}
        assert tool("put", "s3://bucket/calls/empty", world.file("empty", b"")) == {"written": True}
        assert tool("read", "s3://bucket/calls/empty")["size"] == 0
        tool("remove", url)
        tool("remove", url)
        assert tool("stat", url)["kind"] == 0
        says(tool("read", url), "there is no such file in the store")


@test
def s3_multipart(world):
    """Above 64 MiB in parts; under a condition as well; nothing is left of one that was refused."""
    content = random_bytes(70 << 20)
    file = world.file("parts", content)
    with Tool(world.s3()) as tool:
        assert tool("put", "s3://bucket/parts", file, "absent") == {"written": True}
        assert tool("put", "s3://bucket/parts", file, "absent") == {"written": False}
        assert tool("read", "s3://bucket/parts") == {"size": len(content), "sha256": digest(content)}
    assert world.moto.boto("print(json.dumps(len(s3.list_multipart_uploads(Bucket='bucket').get('Uploads', []))))") == 0


@test
def s3_signatures_200(world):
    """Random keys, prefixes and session tokens: the server verifies each signature."""
    draw = random.Random(7)
    letters = "abcXYZ019 !\"#$%&'()*+,-.:;<=>?@[]^_`{|}~äß漢🙂"
    file = world.file("tiny", b"tiny")
    token = world.moto.session()
    accepted = 0
    session = world.s3(AWS_ACCESS_KEY_ID=token["AccessKeyId"], AWS_SECRET_ACCESS_KEY=token["SecretAccessKey"],
                       AWS_SESSION_TOKEN=token["SessionToken"])
    with Tool(world.s3()) as lasting, Tool(session) as passing:
        for i in range(200):
            name = "".join(draw.choice(letters) for _ in range(draw.randrange(1, 30))).strip(" .") or "x"
            url, tool = f"s3://bucket/signed/{i} {name}/key {name}", (lasting, passing)[i % 2]
            written = tool("put", url, file)
            listed = tool("list", f"s3://bucket/signed/{i} {name}")
            assert written == {"written": True}, (url, written)
            assert listed == {"entries": [f"key {name}:4"]}, (url, listed)
            assert tool("read", url)["size"] == 4, url
            accepted += 1
    world.note(f"signatures accepted: {accepted} of 200, half with session tokens")


@test
def s3_signatures_against_botocore(world):
    """Another signer, for what moto does not look at: the same text in the Authorization header."""
    seen = {}
    proxy = FaultProxy(world.moto.url)
    proxy.fault = lambda method, path, headers: seen.update({path: dict(headers)})
    try:
        one(world.s3(AWS_ENDPOINT_URL=proxy.url), "list", "s3://bucket/a b+c=d&e")
    finally:
        proxy.stop()
    ((path, headers),) = seen.items()
    theirs = world.moto.boto("""
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
import botocore.auth, datetime, urllib.parse
headers = json.loads(sys.argv[2])
stamp = datetime.datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
botocore.auth.get_current_datetime = lambda *a, **k: stamp
request = AWSRequest("GET", sys.argv[1], headers={"host": headers["Host"]})
request.context["payload_signing_enabled"] = True
S3SigV4Auth(Credentials(sys.argv[3], sys.argv[4]), "s3", "us-east-1").add_auth(request)
print(json.dumps(request.headers["Authorization"]))
""", proxy.url + path, __import__("json").dumps(headers), *world.moto.keys)
    assert headers["Authorization"] == theirs, (headers["Authorization"], theirs)


@test
def s3_credentials(world):
    """Environment, profile files, web identity, container and instance."""
    home = world.folder / "home" / ".aws"
    home.mkdir(parents=True, exist_ok=True)
    key, secret = world.moto.keys
    (home / "credentials").write_text(f"# mine\n[other]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n[default]\n")
    (home / "config").write_text(f"[profile other]\nregion = us-east-1\nendpoint_url = {world.moto.url}\ns3 =\n  addressing_style = path\n")
    bare = {k: v for k, v in world.s3().items() if not k.startswith("AWS_") or k == "AWS_EC2_METADATA_DISABLED"}
    assert one({**bare, "AWS_PROFILE": "other"}, "stat", "s3://bucket")["kind"] == 2
    says(one({**bare, "AWS_PROFILE": "none"}, "stat", "s3://bucket"), "there are no keys of this profile", "aws configure")
    (home / "credentials").unlink()
    (home / "config").unlink()
    says(one({**bare, "AWS_ENDPOINT_URL": world.moto.url}, "stat", "s3://bucket"), "there are no credentials", "AWS_ACCESS_KEY_ID")
    says(one({**bare, "AWS_ACCESS_KEY_ID": "x"}, "stat", "s3://bucket"), "AWS_SECRET_ACCESS_KEY", "is not set")
    role = world.file("token", b"a.web.token\n")
    web = {**bare, "AWS_ENDPOINT_URL": world.moto.url, "AWS_WEB_IDENTITY_TOKEN_FILE": str(role), "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r"}
    token = world.moto.session()
    tags = "".join(f"<{name}>{token[name]}</{name}>" for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
    service = FaultProxy(world.moto.url)
    try:  # moto does not know callers without keys once it verifies
        service.fault = lambda *_: ("status", 200, f"<Credentials>{tags}<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>")
        assert one({**web, "AWS_ENDPOINT_URL_STS": service.url}, "stat", "s3://bucket")["kind"] == 2
        service.fault = lambda *_: error_answer(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
        says(one({**web, "AWS_ENDPOINT_URL_STS": service.url}, "stat", "s3://bucket"), "gives no credentials for the web identity", "Not authorized")
    finally:
        service.stop()
    document = f'{{"AccessKeyId": "{key}", "SecretAccessKey": "{secret}", "Token": "", "Expiration": "2099-01-01T00:00:00Z"}}'
    metadata = FaultProxy(world.moto.url)
    answers = {"/keys": document, "/latest/api/token": "t", "/latest/meta-data/iam/security-credentials/": "role\n",
               "/latest/meta-data/iam/security-credentials/role": document}
    metadata.fault = lambda method, path, headers: ("status", 200, answers[path]) if path in answers else None
    try:
        container = {**bare, "AWS_ENDPOINT_URL": world.moto.url, "AWS_CONTAINER_CREDENTIALS_FULL_URI": metadata.url + "/keys"}
        assert one(container, "stat", "s3://bucket")["kind"] == 2
        instance = {**bare, "AWS_ENDPOINT_URL": world.moto.url, "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.url}
        del instance["AWS_EC2_METADATA_DISABLED"]
        assert one(instance, "stat", "s3://bucket")["kind"] == 2
        says(one({**container, "AWS_CONTAINER_CREDENTIALS_FULL_URI": metadata.url + "/nothing"}, "stat", "s3://bucket"),
             "gives no credentials for this container")
    finally:
        metadata.stop()


@test
def s3_refusals(world):
    """Each mistake has one error that says what to do."""
    url = "s3://bucket/x"
    key, secret = world.moto.keys
    says(one(world.s3(AWS_ACCESS_KEY_ID="AKIAUNKNOWN"), "stat", url), "does not know this access key", "the environment (AWS_ACCESS_KEY_ID)")
    says(one(world.s3(AWS_SECRET_ACCESS_KEY="wrong"), "stat", url), "the secret key is not that of the access key", "AWS_SECRET_ACCESS_KEY")
    says(one(world.s3(**dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), world.moto.poor_keys))), "list", "s3://bucket/"),
         "access is denied", "s3:GetObject")
    says(one(world.s3(), "list", "s3://nowhere-at-all/x"), "there is no bucket of this name")
    says(one(world.s3(), "stat", "gs://bucket/x"), "this kind of store is not known", "s3://")
    says(one(world.s3(AWS_ENDPOINT_URL="moto:15000"), "stat", url), "AWS_ENDPOINT_URL", "is no address")
    says(one(world.s3(PERIGEE_S3_STYLE="round"), "stat", url), "PERIGEE_S3_STYLE", "path or virtual")
    says(one(world.s3(PERIGEE_STORE_TRIES="many"), "stat", url), "PERIGEE_STORE_TRIES", "is out of range")
    with at_most(20):
        says(one(world.s3(AWS_ENDPOINT_URL="http://127.0.0.1:9", PERIGEE_STORE_TRIES="2"), "stat", url), "the store cannot be reached, 2 times")
    proxy = FaultProxy(world.moto.url)
    try:
        through = world.s3(AWS_ENDPOINT_URL=proxy.url)
        for code, status, *texts in (("ExpiredToken", 400, "have expired", "aws sso login"), ("InvalidToken", 400, "AWS_SESSION_TOKEN"),
                                     ("RequestTimeTooSkewed", 403, "clock", "timedatectl"),
                                     ("InvalidObjectState", 403, "the file lies in the archive", "restore-object"), ("SomethingElse", 400, "SomethingElse: no")):
            proxy.fault = lambda *_, code=code, status=status: error_answer(status, code)
            says(one(through, "stat", url), *texts)
        # A clock that is wrong is followed once it is known.
        stamp = {"Date": "Fri, 27 Nov 2099 04:00:00 GMT"}
        proxy.first(1, error_answer(403, "RequestTimeTooSkewed", headers=stamp), lambda method, path: method == "GET")
        with Tool(through) as tool:
            assert tool("list", "s3://bucket/") is not None
        assert "behind the store's" in tool.warnings, tool.warnings
    finally:
        proxy.stop()


@test
def s3_faults(world):
    """Through a proxy: each ends right or with one clear line, and soon."""
    content = random_bytes(9_000_000, 3)
    with Tool(world.s3()) as tool:
        tool("put", "s3://bucket/faults", world.file("faults", content))
    whole = {"size": len(content), "sha256": digest(content)}
    proxy = FaultProxy(world.moto.url)
    env = world.s3(AWS_ENDPOINT_URL=proxy.url, PERIGEE_STORE_CACHE_MB="0", PERIGEE_STORE_STALL_S="1", PERIGEE_STORE_TRIES="3")
    get = lambda method, path: method == "GET"
    try:
        for fault in (SLOW_DOWN, ("status", 500, ""), "short", "reset", "stall", ("status", 429, "")):
            with at_most(20):
                proxy.first(2, fault, get)
                answer = one(env, "read", "s3://bucket/faults")
                assert answer == whole, (fault, answer)
        for fault, *texts in ((SLOW_DOWN, "the store answers with an error, 3 times", "503"), ("short", "cannot be reached, 3 times"),
                              ("stall", "cannot be reached, 3 times"), (("status", 416, ""), "was changed while it was in use"),
                              (error_answer(412, "PreconditionFailed"), "was changed while it was in use")):
            with at_most(30):
                proxy.first(10 ** 6, fault, get)
                answer = one(env, "read", "s3://bucket/faults")
                says(answer, "s3://bucket/faults", *texts)
                assert answer["error"].count("\n") <= 3, answer
        # An answer of the right form with too few bytes.
        proxy.first(10 ** 6, ("status", 206, "few", {"Content-Range": "bytes 0-8999999/9000000"}), get)
        says(one(env, "read", "s3://bucket/faults"), "the server sends too few bytes, 3 times")
        # The store has written it, and its answer is lost: the second try finds its own.
        proxy.first(1, "lost", lambda method, path: method == "PUT")
        assert one(env, "put", "s3://bucket/lost", world.file("lost", b"once"), "absent") == {"written": True}
        assert one(env, "put", "s3://bucket/lost", world.file("other", b"not!"), "absent") == {"written": False}
    finally:
        proxy.stop()


@test
def s3_cache(world):
    """A second process reads from the user's cache; another content of the key is another version."""
    url, first, second = "s3://bucket/cached", random_bytes(5_000_000, 4), random_bytes(5_000_000, 5)
    proxy = FaultProxy(world.moto.url)
    env = world.s3(AWS_ENDPOINT_URL=proxy.url)
    try:
        one(env, "put", url, world.file("one", first))
        assert one(env, "read", url)["sha256"] == digest(first)
        proxy.seen.clear()
        assert one(env, "read", url)["sha256"] == digest(first)
        assert [method for method, _ in proxy.seen] == ["HEAD"], proxy.seen
        one(env, "put", url, world.file("two", second))
        assert one(env, "read", url)["sha256"] == digest(second)
        # Damage in the cache is no content.
        for block in (world.folder / "cache" / "perigee" / "blocks").rglob("*"):
            if block.is_file():
                block.write_bytes(b"x" + block.read_bytes()[1:])
        assert one(env, "read", url)["sha256"] == digest(second)
    finally:
        proxy.stop()


@test
def s3_neighbours(world):
    """Of a folder's files the first is asked about; from the second on one listing tells of all, where the keys' owner may list."""
    names = [f"{i:02}.bin" for i in range(12)]
    proxy = FaultProxy(world.moto.url)
    env = world.s3(AWS_ENDPOINT_URL=proxy.url)
    files = {name: random_bytes(1000, i) for i, name in enumerate(names)}
    try:
        with Tool(env) as tool:
            for name, content in files.items():
                tool("put", f"s3://bucket/near/{name}", world.file("one", content))

        def read_all():
            proxy.seen.clear()
            with Tool(env) as tool:
                for name, content in files.items():
                    assert tool("read", f"s3://bucket/near/{name}")["sha256"] == digest(content), name
            return [method if "?" not in path else "LIST" for method, path in proxy.seen]

        assert read_all() == ["HEAD", "GET", "LIST", *["GET"] * 11]
        assert read_all() == ["HEAD", "LIST"], "all in the cache"
        proxy.fault = lambda method, path, headers: error_answer(403, "AccessDenied") if "list-type" in path else None
        assert read_all() == ["HEAD", "LIST", *["HEAD"] * 11], "asked for a listing once"
        for fault in (error_answer(400, "ExpiredToken"), error_answer(403, "RequestTimeTooSkewed"), error_answer(301, "PermanentRedirect"), SLOW_DOWN):
            proxy.first(1, fault, lambda method, path: "list-type" in path)
            assert read_all() == ["HEAD", "LIST", "HEAD", "LIST"], ("a fault that passes", fault)
        proxy.fault = lambda *_: None
        files["05.bin"] = random_bytes(1000, 77)  # another version, which the listing tells
        with Tool(env) as tool:
            tool("put", "s3://bucket/near/05.bin", world.file("one", files["05.bin"]))
        assert read_all() == ["HEAD", "LIST", "GET"]
    finally:
        proxy.stop()


@test
def s3_listing_of_pages(world):
    """More keys than fit a page, and keys that would lead elsewhere."""
    names = world.moto.boto("""
for i in range(1100): s3.put_object(Bucket="bucket", Key=f"many/{i:04}", Body=b"")
for key in ("odd/../up", "odd//double", "odd/a/b", "odd/c", "odd/."): s3.put_object(Bucket="bucket", Key=key, Body=b"1")
print("[]")""")
    assert names == []
    with Tool(world.s3()) as tool:
        assert tool("list", "s3://bucket/many")["entries"] == [f"{i:04}:0" for i in range(1100)]
        assert tool("list", "s3://bucket/odd")["entries"] == ["a/", "c:1"], tool("list", "s3://bucket/odd")


@test
def s3_in_another_region(world):
    """The store tells where the bucket lies: the next signature is for there. An endpoint of the wrong region is named."""
    proxy, signed = FaultProxy(world.moto.url), []
    env = world.s3(AWS_ENDPOINT_URL=proxy.url)
    malformed = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>no</Message><Region>eu-west-1</Region></Error>"
    told = {"x-amz-bucket-region": "eu-west-1"}

    def answer(fault):
        def choose(method, path, headers):
            signed.append(headers["Authorization"])
            return None if "/eu-west-1/s3/" in signed[-1] else fault
        proxy.fault = choose

    try:
        one(env, "put", "s3://bucket/region", world.file("region", b"region"))
        for fault in (("status", 301, "", told), ("status", 400, malformed), ("status", 400, malformed, told)):
            answer(fault)
            assert one(env, "stat", "s3://bucket/region")["size"] == 6, fault
            assert one(env, "list", "s3://bucket/") == {"entries": one(world.s3(), "list", "s3://bucket/")["entries"]}, fault
        assert "/us-east-1/s3/" in signed[0] and "/eu-west-1/s3/" in signed[-1], (signed[0], signed[-1])
        proxy.fault = lambda *_: error_answer(301, "PermanentRedirect", headers=told)
        says(one(env, "stat", "s3://bucket/region"), "the bucket lies in another region than its endpoint", "the endpoint of eu-west-1", "AWS_ENDPOINT_URL")
    finally:
        proxy.stop()


@test
def s3_mended_for_two_at_once(world):
    """Two requests of one file are signed alike: what the answer to the first tells of region, clock or keys holds for the second as well."""
    content = random_bytes(40 << 20, 51)
    proxy, url = FaultProxy(world.moto.url), "s3://bucket/two-at-once"
    one(world.s3(), "put", url, world.file("two-at-once", content))
    stamp = {"Date": "Fri, 27 Nov 2099 04:00:00 GMT"}
    wrong = lambda headers: "/eu-west-1/s3/" not in headers["Authorization"]
    early = lambda headers: not headers["x-amz-date"].startswith("2099")
    try:
        for is_wrong, fault in ((wrong, ("status", 301, "", {"x-amz-bucket-region": "eu-west-1"})),
                                (early, error_answer(403, "RequestTimeTooSkewed", headers=stamp))):
            refused = []
            proxy.fault = lambda method, path, headers, is_wrong=is_wrong, fault=fault, refused=refused: (
                refused.append(path) or fault if method == "GET" and is_wrong(headers) else None)
            answer = one(world.s3(AWS_ENDPOINT_URL=proxy.url, PERIGEE_STORE_CACHE_MB="0"), "read", url)
            assert answer == {"size": len(content), "sha256": digest(content)}, (fault, answer)
            assert len(refused) == 2, refused
    finally:
        proxy.stop()


@test
def s3_expected_and_changed(world):
    """What was fetched ahead is of the version that was known then: of another version it is not the content."""
    url, first, second = "s3://bucket/expected", random_bytes(1000, 52), random_bytes(1000, 53)
    env = world.s3(PERIGEE_STORE_CACHE_MB="0")
    with Tool(env) as tool:
        for content, expects in ((first, True), (second, False)):
            one(env, "put", url, world.file("expected", content))
            tool("stat", url)
            if expects:
                tool("expect", url)
                time.sleep(1)  # until it has come
            answer = None if expects else tool("read", url)
        assert answer["sha256"] == digest(second), "the content of another version"


@test
def s3_keys_and_clocks_that_end(world):
    """HEAD has no body that would say why it is refused: what a look at it mends does not fail."""
    proxy, url = FaultProxy(world.moto.url), "s3://bucket/passing"
    one(world.s3(), "put", url, world.file("passing", b"passing"))
    stamp = {"Date": "Fri, 27 Nov 2099 04:00:00 GMT"}
    token, handed = world.moto.session(), []

    def metadata(method, path, headers):
        if path == "/keys":
            handed.append(1)
            end = "2099-01-01T00:00:00Z"
            return "status", 200, (f'{{"AccessKeyId": "{token["AccessKeyId"]}", "SecretAccessKey": "{token["SecretAccessKey"]}", '
                                   f'"Token": "{"ended" if len(handed) == 1 else token["SessionToken"]}", "Expiration": "{end}"}}')
        return error_answer(400, "ExpiredToken") if headers.get("x-amz-security-token") == "ended" else None

    try:
        proxy.fault = lambda method, path, headers: None if headers["x-amz-date"].startswith("2099") else error_answer(403, "RequestTimeTooSkewed", headers=stamp)
        assert one(world.s3(AWS_ENDPOINT_URL=proxy.url), "stat", url)["size"] == 7, "a clock that is wrong"
        proxy.fault = metadata
        bare = {k: v for k, v in world.s3(AWS_ENDPOINT_URL=proxy.url).items() if not k.startswith("AWS_ACCESS") and not k.startswith("AWS_SECRET")}
        assert one({**bare, "AWS_CONTAINER_CREDENTIALS_FULL_URI": proxy.url + "/keys"}, "stat", url)["size"] == 7, "keys that ended"
        assert len(handed) == 2
    finally:
        proxy.stop()


@test
def s3_odd_keys(world):
    """Each is the key that was written, and no other."""
    names = ["a  b", "plus+plus", "per%cent", "100%25", "%41", "trailing.", "two//slashes", "q?x=1&y#z", "日本é", "semi;comma,", "'quote\"", "~tilde", "back\\slash"]
    with Tool(world.s3()) as tool:
        for number, name in enumerate(names):
            assert tool("put", f"s3://bucket/oddkeys/{name}", world.file("odd", b"x" * (number + 1))) == {"written": True}, name
        for number, name in enumerate(names):
            assert tool("stat", f"s3://bucket/oddkeys/{name}")["size"] == number + 1, name
            assert tool("read", f"s3://bucket/oddkeys/{name}") == {"size": number + 1, "sha256": digest(b"x" * (number + 1))}, name
        assert tool("list", "s3://bucket/oddkeys/two//") == tool("list", "s3://bucket/oddkeys/two/"), "a name that holds nothing is left out"
    theirs = world.moto.boto("print(json.dumps([o['Key'] for o in s3.list_objects_v2(Bucket='bucket', Prefix='oddkeys/')['Contents']]))")
    assert sorted(theirs) == sorted(f"oddkeys/{name}" for name in names), theirs


@test
def s3_changed_between_two_reads(world):
    """No mixture: the second read says so. So does a server that does not look at If-Match."""
    url, first, second = "s3://bucket/changing", random_bytes(9_000_000, 21), random_bytes(9_000_000, 22)
    proxy = FaultProxy(world.moto.url)
    try:
        for env in (world.s3(PERIGEE_STORE_CACHE_MB="0"), world.s3(PERIGEE_STORE_CACHE_MB="0", AWS_ENDPOINT_URL=proxy.url)):
            one(env, "put", url, world.file("first", first))
            with Tool(env) as tool:
                assert tool("range", url, 10, 1000)["sha256"] == digest(first[10:1010])
                one(env, "put", url, world.file("second", second))
                proxy.drop = "If-Match"
                says(tool("range", url, 8_500_000, 1000), "the file was changed while it was in use", "under a new name")
                assert tool("range", url, 8_500_000, 1000)["sha256"] == digest(second[8_500_000:8_501_000]), "it can be read again"
    finally:
        proxy.stop()


@test
def s3_servers_that_are_none(world):
    """Pages that break off, and documents that are no listing: no folder with less in it."""
    proxy = FaultProxy(world.moto.url)
    env = world.s3(AWS_ENDPOINT_URL=proxy.url)
    try:
        for text, got in (("<html>Welcome</html>", "another document"),
                          ("<ListBucketResult><Contents><Key>x/a</Key></Contents>", "got a page that breaks off"),
                          ("<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>x/a</Key></Contents></ListBucketResult>", "no way to the rest")):
            proxy.fault = lambda *_, text=text: ("status", 200, text)
            says(one(env, "list", "s3://bucket/x"), "the server does not list the folder as S3 does", got, "is AWS_ENDPOINT_URL the address of an S3 server?")
        content = "y" * 9_000_000
        one(world.s3(), "put", "s3://bucket/parts-of", world.file("parts-of", content.encode()))
        proxy.fault = lambda method, path, headers: ("status", 200, content) if method == "GET" else None
        without = {**env, "PERIGEE_STORE_CACHE_MB": "0"}
        assert one(without, "read", "s3://bucket/parts-of")["sha256"] == digest(content.encode()), "the whole file is what was asked for"
        says(one(without, "range", "s3://bucket/parts-of", 5_000_000, 10),
             "the server, or a proxy before it, sends another part of the file than was asked for", "the whole file", "no_proxy=127.0.0.1,")
    finally:
        proxy.stop()
