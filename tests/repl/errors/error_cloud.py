"""Command lines of `perigee cloud` that are wrong, for error_cases.py. No server is asked; what EC2 says is in tests/cluster/engines/cloud_test.py."""
from error_forms import command

AWS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "us-east-1",
       "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"}
UP = ("cloud", "up", "aws", "--dry-run", "--store", "s3://bucket/runs")


def cloud(name, args, place, cause, hint="", fix=None, **more):
    return command(name, args, place, cause, hint, fix, environment=AWS | more.pop("environment", {}), **more)


CASES = [
    cloud("a cloud that there is not", ("cloud", "ls", "azure"), "cloud ls", "names no cloud", "`perigee cloud ls aws ...`"),
    cloud("machines of no run", ("cloud", "down"), "cloud down", "names no run", "--all ends the machines of every run"),
    cloud("a price without anybody to agree", ("cloud", "up", "aws", "--store", "s3://bucket/runs", "--", "train", "kept.lua"), "cloud up",
          "nobody can be asked whether this price is right", "--yes agrees"),
    cloud("no place for the run", ("cloud", "up", "aws", "--", "train", "kept.lua"), "--store", "is no place in S3 for the run",
          "for example --store s3://bucket/runs"),
    cloud("a run of nothing", UP, "cloud up", "says not what to train", "-- train lenet.lua"),
    cloud("workers of a run on rented machines", (*UP, "--", "train", "kept.lua", "--workers", "2"), "--workers",
          "is set by `perigee cloud up` itself", "--machines says how many train"),
    cloud("a package of another kind", (*UP, "--package", "two.csv", "--", "train", "kept.lua"), "--package", "is no package of Perigee; got two.csv",
          "a .deb or .whl"),
    cloud("a region that is no name", (*UP, "--region", "us east", "--", "train", "kept.lua"), "--region", "is no name; got 'us east'",
          "letters, digits and dashes"),
    cloud("a file with a blank in its name", (*UP, "--with", "odd name.csv", "--", "train", "kept.lua"), "odd name.csv",
          "has a letter that file names of a run cannot have", "rename it"),
    cloud("a file twice", (*UP, "--with", "kept.lua", "--", "train", "kept.lua"), "kept.lua", "another file of the run has this name",
          "rename one of them"),
    cloud("a server that is no address", ("cloud", "ls", "aws"), "AWS_ENDPOINT_URL_EC2", "is no address; got 'nowhere'",
          environment={"AWS_ENDPOINT_URL_EC2": "nowhere"}),
    cloud("a machine that is none", ("cloud", "machine", "s3://bucket/runs/x"), "cloud machine", "this is no machine of EC2",
          "`perigee cloud up aws` starts machines that run this by themselves"),
]
