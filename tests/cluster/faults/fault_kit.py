"""What every fault test of the cluster needs: their list, the policies, and moments."""
import time

from harness import Skip

POLICIES = {"allreduce": "allreduce { deadline_ms = 20000 }", "periodic": "periodic { every = 2, deadline_ms = 20000 }",
            "served": "staleness_aware { every = 2, deadline_ms = 20000, codec = 'int8' }",
            "elastic": "easgd { every = 2, deadline_ms = 20000 }", "downpour": "downpour { every = 2, deadline_ms = 20000 }"}


def skip_unless(condition, why):
    if not condition:
        raise Skip(why)


FAULTS = []


def fault(number, repeat, policies=("allreduce", "periodic"), file_system_bytes=0):
    """`number`: of the list in tests/cluster/README.md. `repeat` is how often it strikes in all; the blows are shared among the policies."""
    def declare(function):
        function.number, function.repeat, function.policies, function.file_system_bytes = number, repeat, policies, file_system_bytes
        FAULTS.append(function)
        return function
    return declare


def wait_a_moment(rng, most_s=0.4):
    """So that the blow falls at any moment of a round."""
    time.sleep(rng.random() * most_s)


def monotonic():
    return time.clock_gettime(time.CLOCK_MONOTONIC)
