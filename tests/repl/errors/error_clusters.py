"""Mistakes with training by several workers, for error_cases.py: policies and codecs, which a job checks before it trains; addresses, secrets and
what schedulers tell, which stop a process before it listens."""
import json

from error_forms import command, job, script

# a policy, cause, fix, hint
POLICIES = [
    ("periodic { every_ms = 50, every = 5 }", "'every_ms' is given together with 'every'", (", every = 5", ""), "an average is due by steps or by time"),
    ("periodic { quorum = 0.5, grace_ms = 200000 }", "'grace_ms' is longer than 'deadline_ms'", ("200000", "60000"), "expected at most 60000"),
    ("periodic { grace_ms = 5 }", "'grace_ms' has no effect without 'quorum'", ("grace_ms = 5", "quorum = 0.5"), "a quorum below 1"),
    ("streaming { every = 4, fragments = 8 }", "'fragments' are more than the steps", ("fragments = 8", "fragments = 4"), "at most every = 4"),
    ("periodic { late = 3 }", "'late' has no effect without 'overlap'", ("late = 3", "overlap = true"), "overlap = true"),
    ("periodic { overlap = true, late = 5 }", "'late' is not before the next round", ("late = 5", "late = 4"), "less than every / fragments = 5"),
    ("periodic { keep = 1 }", "'keep' never takes anything of a result", ("keep = 1", "keep = 0.5"), "0.5 is the half of each"),
    ("periodic { average_optimizer = true, overlap = true }", "'average_optimizer' is of all parameters at once", ("average_optimizer = true", "average_optimizer = false"), "each worker's own"),
    ("periodic { outlier = 1.2 }", "'outlier' leaves out what is as it should be", ("1.2", "1.5"), "0, or at least 1.5"),
    ("allreduce { codec = \"int8\", shards = 4 }", "'codec' is given together with 'shards'", (", shards = 4", ""), "the sum depends on who computes which part"),
    ("custom { what = \"gradient\", merge = \"sum\" }", "'merge' adds up what optimisers made of gradients", ("\"sum\"", "\"mean\""), "raise the learning rate instead"),
    ("custom { what = \"update\", outer = function(p) return p.mean end }", "'outer' has no place where updates are sent", (", outer = function(p) return p.mean end", ""), "or no outer step"),
    ("periodic { by_speed = true, every_ms = 50 }", "'by_speed' has no effect with 'every_ms'", ("every_ms = 50", "every = 5"), "make steps by their speed anyway"),
    ("periodic { every = \"auto\", overlap = true }", "'every' follows rounds of all parameters", (", overlap = true", ""), "no fragments, overlap, keep"),
    ("periodic { every_max = 10 }", "'every_max' has no effect with a fixed 'every'", ("every_max = 10", "every = \"auto\""), "every = \"auto\""),
    ("periodic { merge_every = 2 }", "'merge_every' needs a server", ("merge_every = 2", "synchrony = \"server\""), "synchrony = \"server\""),
    ("custom { outer = function(p) return pg.floor(p.mean) end }", "'op' is for numbers of the round; got floor of parameters", None, "pg.floor(p.round / p.delay)"),
    ("custom { outer = function(p) local x = p.mean for i = 1, 40 do x = x * (1 + i / 64) + i / 7 end return x end }",
     "'program' needs too many numbers beside the parameters", None, "at most 12"),
    ("custom { outer = function(p) local all, x = {}, p.mean for i = 1, 30 do x = x * p.delta all[i] = x end for i = 1, 29 do x = x + all[i] end return x end }",
     "'program' needs too many results at once", ("all[i] = x end for i = 1, 29", "all[i] = x end for i = 30, 29"), "at most 24"),
    ("custom { " + ", ".join(f"k{i} = {i}" for i in range(70)) + ", outer = function(p) return p.mean * (" + " + ".join(f"p.k{i}" for i in range(70)) + ") end }",
     "'program' has too many knobs; got 70", None, "at most 64"),
    # a server
    ("periodic { synchrony = \"server\", sync_until = 0.5 }", "'sync_until' has no effect with synchrony = \"server\"", (", sync_until = 0.5", ""), "gradients are averaged by all workers together"),
    ("periodic { synchrony = \"server\", quorum = 0.5 }", "'quorum' has no effect with synchrony", (", quorum = 0.5", ""), "no worker waits for another"),
    ("periodic { synchrony = \"server\", overlap = true }", "'fragments' has no effect with synchrony", (", overlap = true", ""), "all parameters are pushed, and nothing waits"),
    ("periodic { synchrony = \"server\", average_optimizer = true }", "'average_optimizer' has no effect", (", average_optimizer = true", ""), "each worker keeps its optimiser's state"),
    ("periodic { synchrony = \"server\", shards = 4 }", "'shards' has no effect", (", shards = 4", ""), "there is no sum over workers"),
    ("periodic { synchrony = \"server\", topology = \"ring\" }", "'topology' has no effect", (", topology = \"ring\"", ""), "everybody talks to the server"),
    ("easgd { codec = \"int8\" }", "'codec' does not fit merge = \"elastic\"", ("int8", "fp32"), "of which nothing may be lost"),
    ("easgd { merge_every = 2 }", "'merge_every' does not fit merge = \"elastic\"", ("merge_every = 2", "merge_every = 1"), "the change that it alone has made"),
    # groups
    ("nested { across = pg.averaging.periodic { every_ms = 50 } }", "'every_ms' does not go with inner exchanges", ("every_ms = 50", "every = 50"), "every worker takes part"),
    ("nested { across = pg.averaging.periodic { every = 50, overlap = true } }", "'overlap' does not go with inner exchanges", (", overlap = true", ""), "policies by layers"),
    ("nested { across = pg.averaging.async_local {} }", "'type' has a server instead of rounds of all workers", ("async_local {}", "periodic { every = 50 }"), ""),
    ("nested { across = pg.averaging.periodic { every = 50, quorum = 0.5 } }", "'quorum' does not go with inner exchanges", ("quorum = 0.5", "quorum = 1"), "expected 1"),
    ("nested { across = pg.averaging.periodic { every = 3 } }", "'every' leaves no room for an inner exchange", ("3", "50"), "as in every = 50"),
    ("gossip { every = 1, consensus = 1000000 }", "'consensus' has too many inner exchanges in a round", ("1000000", "4096"), "consensus = 4096"),
    ("nested { group = \"rack\" }", "'group' is no kind of group", ("rack", "host"), "or a number of workers"),
    ("nested { across = 3 }", "'across' has the wrong type; got integer 3", ("across = 3", "across = \"diloco\""), ""),
    ("nested { inside = pg.averaging.diloco {} }", "'type' has an outer step, and a group keeps nothing between two exchanges", ("diloco", "periodic"), "expected periodic"),
    ("nested { inside = pg.averaging.periodic { sync_until = 0.1 } }", "'sync_until' belongs to the policy across", ("0.1", "0"), "expected 0"),
    ("nested { across = pg.averaging.gossip {} }", "'across' has groups of its own", ("gossip {}", "periodic { every = 50 }"), "policies nest in two levels"),
    ("nested { across = \"allreduce\" }", "'across' averages gradients", ("\"allreduce\"", "pg.averaging.periodic { every = 50 }"), "a policy that averages parameters"),
    # codecs
    ("allreduce { codec = { type = \"lowrank\", momentum = 0.9 } }", "'momentum' has no place before sums over the workers", (", momentum = 0.9", ""), "it comes after the sum"),
    ("periodic { codec = { type = \"int8\", block = 100 } }", "'block' is no multiple of 64", ("100", "128"), "64, 128, 192"),
    ("allreduce { codec = { type = \"sign\", scale = \"one\" } }", "'feedback' has nothing to keep where no magnitude is sent", ("scale = \"one\"", "scale = \"mean\""), "scale = \"mean\""),
    ("allreduce { codec = { type = \"int2\", rounding = \"stochastic\", scale = \"mean\" } }", "'scale' cuts off what stochastic rounding has to keep", ("mean", "largest"), "scale = \"largest\""),
    ("allreduce { codec = { type = \"randomk\", unbiased = true } }", "'unbiased' is given together with feedback", ("unbiased = true", "unbiased = true, feedback = false"), "would be counted twice"),
    ("threshold { clip = 0.5 }", "'clip' would cut what the next round sends", ("0.5", "1"), "0 or at least 1"),
]
# policies by layers
LAYERS = [
    ('{ ["*"] = 3 }', "is no policy; got integer", ("= 3 }", '= "periodic" }'), "a policy's name or table, such as periodic { every = 50 }"),
    ('{ ["*"] = "periodic", ["a*"] = { ["b*"] = "periodic" } }', "has patterns in a pattern", ('{ ["b*"] = "periodic" }', '"periodic"'), ""),
    ('{ ["dense*"] = "periodic" }', "has no policy for the layers that no pattern names", ('"dense*"', '"*"'), '["*"] beside the others'),
    ('{ ["*"] = "allreduce" }', "averages gradients, which all layers do or none", ("allreduce", "periodic"), "a policy of parameters: periodic, diloco"),
    ('{ ["*"] = { type = "periodic", every_ms = 50 } }', "is due by time", ("every_ms", "every"), "counted in steps"),
    ('{ ["*"] = { type = "periodic", fragments = 2 } }', "is cut into fragments itself", ("fragments = 2", "fragments = 1"), "fragments = 1"),
    ('{ ["*"] = { type = "periodic", average_optimizer = true } }', "averages the optimiser's state", ("true", "false"), "average_optimizer = false"),
    ('{ ["*"] = "periodic", ["dense1*"] = { type = "periodic", quorum = 0.5 } }', "has another quorum than", ("0.5", "1"), "averaged in the same rounds"),
]

