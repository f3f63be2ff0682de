#!/usr/bin/env python3
"""Open MPI, MPICH and Slurm, the real ones, on this machine. Where one is not installed its tests say that they were skipped."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import harness
from harness import Cluster, wait_until

MPI = ["mpirun", "--oversubscribe"]
MPI_ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def need(*programs):
    for name in programs:
        if not (shutil.which(name) or pathlib.Path("/usr/sbin", name).exists()):
            raise harness.Skip(f"{name} is not installed")


def clean_environment():
    """What another scheduler may have left in our own environment."""
    return {name: "" for name in os.environ if name.startswith(("SLURM_", "OMPI_COMM", "PMIX_", "PMI_"))}


def ranks_of(train):
    """Process ids of the ranks that mpirun or mpiexec started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes()
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if entry.name.isdigit() and f"PERIGEE_TEST={train.mark}".encode() in environment and words[1:2] == [b"train"]:
            rank = [v for v in environment.split(b"\0") if v.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK="))]
            if rank:
                found.append((int(rank[0].split(b"=")[1]), int(entry.name)))
    return dict(found)


def mpirun(cluster, ranks, *options):
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    train = cluster.train(command=[*MPI, "-x", "PERIGEE_TEST", *options, "-n", str(ranks)],
                          env={**clean_environment(), **MPI_ENV, "PERIGEE_TEST": mark})
    train.mark = mark
    return train


def openmpi_ranks_train_together():
    need("mpirun")
    with Cluster() as cluster:
        train = mpirun(cluster, 3)
        assert train.wait() == 0, train.tail()
        engine = train.of_kind("engine")
        assert len(engine) == 1 and engine[0]["engine"] == "openmpi" and engine[0]["processes"] == 3, engine
        assert train.of_kind("end")[-1]["test"]["accuracy"] > 0.5
        assert len(train.of_kind("worker_joined")) == 3, train.tail()
        cluster.check_ledger(train.folder(), epochs=2)


def openmpi_goes_on_without_a_killed_rank():
    need("mpirun")
    with Cluster() as cluster:
        cluster.write_job(epochs=80)
        train = mpirun(cluster, 3, "--enable-recovery")
        train.wait_event("step", lambda e: e["workers"] == 3)
        ranks = ranks_of(train)
        assert set(ranks) == {0, 1, 2}, ranks
        os.kill(ranks[2], signal.SIGKILL)
        lost = train.wait_event("worker_lost")
        assert lost["worker"].endswith("/rank2"), lost
        train.wait_event("end")
        train.wait()  # mpirun tells of the killed rank by its exit status
        cluster.check_ledger(train.folder(), epochs=80)


HYDRA = ["mpiexec.hydra"]


def check_two(cluster, train, engine):
    """Both processes trained one run, and the ledger of it adds up."""
    assert train.wait() == 0, train.tail()
    started = train.of_kind("engine")
    assert len(started) == 1 and started[0]["engine"] == engine and started[0]["processes"] == 2, (started, train.tail())
    assert len(train.of_kind("worker_joined")) == 2, train.tail()
    assert len(list((cluster.folder / "runs").iterdir())) == 1, "each trained a run of its own"
    cluster.check_ledger(train.folder(), epochs=2)


def hydra_ranks_train_together():
    need("mpiexec.hydra")
    with Cluster() as cluster:
        check_two(cluster, cluster.train(command=[*HYDRA, "-n", "2"], env=clean_environment()), "pmi")


def hydra_ranks_of_two_machines_train_together():
    """Two names of this machine, and a program of ours in the place of ssh: Hydra's proxies talk over TCP, and no folder is private to both."""
    need("mpiexec.hydra")
    with Cluster() as cluster:
        ssh = cluster.folder / "ssh"
        ssh.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nshift\nexec sh -c "$*"\n')
        ssh.chmod(0o755)
        options = ["-launcher", "ssh", "-launcher-exec", str(ssh), "-hosts", "127.0.0.2,127.0.0.3"]
        check_two(cluster, cluster.train(command=[*HYDRA, *options, "-n", "2"], env=clean_environment()), "pmi")


def hydra_ends_with_a_killed_rank_and_resumes():
    """Hydra kills the others, also with -disable-auto-cleanup, which is of ranks that end with an error."""
    need("mpiexec.hydra")
    with Cluster() as cluster:
        cluster.write_job(epochs=80)
        mark = f"{os.getpid()}-{time.monotonic_ns()}"
        train = cluster.train(command=[*HYDRA, "-n", "2"], env={**clean_environment(), "PERIGEE_TEST": mark})
        train.mark = mark
        train.wait_event("epoch")
        wait_until("a checkpoint", lambda: any(train.folder().glob("checkpoints/*.safetensors")))
        ranks = ranks_of(train)
        assert set(ranks) == {0, 1}, ranks
        os.kill(ranks[1], signal.SIGKILL)
        assert train.wait() != 0, train.tail()
        again = cluster.start("train", "--log", "json", "--resume", train.folder(), command=[*HYDRA, "-n", "2"], env=clean_environment())
        assert again.wait() == 0, again.tail()
        assert again.folder() == train.folder() and again.of_kind("start")[0].get("step", 0) > 0, again.of_kind("start")
        cluster.check_ledger(train.folder(), epochs=80)


def pmix_alone_is_enough():
    """Open MPI's mpirun is a PMIx server: what other launchers with PMIx leave out is taken away."""
    need("mpirun")
    with Cluster() as cluster:
        hidden = ["env", "-u", "OMPI_COMM_WORLD_RANK", "-u", "OMPI_COMM_WORLD_SIZE"]
        check_two(cluster, cluster.train(command=[*MPI, "-n", "2", *hidden], env={**clean_environment(), **MPI_ENV}), "pmix")


def a_pmix_that_fails_is_told():
    """A libpmix of our own, whose launcher does part of what it should."""
    library = os.environ.get("PERIGEE_FAKE_PMIX_LIBRARY")
    if library is None:
        raise harness.Skip("PERIGEE_FAKE_PMIX_LIBRARY names none")
    with Cluster() as cluster:
        folder = cluster.folder / "library"
        folder.mkdir()
        (folder / "libpmix.so.2").symlink_to(library)
        alone = {**clean_environment(), "PMIX_RANK": "0", "LD_LIBRARY_PATH": str(folder)}
        for way, said in (("put", "does not take where rank 0 is"), ("barrier", "has no barrier"), ("nothing", "does not know where rank 0 is"),
                          ("status", "did not bring all processes together: status -24")):
            train = cluster.train(env={**alone, "PERIGEE_FAKE_PMIX": way})
            assert train.wait() == 5, train.tail()
            assert f"the launcher's PMIx: {said}; start the job again; --engine none leaves the launcher's answers aside" in train.stderr(), train.tail()
        train = cluster.train(env={**alone, "PERIGEE_FAKE_PMIX": "silence"})
        train.wait_event("engine")
        train.signal(signal.SIGINT)
        assert train.wait() == 130, train.tail()
        train = cluster.train("--engine", "none", env={**alone, "PERIGEE_FAKE_PMIX": "put"})  # as the hint says
        assert train.wait() == 0, train.tail()


# Starts the rest of its command line twice, with torchrun's variables, and ends as the worse of both does.
STARTER = """
import os, subprocess, sys
names = lambda i: {"RANK": str(i), "WORLD_SIZE": "2", "LOCAL_RANK": str(i), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1]}
both = [subprocess.Popen(sys.argv[2:], env={**os.environ, **names(i)}) for i in range(2)]
sys.exit(max(abs(each.wait()) for each in both))
"""


def torch_variables_are_enough():
    port = str(Slurm.free_ports(1)[0])
    with Cluster() as cluster:
        check_two(cluster, cluster.train(command=["python3", "-c", STARTER, port], env=clean_environment()), "torch")
    with Cluster() as cluster:  # the cluster's secret: rank 0 listens at MASTER_ADDR and MASTER_PORT, no file is written
        train = cluster.train("--secret", cluster.secret(), command=["python3", "-c", STARTER, port], env=clean_environment())
        check_two(cluster, train, "torch")
        assert train.of_kind("engine")[0]["done"].split(";")[0].endswith(":" + port), train.of_kind("engine")


def several_processes_that_nobody_understands_are_refused():
    with Cluster() as cluster:
        for variables in ({"WORLD_SIZE": "4"}, {"PMI_SIZE": "4", "PMI_RANK": "1"}, {"PMIX_RANK": "1"}, {"JOB_COMPLETION_INDEX": "1"}):
            env = {**clean_environment(), **variables}
            train = cluster.train(env=env)
            assert train.wait() == 2 and list(variables)[0] in train.stderr() and "--engine none" in train.stderr(), train.tail()
            doctor = cluster.start("doctor", env=env)
            doctor.wait()
            assert any(list(variables)[0] in line and "problem" in line for line in doctor.lines), doctor.lines
        assert not (cluster.folder / "runs").exists()
        train = cluster.train("--engine", "none", env={**clean_environment(), "WORLD_SIZE": "4"})
        assert train.wait() == 0, train.tail()


class Slurm:
    """munged, slurmctld and two slurmd on this machine, in a folder of their own."""

    def __init__(self, folder, scheduler="builtin"):
        self.folder = pathlib.Path(folder)
        self.daemons = []
        for name in ("state", "spool1", "spool2"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        host = socket.gethostname().split(".")[0]
        ports = self.free_ports(3)
        (self.folder / "slurm.conf").write_text(f"""
ClusterName=perigeetest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool-%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SchedulerType=sched/{scheduler}
SchedulerParameters=bf_interval=1,sched_min_interval=1000000,sched_interval=2,batch_sched_delay=1
SelectType=select/cons_tres
JobRequeue=1
KillWait=10
NodeName=d1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=1000 State=UNKNOWN
NodeName=d2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=test Nodes=d1,d2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
""")
        self.env = {**clean_environment(), "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin"}

    @staticmethod
    def free_ports(count):
        sockets = [socket.socket() for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in sockets]
        for each in sockets:
            each.close()
        return ports

    def start(self, *command):
        log = open(self.folder / (command[0] + command[-1].strip("/").replace("/", "_") + ".out"), "w")
        self.daemons.append(subprocess.Popen(command, env={**os.environ, **self.env}, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=subprocess.STDOUT, cwd=self.folder))

    def run(self, *command, check=True):
        done = subprocess.run(command, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=60, cwd=self.folder)
        if check and done.returncode != 0:
            raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def gave_up(self, job):
        """Slurm's own words when it ends a job that it could not start on its nodes; empty otherwise."""
        lines = (self.folder / "slurmctld.log").read_text(errors="replace").splitlines()
        return next((line for line in lines if f"Killing non-startable batch JobId={job}" in line), "")

    def __enter__(self):
        socket_file = self.folder / "munge.socket"
        self.start("munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key", f"--pid-file={self.folder}/munged.pid",
                   f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed", f"--socket={socket_file}")
        try:
            wait_until("munged", socket_file.exists)
            self.start("slurmctld", "-D", "-c")
            for node in ("d1", "d2"):
                self.start("slurmd", "-D", "-N", node)
            wait_until("Slurm's nodes", lambda: self.run("sinfo", "-h", "-N", "-o", "%T", check=False).split() == ["idle", "idle"])
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:  # not ours to judge: Slurm itself does not run on this machine
            self.__exit__(type(error), error, None)
            raise harness.Skip(f"Slurm's own daemons do not come up here: {error}") from None
        return self

    def __exit__(self, *error):
        if error[0]:
            for log in sorted(self.folder.glob("*.log")):
                print(f"# {log.name}: " + "\n# ".join(log.read_text(errors="replace").splitlines()[-8:]))
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def need_slurm():
    need("srun", "slurmd", "slurmctld", "munged")
    if os.geteuid() != 0:
        raise harness.Skip("Slurm's daemons need root")


def slurm_tasks_train_together():
    need_slurm()
    with Cluster() as cluster, Slurm(cluster.folder) as slurm:
        train = cluster.train(command=["srun", "-N2", "-n2", "--overcommit"], env=slurm.env)
        assert train.wait() == 0, train.tail()
        engine = train.of_kind("engine")
        assert len(engine) == 1 and engine[0]["engine"] == "slurm" and engine[0]["processes"] == 2, engine
        assert len(train.of_kind("worker_joined")) == 2, train.tail()
        assert "-slurm-" in str(train.folder()), train.folder()
        cluster.check_ledger(train.folder(), epochs=2)
        assert not list(cluster.folder.glob(".perigee-*")), "the file where they met is removed"


def components_of_a_heterogeneous_job_train_together():
    need_slurm()
    with Cluster() as cluster, Slurm(cluster.folder, "backfill") as slurm:  # the scheduler that such jobs need
        one = ["-n1", "--overcommit"]
        check_two(cluster, cluster.train(command=["srun", *one, "-w", "d1", ":", *one, "-w", "d2"], env=slurm.env), "slurm")


def slurm_requeue_resumes():
    need_slurm()
    with Cluster() as cluster, Slurm(cluster.folder) as slurm:
        cluster.write_job(epochs=400)
        script = cluster.folder / "job.sh"
        script.write_text(f"#!/bin/sh\nexec srun -N2 -n2 --overcommit {harness.program()} train job.json --log json\n")
        output = cluster.folder / "out.txt"
        job = slurm.run("sbatch", "--parsable", "-N2", "-n2", "--requeue", "--open-mode=append", f"--output={output}", str(script)).strip()

        def events(kind):
            found = []
            for line in output.read_text(errors="replace").splitlines() if output.exists() else []:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if isinstance(event, dict) and event.get("event") == kind:
                    found.append(event)
            return found

        wait_until("the first epoch", lambda: len(events("epoch")) >= 1)
        slurm.run("scontrol", "requeue", job)
        wait_until("the job to be queued again", lambda: "PENDING" in slurm.run("squeue", "-h", "-j", job, "-o", "%T", check=False))
        # Slurm puts a requeued job off by about two minutes; it need not. But its nodes count the revocation of the first run's credential in
        # whole seconds and refuse one issued in the same second, for good ("Job credential revoked"): a few seconds must lie between.
        slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now+5", check=False)
        wait_until("the second start", lambda: len(events("start")) == 2 or slurm.gave_up(job), deadline=300)
        if slurm.gave_up(job):
            raise harness.Skip("Slurm itself ended the requeued job before anything of ours was started again: " + slurm.gave_up(job))
        first, second = events("start")
        assert second["folder"] == first["folder"] and second.get("step", 0) > 0, (first, second)
        assert events("engine")[1]["restarts"] == 1, events("engine")
        slurm.run("scancel", job)
        wait_until("the end", lambda: not slurm.run("squeue", "-h", "-j", job, check=False).strip())
        cluster.check_ledger(cluster.folder / first["folder"])


def a_submitted_script_goes_on_when_its_time_is_up():
    """What `perigee submit --slurm` prints; the signal that Slurm sends before the time is up comes from us."""
    need_slurm()
    with Cluster() as cluster, Slurm(cluster.folder) as slurm:
        cluster.write_job(epochs=400)
        words = ["--slurm", "2", "--program", harness.program(), "--cpus", "1", "--memory-mb", "64", "job.json"]
        status, script, errors = cluster.run("submit", *words)
        assert status == 0, errors
        (cluster.folder / "job.sh").write_text(script)
        job = slurm.run("sbatch", "--parsable", "job.sh").strip()
        log = cluster.folder / "runs" / f"small-slurm-{job}" / "log.jsonl"

        def count(event):
            return log.read_text(errors="replace").count(f'"event":"{event}"') if log.exists() else 0

        wait_until("the first epoch", lambda: count("epoch") >= 1)
        slurm.run("scancel", "--signal=USR1", job)
        wait_until("the job to be queued again", lambda: "PENDING" in slurm.run("squeue", "-h", "-j", job, "-o", "%T", check=False))
        before = count("epoch")
        slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now+5", check=False)  # see slurm_requeue_resumes
        wait_until("the second start", lambda: count("epoch") > before or slurm.gave_up(job), deadline=300)
        if slurm.gave_up(job):
            raise harness.Skip("Slurm itself ended the requeued job before anything of ours was started again: " + slurm.gave_up(job))
        slurm.run("scancel", job)
        wait_until("the end", lambda: not slurm.run("squeue", "-h", "-j", job, check=False).strip())
        cluster.check_ledger(log.parent)


if __name__ == "__main__":
    harness.main([
        openmpi_ranks_train_together, openmpi_goes_on_without_a_killed_rank, hydra_ranks_train_together,
        hydra_ranks_of_two_machines_train_together, hydra_ends_with_a_killed_rank_and_resumes, pmix_alone_is_enough, a_pmix_that_fails_is_told, torch_variables_are_enough,
        several_processes_that_nobody_understands_are_refused, slurm_tasks_train_together,
        components_of_a_heterogeneous_job_train_together, slurm_requeue_resumes,
        a_submitted_script_goes_on_when_its_time_is_up
    ])
