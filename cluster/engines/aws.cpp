// AWS: multi-node jobs of Batch, and SageMaker's contract with a container. Both give every process the same command.
#include <algorithm>
#include <string>

#include "cluster/engines/engine.h"
#include "src/core/error.h"
#include "src/core/json.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr const char* kPort = ":7700";

std::string aws_text_of(const Environment& environment, const char* name) {
  const char* text = environment(name);
  return text ? text : "";
}

std::optional<Engine> find_batch(const Environment& environment) {
  const auto rank = environment_number(environment, "AWS_BATCH_JOB_NODE_INDEX", 0, 1 << 20);
  const auto size = environment_number(environment, "AWS_BATCH_JOB_NUM_NODES", 1, 1 << 20);
  const auto main = environment_number(environment, "AWS_BATCH_JOB_MAIN_NODE_INDEX", 0, 1 << 20);
  if (!rank || !size || *rank >= *size || main.value_or(0) >= *size) return std::nullopt;
  Engine engine{.name = "aws_batch", .rank = *rank, .size = *size};
  // The main node need not be the first: the two change places.
  if (const int first = main.value_or(0); first != 0) engine.rank = *rank == first ? 0 : *rank == 0 ? first : *rank;
  std::string address = aws_text_of(environment, "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS");  // the main node itself is not told
  if (address.empty() && engine.rank > 0) return std::nullopt;
  engine.coordinator = (address.empty() ? "0.0.0.0" : address) + kPort;
  const std::string job = aws_text_of(environment, "AWS_BATCH_JOB_ID");  // with #node
  engine.job = job.substr(0, job.find('#'));
  engine.lasting = !engine.job.empty();
  engine.restarts = environment_number(environment, "AWS_BATCH_JOB_ATTEMPT", 1, 1 << 20).value_or(1) - 1;
  return engine;
}

std::optional<Engine> find_sagemaker(const Environment& environment) {
  const std::string job = aws_text_of(environment, "TRAINING_JOB_NAME");
  if (job.empty()) return std::nullopt;
  const std::string root = aws_text_of(environment, "SM_ROOT");  // tests have their own
  const std::string file = (root.empty() ? "/opt/ml" : root) + "/input/config/resourceconfig.json";
  if (!file_exists(file)) return std::nullopt;
  const Bytes bytes = read_file(file, 1 << 20);
  const Json config = Json::parse(as_text(bytes), file, 100'000);
  const Json *here = config.find("current_host"), *hosts = config.find("hosts");
  const auto bad = [&] {
    return Error(ErrorKind::usage, {file, "does not say which host of which this is", "", "current_host and hosts"});
  };
  if (!here || !here->is_string() || !hosts || !hosts->is_array()) throw bad();
  std::vector<std::string> names;  // every host sees the same list, in an order of its own
  for (const Json& host : hosts->as_array()) {
    if (!host.is_string()) throw bad();
    names.push_back(host.as_string());
  }
  std::sort(names.begin(), names.end());
  const auto at = std::find(names.begin(), names.end(), here->as_string());
  if (at == names.end()) throw bad();
  return Engine{.name = "sagemaker",
                .job = job,
                .rank = static_cast<int>(at - names.begin()),
                .size = static_cast<int>(names.size()),
                .coordinator = names[0] + kPort,
                .lasting = true,
                .resumes = true};
}

}  // namespace

extern const EngineDef engine_aws_batch, engine_sagemaker;
const EngineDef engine_aws_batch{.name = "aws_batch",
                                 .doc = "a multi-node parallel job of AWS Batch",
                                 .variables = "AWS_BATCH_JOB_NODE_INDEX, AWS_BATCH_JOB_NUM_NODES",
                                 .find = find_batch};
const EngineDef engine_sagemaker{.name = "sagemaker",
                                 .doc = "a training job of Amazon SageMaker",
                                 .variables = "TRAINING_JOB_NAME, /opt/ml/input/config/resourceconfig.json",
                                 .find = find_sagemaker};

}  // namespace perigee
