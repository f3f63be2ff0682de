#include "src/data/sources/host.h"

namespace perigee {
namespace {

thread_local const std::map<std::string, SourcePtr>* in_scope = nullptr;

SourcePtr open_host(const Config& config, const std::string&) {
  const std::string name = config.string("name");
  std::vector<std::string> known;
  if (in_scope)
    for (const auto& [key, source] : *in_scope) known.push_back(key);
  if (in_scope)
    if (const auto found = in_scope->find(name); found != in_scope->end()) return found->second;
  const std::string hint = nearest_hint(name, known);
  throw Error(ErrorKind::data,
              {.where = config.where(),
               .what = "the data '" + name + "' live in the program that embeds Perigee, which has not given them",
               .hint = hint.empty() ? "bind them to the job (perigee_job_bind), or name a source that is in files" : hint});
}

}  // namespace

HostScope::HostScope(const std::map<std::string, SourcePtr>& sources) : outer_(in_scope) { in_scope = &sources; }
HostScope::~HostScope() { in_scope = outer_; }

extern const SourceDef source_host;
const SourceDef source_host{
    .type = "host",
    .doc = "Data that the program which embeds Perigee keeps in its own memory or reads by its own code, by `name`.",
    .open = open_host,
};

}  // namespace perigee
