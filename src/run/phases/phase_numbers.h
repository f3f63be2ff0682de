// The phases of a run leave this to those after them: parameters and running statistics by name, as the phase that had them last left them.
// A file of the run folder holds them, so that a resumed run has those of networks that its checkpoint no longer has.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "src/train/trainer.h"

namespace perigee {

class PhaseNumbers {
 public:
  // Those of the network as it is used: of the average, where there is one.
  void take(Trainer& trainer);
  // Into the parameters and states of the same names; others keep their initial values. Error(model) where a shape differs.
  void put(Trainer& trainer) const;

  static std::string file_in(const std::string& run_folder) { return run_folder + "/phases.safetensors"; }
  void save(const std::string& path) const;
  void load(const std::string& path);  // Error(usage) when it is not there

 private:
  std::map<std::string, Tensor> tensors_;  // states are "state/<name>"
};

// The shapes that names have in the phases of a run, which must not differ.
class PhaseShapes {
 public:
  void follow(const Params& params, const std::string& where);  // of the next phase; Error(model)

 private:
  std::map<std::string, Type> types_;
};

// Where a run with phases stands, as its checkpoints have it among what else they keep.
struct PhasePlace {
  size_t phase = 0;  // from 0
  Position origin;   // where it began

  Json to_json() const;
  static std::optional<PhasePlace> in(const Json& extra, const std::string& where);  // empty: the run had no phases
};

// That of a checkpoint, or of the newest one of a run folder that can be read; empty: there is none.
std::optional<PhasePlace> stored_phase(const std::string& run_or_checkpoint);

}  // namespace perigee
