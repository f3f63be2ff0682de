#include "src/run/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "src/core/host_isa.h"
#include "src/core/pattern.h"
#include "src/data/stored_arrays.h"
#include "src/model/model_reader.h"
#include "src/model/steps/carried_rows.h"

namespace perigee {
namespace {

Metadata model_metadata(const Trainer& trainer) {
  const Json job = with_relative_array_files(trainer.job().canonical());
  return model_metadata(trainer.shape(), job, trainer.train_source().traits().fitted, trainer.class_names());
}

std::string slot_name(const std::string& slot) { return "optimizer/" + slot; }

// A block that lies like the parameters: a tensor "<name>/<parameter>" for each.
void add_block(const Params& params, const std::string& name, std::span<const std::byte> block, std::vector<NamedTensor>* tensors) {
  for (size_t i = 0; i < params.windows().size(); ++i) {
    Tensor tensor(params.dtype(), params.windows()[i].shape);
    std::memcpy(tensor.view().data, block.data() + params.parameter_offset(static_cast<int>(i)), tensor.bytes());
    tensors->push_back({(name.empty() ? "" : name + "/") + params.windows()[i].name, std::move(tensor)});
  }
}

// The numbers that train where the file's own are their average: "training/<parameter>", "training/state/<state>".
constexpr const char *kTraining = "training", *kTrainingPrefix = "training/";

std::string state_name(const StateSpec& spec) { return "state/" + spec.name; }

void add_states(const Params& params, const std::string& prefix, std::span<const std::byte> states, std::vector<NamedTensor>* tensors) {
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const StateSpec& spec = params.state_specs()[i];
    Tensor tensor(spec.dtype, spec.shape);
    std::memcpy(tensor.view().data, states.data() + params.state_offset(static_cast<int>(i)), tensor.bytes());
    tensors->push_back({prefix + state_name(spec), std::move(tensor)});
  }
}

// The network as it is used: of the average, once it has begun.
std::vector<NamedTensor> used_tensors(const Trainer& trainer) {
  if (!trainer.averaged()) return model_tensors(trainer.model());
  std::vector<NamedTensor> tensors;
  const Params& params = trainer.shape().params();
  add_block(params, "", trainer.average()->parameters(), &tensors);
  add_states(params, "", trainer.average()->states(), &tensors);
  return tensors;
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

// Rows carry values: a tensor "carried/<name>" [rows, ...] for each.
std::string carried_name(const CarriedRows& rows, size_t i) { return "carried/" + rows.specs()[i].name; }

void add_carried(const Trainer& trainer, std::vector<NamedTensor>* tensors) {
  const CarriedRows* const rows = trainer.carried();
  for (size_t i = 0; rows && i < rows->specs().size(); ++i) {
    Tensor tensor(rows->type(i).dtype, rows->type(i).shape);
    std::memcpy(tensor.view().data, rows->now(i).data(), tensor.bytes());
    tensors->push_back({carried_name(*rows, i), std::move(tensor)});
  }
}

}  // namespace

void save_model(const Trainer& trainer, const std::string& path) {
  write_safetensors(path, used_tensors(trainer), model_metadata(trainer));
}

std::vector<std::byte> model_bytes(const Trainer& trainer) { return safetensors_bytes(used_tensors(trainer), model_metadata(trainer)); }

namespace {

std::vector<NamedTensor> checkpoint_tensors(const Trainer& trainer, std::span<const NamedBlock> beside = {}) {
  std::vector<NamedTensor> tensors = used_tensors(trainer);
  const Params& params = trainer.model().params();
  for (size_t slot = 0; slot < trainer.optimizer_slots(); ++slot)
    add_block(params, slot_name(trainer.slot_name(slot)), trainer.optimizer_slot(slot), &tensors);
  for (const NamedBlock& block : beside) add_block(params, block.name, block.bytes, &tensors);
  if (trainer.averaged()) {
    add_block(params, kTraining, {params.block(), params.block_bytes()}, &tensors);
    add_states(params, kTrainingPrefix, trainer.states(), &tensors);
  }
  add_carried(trainer, &tensors);
  return tensors;
}

// The facts that every checkpoint of a run has, and those that change from step to step; between them is the tuning table.
Metadata fixed_metadata(const Trainer& trainer) {
  Metadata metadata = model_metadata(trainer);
  metadata["threads"] = std::to_string(trainer.threads());
  metadata["isa"] = isa_name(host_isa());
  metadata["optimizer"] = trainer.optimizer().type();
  return metadata;
}

CheckpointMoment moment_of(const Trainer& trainer, const Json& extra) {
  const LossScale* scale = trainer.loss_scale();
  return {.position = trainer.position(),
          .sub_batch = trainer.sub_batch(),
          .averaged = trainer.averaged() ? trainer.average()->count() : 0,
          .scale = scale ? std::optional(*scale) : std::nullopt,
          .lines = trainer.line_state(),
          .extra = extra};
}

void set_changing_metadata(const CheckpointMoment& at, Metadata* metadata) {
  (*metadata)["position"] = at.position.to_json().dump();
  (*metadata)["sub_batch"] = std::to_string(at.sub_batch);
  if (at.scale) (*metadata)["loss_scale"] = loss_scale_json(*at.scale).dump();
  if (at.averaged > 0) (*metadata)["average"] = Json(Json::Object{{"updates", at.averaged}}).dump();
  if (!at.lines.is_null()) (*metadata)["lines"] = at.lines.dump();
  if (!at.extra.is_null()) (*metadata)["extra"] = at.extra.dump();
}

Metadata checkpoint_metadata(const Trainer& trainer, const Json& extra) {
  Metadata metadata = fixed_metadata(trainer);
  metadata["tuning"] = trainer.tuning().of_run().dump();
  set_changing_metadata(moment_of(trainer, extra), &metadata);
  return metadata;
}

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

// How many updates the average in the file has had; 0: it has none.
int64_t check_average(const Safetensors& file, const Params& params, const std::string& where) {
  const Json average = json_metadata(file, "average", where);
  if (average.is_null()) return 0;
  check_block(file, params, kTraining, where);
  for (const StateSpec& spec : params.state_specs())
    wanted_tensor(file, kTrainingPrefix + state_name(spec), {spec.dtype, spec.shape}, where);
  return Config(average, where + ": average").integer_in("updates", 1, int64_t{1} << 53);
}

// The parameters are the file's own, which are the average.
void take_average(const Safetensors& file, int64_t count, WeightAverage& average, Params& params) {
  average.begin_again(count);
  if (count == 0) return;
  average.exchange(params);
  copy_block(file, params, kTraining, {params.block(), params.block_bytes()});
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const Tensor& tensor = *file.find(kTrainingPrefix + state_name(params.state_specs()[i]));
    std::memcpy(params.state(static_cast<int>(i)), tensor.view().data, tensor.bytes());
  }
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
  for (size_t slot = 0; slot < trainer.optimizer_slots(); ++slot) check_block(file, params, slot_name(trainer.slot_name(slot)), path);
  for (const NamedBlock& block : beside) check_block(file, params, block.name, path);
  CarriedRows* const rows = trainer.carried();
  for (size_t i = 0; rows && i < rows->specs().size(); ++i) wanted_tensor(file, carried_name(*rows, i), rows->type(i), path);
  const int64_t averaged = trainer.average() ? check_average(file, params, path) : 0;
  const Json tuning = json_metadata(file, "tuning", path);
  const Json extra = json_metadata(file, "extra", path);
  std::optional<LossScale> scale = read_loss_scale(trainer.job());
  const Json kept = json_metadata(file, "loss_scale", path);
  if (scale && !kept.is_null()) restore_loss_scale(Config(kept, path + ": loss_scale"), &*scale);

