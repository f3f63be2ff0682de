#include "src/graph/tuning.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

#include "kernels/registry.h"
#include "src/core/error.h"
#include "src/core/stopwatch.h"
#include "src/core/warning.h"
#include "src/graph/plan_compiler.h"
#include "src/io/digest.h"
#include "src/io/file.h"

namespace perigee {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, vendor, family, model;
  const auto value = [&](const char* key, std::string& to) {
    const size_t colon = line.find(':');
    if (to.empty() && colon != std::string::npos && line.rfind(key, 0) == 0 && line.find_first_of("\t:") == std::strlen(key))
      to = line.substr(std::min(colon + 2, line.size()));
  };
  while (std::getline(info, line) && !line.empty()) {
    value("vendor_id", vendor);
    value("cpu family", family);
    value("model", model);
  }
  return vendor + "-" + family + "-" + model + "-" + isa_name(host_isa());
}

// Another set of kernels is another table: a choice made before a kernel existed says nothing about it.
std::string kernel_set(std::span<const KernelList> lists, const std::string& more = "") {
  std::string names = more;
  for (const KernelList& list : lists)
    for (size_t i = 0; i < list.count; ++i) names += std::string(list.first[i].op) + "/" + list.first[i].name + "\n";
  return xxh3_hex(as_bytes(names + PERIGEE_VERSION)).substr(0, 8);
}

double seconds_of(void (*run)(const KernelCall&), const KernelCall& call) {
  run(call);  // warm
  double fastest = 1e30, total = 0;
  for (int i = 0; i < 9 && total < 0.02; ++i) {
    const double begin = thread_seconds();
    run(call);
    const double taken = thread_seconds() - begin;
    fastest = std::min(fastest, taken);
    total += taken;
  }
  return fastest;
}

// For a file's name.
std::string plain(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '_';
  return name;
}

// The key of equal calls: op, dtypes, shapes without the batch, memory order. The shapes of operands and results tell stride and
// padding apart well enough.
std::string signature_of(const PlanStep& step, bool exact) {
  std::string key = step.op->name;
  for (const auto* operands : {&step.in, &step.out}) {
    key += operands == &step.in ? " " : ">";
    for (const Operand& operand : *operands) {
      const View& view = operand.view;
      key += std::to_string(static_cast<int>(view.dtype)) + "[";
      // The batch is left out: a smaller one reuses what was measured for the full one.
      const bool batch = !exact && (operand.place == Place::arena || operand.place == Place::input);
      for (int i = batch ? 1 : 0; i < view.rank; ++i) key += std::to_string(view.dims[i]) + ",";
      key += view.rank == 4 && !view.contiguous() ? "c]" : "]";
    }
  }
  return key + (step.accumulate ? "+" : "") + (exact ? "=" : "");
}

}  // namespace

KernelChoice kernel_choice(const std::string& text) {
  const size_t mark = text.find('#');
  if (mark == std::string::npos) return {text, 0};
  return {text.substr(0, mark), std::clamp(std::atoi(text.c_str() + mark + 1), 0, 1000)};
}

void Tuning::use_device(const std::string& name, const std::string& identity, std::span<const KernelList> kernels) {
  const std::string set = kernel_set(kernels, identity + "\n");
  machine_ = plain(name) + "-" + set;
  prefix_ = set + " ";
}

std::string Tuning::key_of(const PlanStep& step, bool exact) const { return prefix_ + signature_of(step, exact); }

std::string Tuning::choice(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = choices_.find(key);
  if (found == choices_.end()) return "";
  if (!std::exchange(found->second.of_run, true)) ++changes_;
  return found->second.kernel;
}

void Tuning::set(const std::string& key, const std::string& kernel) {
  const std::lock_guard lock(mutex_);
  choices_[key] = {.kernel = kernel, .of_run = true};
  ++changes_;
}

uint64_t Tuning::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

bool Tuning::empty() const {
  const std::lock_guard lock(mutex_);
  return choices_.empty();
}

Json Tuning::to_json() const {
  const std::lock_guard lock(mutex_);
  Json json = Json::object();
  for (const auto& [key, choice] : choices_) json.as_object().emplace_back(key, choice.kernel);
  return json;
}