CASES = [job(cause, fix, hint, place="trial.lua:9: averaging", more=f"averaging = pg.averaging.{policy},") for policy, cause, fix, hint in POLICIES]
CASES += [job(cause, fix, hint, place="trial.lua:9: averaging", more=f"averaging = {policy},") for policy, cause, fix, hint in LAYERS]

SECRET = "5" * 64
HOSTS = {
    "hosts-none": {"hosts": ["algo-1"]},
    "hosts-numbers": {"current_host": "algo-1", "hosts": [1]},
    "hosts-other": {"current_host": "algo-2", "hosts": ["algo-1"]},
}


def write_secrets(folder):
    """Secrets that are none, what SageMaker says of its hosts, files that are no ledger or record."""
    for name, text, mode in (("good.key", SECRET, 0o600), ("open.key", SECRET, 0o644), ("short.key", "abc", 0o600), ("odd.key", "x" + SECRET[1:], 0o600),
                             ("two.key", SECRET + "\n" + SECRET, 0o600), ("no.ledger", "nothing of the kind", 0o644), ("no.record", "", 0o644)):
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
    for name, hosts in HOSTS.items():
        config = folder / name / "input" / "config"
        config.mkdir(parents=True)
        (config / "resourceconfig.json").write_text(json.dumps(hosts))


