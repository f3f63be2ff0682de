// The job's "recompute": which activations are computed again in the backward pass instead of being kept (src/graph/passes/recompute.h), and
// "memory_limit". Plans are compiled to know what each choice takes, so the bytes are those that the plan has, not an estimate.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/graph/plan.h"
#include "src/job/job.h"
#include "src/nn/network.h"

namespace perigee {

struct RecomputeOptions {
  enum class Mode : uint8_t {
    none,
    automatic,  // only if the plan does not fit into the room there is, and then with the fewest operations that do
    all,        // whatever makes the arena smallest
    layers,     // the same, of the layers that `patterns` name
  };
  Mode mode = Mode::none;
  std::vector<std::string> patterns;  // '*' stands for any characters
  // "none", "auto", "all", or a list of names of layers. Error(model).
  static RecomputeOptions of(const Job& job);
  // The scopes of the layers that patterns name. Error(model) where one names none; `where` begins it.
  std::vector<std::string> scopes(const std::vector<LayerReport>& layers, const std::string& where) const;
};

// The job's "memory_limit" in bytes, a number or "512MiB", "2GB"; 0: none. Error(model).
size_t memory_limit_of(const Job& job);

struct RecomputeChoice {
  std::shared_ptr<const Plan> plan;
  std::string how = "none";           // "results of cheap operations", "8 segments"
  double added_flops = 0, flops = 0;  // computed a second time; of the graph, once
};

// `room`: bytes that the arena may take; SIZE_MAX: any number. `scopes`: of the layers that may be computed twice; empty: all.
RecomputeChoice choose_recompute(const Graph& graph, const PlanOptions& options, RecomputeOptions::Mode mode, size_t room,
                                 const std::vector<std::string>& scopes = {});

}  // namespace perigee
