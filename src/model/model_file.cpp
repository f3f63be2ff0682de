#include "src/model/model_file.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "src/model/field_roles.h"
#include "src/model/model_reader.h"

namespace perigee {
namespace {

constexpr const char* kRoleNames[] = {"", "length", "mask", "weight", "segment"};  // by FieldRole

Json field_json(const NetworkInput& input) {
  Json json = Json::object();
  json.set("name", input.name);
  json.set("dtype", dtype_name(input.type.dtype));
  Json shape = Json::array();
  for (int64_t dim : input.type.shape.vector()) shape.push(dim);
  json.set("shape", std::move(shape));
  if (input.role == FieldRole::none) return json;
  json.set("role", kRoleNames[static_cast<size_t>(input.role)]);
  json.set("of", input.of);
  return json;
}

NetworkInput field_from(const Config& config) {
  NetworkInput field{config.string("name"), {dtype_from_name(config.string("dtype")), Shape(config.integer_list("shape"))}};
  const std::string role = config.choice("role", "", {"", "length", "mask", "weight", "segment"});
  if (role.empty()) return field;
  field.role = static_cast<FieldRole>(std::find(std::begin(kRoleNames), std::end(kRoleNames), role) - std::begin(kRoleNames));
  field.of = config.string("of");
  return field;
}

// Error when a role is of a field that is not there, or does not fit it.
void check_roles(const ModelSpec& spec, const std::string& where) {
  const auto check = [&](const NetworkInput& role, std::span<const NetworkInput> fields, const char* list, const char* kind,
                         const char* expected) {
    const auto of = std::find_if(fields.begin(), fields.end(),
                                 [&](const NetworkInput& field) { return field.role == FieldRole::none && field.name == role.of; });
    if (of == fields.end())
      throw Error(ErrorKind::model, {.where = where + list,
                                     .what = "'" + role.name + "' is of no " + kind,
                                     .got = "'" + role.of + "'",
                                     .expected = std::string("the name of ") + expected,
                                     .hint = "the file is damaged: train and save the model again"});
    check_role(role, *of, where + list);
  };
  for (const NetworkInput& role : spec.inputs)
    if (role.role != FieldRole::none)  // a weight is of targets alone
      check(role, role.role == FieldRole::weight ? std::span<const NetworkInput>() : spec.inputs, ": inputs", "input",
            "an input with steps");
  std::vector<NetworkInput> targets = {spec.target};
  for (const LossHead& head : spec.more_heads) targets.push_back(head.target);
  for (const NetworkInput& role : spec.target_roles) {
    if (role.role == FieldRole::none)
      throw Error(ErrorKind::model, {.where = where + ": target_roles", .what = "'" + role.name + "' has no role"});
    check(role, targets, ": target_roles", "target", "a target");
  }
}

Json names_json(const std::vector<std::string>& names) {
  Json json = Json::array();
  for (const std::string& name : names) json.push(name);
  return json;
}

Metadata model_metadata(const LoadedModel& loaded) { return model_metadata(*loaded.model, loaded.job, loaded.fitted, loaded.class_names); }

[[noreturn]] void misfit(const std::string& where, const std::string& name, std::string got, std::string expected,
                         std::string hint = "the file belongs to another network") {
  throw Error(ErrorKind::model, {.where = where + ": tensor '" + name + "'",
                                 .what = "does not fit the network",
                                 .got = std::move(got),
                                 .expected = std::move(expected),
                                 .hint = std::move(hint)});
}

// The type of a network's numbers; files of before there was a choice do not say it.
Dtype network_dtype(const std::string& name, const std::string& where) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64})
    if (name == dtype_name(dtype)) return dtype;
  throw Error(ErrorKind::model,
              {.where = where + ": metadata 'dtype'", .what = "is no type of a network", .got = name, .expected = "f32 or f64"});
}

}  // namespace

