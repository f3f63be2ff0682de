"""Command lines that are wrong, for error_cases.py."""
import sys

from error_forms import command, script

KEPT = (("train", "kept.lua", "--out", "kept"),)
FORECAST = ("simulate", "kept.lua", "--step-time", "1ms", "--nodes", "2")
JOB = ('{"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "adam", "data": {"train": {"type": "csv", "file": '
       '"two.csv"}}')


def forecast(place, cause, hint="", fix=None, *more, name=""):
    return command(f"a forecast with {' '.join(more)}{name}"[:110], (*FORECAST, *more), place, cause, hint, fix)


def bare(place, cause, hint, fix, *args):
    """A forecast of the job without a time of a step."""
    return command(f"the command {' '.join(args)}"[:110], args, place, cause, hint, fix)


def kept(name, args, place, cause, hint="", fix=None, after=(), **more):
    """A mistake in what is done with a model."""
    return command(name, args, place, cause, hint, fix, after=KEPT + after, **more)


# The program under another name, which starts workers.
OTHER = ("os.execute [=[d=$(dirname $(readlink /proc/$PPID/exe)); cp $d/perigee other; LD_LIBRARY_PATH=$d "
         "./other -e 'pg.start(\"kept.lua\", { workers = 2 })']=] os.exit(1)")
TERMINAL = (f"os.execute [=[{sys.executable} -c 'import pty, sys; pty.spawn(sys.argv[1:])' "
            "$(readlink /proc/$PPID/exe) predict kept - >&2]=] os.exit(1)")
# An agent, to which the prompt attaches as to a run.
AGENT = ("os.execute [=[e=$(readlink /proc/$PPID/exe); $e agent --log json > agent.log & for i in $(seq 100); do grep -q listening agent.log "
         "&& break; sleep 0.05; done; $e attach $(grep -oE '127.0.0.1:[0-9]+' agent.log | head -1); kill $!]=] os.exit(1)")
# The program with few file descriptors, in a file that is not its own, with a file of 17 GiB, and with a line too long for a shell.
FEW_FILES = 'os.execute [=[e=$(readlink /proc/$PPID/exe); bash -c "ulimit -n 4; exec $e {}" >&2]=] os.exit(1)'
NOT_OURS = 'os.execute [=[$(readlink /proc/$PPID/exe) secret new > /proc/self/comm]=] os.exit(1)'
LONG_INPUT = 'os.execute [=[truncate -s 17G long.csv; $(readlink /proc/$PPID/exe) predict kept - < long.csv >&2]=] os.exit(1)'
LONG_LINE = 'os.execute [=[(printf "!true "; head -c 200000 /dev/zero | tr "\\0" x; echo) | $(readlink /proc/$PPID/exe) repl >&2]=] os.exit(1)'
# Every process of `eval --workers` is killed, until the program gives up.
KILLED = ("os.execute [=[e=$(readlink /proc/$PPID/exe); $e eval kept --part train --workers 2 & p=$!; "
          "while kill -0 $p; do for c in $(cat /proc/$p/task/$p/children); do kill -9 $c; done; done 2>/dev/null; wait $p]=] os.exit(1)")
