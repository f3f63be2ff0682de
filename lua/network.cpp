// Networks and trained models as functions of tensors: what lua/perigee/network.lua calls.
#include <algorithm>
#include <cstring>
#include <string>

#include "lua/json.h"
#include "lua/object.h"
#include "lua/predictions.h"
#include "lua/tensor.h"
#include "lua/text/generate.h"
#include "src/core/error.h"
#include "src/model/network_function.h"
#include "src/tensor/bytes.h"

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
                                 {"network", model.spec().network},
                                 {"loss", model.spec().loss},
                                 {"link", model.link()}}));
  return 1;
}

// network_parameter(network, number from 1, out): a tensor on the network's own memory
int network_parameter(lua_State* L) {
  Params& params = network_at(L, 1).model().params();
  const auto number = luaL_checkinteger(L, 2);
  if (number < 1 || static_cast<size_t>(number) > params.specs().size())
    throw Error(ErrorKind::usage, {.what = "the network has no such parameter",
                                   .got = std::to_string(number),
                                   .expected = "1 to " + std::to_string(params.specs().size())});
  give_array(L, 3, Array(params.parameter_tensor(static_cast<int>(number) - 1)));
  lua_pushboolean(L, 1);
  return 1;
}

// network_record(network, recorder, { inputs }, { parameters }, linked): { values }
int network_record(lua_State* L) {
  push_ints(L, network_at(L, 1).record(recorder_at(L, 2), ints_at(L, 3), ints_at(L, 4), lua_toboolean(L, 5) != 0));
  return 1;
}

// network_predict(model, records, layers, beams): a list of results, as a run's predict_records()
int network_predict(lua_State* L) {
  NetworkFunction& network = network_at(L, 1);
  const LoadedModel& loaded = network.loaded();
  const GivenRecords given = records_at(L, 2, "model:predict");
  const PredictionOptions options = prediction_options_at(L, 3, "model:predict");
  const RecordReader reader(loaded.model->spec(), loaded.job, loaded.fitted);
  ThreadTeam team(1);
  RecordPredictor predictor(network.model(), loaded.class_names, team, {}, options);
  push_predictions(L, predictor.all(given.open(reader, "model:predict")));
  return 1;
}

// network_generate(model, options): a text that is being made; the model must be kept
int network_generate(lua_State* L) {
  NetworkFunction& network = network_at(L, 1);
  const LoadedModel& loaded = network.loaded();
  const GenerateOptions options = generate_options_at(L, 2, "model:generate");
  push_generation(L, nullptr, network.model(), loaded.job, loaded.fitted, options, "model:generate: ");
  return 1;
}

constexpr const char* kSessionObject = "perigee.session";
constexpr int64_t kMostRows = StepModel::kMostRows, kMostSteps = StepModel::kMostSteps;

StepSession& session_at(lua_State* L, int index) { return object_at<StepSession>(L, index, kSessionObject); }

// network_session(network, rows): a sequence that the network reads piece by piece
int network_session(lua_State* L) {
  const auto rows = static_cast<int64_t>(luaL_checknumber(L, 2));
  if (rows < 1 || rows > kMostRows)
    throw Error(ErrorKind::usage, {.where = "session: rows",
                                   .what = "is out of range",
                                   .got = std::to_string(rows),
                                   .expected = "1 to " + std::to_string(kMostRows)});
  push_object<StepSession>(L, kSessionObject, network_at(L, 1).step_model(rows));
  return 1;
}

Type of_rows(const Type& one, int64_t rows, int64_t steps) {
  std::vector<int64_t> dims = one.shape.vector();
  dims.back() = steps;
  dims.insert(dims.begin(), rows);
  return {one.dtype, Shape(dims)};
}

// session_step(session, x, out)
int session_step(lua_State* L) {
  StepSession& session = session_at(L, 1);
  const StepModel& model = session.model();
  const Array& given = check_array(L, 2);
  const Shape shape = given.shape();
  const int64_t steps = shape.rank() > 0 ? shape[shape.rank() - 1] : 0;
  const Type wanted = of_rows(model.input(), model.rows(), std::clamp<int64_t>(steps, 1, kMostSteps));
  if (shape != wanted.shape)
    throw Error(ErrorKind::usage, {.where = "session:step",
                                   .what = "the tensor does not fit",
                                   .got = given.text(),
                                   .expected = wanted.text() + ", with any number of steps as the last dimension"});
  const Array x = contiguous(cast(given, wanted.dtype));
  const Array y = new_array(of_rows(model.output(), model.rows(), steps));
  session.step(x.view.data, steps, y.view.data);
  give_array(L, 3, y);
  lua_pushboolean(L, 1);
  return 1;
}

int session_clear(lua_State* L) {
  session_at(L, 1).clear();
  lua_pushboolean(L, 1);
  return 1;
}

// session_memory(session): the names of what its steps look at
int session_memory(lua_State* L) {
  Json names = Json::array();
  for (const NetworkInput& input : session_at(L, 1).model().memory()) names.push(input.name);
  push_json(L, names);
  return 1;
}

// session_remember(session, number from 1, x): the last one makes the memory
int session_remember(lua_State* L) {
  StepSession& session = session_at(L, 1);
  const auto i = static_cast<size_t>(luaL_checkinteger(L, 2) - 1);
  const Array& given = check_array(L, 3);
  const Type wanted = session.memory_type(i);
  if (given.shape() != wanted.shape)
    throw Error(ErrorKind::usage, {.where = "session:remember",
                                   .what = "the tensor '" + session.model().memory()[i].name + "' does not fit",
                                   .got = given.text(),
                                   .expected = wanted.text()});
  const Array x = contiguous(cast(given, wanted.dtype));
  session.remember(i, x.view.data);
  lua_pushboolean(L, 1);
  return 1;
}

// session_names(session): a list of what it carries
int session_names(lua_State* L) {
  Json names = Json::array();
  for (const CarriedSpec& spec : session_at(L, 1).model().carried()) names.push(spec.name);
  push_json(L, names);
  return 1;
}

// session_state(session, number from 1, out): a copy. session_set_state(session, number, x)
int session_state(lua_State* L) {
  CarriedRows& state = session_at(L, 1).state();
  const auto i = static_cast<size_t>(luaL_checkinteger(L, 2) - 1);
  const Array copy = new_array(state.type(i));
  std::memcpy(copy.view.data, state.now(i).data(), byte_size(state.type(i)));
  give_array(L, 3, copy);
  lua_pushboolean(L, 1);
  return 1;
}

int session_set_state(lua_State* L) {
  CarriedRows& state = session_at(L, 1).state();
  const auto i = static_cast<size_t>(luaL_checkinteger(L, 2) - 1);
  const Array& given = check_array(L, 3);
  const Type wanted = state.type(i);
  if (given.shape() != wanted.shape)
    throw Error(ErrorKind::usage, {.where = "session:set_state",
                                   .what = "the tensor '" + state.specs()[i].name + "' does not fit",
                                   .got = given.text(),
                                   .expected = wanted.text()});
  const Array x = contiguous(cast(given, wanted.dtype));
  std::memcpy(state.now(i).data(), x.view.data, byte_size(wanted));
  lua_pushboolean(L, 1);
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
      {"network_session", report<network_session>},
      {"session_step", report<session_step>},
      {"session_clear", report<session_clear>},
      {"session_memory", report<session_memory>},
      {"session_remember", report<session_remember>},
      {"session_names", report<session_names>},
      {"session_state", report<session_state>},
      {"session_set_state", report<session_set_state>},
      {nullptr, nullptr},
  };
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