Metadata model_metadata(const Model& model, const Json& job, const Json& fitted, const std::vector<std::string>& class_names) {
  const ModelSpec& spec = model.spec();
  Json inputs = Json::array();
  for (const NetworkInput& input : spec.inputs) inputs.push(field_json(input));
  Json target = field_json(spec.target);
  target.set("classes", spec.classes);
  Metadata metadata = {{"perigee", PERIGEE_VERSION},
                       {"network", spec.network.dump()},
                       {"job", job.dump()},
                       {"inputs", inputs.dump()},
                       {"target", target.dump()},
                       {"loss", spec.loss.dump()},
                       {"dtype", dtype_name(spec.dtype)},
                       {"class_names", names_json(class_names).dump()}};
  Json heads = Json::array();  // the main one first
  const auto add_head = [&](int output, const NetworkInput& field, const Json& loss, double weight, const std::vector<std::string>& names) {
    Json head = field_json(field);
    head.set("output", output);
    head.set("loss", loss);
    head.set("weight", weight);
    if (!names.empty()) head.set("class_names", names_json(names));
    heads.push(std::move(head));
  };
  add_head(spec.loss_output, spec.target, spec.loss, spec.loss_weight, {});  // its names are the file's
  for (const LossHead& head : spec.more_heads) add_head(head.output, head.target, head.loss, head.weight, head.class_names);
  metadata["heads"] = heads.dump();
  if (!spec.target_roles.empty()) {
    Json roles = Json::array();
    for (const NetworkInput& role : spec.target_roles) roles.push(field_json(role));
    metadata["target_roles"] = roles.dump();
  }
  if (const Json* network = job.find("network")) metadata["network"] = network->dump();
  if (!fitted.is_null()) metadata["fitted"] = fitted.dump();
  return metadata;
}

std::vector<NamedTensor> model_tensors(const Model& model) {
  std::vector<NamedTensor> tensors;
  const Params& params = model.params();
  for (size_t i = 0; i < params.specs().size(); ++i)
    tensors.push_back({params.specs()[i].name, params.parameter_tensor(static_cast<int>(i))});
  for (size_t i = 0; i < params.state_specs().size(); ++i)
    tensors.push_back({"state/" + params.state_specs()[i].name, params.state_tensor(static_cast<int>(i))});
  return tensors;
}

const Tensor& wanted_tensor(const Safetensors& file, const std::string& name, const Type& type, const std::string& where) {
  const Tensor* tensor = file.find(name);
  if (!tensor) misfit(where, name, "no such tensor", type.text());
  const Type got{tensor->dtype(), tensor->shape()};
  if (got.shape == type.shape && got.dtype != type.dtype)
    misfit(where, name, got.text(), type.text(), "the file was trained with another `precision`");
  if (got != type) misfit(where, name, got.text(), type.text());
  return *tensor;
}

void check_model_tensors(const Safetensors& file, const Params& params, const std::string& where) {
  for (const ParameterSpec& spec : params.specs()) wanted_tensor(file, spec.name, {params.dtype(), spec.shape}, where);
  for (const StateSpec& spec : params.state_specs()) wanted_tensor(file, "state/" + spec.name, {spec.dtype, spec.shape}, where);
}

void copy_model_tensors(const Safetensors& file, Params& params) {
  for (size_t i = 0; i < params.specs().size(); ++i) {
    const Tensor& tensor = *file.find(params.specs()[i].name);
    std::memcpy(params.parameter(static_cast<int>(i)), tensor.view().data, tensor.bytes());
  }
  for (size_t i = 0; i < params.state_specs().size(); ++i) {
    const Tensor& tensor = *file.find("state/" + params.state_specs()[i].name);
    std::memcpy(params.state(static_cast<int>(i)), tensor.view().data, tensor.bytes());
  }
}

const std::string& required_metadata(const Safetensors& file, const std::string& key, const std::string& where) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end() || !file.metadata.contains("xxh3"))
    throw Error(ErrorKind::model, {.where = where,
                                   .what = "is no Perigee model",
                                   .got = "no '" + std::string(found == file.metadata.end() ? key : "xxh3") + "' in its metadata",
                                   .hint = "give the model.safetensors of a run, or train one"});
  return found->second;
}

