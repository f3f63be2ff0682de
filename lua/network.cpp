// Networks and trained models as functions of tensors: what lua/perigee/network.lua calls.
#include <string>

#include "lua/generate.h"
#include "lua/json.h"
#include "lua/object.h"
#include "lua/predictions.h"
#include "lua/tensor.h"
#include "src/core/error.h"
#include "src/model/network_function.h"

namespace perigee {
namespace {

NetworkFunction& network_at(lua_State* L, int index) { return object_at<NetworkFunction>(L, index, kNetworkObject); }

Json field_about(const std::string& name, const Type& type) {
  return Json(Json::Object{{"name", name}, {"dtype", dtype_name(type.dtype)}, {"shape", ints_json(type.shape.vector())}});
}

// network(description, { {name, dtype, shape}, ... }, seed, where): a network with drawn parameters
int new_network(lua_State* L) {
  Json description = to_json(L, 1, "network");
  const Json fields = to_json(L, 2, "inputs");
  std::vector<NetworkInput> inputs;
  for (const Json& field : fields.as_array()) {
    const Config given(field, "inputs");
    inputs.push_back({given.string("name"), {dtype_from_name(given.string("dtype")), Shape(given.integer_list("shape"))}});
  }
  const auto seed = static_cast<uint64_t>(static_cast<int64_t>(luaL_checknumber(L, 3)));
  push_object<NetworkFunction>(L, kNetworkObject, std::move(description), std::move(inputs), seed, luaL_optstring(L, 4, ""));
  return 1;
}

int load_network(lua_State* L) {
  push_object<NetworkFunction>(L, kNetworkObject, std::string(luaL_checkstring(L, 1)));
  return 1;
}

// network_about(network): what is known of it, as a table
int network_about(lua_State* L) {
  NetworkFunction& network = network_at(L, 1);
  const Model& model = network.model();
  Json inputs = Json::array(), outputs = Json::array(), classes = Json::array(), parameters = Json::array(), layers = Json::array();
  for (const NetworkInput& input : model.spec().inputs) inputs.push(field_about(input.name, input.type));
  for (size_t i = 0; i < network.outputs().size(); ++i) {
    // The types come with the loss's output in front.
    const auto main = static_cast<size_t>(model.spec().loss_output);
    const size_t at = i == 0 ? main : i == main ? 0 : i;
    outputs.push(field_about(network.outputs()[i], model.output_types()[at]));
  }
  for (const std::string& name : network.loaded().class_names) classes.push(name);
  for (const ParameterSpec& spec : model.params().specs()) parameters.push(spec.name);
  for (const LayerReport& layer : model.layers()) {
    Json shapes = Json::array();
    for (const Shape& shape : layer.outputs) shapes.push(shape.text());
    layers.push(Json(Json::Object{{"name", layer.name}, {"type", layer.type}, {"outputs", shapes}, {"parameters", layer.parameters}}));
  }
  push_json(L, Json(Json::Object{{"inputs", inputs},
                                 {"outputs", outputs},
                                 {"class_names", classes},
                                 {"classes", model.spec().classes},
                                 {"parameters", parameters},
                                 {"layers", layers},
                                 {"link", model.link()}}));
  return 1;
}

// network_parameter(network, number from 1, out): a tensor on the network's own memory
int network_parameter(lua_State* L) {
  Params& params = network_at(L, 1).model().params();
  const auto number = luaL_checkinteger(L, 2);
  if (number < 1 || static_cast<size_t>(number) > params.specs().size())
    throw Error(ErrorKind::usage, {.what = "the network has no such parameter"});
  give_array(L, 3, Array(params.parameter_tensor(static_cast<int>(number) - 1)));
  lua_pushboolean(L, 1);
  return 1;
}

// network_record(network, recorder, { inputs }, { parameters }, linked): { values }
int network_record(lua_State* L) {
  push_ints(L, network_at(L, 1).record(recorder_at(L, 2), ints_at(L, 3), ints_at(L, 4), lua_toboolean(L, 5) != 0));
  return 1;
}

// network_predict(model, records, layers): a list of results, as a run's predict_records()
int network_predict(lua_State* L) {
  NetworkFunction& network = network_at(L, 1);
  const LoadedModel& loaded = network.loaded();
  const GivenRecords given = records_at(L, 2, "model:predict");
  const std::vector<std::string> layers = layers_at(L, 3, "model:predict");
  const RecordReader reader(loaded.model->spec(), loaded.job, loaded.fitted);
  ThreadTeam team(1);
  RecordPredictor predictor(network.model(), loaded.class_names, team, {}, layers);
  push_predictions(L, predictor.all(given.open(reader, "model:predict")));
  return 1;
}

// network_generate(model, options): a text that is being made; the model must be kept
int network_generate(lua_State* L) {
  NetworkFunction& network = network_at(L, 1);
  const LoadedModel& loaded = network.loaded();
  const GenerateOptions options = generate_options_at(L, 2, "model:generate");
  push_generation(L, nullptr, network.model(), loaded.job, loaded.fitted, options, "model:generate: prompt");
  return 1;
}

int network_save(lua_State* L) {
  save_model(network_at(L, 1).loaded(), luaL_checkstring(L, 2));
  lua_pushboolean(L, 1);
  return 1;
}

}  // namespace

void add_network_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"network", report<new_network>},
      {"load_network", report<load_network>},
      {"network_about", report<network_about>},
      {"network_parameter", report<network_parameter>},
      {"network_record", report<network_record>},
      {"network_predict", report<network_predict>},
      {"network_generate", report<network_generate>},
      {"network_save", report<network_save>},
      {nullptr, nullptr},
  };
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
