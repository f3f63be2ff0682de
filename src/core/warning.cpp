#include "src/core/warning.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace perigee {
namespace {

struct Installed {
  std::mutex mutex;
  WarningHandler handler;
};

Installed& installed() {
  static Installed one;
  return one;
}

}  // namespace

void warn(const std::string& text) {
  WarningHandler handler;
  {
    const std::lock_guard lock(installed().mutex);
    handler = installed().handler;
  }
  if (handler) handler(text);
  else std::fprintf(stderr, "warning: %s\n", text.c_str());
}

WarningHandler set_warning_handler(WarningHandler handler) {
  const std::lock_guard lock(installed().mutex);
  return std::exchange(installed().handler, std::move(handler));
}

}  // namespace perigee
