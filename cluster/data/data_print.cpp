#include "cluster/data/data_print.h"

#include <algorithm>

#include "src/data/fingerprint.h"
#include "src/io/digest.h"
#include "src/io/file.h"
#include "src/model/evaluator.h"

namespace perigee {

std::vector<DataPrint> print_data(Trainer& trainer, bool full) {
  const auto print = [&](const char* part, const DataSource& source) {
    return DataPrint{.part = part, .hash = fingerprint(source, trainer.seed(), full), .describe = source.traits().description};
  };
  std::vector<DataPrint> prints = {print("train", trainer.train_source())};
  for (const char* part : {"validation", "test"})
    if (const Evaluator* evaluator = trainer.evaluator(part)) prints.push_back(print(part, evaluator->source()));
  return prints;
}

uint64_t fingerprint_of(const std::vector<DataPrint>& prints) {
  uint64_t hash = 0;
  for (const DataPrint& print : prints) hash = xxh3_64(as_bytes(print.part + ":" + std::to_string(print.hash)), hash);
  return std::max<uint64_t>(hash, 1);
}

}  // namespace perigee
