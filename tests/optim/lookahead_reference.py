#!/usr/bin/env python3
"""Writes lookahead_reference.h: what optax's lookahead makes of the problem of reference.py, in float64.

    python3 tests/optim/lookahead_reference.py > tests/optim/lookahead_reference.h
"""
import math

import jax
import jax.numpy as jnp
import optax

jax.config.update("jax_enable_x64", True)
N, STEPS = 7, 12
curvature = jnp.array([0.5 + 0.25 * i for i in range(N)])
target = jnp.array([math.cos(i) for i in range(N)])
start = jnp.array([0.3 * (i - 3) for i in range(N)])


def trajectory(fast, every, share):
    rule = optax.lookahead(fast, sync_period=every, slow_step_size=share)
    both = optax.LookaheadParams.init_synced(start)
    state = rule.init(both)
    for t in range(STEPS):
        gradient = curvature * (both.fast - target) + 0.1 * jnp.sin(jnp.arange(N) + t)
        updates, state = rule.update(gradient, state, both)
        both = optax.apply_updates(both, updates)
    return both.fast, both.slow


CASES = [('{"type": "sgd", "lr": 0.1, "momentum": 0.9}', optax.sgd(0.1, momentum=0.9), 5, 0.5),
         ('{"type": "adam", "lr": 0.05}', optax.adam(0.05), 4, 0.8),
         ('{"type": "sgd", "lr": 0.3}', optax.sgd(0.3), 1, 0.25)]

print(f"""// Written by lookahead_reference.py with optax {optax.__version__}; do not edit.
// clang-format off
#pragma once

#include <vector>

namespace perigee::reference {{

struct LookaheadTrajectory {{
  const char* optimizer;
  const char* lookahead;
  std::vector<double> fast, slow;  // after the last step
}};

inline const std::vector<LookaheadTrajectory> kLookaheads = {{""")
for name, fast, every, share in CASES:
    ends = trajectory(fast, every, share)
    lists = ", ".join("{" + ", ".join(repr(float(v)) for v in end) + "}" for end in ends)
    print(f'    {{R"({name})", R"({{"every": {every}, "share": {share}}})", {lists}}},')
print("""};

}  // namespace perigee::reference""")
