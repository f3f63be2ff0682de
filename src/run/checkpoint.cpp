#include "src/run/checkpoint.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "src/core/host_isa.h"
#include "src/core/pattern.h"
#include "src/core/warning.h"
#include "src/model/model_reader.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

Metadata model_metadata(const Trainer& trainer) {
  return model_metadata(trainer.model(), trainer.job().canonical(), trainer.train_source().traits().fitted, trainer.class_names());
}

std::string slot_name(const std::string& slot) { return "optimizer/" + slot; }

// A block that lies like the parameters: a tensor "<name>/<parameter>" for each.
void add_block(const Params& params, const std::string& name, std::span<const std::byte> block, std::vector<NamedTensor>* tensors) {
  for (size_t i = 0; i < params.windows().size(); ++i) {
    Tensor tensor(params.dtype(), params.windows()[i].shape);
    std::memcpy(tensor.view().data, block.data() + params.parameter_offset(static_cast<int>(i)), tensor.bytes());
    tensors->push_back({name + "/" + params.windows()[i].name, std::move(tensor)});
  }
}

void check_block(const Safetensors& file, const Params& params, const std::string& name, const std::string& where) {
  for (const ParamWindow& window : params.windows()) wanted_tensor(file, name + "/" + window.name, {params.dtype(), window.shape}, where);
}

void copy_block(const Safetensors& file, const Params& params, const std::string& name, std::span<std::byte> block) {
  for (size_t i = 0; i < params.windows().size(); ++i) {
    const Tensor& tensor = *file.find(name + "/" + params.windows()[i].name);
    std::memcpy(block.data() + params.parameter_offset(static_cast<int>(i)), tensor.view().data, tensor.bytes());
  }
}

double now_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

void save_model(const Trainer& trainer, const std::string& path) {
  write_safetensors(path, model_tensors(trainer.model()), model_metadata(trainer));
}

std::vector<std::byte> model_bytes(const Trainer& trainer) {
  return safetensors_bytes(model_tensors(trainer.model()), model_metadata(trainer));
}

namespace {

std::vector<NamedTensor> checkpoint_tensors(const Trainer& trainer, std::span<const NamedBlock> beside = {}) {
  std::vector<NamedTensor> tensors = model_tensors(trainer.model());
  const auto& names = trainer.optimizer().slots();
  const Params& params = trainer.model().params();
  for (size_t slot = 0; slot < names.size(); ++slot) add_block(params, slot_name(names[slot]), trainer.optimizer_slot(slot), &tensors);
  for (const NamedBlock& block : beside) add_block(params, block.name, block.bytes, &tensors);
  return tensors;
}

Metadata checkpoint_metadata(const Trainer& trainer, const Json& extra) {
  Metadata metadata = model_metadata(trainer);
  metadata["position"] = trainer.position().to_json().dump();
  metadata["tuning"] = trainer.tuning().to_json().dump();
  metadata["sub_batch"] = std::to_string(trainer.sub_batch());
  metadata["threads"] = std::to_string(trainer.threads());
  metadata["isa"] = isa_name(host_isa());
  metadata["optimizer"] = trainer.optimizer().type();
  if (const LossScale* scale = trainer.loss_scale()) metadata["loss_scale"] = loss_scale_json(*scale).dump();
  if (!extra.is_null()) metadata["extra"] = extra.dump();
  return metadata;
}

Json load_checkpoint(Trainer& trainer, const Safetensors& file, const std::string& path, bool keep_plans,
                     std::span<const NamedBlock> beside = {}) {
  required_metadata(file, "perigee", path);
  const Json position_json = Json::parse(required_metadata(file, "position", path), path + ": position");
  const Position position = Position::from_json(Config(position_json, path + ": position"));
  const std::string& rule = required_metadata(file, "optimizer", path);
  if (rule != trainer.optimizer().type())
    throw Error(ErrorKind::model,
                {.where = path, .what = "the checkpoint is of another optimiser", .got = rule, .expected = trainer.optimizer().type()});
  Params& params = trainer.model().params();
  check_model_tensors(file, params, path);
  const auto& names = trainer.optimizer().slots();
  for (const std::string& slot : names) check_block(file, params, slot_name(slot), path);
  for (const NamedBlock& block : beside) check_block(file, params, block.name, path);
  const Json tuning = json_metadata(file, "tuning", path);
  const Json extra = json_metadata(file, "extra", path);
  std::optional<LossScale> scale = read_loss_scale(trainer.job());
  const Json kept = json_metadata(file, "loss_scale", path);
  if (scale && !kept.is_null()) restore_loss_scale(Config(kept, path + ": loss_scale"), &*scale);

  copy_model_tensors(file, params);
  for (size_t slot = 0; slot < names.size(); ++slot) copy_block(file, params, slot_name(names[slot]), trainer.optimizer_slot(slot));
  for (const NamedBlock& block : beside) copy_block(file, params, block.name, block.bytes);
  if (scale) trainer.set_loss_scale(*scale);
  if (keep_plans) {
    trainer.set_position(position);
    return extra;
  }
  // The same kernels and sub-batches, so that the run ends with the same bits.
  const auto sub_batch = file.metadata.find("sub_batch");
  trainer.restore(position, tuning, sub_batch == file.metadata.end() ? 0 : std::strtoll(sub_batch->second.c_str(), nullptr, 10));
  return extra;
}

}  // namespace