  copy_model_tensors(file, params);
  if (trainer.average()) take_average(file, averaged, *trainer.average(), params);
  for (size_t slot = 0; slot < trainer.optimizer_slots(); ++slot)
    copy_block(file, params, slot_name(trainer.slot_name(slot)), trainer.optimizer_slot(slot));
  for (const NamedBlock& block : beside) copy_block(file, params, block.name, block.bytes);
  for (size_t i = 0; rows && i < rows->specs().size(); ++i) {
    const Tensor& tensor = *file.find(carried_name(*rows, i));
    std::memcpy(rows->now(i).data(), tensor.view().data, tensor.bytes());
  }
  if (scale) trainer.set_loss_scale(*scale);
  if (const Json lines = json_metadata(file, "lines", path); !lines.is_null()) trainer.restore_lines(Config(lines, path + ": lines"));
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

size_t CheckpointSnapshot::bytes_of(const Trainer& trainer) {
  const size_t block = aligned(trainer.shape().params().block_bytes()), states = aligned(trainer.states().size());
  size_t bytes = (block + states) * (trainer.averaged() ? 2 : 1) + block * trainer.optimizer_slots();
  const CarriedRows* const rows = trainer.carried();
  for (size_t i = 0; rows && i < rows->specs().size(); ++i) bytes += aligned(rows->now(i).size());
  return bytes;
}

// The file's tensors are windows, so that it lies in memory once.
void CheckpointSnapshot::lay_out(const Trainer& trainer) {
  trainer_ = nullptr;
  numbers_ = std::make_shared<Storage>(bytes_of(trainer));
  tensors_.clear();
  const Params& params = trainer.shape().params();
  size_t base = 0;
  const auto add_parameters = [&](const std::string& prefix) {
    for (size_t i = 0; i < params.windows().size(); ++i)
      tensors_.push_back({prefix + params.windows()[i].name, Tensor(numbers_, base + params.parameter_offset(static_cast<int>(i)),
                                                                    params.dtype(), params.windows()[i].shape)});
    base += aligned(params.block_bytes());
  };
  const auto add_model = [&](const std::string& prefix) {
    add_parameters(prefix);
    for (size_t i = 0; i < params.state_specs().size(); ++i) {
      const StateSpec& spec = params.state_specs()[i];
      tensors_.push_back(
          {prefix + state_name(spec), Tensor(numbers_, base + params.state_offset(static_cast<int>(i)), spec.dtype, spec.shape)});
    }
    base += aligned(trainer.states().size());
  };
  add_model("");
  for (size_t slot = 0; slot < trainer.optimizer_slots(); ++slot) add_parameters(slot_name(trainer.slot_name(slot)) + "/");
  averaged_ = trainer.averaged();
  if (averaged_) add_model(kTrainingPrefix);
  const CarriedRows* const rows = trainer.carried();
  for (size_t i = 0; rows && i < rows->specs().size(); ++i) {
    tensors_.push_back({carried_name(*rows, i), Tensor(numbers_, base, rows->type(i).dtype, rows->type(i).shape)});
    base += aligned(rows->now(i).size());
  }
  metadata_ = fixed_metadata(trainer);
  tuning_changes_ = 0;
  trainer_ = &trainer;
}

void CheckpointSnapshot::take(const Trainer& trainer, const Json& extra) {
  if (trainer_ != &trainer || averaged_ != trainer.averaged()) lay_out(trainer);
  const Params& params = trainer.model().params();
  std::byte* to = numbers_->data();
  const auto copy = [&](std::span<const std::byte> from) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    to += aligned(from.size());
  };
  if (averaged_) copy(trainer.average()->parameters()), copy(trainer.average()->states());
  else copy({params.block(), params.block_bytes()}), copy(trainer.states());
  for (size_t slot = 0; slot < trainer.optimizer_slots(); ++slot) copy(trainer.optimizer_slot(slot));
  if (averaged_) copy({params.block(), params.block_bytes()}), copy(trainer.states());
  const CarriedRows* const rows = trainer.carried();
  for (size_t i = 0; rows && i < rows->specs().size(); ++i) copy(rows->now(i));
  const Tuning& tuning = trainer.tuning();
  if (const uint64_t changes = tuning.changes(); changes != tuning_changes_ || !metadata_.contains("tuning")) {
    metadata_["tuning"] = tuning.of_run().dump();
    tuning_changes_ = changes;
  }
  moment_ = moment_of(trainer, extra);
}

void CheckpointSnapshot::write(const std::string& path) const {
  Metadata metadata = metadata_;
  set_changing_metadata(moment_, &metadata);
  write_safetensors(path, tensors_, metadata);
}

namespace {

// Every parameter that is not skipped is in the file, with the same shape. One message names all that are not.
template <class Skipped>
void check_taken_over(const Config& pretrained, const Safetensors& file, const Params& params, const std::string& path, Skipped skipped) {
  std::string missing, layers;
  const std::string* first = nullptr;
  for (const ParameterSpec& spec : params.specs()) {
    const Tensor* tensor = file.find(spec.name);
    if (skipped(spec.name) || (tensor && Type{tensor->dtype(), tensor->shape()} == Type{params.dtype(), spec.shape})) continue;
    if (!first) first = &spec.name;
    missing += (missing.empty() ? "" : ", ") + (tensor ? "'" + spec.name + "' of " + Type{tensor->dtype(), tensor->shape()}.text() +
                                                             " instead of " + Type{params.dtype(), spec.shape}.text()
                                                       : "no '" + spec.name + "'");
    const std::string layer = "\"" + spec.name.substr(0, spec.name.rfind('.')) + ".*\"";
    if (layers.find(layer) == std::string::npos) layers += (layers.empty() ? "" : ", ") + layer;
  }
  if (!first) return;
  pretrained.fail("model", "does not have all parameters of the network", path + ", which has " + missing, "",
                  "parameters that begin anew are skipped: skip = { " + layers + " }");
}

}  // namespace

void apply_pretrained(Trainer& trainer, const Config& pretrained, const std::string& folder, SourceOpener* opener) {
  const std::string model = pretrained.string("model");
  const std::string path = opener ? opener->locate(model, pretrained.where() + ".model", folder) : file_of_model(path_in(folder, model));
  const std::vector<std::string> skip = pretrained.string_list("skip");
  const bool partial = pretrained.boolean("partial", false);
  pretrained.string_list("freeze");  // the network was built with it
  pretrained.reject_unread();
  const auto any = [](const std::vector<std::string>& patterns, const std::string& name) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) { return matches_pattern(pattern, name); });
  };
  const Safetensors file = read_model_file(path);
  Params& params = trainer.model().params();
  const auto skipped = [&](const std::string& name) { return any(skip, name) || (partial && !file.find(name)); };
  check_taken_over(pretrained, file, params, path, skipped);
  for (size_t i = 0; i < params.specs().size(); ++i) {
    if (skipped(params.specs()[i].name)) continue;
    const Tensor& tensor = *file.find(params.specs()[i].name);
    std::memcpy(params.parameter(static_cast<int>(i)), tensor.view().data, tensor.bytes());
  }
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const StateSpec& spec = params.state_specs()[i];
    const Tensor* tensor = any(skip, spec.name) ? nullptr : file.find("state/" + spec.name);
    if (tensor && Type{tensor->dtype(), tensor->shape()} == Type{spec.dtype, spec.shape})
      std::memcpy(params.state(static_cast<int>(i)), tensor->view().data, tensor->bytes());
  }
}

}  // namespace perigee
