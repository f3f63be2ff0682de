// The data that a coordinator serves (data.at = "coordinator"): the sources of a job that read data themselves. With data.at = "partitions"
// workers serve some of them, and the coordinator the others. The rest, transforms
// and splits with their random draws, stays with the workers. A source that several parts of the data cut pieces from is
// opened and served once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/data/record.h"
#include "cluster/protocol/records.h"
#include "src/train/trainer.h"

namespace perigee {

struct ServedSource {
  SourcePtr source;
  RecordLayout layout;
  bool touches = false;   // SourceTraits::touches
  std::string partition;  // its name, where workers serve it; empty: the coordinator does
};

// Opens a job's data for the launcher's own trainer, and keeps what it opened. Error(data) for a live source: its examples come in an
// order and are there once, so that several workers cannot share them out.
class ServedData final : public SourceOpener {
 public:
  // `opener` opens each part, and outlives this; null: open_source.
  explicit ServedData(SourceOpener* opener = nullptr) : opener_(opener) {}
  SourcePtr open(const std::string& part, const Config& description, const std::string& folder) override;

  const std::vector<ServedSource>& sources() const { return sources_; }
  const std::vector<HeldPartition>& partitions() const { return partitions_; }  // those of the sources that workers hold
  std::string manifest() const;                                                 // JSON, for Welcome::sources

 private:
  struct Part {
    std::string name;
    Json fitted;
    std::vector<size_t> leaves;  // in the order in which they are opened
  };
  SourcePtr open_leaf(const Config& description, const std::string& folder, std::vector<size_t>* leaves);

  SourceOpener* opener_;
  std::vector<ServedSource> sources_;
  std::vector<HeldPartition> partitions_;
  std::map<std::string, size_t> numbers_;  // by description and folder
  std::vector<Part> parts_;
};

// The same as a worker is told of it. Everything in it comes from outside and is checked.
struct Manifest {
  struct Source {
    std::vector<Field> fields;
    RecordLayout layout;
    int64_t size = 0;
    std::string describe;
    std::string partition;  // the workers' name for it; empty: the coordinator serves it
    Json fitted;
  };
  struct Part {
    Json fitted;
    std::vector<size_t> leaves;
  };
  std::vector<Source> sources;
  std::map<std::string, Part> parts;
};
Manifest read_manifest(const std::string& text);  // Error(data)

}  // namespace perigee