void save_checkpoint(const Trainer& trainer, const std::string& path, const Json& extra) {
  write_safetensors(path, checkpoint_tensors(trainer), checkpoint_metadata(trainer, extra));
}

std::vector<std::byte> checkpoint_bytes(const Trainer& trainer, const Json& extra, std::span<const NamedBlock> beside) {
  return safetensors_bytes(checkpoint_tensors(trainer, beside), checkpoint_metadata(trainer, extra));
}

Json load_checkpoint(Trainer& trainer, const std::string& path) { return load_checkpoint(trainer, read_model_file(path), path, false); }

Json load_checkpoint(Trainer& trainer, std::span<const std::byte> bytes, const std::string& where, bool keep_plans,
                     std::span<const NamedBlock> beside) {
  return load_checkpoint(trainer, parse_model_file(bytes, where), where, keep_plans, beside);
}

void apply_pretrained(Trainer& trainer, const Config& pretrained, const std::string& folder, SourceOpener* opener) {
  const std::string model = pretrained.string("model");
  const std::string path = opener ? opener->locate(model, pretrained.where() + ".model", folder) : path_in(folder, model);
  const std::vector<std::string> freeze = pretrained.string_list("freeze"), skip = pretrained.string_list("skip");
  pretrained.reject_unread();
  const auto any = [](const std::vector<std::string>& patterns, const std::string& name) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) { return matches_pattern(pattern, name); });
  };
  const Safetensors file = read_model_file(path);
  Params& params = trainer.model().params();
  for (const ParameterSpec& spec : params.specs())
    if (!any(skip, spec.name)) wanted_tensor(file, spec.name, {params.dtype(), spec.shape}, path);
  for (size_t i = 0; i < params.specs().size(); ++i) {
    if (any(skip, params.specs()[i].name)) continue;
    const Tensor& tensor = *file.find(params.specs()[i].name);
    std::memcpy(params.parameter(static_cast<int>(i)), tensor.view().data, tensor.bytes());
  }
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const StateSpec& spec = params.state_specs()[i];
    const Tensor* tensor = any(skip, spec.name) ? nullptr : file.find("state/" + spec.name);
    if (tensor && Type{tensor->dtype(), tensor->shape()} == Type{spec.dtype, spec.shape})
      std::memcpy(params.state(static_cast<int>(i)), tensor->view().data, tensor->bytes());
  }
  for (const std::string& pattern : freeze)
    if (std::none_of(params.specs().begin(), params.specs().end(),
                     [&](const ParameterSpec& spec) { return matches_pattern(pattern, spec.name); })) {
      std::vector<std::string> known;
      for (const ParameterSpec& spec : params.specs()) known.push_back(spec.name);
      pretrained.fail("freeze", "no parameter matches '" + pattern + "'", "", "", nearest_hint(pattern, known));
    }
  std::vector<bool> frozen;
  for (const ParameterSpec& spec : params.specs()) frozen.push_back(any(freeze, spec.name));
  trainer.freeze(frozen);
}