# arguments, place, cause, hint
COMMANDS = [
    # addresses
    (("agent", "--listen", "[x]:1"), "--listen|[x]:1", "not an IPv6 address", "such as [::1]:7700"),
    (("agent", "--listen", "user@host:1"), "user@host", "not a host name", "host:port, [IPv6]:port or :port"),
    (("agent", "--listen", "192.0.2.1:7700", "--secret", "good.key"), "192.0.2.1:7700", "cannot listen here", "no interface of this machine has this address"),
    (("worker", "--join", "127.0.0.1:1", "--secret", "good.key", "--interface", "10.0.0.0/33"), "--interface", "not a network", "such as 10.0.0.0/16"),
    (("worker", "--join", "127.0.0.1:1", "--secret", "good.key", "--interface", "203.0.113.0/24"), "--interface", "no interface of this machine is in this network", "one of: "),
    (("status", "nowhere.invalid:7700"), "nowhere.invalid:7700", "no machine of this name is known", "is the address right"),
    (("status", "127.0.0.1:1"), "127.0.0.1:1", "no agent or coordinator answers there", "an agent or a run with --listen"),
    (("attach", "127.0.0.1:1", "-e", "run"), "127.0.0.1:1", "no agent or coordinator answers there", "an agent or a run with --listen"),
    (("agent", "--listen", "nowhere.invalid:7700", "--secret", "good.key"), "nowhere.invalid:7700", "no machine of this name is known",
     "check its spelling, or give its address in numbers"),
    # secrets
    (("status", "127.0.0.1:1", "--secret", "nothing.key"), "nothing.key", "cannot read the secret", "make one with `perigee secret new > FILE`"),
    (("status", "127.0.0.1:1", "--secret", "shared"), "shared", "a secret is a regular file", "make one with `perigee secret new > FILE`"),
    (("status", "127.0.0.1:1", "--secret", "open.key"), "open.key", "others than its owner may read or change this secret", "chmod 600 open.key"),
    (("status", "127.0.0.1:1", "--secret", "short.key"), "short.key", "not a secret; got 3 characters, expected 64 hexadecimal digits", "perigee secret new"),
    (("status", "127.0.0.1:1", "--secret", "odd.key"), "odd.key", "not a secret; got another character at position 1", "perigee secret new"),
    (("status", "127.0.0.1:1", "--secret", "two.key"), "two.key", "a secret file has one key; got more than one line", "perigee secret new"),
    # a run, its agents and its records
    (("agent", "--restarts", "5"), "--restarts", "is not a number of restarts in a time", "N/PERIOD, as in 5/60s, 20/10m or 0/1h"),
    (("worker", "--join", "127.0.0.1:1", "--key-fd", "77"), "--key-fd", "there is no key behind this descriptor", "takes --secret FILE"),
    (("ledger", "no.ledger"), "no.ledger", "this is no ledger", "that of a run is RUN/ledger"),
    (("replay", "no.record"), "no.record", "is no record of a run", "`perigee train --record` writes one"),
    (("train", "--engine", "slurm", "trial.lua"), "--engine", "this process was not started by slurm", "leave out --engine"),
    (("train", "--engine", "slurmm", "trial.lua"), "--engine", "there is no engine 'slurmm'", "did you mean 'slurm'?"),
    (("train", "trial.lua", "--workers", "2", "--record"), "--record", "is for asynchronous policies", "averaging = pg.averaging.async_local {}"),
    (("train", "trial.lua", "--workers", "2", "--resume", "shared"), "shared", "this run has no ledger", "without --workers, --agents and --listen"),
    (("simulate", "trial.lua", "--nodes", "4", "--set", "averaging={ type = \"nested\" }"), "simulate", "each node is a host of its own here",
     "--set averaging.group=8"),
    (("simulate", "trial.lua", "--nodes", "4000", "--step-time", "1ms", "--parameters", "10000000", "--examples", "100000",
      "--set", "averaging=async_local"), "simulate", "pushes and answers of so many parameters and nodes do not fit into memory", "give fewer --nodes"),
]
# what Slurm says of its nodes, cause
NODE_LISTS = [
    ("n1]", "has a bracket too many"),
    ("n[1-2", "has a bracket too few"),
    ("n[a]", "has a range without numbers"),
    ("n[3-1]", "has a range that is too large or empty"),
    ("n[1-60000],m[1-60000]", "has more than 65,536 nodes"),
    ("n" * 300, "has a name that is too long"),
    ("n1,,n2", "has a node without a name"),
]
SLURM = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}

