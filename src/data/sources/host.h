// {"type": "host", "name": "train"}: a source that the program which embeds Perigee has made, as a job calls it.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "src/data/source.h"

namespace perigee {

// While it lives, jobs opened by this thread find these sources by name. Scopes nest; the innermost counts.
class HostScope {
 public:
  explicit HostScope(const std::map<std::string, SourcePtr>& sources);
  ~HostScope();
  HostScope(const HostScope&) = delete;
  HostScope& operator=(const HostScope&) = delete;

 private:
  const std::map<std::string, SourcePtr>* outer_;
};

// The source that {"type": "host", "name": name} opens. Error(data) at `where` when the program has given nothing of that name.
SourcePtr host_source(const std::string& name, const std::string& where);

// For all threads, when no scope has the name: opened anew for each job. Error(usage) when the name is taken. None is ever removed.
void register_host_source(const std::string& name, std::function<SourcePtr()> open);

}  // namespace perigee