Json json_metadata(const Safetensors& file, const std::string& key, const std::string& where) {
  const auto found = file.metadata.find(key);
  return found == file.metadata.end() ? Json() : Json::parse(found->second, where + ": metadata '" + key + "'");
}

LoadedModel load_model(std::span<const std::byte> bytes, const std::string& where) {
  const Safetensors file = parse_model_file(bytes, where);
  required_metadata(file, "perigee", where);
  ModelSpec spec{.network = Json::parse(required_metadata(file, "network", where), where + ": network"), .where = where};
  const Json inputs = Json::parse(required_metadata(file, "inputs", where), where + ": inputs");
  if (!inputs.is_array()) throw Error(ErrorKind::model, {.where = where + ": inputs", .what = "must be a list", .got = inputs.type_name()});
  for (const Json& input : inputs.as_array()) spec.inputs.push_back(field_from(Config(input, where + ": inputs")));
  const Json target = Json::parse(required_metadata(file, "target", where), where + ": target");
  const Config target_config(target, where + ": target");
  spec.target = field_from(target_config);
  spec.classes = target_config.integer_in("classes", 0, int64_t{1} << 31, 0);
  spec.loss = json_metadata(file, "loss", where);
  const Json heads = json_metadata(file, "heads", where);
  for (size_t i = 0; heads.is_array() && i < heads.as_array().size(); ++i) {
    const Config head(heads.as_array()[i], where + ": heads");
    LossHead read{
        .output = static_cast<int>(head.integer_in("output", 0, 65535)), .target = field_from(head), .weight = head.number("weight")};
    if (const Json* loss = head.raw("loss")) read.loss = *loss;
    if (i > 0) {
      read.class_names = head.string_list("class_names");
      spec.more_heads.push_back(std::move(read));
      continue;
    }
    spec.loss_output = read.output;
    spec.loss_weight = read.weight;
  }
  const Json roles = json_metadata(file, "target_roles", where);
  for (size_t i = 0; roles.is_array() && i < roles.as_array().size(); ++i)
    spec.target_roles.push_back(field_from(Config(roles.as_array()[i], where + ": target_roles")));
  check_roles(spec, where);
  if (const auto dtype = file.metadata.find("dtype"); dtype != file.metadata.end()) spec.dtype = network_dtype(dtype->second, where);
  LoadedModel loaded{.model = std::make_unique<Model>(std::move(spec)),
                     .job = json_metadata(file, "job", where),
                     .fitted = json_metadata(file, "fitted", where)};
  const Json names = json_metadata(file, "class_names", where);
  if (names.is_array())
    for (const Json& name : names.as_array())
      if (name.is_string()) loaded.class_names.push_back(name.as_string());
  check_model_tensors(file, loaded.model->params(), where);
  copy_model_tensors(file, loaded.model->params());
  return loaded;
}

std::string file_of_model(const std::string& path, const std::string& hint) {
  if (!folder_exists(path)) return path;
  const std::string folder = path + (path.ends_with('/') ? "" : "/");
  for (const char* name : {"model.safetensors", "checkpoints/best.safetensors"})
    if (file_exists(folder + name)) return folder + name;
  throw Error(ErrorKind::usage, {path, "this folder has no model.safetensors", "", "a model, or the folder of a finished run", hint});
}

LoadedModel load_model(const std::string& path) {
  const std::string file = file_of_model(path);
  return load_model(read_file(file), file);
}

std::vector<std::byte> model_bytes(const LoadedModel& loaded) {
  return safetensors_bytes(model_tensors(*loaded.model), model_metadata(loaded));
}

void save_model(const LoadedModel& loaded, const std::string& path) {
  write_safetensors(path, model_tensors(*loaded.model), model_metadata(loaded));
}

}  // namespace perigee
