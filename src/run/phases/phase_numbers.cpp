#include "src/run/phases/phase_numbers.h"

#include <cstring>
#include <filesystem>

#include "src/io/file.h"
#include "src/model/model_reader.h"
#include "src/run/checkpoint_folder.h"

namespace perigee {
namespace {

constexpr const char* kStatePrefix = "state/";

void check_same(const std::string& name, const Type& before, const Type& now, const std::string& where) {
  if (before == now) return;
  throw Error(ErrorKind::model, {.where = where + ": network",
                                 .what = "'" + name + "' has another shape than in the phase before",
                                 .got = now.text(),
                                 .expected = before.text(),
                                 .hint = "give the layer a name of its own: name = \"...\""});
}

void copy_into(const Tensor& from, const std::string& name, const Type& type, std::byte* to, const std::string& where) {
  check_same(name, {from.dtype(), from.shape()}, type, where);
  std::memcpy(to, from.view().data, from.bytes());
}

Tensor copy_of(const Tensor& from) {
  Tensor copy(from.dtype(), from.shape());
  std::memcpy(copy.view().data, from.view().data, from.bytes());
  return copy;
}

}  // namespace

void PhaseNumbers::take(Trainer& trainer) {
  const Trainer::InUse in_use(trainer);
  for (const NamedTensor& each : model_tensors(trainer.model())) tensors_.insert_or_assign(each.name, copy_of(each.tensor));
}

void PhaseNumbers::put(Trainer& trainer) const {
  Params& params = trainer.model().params();
  const std::string& where = trainer.job().where();
  for (size_t i = 0; i < params.specs().size(); ++i) {
    const std::string& name = params.specs()[i].name;
    if (const auto found = tensors_.find(name); found != tensors_.end())
      copy_into(found->second, name, {params.dtype(), params.specs()[i].shape}, params.parameter(static_cast<int>(i)), where);
  }
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const StateSpec& spec = params.state_specs()[i];
    if (const auto found = tensors_.find(kStatePrefix + spec.name); found != tensors_.end())
      copy_into(found->second, spec.name, {spec.dtype, spec.shape}, params.state(static_cast<int>(i)), where);
  }
}

void PhaseShapes::follow(const Params& params, const std::string& where) {
  const auto next = [&](const std::string& name, const Type& type) {
    const auto [known, fresh] = types_.try_emplace(name, type);
    if (!fresh) check_same(name, known->second, type, where);
  };
  for (const ParameterSpec& spec : params.specs()) next(spec.name, {params.dtype(), spec.shape});
  for (const StateSpec& spec : params.state_specs()) next(kStatePrefix + spec.name, {spec.dtype, spec.shape});
}

void PhaseNumbers::save(const std::string& path) const {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : tensors_) tensors.push_back({name, tensor});
  write_safetensors(path, tensors, {{"perigee", "phases"}});
}

void PhaseNumbers::load(const std::string& path) {
  if (!file_exists(path))
    throw Error(ErrorKind::usage, {.where = path,
                                   .what = "is missing: it has the parameters of the phases before",
                                   .hint = "resume in the folder that the run was started in, or start it anew"});
  const Safetensors file = read_safetensors(path);
  for (const NamedTensor& each : file.tensors) tensors_.insert_or_assign(each.name, copy_of(each.tensor));
}

Json PhasePlace::to_json() const { return Json(Json::Object{{"phase", static_cast<int64_t>(phase) + 1}, {"origin", origin.to_json()}}); }

std::optional<PhasePlace> PhasePlace::in(const Json& extra, const std::string& where) {
  const Json* kept = extra.is_object() ? extra.find("phase") : nullptr;
  if (!kept || !kept->is_object()) return {};
  const Config config(*kept, where + ": phase");
  return PhasePlace{.phase = static_cast<size_t>(config.integer_in("phase", 1, 1 << 20)) - 1,
                    .origin = Position::from_json(config.object("origin"))};
}

std::optional<PhasePlace> stored_phase(const std::string& run_or_checkpoint) {
  std::vector<std::string> files{run_or_checkpoint};
  if (std::filesystem::is_directory(run_or_checkpoint)) files = CheckpointFolder(run_or_checkpoint + "/checkpoints", 1).files();
  for (const std::string& file : files) try {
      return PhasePlace::in(json_metadata(read_model_file(file), "extra", file), file);
    } catch (const Error&) {}  // a damaged one: who loads it says so
  return {};
}

}  // namespace perigee
