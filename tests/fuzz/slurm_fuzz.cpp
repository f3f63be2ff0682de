// A node list as Slurm writes it: n[1-3,07],login. What is understood can be understood again name by name, and is never too much.
#include <string>

#include "cluster/engines/engine.h"
#include "src/core/error.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string list(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> hosts;
  try {
    hosts = perigee::expand_node_list(list);
  } catch (const perigee::Error&) {
    return 0;
  }
  PERIGEE_FUZZ_CHECK(!hosts.empty() && hosts.size() <= 65536);
  for (size_t i = 0; i < hosts.size(); i += 1 + hosts.size() / 16) {
    PERIGEE_FUZZ_CHECK(!hosts[i].empty() && hosts[i].size() <= 255 && hosts[i].find_first_of("[],") == std::string::npos);
    PERIGEE_FUZZ_CHECK(perigee::expand_node_list(hosts[i]) == std::vector{hosts[i]});
  }
  return 0;
}
