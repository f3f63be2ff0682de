// `perigee simulate --train`: what was learnt, beside how long it took.
#pragma once

#include "cluster/replica/step_times.h"
#include "cluster/replica/trained_numbers.h"
#include "repl/commands/simulate/output.h"

namespace perigee {

// The simulated workers will train the job, each on `threads` (0: one) of its own; `opener` outlives the simulation.
void train_in(sim::ForecastInput& input, const MeasuredJob& job, int threads, SharedOpener& opener);
// The evaluations of all workers, as one run would report them.
void put_together(SimulatedPoint& point, const MeasuredJob& job);

}  // namespace perigee
