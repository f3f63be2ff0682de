#!/usr/bin/env python3
"""What `perigee submit` prints: read by the schemas of Kubernetes, Kubeflow and CloudFormation, and run. Needs kubernetes-validate,
kubeflow-trainer-api, cfn-lint and PyYAML; `./perigee test engines` installs them. No API server can be had here: a kubelet of ours starts our own manifest's pods as processes."""
import copy
import os
import pathlib
import signal
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[1])]
import harness  # noqa: E402
from harness import Cluster, wait_until  # noqa: E402

try:
    import kubernetes_validate
    import yaml
    from kubeflow_trainer_api import models
except ImportError as missing:
    print(f"1..0 # SKIP {missing}; ./perigee test engines installs it")
    sys.exit(0)

VERSIONS = [f"1.{minor}" for minor in range(30, 38)]


def submit(cluster, *words):
    status, out, err = cluster.run("submit", *words, "job.json")
    assert status == 0, err
    return out


def manifests(cluster, pods, kind="--k8s"):
    return list(yaml.safe_load_all(submit(cluster, kind, pods)))


def valid(document, version):
    try:
        kubernetes_validate.validate(document, version, strict=True)
        return True
    except kubernetes_validate.ValidationError:
        return False


def keys(value, path=()):
    """The paths of all keys that the schema knows: what is below data, labels and the like is free."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield (*path, key)
            if key not in ("data", "stringData", "selector", "requests", "limits"):
                yield from keys(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from keys(below, (*path, index))


def manifests_are_valid_in_all_versions():
    with Cluster() as cluster:
        documents = manifests(cluster, 4)
        assert [d["kind"] for d in documents] == ["Service", "Secret", "ConfigMap", "PersistentVolumeClaim", "Job"]
        for version in VERSIONS:
            for document in documents:
                kubernetes_validate.validate(document, version, strict=True)
        assert yaml.safe_load(documents[2]["data"]["job.json"]) == harness.JOB, "the job as it was"


def each_misspelt_key_is_caught():
    with Cluster() as cluster:
        tried = 0
        for document in manifests(cluster, 4):
            for path in keys(document):
                if path[-1] in ("apiVersion", "kind") and len(path) == 1:
                    continue  # there would be no schema
                wrong = copy.deepcopy(document)
                at = wrong
                for step in path[:-1]:
                    at = at[step]
                at[path[-1] + "x"] = at.pop(path[-1])
                assert not valid(wrong, "1.34"), path
                tried += 1
        assert tried > 80, tried


def contains(whole, part):
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], below) for key, below in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(whole) == len(part) and all(map(contains, whole, part))
    return whole == part


def known_to(model, document):
    """Kubeflow's classes leave out what they do not know, add defaults, and refuse values of a wrong type."""
    return contains(model.from_dict(copy.deepcopy(document)).to_dict(), document)


def job_sets_and_train_jobs_are_valid():
    with Cluster() as cluster:
        for option, model in (("--jobset", models.JobsetV1alpha2JobSet), ("--trainjob", models.TrainerV1alpha1TrainJob)):
            *objects, job = manifests(cluster, 4, option)
            assert [d["kind"] for d in objects] == ["Secret", "ConfigMap", "PersistentVolumeClaim"]
            for document in objects:
                kubernetes_validate.validate(document, VERSIONS[-1], strict=True)
            assert known_to(model, job), model.from_dict(copy.deepcopy(job)).to_dict()
            tried = 0
            for path in keys(job):
                wrong = at = copy.deepcopy(job)
                for step in path[:-1]:
                    at = at[step]
                at[path[-1] + "x"] = at.pop(path[-1])
                try:
                    assert not known_to(model, wrong), path
                except ValueError:
                    pass  # it was needed
                tried += 1
            assert tried > 40, tried
        whole = manifests(cluster, 4)[-1]
        inner = manifests(cluster, 4, "--jobset")[-1]["spec"]["replicatedJobs"][0]["template"]["spec"]
        variables = {v["name"]: v for v in inner["template"]["spec"]["containers"][0]["env"]}
        assert variables["PERIGEE_COORDINATOR"]["value"] == "job-workers-0-0.job:7700"
        variables["PERIGEE_COORDINATOR"]["value"] = "job-0.job:7700"
        assert inner == whole["spec"], "the Job inside a JobSet is the Job of --k8s"