std::string CheckpointFolder::file_of(int64_t step) const {
  char name[64];
  std::snprintf(name, sizeof name, "/step-%012lld.safetensors", static_cast<long long>(step));
  return folder_ + name;
}

void CheckpointFolder::set_aside_after(const std::string& newest) {
  for (const std::string& file : files()) {
    if (file <= newest) return;
    std::error_code failed;
    fs::rename(file, folder_ + "/void-" + fs::path(file).filename().string(), failed);
    if (failed) warn(file + " is of training that was given up, but cannot be renamed: " + failed.message());
  }
}

void CheckpointFolder::remove_old() {
  const std::vector<std::string> all = files();
  std::error_code ignored;  // an old file that stays is no fault
  for (size_t i = static_cast<size_t>(std::max(1, keep_)); i < all.size(); ++i) fs::remove(all[i], ignored);
}

std::string CheckpointFolder::save(const Trainer& trainer, const Json& extra) {
  const std::string file = file_of(trainer.position().step);
  save_checkpoint(trainer, file, extra);
  set_aside_after(file);
  remove_old();
  return file;
}

void CheckpointFolder::save_best(const Trainer& trainer, const Json& extra) {
  save_checkpoint(trainer, folder_ + "/best.safetensors", extra);
}

std::string CheckpointFolder::add(std::span<const std::byte> checkpoint, int64_t step) {
  const std::string file = file_of(step);
  write_file(file, checkpoint);
  set_aside_after(file);
  remove_old();
  return file;
}

void CheckpointFolder::add_best(std::span<const std::byte> checkpoint) { write_file(folder_ + "/best.safetensors", checkpoint); }

std::vector<std::string> CheckpointFolder::files() const {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".safetensors")) found.push_back(entry->path().string());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

std::string CheckpointFolder::resume(Trainer& trainer, Json* extra) {
  const std::vector<std::string> all = files();
  for (size_t i = 0; i < all.size(); ++i) {
    try {
      const Json back = load_checkpoint(trainer, all[i]);
      if (extra) *extra = back;
      return all[i];
    } catch (const Error& error) {
      if (i + 1 == all.size()) throw;
      warn(std::string(error.what()) + "; trying the checkpoint before it");
    }
  }
  return "";
}

CheckpointSchedule::CheckpointSchedule(const Config& options)
    : keep(static_cast<int>(options.integer_in("keep", 1, 1 << 20, 3))),
      every_epochs(options.integer_in("every_epochs", 0, int64_t{1} << 40, 1)),
      every_steps(options.integer_in("every_steps", 0, int64_t{1} << 52, 0)),
      every_seconds(options.number_in("every_seconds", 0, 1e12, 0)) {}

bool CheckpointSchedule::due_after_step(int64_t last, int64_t step, double seconds_since) const {
  return (every_steps > 0 && step / every_steps > last / every_steps) || (every_seconds > 0 && seconds_since >= every_seconds);
}

CheckpointHook::CheckpointHook(const Config& options, const std::string& folder) : schedule_(options), folder_(folder, schedule_.keep) {}

void CheckpointHook::on_start(Trainer&) { last_save_ = now_seconds(); }

void CheckpointHook::on_step(Trainer& trainer, const StepReport& report) {
  if (schedule_.due_after_step(report.step - 1, report.step, now_seconds() - last_save_)) save(trainer);
}

void CheckpointHook::on_epoch(Trainer& trainer, uint64_t epoch) {
  if (schedule_.due_after_epoch(static_cast<int64_t>(epoch) + 1)) save(trainer);
}

std::string CheckpointHook::save(Trainer& trainer) {
  last_save_ = now_seconds();
  const PhaseScope scope(trainer.times(), TracePhase::checkpoint);
  try {
    return folder_.save(trainer, extra_);
  } catch (const Error& error) {
    if (last_save_ - last_warning_ >= 60) warn(std::string("no checkpoint was written: ") + error.what() + "; training goes on");
    last_warning_ = std::max(last_warning_, last_save_ - last_warning_ >= 60 ? last_save_ : last_warning_);
    return "";
  }
}

}  // namespace perigee