Json Tuning::of_run() const {
  const std::lock_guard lock(mutex_);
  Json json = Json::object();
  for (const auto& [key, choice] : choices_)
    if (choice.of_run) json.as_object().emplace_back(key, choice.kernel);
  return json;
}

// For a device: only the choices under its prefix, so that a file holds no choices of other machines.
Json Tuning::of_this_machine() const {
  if (prefix_.empty()) return to_json();
  const std::lock_guard lock(mutex_);
  Json json = Json::object();
  for (auto it = choices_.lower_bound(prefix_); it != choices_.end() && it->first.starts_with(prefix_); ++it)
    json.as_object().emplace_back(it->first, it->second.kernel);
  return json;
}

void Tuning::merge(const Json& choices, bool of_run) {
  if (!choices.is_object())
    throw Error(ErrorKind::model,
                {.what = "a tuning table must be an object", .got = choices.type_name(), .expected = "{\"key\": \"kernel\"}"});
  const std::lock_guard lock(mutex_);
  ++changes_;
  for (const auto& [key, kernel] : choices.as_object()) {
    if (!kernel.is_string()) continue;
    Choice& choice = choices_[key];
    choice.kernel = kernel.as_string();
    choice.of_run = choice.of_run || of_run;
  }
}

std::string Tuning::machine_file() const {
  const std::string folder = user_cache_folder();
  if (folder.empty()) return "";
  return folder + "/tuning-" + (machine_.empty() ? plain(cpu_model()) + "-" + kernel_set(kernel_lists()) : machine_) + ".json";
}

void Tuning::load_machine() { load(machine_file(), true); }

void Tuning::load(const std::string& file, bool tell) {
  if (file.empty() || !file_exists(file)) return;
  try {
    merge(Json::parse(as_text(read_file(file, 1 << 24)), file));
  } catch (const Error& error) {
    if (!tell) return;
    warn("the table of measured kernels is damaged and is made anew: " + std::string(error.what()));
  }
}

void Tuning::save_machine() const {
  const std::string file = machine_file();
  if (file.empty() || empty()) return;
  try {
    write_file(file + ".lock", as_bytes(""));
    const int lock = open((file + ".lock").c_str(), O_RDWR | O_CLOEXEC);
    if (lock < 0) return;
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
      Tuning all;
      all.load(file, false);
      all.merge(of_this_machine());
      write_file(file, as_bytes(all.to_json().dump(1) + "\n"));
    }
    close(lock);
  } catch (const Error&) {
    // A cache that cannot be written costs a second next time.
  }
}

int tune(PlanRun& run, const PlanOptions& options, const StepInfo& step, double packs_per_run, Tuning& tuning) {
  int measured = 0;
  run.pack();
  for (size_t i = 0; i < run.plan().steps().size(); ++i) {
    const PlanStep& planned = run.plan().steps()[i];
    KernelCall call = run.call(i);
    call.step = &step;
    call.team = nullptr;
    const std::string key = tuning.key_of(planned);
    const auto candidates = kernel_candidates(planned.op->name, call, options);
    const auto hosts = std::count_if(candidates.begin(), candidates.end(), [](const Kernel* k) { return k->backend == Backend::cpu; });
    if (hosts > 1 && !planned.op->collective && tuning.choice(key).empty()) {
      const Kernel* best = nullptr;
      double best_seconds = 0;
      for (const Kernel* kernel : candidates) {
        if (kernel->backend != Backend::cpu) continue;
        KernelCall trial = call;
        const Storage scratch(kernel->scratch_bytes ? kernel->scratch_bytes(call) : 0);
        const Storage packed(kernel->packed_bytes ? kernel->packed_bytes(call) : 0);
        trial.scratch = scratch.data();
        trial.packed = packed.data();
        const double packing = kernel->pack ? seconds_of(kernel->pack, trial) : 0;
        const double taken = seconds_of(kernel->run, trial) + packing * (planned.pack_each_run ? 1.0 : packs_per_run);
        if (best && taken >= best_seconds) continue;
        best = kernel;
        best_seconds = taken;
      }
      tuning.set(key, best->name);
      ++measured;
    }
    if (planned.pack_each_run && planned.kernel->pack) planned.kernel->pack(call);
    planned.kernel->run(call);
  }
  return measured;
}

}  // namespace perigee
