#include "src/data/sources/host.h"

#include <mutex>

#include "src/data/table/columnar/arrow/handed_source.h"

namespace perigee {
namespace {

std::mutex registry_mutex;

std::map<std::string, std::function<SourcePtr()>>& host_registry() {
  static std::map<std::string, std::function<SourcePtr()>> sources;
  return sources;
}

// Null when there is none of the name, which then goes to `known`.
std::function<SourcePtr()> host_registered(const std::string& name, std::vector<std::string>* known) {
  const std::lock_guard lock(registry_mutex);
  for (const auto& [key, open] : host_registry()) {
    if (key == name) return open;
    known->push_back(key);
  }
  return nullptr;
}

thread_local const std::map<std::string, SourcePtr>* in_scope = nullptr;

SourcePtr open_host(const Config& config, const std::string&) {
  const SourcePtr found = host_source(config.string("name"), config.where());
  const auto* handed = dynamic_cast<const HandedSource*>(found.get());
  return handed != nullptr ? fields_in_place(handed->table()) : found;
}

}  // namespace

SourcePtr host_source(const std::string& name, const std::string& where) {
  std::vector<std::string> known;
  if (in_scope)
    for (const auto& [key, source] : *in_scope) known.push_back(key);
  if (in_scope)
    if (const auto found = in_scope->find(name); found != in_scope->end()) return found->second;
  if (const auto open = host_registered(name, &known)) return open();
  const std::string hint = nearest_hint(name, known);
  throw Error(ErrorKind::data,
              {.where = where,
               .what = "the data '" + name + "' live in the program that embeds Perigee, which has not given them",
               .hint = hint.empty() ? "bind them to the job (perigee_job_bind), or name a source that is in files" : hint});
}

void register_host_source(const std::string& name, std::function<SourcePtr()> open) {
  const std::lock_guard lock(registry_mutex);
  if (!host_registry().emplace(name, std::move(open)).second)
    throw Error(ErrorKind::usage, {.where = "data '" + name + "'", .what = "are registered already", .hint = "register each source once"});
}

HostScope::HostScope(const std::map<std::string, SourcePtr>& sources) : outer_(in_scope) { in_scope = &sources; }
HostScope::~HostScope() { in_scope = outer_; }

namespace {

constexpr Option kHostOptions[] = {{"name", "string", nullptr, "the name that the program gave it"}};

}  // namespace

extern const SourceDef source_host;
const SourceDef source_host{
    .type = "host",
    .doc = "Data that the program which embeds Perigee keeps in its own memory or reads by its own code, by `name`.",
    .schema = {.options = kHostOptions},
    .open = open_host,
};

}  // namespace perigee