CASES += [command(" ".join(args)[:120], args, place, cause, hint) for args, place, cause, hint in COMMANDS]
CASES += [script(f"Slurm's nodes {nodes}: {cause}"[:120], "Slurm's node list", cause, "for example n[1-3,07],login",
                 environment=SLURM | {"SLURM_STEP_NODELIST": nodes}) for nodes, cause in NODE_LISTS]
CASES += [script(f"SageMaker's hosts: {name}", f"{name}/input/config/resourceconfig.json", "does not say which host of which this is",
                 "current_host and hosts", environment={"TRAINING_JOB_NAME": "a", "SM_ROOT": name}) for name in HOSTS]
CASES += [
    job("has too many patterns; got 70", None, "at most 64", place="trial.lua:9: averaging",
        more='averaging = { ["*"] = "periodic", ' + ", ".join(f'["a{i}*"] = "periodic"' for i in range(69)) + " },"),
    script("more shards than examples", "trial.lua:7: data.shards", "are more than there are examples; got 100", "at most 60", ("100", "60"),
           args=("train", "trial.lua", "--workers", "2"), data=", shards = 100", more="averaging = pg.averaging.periodic { every = 5 },"),
    script("a launcher whose channel is gone", "the launcher's PMI_FD", "Bad file descriptor", "the process between the launcher and this one closed it",
           environment={"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "77"}),
    script("a rank that is no number", "environment variable PMI_RANK", "is no number of the expected kind", "0 to", environment={"PMI_RANK": "one"}),
    script("a state that goes on, and steps of several sums", "trial.lua:3: network|trial.lua:2: network|network", "from batch to batch, and a step of several sums would carry it several times",
           "expected one process", args=("train", "trial.lua", "--workers", "2"), loss='"cross_entropy"',
           optimizer="pg.optimizer.lbfgs {}", network='pg.sequential { pg.embedding { 40, 4 }, pg.gru { 3, state = "carry" }, pg.conv1d { 40, kernel = 1 } }',
           train='pg.data.text { "two.csv", context = 4, targets = "every", streams = 2 }', data=", batch = 2", more='averaging = "allreduce",'),
    script("a record of workers elsewhere", "--record", "needs the workers on this machine, where their records are written", "leave out --agents and --listen",
           args=("train", "trial.lua", "--agents", "127.0.0.1:1", "--secret", "good.key", "--record"), more="averaging = pg.averaging.streaming { every = 8 },"),
    # 60 examples, 6 rounds an epoch; from the fourth epoch on the steps are far too long, and clipped, so that all stays finite
    script("a run that loses what it had learnt", "averaging", "the run diverges; got ", "guard = false lets it go on", ("every = 1", "every = 1, guard = false"),
           args=("train", "trial.lua", "--workers", "2", "--threads", "1"), loss='"mse"', train='pg.data.csv { "number.csv" }', writes_run=True,
           network='pg.sequential { pg.dense { 8, activation = "tanh" }, pg.dense { 1 } }', data=", batch = 5",
           optimizer='pg.sgd { lr = { type = "map", values = { ["0"] = 0.02, ["3"] = 10 } } }',
           more='epochs = 20, clip = { type = "norm" }, averaging = pg.averaging.periodic { every = 1 },'),
    job("'program' needs too many results at once", ("for i = 1, 29 do x = x + all[i] end ", ""), "at most 23", place="trial.lua:6: optimizer",
        optimizer="pg.rule { update = function(p, g) local all, x = {}, g for i = 1, 30 do x = x * p all[i] = x end "
                  "for i = 1, 29 do x = x + all[i] end return x end }"),
    script("fewer layers than fragments", "trial.lua", "'fragments'|fragments: are more than the network has layers with parameters",
           'cut = "even" cuts inside layers', args=("train", "trial.lua", "--workers", "2"),
           more='averaging = pg.averaging.streaming { every = 20, fragments = 10, cut = "layers" },'),
    script("fewer parameters than fragments", "trial.lua", "are more than the network's parameters fill", "at most 4", ("fragments = 10", "fragments = 4"),
           args=("train", "trial.lua", "--workers", "2"), more='averaging = pg.averaging.streaming { every = 20, fragments = 10 },'),
]