def scripts_of_any_text_survive():
    with Cluster() as cluster:
        for text in ("return 1\n", "  - indented: first\n\n\ttab\n", "# yaml: {]}\n---\n...\n", "@NAME@ @N@ $HOME `x` \"quoted\" é\n"):
            (cluster.folder / "odd.lua").write_text(text)
            status, out, err = cluster.run("submit", "--k8s", "2", "odd.lua")
            assert status == 0, err
            assert list(yaml.safe_load_all(out))[2]["data"]["odd.lua"].rstrip() == text.rstrip(), text
        for name in ("true.lua", "123.lua", "Ä b.lua".replace(" ", "")):
            (cluster.folder / name).write_text("return 1\n")
        status, out, _ = cluster.run("submit", "--k8s", "2", "true.lua")
        assert status == 0 and all(isinstance(d["metadata"]["name"], str) for d in yaml.safe_load_all(out))


def cloudformation_template_is_clean():
    with Cluster() as cluster:
        template = cluster.folder / "batch.yaml"
        template.write_text(submit(cluster, "--aws-batch", 3))
        lint = [str(pathlib.Path(sys.executable).with_name("cfn-lint")), str(template)]
        done = subprocess.run(lint, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        template.write_text(template.read_text().replace("NumNodes", "NumNode"))
        assert subprocess.run(lint, capture_output=True, text=True).returncode != 0, "a misspelt property"
        assert yaml.safe_load(submit(cluster, "--skypilot", 3))["num_nodes"] == 3
        assert yaml.safe_load(submit(cluster, "--sagemaker", 3))["ResourceConfig"]["InstanceCount"] == 3


class Kubelet:
    """Starts the pods of the printed Job: command, environment, downward API, mounted files, hosts; all on this machine's loopback. A pod that
    fails is made again with the same index, unless the policy of the manifest says that the job has failed."""

    def __init__(self, cluster, pods, more=""):
        self.more = more  # options of the command
        self.cluster, self.documents = cluster, {d["kind"]: d for d in manifests(cluster, pods)}
        self.job = self.documents["Job"]["spec"]
        folder = cluster.folder
        for name in ("work", "job", "etc", "bin"):
            (folder / name).mkdir()
        (folder / "bin" / "perigee").symlink_to(harness.program())
        for kind, place, key in (("ConfigMap", "job", "data"), ("Secret", "etc", "stringData")):
            for name, text in self.documents[kind][key].items():
                (folder / place / name).write_text(text)
        self.pods = {}
        for index in range(self.job["completions"]):
            self.start(index)

    def start(self, index):
        container = self.job["template"]["spec"]["containers"][0]
        # The Service's names are this machine; the copy of the secret lies in a /tmp of the pod's own.
        here = self.cluster.folder
        places = {"/tmp/": f"{here}/pod{index}-", "/etc/perigee/": f"{here}/etc/", "/job/": f"{here}/job/"}
        command = container["command"][-1]
        for path, place in places.items():
            command = command.replace(path, place)
        command += self.more
        env = {"JOB_COMPLETION_INDEX": str(index), "PATH": f"{self.cluster.folder}/bin:{os.environ['PATH']}"}
        for variable in container["env"]:
            env[variable["name"]] = variable.get("value", "0b5e-uid")
        env["PERIGEE_COORDINATOR"] = env["PERIGEE_COORDINATOR"].replace("job-0.job", "127.0.0.1")
        pod = harness.Process([command], self.cluster.folder / "work", env, ["taskset", "-c", str(index % os.cpu_count()), "sh"], executable="-c",
                              own_group=True)  # one core each, as the workers of --workers have: threads change bits
        self.pods.setdefault(index, []).append(pod)
        self.cluster.processes.append(pod)
        return pod

    def pod(self, index):
        return self.pods[index][-1]

    def kill(self, index, number=signal.SIGKILL):
        os.killpg(self.pod(index).pid, number)  # all of the container

    def run(self, deadline=240, watch=lambda: None):
        """Until pod 0 has succeeded, or the job has failed by its policy. Returns the exit codes of all pods that ended before. `watch` is
        called all the while."""
        refused = next(rule["onExitCodes"]["values"] for rule in self.job["podFailurePolicy"]["rules"] if rule["action"] == "FailJob")
        codes = []

        def over():
            watch()
            for index in list(self.pods):
                if not self.pod(index).running():
                    code = self.pod(index).wait()
                    if code == 0 and index == 0:
                        return True
                    if code in refused:
                        raise AssertionError(f"pod {index} ended with {code}: {self.pod(index).tail()}")
                    if code:
                        codes.append((index, code))
                        assert len(self.pods[index]) <= self.job["backoffLimitPerIndex"], codes
                        self.start(index)
            return False

        wait_until("the job's success", over, deadline)
        return codes

    def folder(self):
        return self.cluster.folder / "work" / "runs" / "small-kubernetes-0b5e-uid"


# The same numbers with any number of workers.
LONG = {"epochs": 60, "averaging": {"type": "allreduce", "shards": 4},
        "data": {"train": harness.JOB["data"]["train"], "test": harness.JOB["data"]["test"], "global_batch": 32}}


def pods_train_one_run():
    with Cluster() as cluster:
        kubelet = Kubelet(cluster, 3)
        assert kubelet.run() == [], "no pod failed"
        assert len(kubelet.pod(0).of_kind("worker_joined")) == 3
        cluster.check_ledger(kubelet.folder(), epochs=2)


def a_killed_pod_comes_back():
    with Cluster() as cluster:
        cluster.write_job(**LONG)
        kubelet = Kubelet(cluster, 3)
        kubelet.pod(0).wait_event("step", lambda e: e["workers"] == 3)
        kubelet.kill(2)
        assert (2, -9) in kubelet.run()
        assert len(kubelet.pod(0).of_kind("worker_joined")) >= 4, kubelet.pod(0).tail()
        cluster.check_ledger(kubelet.folder(), epochs=60)


def the_first_pod_resumes():
    """Pod 0 is killed; and all get SIGTERM, as when a cluster is drained. Both times the run ends with the bits of one that never stopped."""
    with Cluster() as cluster:
        cluster.write_job(**LONG)
        train = cluster.train("--workers", "2", "--out", "whole")
        kubelet = Kubelet(cluster, 2)
        kubelet.pod(0).wait_event("epoch", count=3)
        wait_until("a checkpoint", lambda: any(kubelet.folder().glob("checkpoints/*.safetensors")))
        kubelet.kill(0)
        kubelet.pod(0).wait()
        kubelet.start(0).wait_event("epoch", count=3)
        assert kubelet.pod(0).of_kind("start")[0].get("step", 0) > 0, "resumed"
        for index in (0, 1):
            kubelet.kill(index, signal.SIGTERM)
        assert kubelet.pod(0).wait(10) == 143, kubelet.pod(0).tail()
        codes = kubelet.run()
        assert {code for _, code in codes} <= {143, 5, -15}, codes
        cluster.check_ledger(kubelet.folder(), epochs=60)
        assert train.wait() == 0, train.tail()
        assert harness.parameters(cluster.folder / "whole") == harness.parameters(kubelet.folder()), "other bits"


def kill_twenty_times(index, epochs):
    """One of four pods, each time when all four have trained since the last blow; pod 0 when it also has ended an epoch, which is a checkpoint."""
    if "PERIGEE_TEST_EVERYTHING" not in os.environ:
        raise harness.Skip("takes long: ./perigee test --everything has it")
    with Cluster() as cluster:
        cluster.write_job(**{**LONG, "epochs": epochs})
        # With three workers the run would go on, and be over before the last blow.
        kubelet, killed, at = Kubelet(cluster, 4, " --min-workers 4"), [], [0]

        def watch():
            first = kubelet.pod(0)
            since = first.events[at[0]:]
            trained = any(e["event"] == "step" and e["workers"] == 4 for e in since) and (index or any(e["event"] == "epoch" for e in since))
            if not trained or len(killed) == 20 or not first.running():
                return
            kubelet.kill(index)
            kubelet.pod(index).wait()
            killed.append(index)
            kubelet.start(index)
            if index:  # steps from before its return do not count
                wait_until("the pod's return", lambda: len(first.of_kind("worker_joined")) >= 4 + len(killed) or not first.running())
            at[0] = len(kubelet.pod(0).events)

        codes = kubelet.run(540, watch)
        assert len(killed) == 20, f"the run was over after {len(killed)} blows"
        assert {code for _, code in codes} <= {5, 143}, codes
        cluster.check_ledger(kubelet.folder(), epochs=epochs)


def a_pod_is_killed_twenty_times():
    kill_twenty_times(3, 60)


def the_first_pod_is_killed_twenty_times():
    kill_twenty_times(0, 60)


if __name__ == "__main__":
    harness.main([
        manifests_are_valid_in_all_versions, each_misspelt_key_is_caught, job_sets_and_train_jobs_are_valid, scripts_of_any_text_survive, cloudformation_template_is_clean,
        pods_train_one_run, a_killed_pod_comes_back, the_first_pod_resumes,
        a_pod_is_killed_twenty_times, the_first_pod_is_killed_twenty_times
    ])