# An environment so long that the program starts, and its processes with their longer command lines do not.
CROWDED = """os.execute [=[ln -s $(readlink /proc/$PPID/exe) p; cat > crowd.py <<'END'
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_STACK, (2 << 20, 2 << 20))
low, high, said = 0, 120000, ""
while high - low > 1:
    middle = (low + high) // 2
    full = {key: 120000 * "x" for key in "ABCD"} | {"E": middle * "x"}
    try:
        low, said = middle, subprocess.run(["./p", *sys.argv[1:]], env=full, capture_output=True, text=True).stderr
    except OSError:
        high = middle
sys.exit(said)
END
"""
CROWDED += sys.executable + " crowd.py {}]=] os.exit(1)"
# A run that lets go of the terminal: without a folder for temporary files, and where a folder has the name of its output.
NO_TEMPORARY = 'os.execute [=[TMPDIR=/proc $(readlink /proc/$PPID/exe) train kept.lua --detach]=] os.exit(1)'
NO_OUTPUT = 'os.execute [=[mkdir kept/output.txt; $(readlink /proc/$PPID/exe) train --resume kept --epochs 9 --detach >&2]=] os.exit(1)'
CASES = [
    # the system
    command("slices without room for arguments", ("-e", CROWDED.replace("{}", "eval kept --part train --workers 2")), "--workers", "a process could not be started; got Argument list too long",
            "give fewer workers, or make the environment shorter", after=KEPT),
    command("completion without descriptors", ("-e", FEW_FILES.format("completion paths kept.lua ''")), "completion", "there are no descriptors left",
            "raise `ulimit -n`"),
    command("slices without descriptors", ("-e", FEW_FILES.format("eval kept --part train --workers 2")), "--workers",
            "there is no room for the processes' output; got Too many open files", "give fewer workers", after=KEPT),
    command("detaching without room for arguments", ("-e", CROWDED.replace("{}", "train none.lua --detach")), "--detach",
            "the process that trains does not start; got Argument list too long", after=KEPT),
    command("detaching without descriptors", ("-e", FEW_FILES.format("train kept.lua --detach")), "--detach",
            "no pipe can be made; got Too many open files"),
    command("detaching without temporary files", ("-e", NO_TEMPORARY), "--detach", "no file for what the run prints can be made; got"),
    command("detaching where the output is a folder", ("-e", NO_OUTPUT), "--detach", "the file for what the run prints cannot be written; got Is a directory",
            after=KEPT),
    command("a dry run that is detached", ("train", "kept.lua", "--dry-run", "--detach"), "--detach", "--dry-run ends by itself", "leave out one of the two"),
    command("slices whose processes are killed", ("-e", KILLED), "worker 0|worker 1", "was killed twice, by signal 9", "memory", after=KEPT),
    command("a secret in a file of others", ("-e", NOT_OURS), "secret new", "the file stays readable to other users; got Operation not permitted",
            "write it to another file, after `umask 077`"),
    command("a table of 17 GiB", ("-e", LONG_INPUT), "standard input", "is too long; expected at most 16 GiB", "give a part of it", after=KEPT),
    command("a line for the shell that is too long", ("-e", LONG_LINE), "!", "the shell does not start; got Argument list too long", "write a shorter line"),
    # quantities and sweeps
    forecast("--bandwidth", "the unit is missing; got '100'", "such as 100Mbit", ("100", "100Mbit"), "--bandwidth", "100"),
    forecast("--bandwidth", "there is no unit 'Mbi' here; got '100Mbi'", "did you mean 'Mbit' or 'Mbit/s'?", ("100Mbi", "100Mbit"), "--bandwidth",
             "100Mbi"),
    forecast("--bandwidth", "this is no number with a unit; got 'much'", "such as 100Mbit", ("much", "100Mbit"), "--bandwidth", "much"),
    forecast("--bandwidth", "nothing would ever arrive; got '0bit'", "such as 1Mbit", ("0bit", "1Mbit"), "--bandwidth", "0bit"),
    forecast("--latency", "there is no unit 'm' here", "minutes are 'min'", None, "--latency", "2m"),
    forecast("--speed", "this is none; got 'fast', expected a number from", "", None, "--speed", "1=fast"),
    forecast("--sweep every", "a sweep has the form name=value,value", "for example --sweep every=1,5,50", None, "--sweep", "every"),
    forecast("--sweep nodes", "these are too many combinations; got 100", "at most 64", None, "--sweep",
             "nodes=" + ",".join(str(i) for i in range(1, 101))),
    forecast("--sweep nodes", "is no whole number; got '1.5'", "", ("1.5", "2"), "--sweep", "nodes=1.5"),
    forecast("--sweep nods", "there is nothing of that name to vary", "did you mean 'nodes'", ("nods", "nodes"), "--sweep", "nods=1,2"),
    forecast("--sweep average_optimizer", "changes what is measured", "give it with --set, in a forecast of its own", None, "--sweep",
             "average_optimizer=true"),
    bare("--step-time", "takes no time; got '0ms', expected more than 0", "", ("0ms", "1ms"), "simulate", "kept.lua", "--step-time", "0ms"),
    bare("--step-time", "says how a link is used, but none is given", "add --bandwidth 2Mbit", None, "describe", "kept.lua", "--step-time", "1ms"),
    bare("--parameters", "goes with --step-time only", "a step is measured with the job's own network and data", None, "simulate", "kept.lua",
         "--parameters", "100"),
    forecast("--examples", "is only half of what replaces the data set", "give --parameters and --examples, or neither", None, "--examples", "100"),
    forecast("--parameters", "does not say how large the optimiser's state is, which average_optimizer sends too", "leave --parameters out", None,
             "--parameters", "100", "--examples", "100",
             "--set", 'averaging={"type": "diloco", "average_optimizer": true}'),
    forecast("--parameters", "does not say what matrices there are, which a linear codec's sums depend on", "leave --parameters out", None,
             "--parameters", "100", "--examples", "100",
             "--set", 'averaging={"type": "allreduce", "codec": "lowrank"}'),
    forecast("--sweep codec", "changes what a linear codec adds up, which follows from the job's matrices",
             "give it with --set, in a forecast of its own", None,
             "--sweep", "codec=lowrank,fp32"),
    command("a forecast of a job without an end", ("simulate", "trial.json", "--step-time", "1ms"), "simulate", "the job never ends",
            "give --steps or --epochs", file="trial.json",
            script=JOB + ', "epochs": 0}'),
    # training in a cluster
    command("a record without a cluster", ("train", "kept.lua", "--record"), "--record", "says how a cluster trains, but there is none",
            "add --workers, --agents or --listen"),
    command("a standby of workers that end with it", ("train", "kept.lua", "--workers", "2", "--standby", "localhost:1"), "--standby",
            "these workers end with this process: none would be left to go on with",
            "train with --agents, or with --listen and workers of other machines"),
    command("a standby without a secret", ("train", "kept.lua", "--listen", ":0", "--standby", "localhost:1"), "--standby",
            "the agent there is reached with the cluster's secret",
            "add --secret FILE"),
    command("phases with workers that join", ("train", "trial.json", "--listen", ":0"), "phases",
            "make a run of several workers start them for each phase; got workers that join by themselves", "leave out --listen",
            script=JOB + ', "epochs": 1, "phases": [{"epochs": 1}, {"epochs": 1}]}', file="trial.json"),
    command("a lease in another store", ("train", "kept.lua", "--listen", ":0", "--lease", "zookeeper://h/run"), "--lease", "is no address of etcd",
            "etcd://HOST:PORT"),
    command("a worker that is to stand by", ("worker", "--standby", "--join", "localhost:1"), "--standby", "a standby is started by an agent",
            "perigee train --standby"),
    # runs
    command("a run without a record", ("replay", "kept"), "kept", "no record is here", "`perigee train --record` writes one", after=KEPT),
    command("a run without checkpoints", ("train", "kept.lua", "--resume", "kept"), "kept", "this run has no checkpoint to resume from",
            after=KEPT + (("-e", 'os.execute("rm -r kept/checkpoints")'),)),
    command("a folder of a run that failed early", ("train", "kept.lua", "--out", "kept"), "kept",
            "this folder holds a run that failed before its first checkpoint", "delete it, or choose another folder",
            after=KEPT + (("-e", 'os.execute("rm -r kept/checkpoints kept/model.safetensors")'),)),
    command("a folder of a finished run without checkpoints", ("train", "kept.lua", "--out", "kept"), "kept", "this folder already holds a run",
            "delete it, or choose another folder", after=KEPT + (("-e", 'os.execute("rm -r kept/checkpoints")'),)),
    command("more workers than come", ("train", "kept.lua", "--workers", "1", "--min-workers", "2"), "min_workers",
            "are more than this run starts", "(--listen)"),
    command("an address of another machine", ("train", "kept.lua", "--listen", "192.0.2.1:7700"), "--listen 192.0.2.1:7700",
            "without a secret any process that reaches this address could join", "--secret FILE"),
    command("a checkpoint of another optimiser", ("train", "--resume", "kept", "--set", 'optimizer="sgd"', "--epochs", "2"), "checkpoints",
            "the checkpoint is of another optimiser; got adam, expected sgd",
            after=KEPT),
    command("a run folder that cannot be made", ("train", "kept.lua", "--out", "two.csv/run"), "two.csv/run", "this folder cannot be made",
            "choose another with --out"),
    command("runs that are a file", ("train", "kept.lua"), "runs", "this folder cannot be made", "choose another with --out",
            after=(("-e", 'os.execute("touch runs")'),)),
    # models
    command("a script in the place of the model", ("predict", "kept.lua", "two.csv"), "kept.lua", "is no trained model; got a script",
            "train it first, and give the run folder: perigee train kept.lua"),
    command("data in the place of the model", ("eval", "two.csv"), "two.csv", "is no trained model; got a table",
            "the model comes first, then the data"),
    command("a job in the place of the model", ("predict", "trial.json", "two.csv"), "trial.json", "is no trained model; got JSON",
            "perigee train trial.json", file="trial.json", script="{}"),
    command("data in the place of a job", ("describe", "two.csv"), "two.csv", "this is no job", 'train = pg.data.csv { "two.csv" }'),
    kept("data that are not there", ("eval", "kept", "--data", "tow.csv"), "--data tow.csv", "there is no such file",
         'a source as JSON such as {"type": "csv", "file": "new.csv"}'),
    kept("standard input for two processes", ("eval", "kept", "--data", "-", "--workers", "2"), "--data -",
         "standard input is read once, by one process", "write it to a file first"),
    kept("standard input twice", ("predict", "kept", "-", "-"), "-", "standard input is read once, by one process", "write it to a file first"),
    kept("results in a folder", ("predict", "kept", "two.csv", "--out", "shared"), "--out", "is a folder; got shared, expected a file's name",
         fix=("shared", "shared.csv")),
    kept("results in a file of no kind", ("predict", "kept", "two.csv", "--out", "a.txt"), "--out",
         "results cannot be written to a file of this name; got a.txt, expected .csv, .jsonl or .npy", "", ("a.txt", "a.npy")),
    kept("results of two outputs in one array", ("predict", "kept", "two.csv", "--out", "a.npy", "--layer", "dense1", "--layer", "dense2"),
         "--out a.npy", "an .npy file holds one array",
         "name one with --layer, or write .jsonl or .csv"),
    kept("a slice that is none", ("predict", "kept", "two.csv", "--slice", "4/4"), "--slice", "is no slice; got 4/4", "for example 0/4",
         ("4/4", "0/4")),
    kept("a layer that is not there", ("predict", "kept", "two.csv", "--layer", "dens1"), "layer 'dens1'", "the network has no layer of this name",
         "did you mean 'dense1'", ("dens1", "dense1")),
    kept("beams without label sequences", ("predict", "kept", "two.csv", "--beams", "4"), "beams",
         "search among label sequences, and the model gives none", "texts are made by perigee generate"),
    kept("too many beams", ("predict", "kept", "two.csv", "--beams", "1001"), "beams", "there must be at least one, and not too many; got 1001",
         "1 to 1000"),
    command("GPUs that do not go into the workers", ("train", "kept.lua", "--device", "cuda:0,1,2", "--workers", "2"), "--workers",
            "these GPUs cannot be shared out evenly; got 2 workers, 3 GPUs"),
    command("an agent that is taken for a coordinator", ("-e", AGENT), "127.0.0.1:", "a coordinator was expected; there answers the agent",
            "tells where its jobs' coordinators are"),
    command("workers of another program", ("-e", OTHER), "pg.start: workers", "worker processes are the program `perigee`, started again; got",
            "run this in `perigee`, or give agents"),
    command("standard input that is a terminal", ("-e", TERMINAL), "-", "standard input is a terminal",
            "pipe a table into it: perigee predict MODEL - < new.csv", after=KEPT),
    script("a record that lacks rounds", "few/ledger: round", "is not what the record tells; got no such round", "the run went on without --record",
           args=("replay", "few"),
           more="averaging = pg.averaging.async_local {},", after=(("train", "trial.lua", "--workers", "1", "--record", "--out", "few"),
               ("-e", "os.execute [[sed -i '$d' few/record.jsonl]]"))),
    command("a setting of an empty name", ("train", "kept.lua", "--set", ".=3"), "--set .", "has an empty name",
            "as in optimizer.lr"),
    command("a rate as other programs have it", ("train", "kept.lua", "--lr", "0.1"), "perigee train", "'--lr' is no option",
            "did you mean '--set optimizer.lr='?"),
    command("a setting of the rate alone", ("train", "kept.lua", "--set", "lr=0.1"), "--set lr", "there is no 'lr' here",
            "did you mean 'optimizer.lr'?", ("lr=", "optimizer.lr=")),
    kept("a file of results by another name", ("predict", "kept", "two.csv", "--output", "a.csv"), "perigee predict", "'--output' is no option",
         "did you mean '--out'?", ("--output", "--out")),
    command("a table to convert to nothing", ("data", "convert", "two.csv"), "perigee data convert",
            "the command has another number of files; got 1, expected perigee data convert IN OUT"),
    command("quality without a schema", ("data", "quality", "two.csv"), "perigee data quality", "there is no schema to check against",
            "`perigee data schema two.csv > schema.json` writes one to edit"),
    command("a job without training data to prepare", ("data", "prepare", "trial.json", "out"), "trial.json", "the job names no training data",
            script=JOB.replace('"train"', '"test"') + "}", file="trial.json"),
    # the rest
    command("a command of the prompt that is not there", ("-e", "os.execute [[echo :hlp | /proc/$PPID/exe repl]] os.exit(1)"), "",
            "there is no command :hlp", "did you mean ':help'?"),
    command("help of nothing", ("help", "trian"), "", "there is no help for 'trian'", "did you mean 'train'", ("trian", "train")),
]
