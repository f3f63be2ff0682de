#include "lua/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "lua/json.h"
#include "lua/predictions.h"
#include "lua/state.h"
#include "lua/tensor.h"
#include "lua/text/generate.h"
#include "src/core/advice.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/io/plot/chart.h"
#include "src/io/plot/graphics.h"
#include "src/io/plot/matrix.h"
#include "src/model/device/device_choice.h"
#include "src/model/inference.h"
#include "src/run/session.h"

namespace perigee {
namespace {

constexpr char kType[] = "perigee.run";
using Owner = std::unique_ptr<Run>;

Owner& owner_at(lua_State* L, int index) { return *static_cast<Owner*>(luaL_checkudata(L, index, kType)); }

// Error(usage) when it was closed.
Run& run_at(lua_State* L, int index) {
  Owner& owner = owner_at(L, index);
  if (!owner) throw Error(ErrorKind::usage, {.where = "run", .what = "it was closed", .hint = "start another one with pg.start"});
  return *owner;
}

Run::Cancel cancel_of(lua_State* L) { return lua_options(L).interrupt; }

// `what` names the call in errors.
void with_session(lua_State* L, const char* what, const std::function<void(Session&)>& work) {
  run_at(L, 1).with_session(what, work, cancel_of(L));
}

// The run in a userdata: until `close`, or until it is collected.
int push_run(lua_State* L, Owner (*make)(lua_State*)) {
  auto* owner = new (lua_newuserdata(L, sizeof(Owner))) Owner();
  luaL_getmetatable(L, kType);
  lua_setmetatable(L, -2);
  *owner = make(L);
  return 1;
}

int start(lua_State* L) { return push_run(L, start_run); }
int attach(lua_State* L) { return push_run(L, attach_run); }

int close(lua_State* L) {
  owner_at(L, 1).reset();
  return 0;
}

// An error's text, which a run tells as it does on the command line.
void say_to_script(Json& told, const char* key) {
  if (const Json* text = told.find(key); text && text->is_string()) told.set(key, advice_for(Voice::script, text->as_string()));
}

int has_workers(lua_State* L) { return lua_pushboolean(L, run_at(L, 1).has_workers()), 1; }

int progress(lua_State* L) {
  Json at = run_at(L, 1).progress_report(cancel_of(L));
  say_to_script(at, "error");
  push_json(L, at);
  return 1;
}

// workers_report(run, what)
int workers_report(lua_State* L) {
  push_json(L, run_at(L, 1).workers_report(luaL_checkstring(L, 2), cancel_of(L)));
  return 1;
}

// steer(run, name, value): the answer
int steer(lua_State* L) {
  const std::string name = luaL_checkstring(L, 2);
  push_json(L, run_at(L, 1).steer(Json(Json::Object{{name, to_json(L, 3, name)}}), cancel_of(L)));
  return 1;
}

// options(run): what can be set, by name
int options(lua_State* L) {
  push_json(L, run_at(L, 1).options_report(cancel_of(L)));
  return 1;
}

// events(run, wait_ms): a list; waits for the first one so long, or until the run is over
int events(lua_State* L) {
  Run& run = run_at(L, 1);
  const auto milliseconds = static_cast<int64_t>(luaL_checkinteger(L, 2));
  if (milliseconds > 0) run.wait_for_events(std::chrono::milliseconds(std::min<int64_t>(milliseconds, 3'600'000)), cancel_of(L));
  Json list = Json::array();
  for (Json& event : run.take_events()) say_to_script(event, "text"), list.push(std::move(event));
  push_json(L, list);
  return 1;
}

// evaluate(run, part): figures
int evaluate(lua_State* L) {
  const std::string part = luaL_checkstring(L, 2);
  push_json(L, run_at(L, 1).evaluate(part, cancel_of(L)));
  return 1;
}

// save(run, path): the model as it is now
int save(lua_State* L) {
  const std::string path = luaL_checkstring(L, 2);
  run_at(L, 1).save(path, cancel_of(L));
  lua_pushboolean(L, 1);
  return 1;
}

Tensor predicted(Trainer& trainer, const Array& x) {
  const std::vector<NetworkInput>& inputs = trainer.shape().spec().inputs;
  if (inputs.size() != 1)
    throw Error(ErrorKind::usage,
                {.where = "run:predict", .what = "the network has " + std::to_string(inputs.size()) + " inputs", .expected = "one"});
  const Type& type = inputs[0].type;
  std::vector<int64_t> dims = x.shape().vector();
  if (x.shape() == type.shape) dims.insert(dims.begin(), 1);
  if (dims.empty() || dims[0] < 1 || Shape(std::vector<int64_t>(dims.begin() + 1, dims.end())) != type.shape)
    throw Error(ErrorKind::usage, {.where = "run:predict",
                                   .what = "the tensor does not fit the input '" + inputs[0].name + "'",
                                   .got = x.text(),
                                   .expected = "N x " + type.shape.text() + ", or " + type.shape.text()});
  const Array rows = contiguous(cast(x, type.dtype));
  const Type& of_one = trainer.shape().output_types().at(0);
  std::vector<int64_t> all = of_one.shape.vector();
  all.insert(all.begin(), dims[0]);
  Tensor output(of_one.dtype, Shape(all));
  const void* const input[] = {rows.view.data};
  const Trainer::InUse in_use(trainer);
  trainer.inference().run_all(input, dims[0], static_cast<std::byte*>(output.view().data));
  return output;
}

// Its storage has one owner then, as the account of what lies outside Lua wants it.
void give_run(lua_State* L, int index, Tensor value) {
  Array array(value);
  value = {};
  give_array(L, index, std::move(array));
}

// predict(run, x, out)
int predict(lua_State* L) {
  const Array x = check_array(L, 2);
  Tensor output;
  with_session(L, "run:predict", [&](Session& session) { output = predicted(session.trainer(), x); });
  give_run(L, 3, std::move(output));
  lua_pushboolean(L, 1);
  return 1;
}

// predict_records(run, records, layers, beams): a list of results
int predict_records(lua_State* L) {
  const GivenRecords given = records_at(L, 2, "run:predict");
  const PredictionOptions options = prediction_options_at(L, 3, "run:predict");
  Predictions results;
  with_session(L, "run:predict", [&](Session& session) {
    Trainer& trainer = session.trainer();
    const Trainer::InUse in_use(trainer);
    results = trainer.record_predictor(options).all(given.open(trainer.record_reader(), "run:predict"));
  });
  push_predictions(L, results);
  return 1;
}

// generate(run, options): a text that is being made by a copy of the model as it is now, so that the run trains on
int generate(lua_State* L) {
  const GenerateOptions options = generate_options_at(L, 2, "run:generate");
  std::unique_ptr<Model> model;
  Json job, fitted;
  with_session(L, "run:generate", [&](Session& session) {
    Trainer& trainer = session.trainer();
    const Trainer::InUse in_use(trainer);
    model = copy_of(std::as_const(trainer).model());
    job = trainer.job().canonical();
    fitted = trainer.train_source().traits().fitted;
  });
  Model& own = *model;
  push_generation(L, std::move(model), own, job, fitted, options, "run:generate: ");
  return 1;
}

// names(run): of all parameters and states
int names(lua_State* L) {
  Json list = Json::array();
  with_session(L, "run.network", [&](Session& session) {
    const Params& params = session.trainer().shape().params();
    for (const ParameterSpec& spec : params.specs()) list.push(spec.name);
    for (const StateSpec& spec : params.state_specs()) list.push(spec.name);
  });
  push_json(L, list);
  return 1;
}

// parameter(run, name, out): a copy of its value between two steps
int parameter(lua_State* L) {
  const std::string name = luaL_checkstring(L, 2);
  Tensor value;
  with_session(L, "run.network", [&](Session& session) {
    const Params& params = std::as_const(session.trainer()).model().params();
    if (const int i = params.find(name); i >= 0) value = params.parameter_tensor(i).clone();
    else if (const int j = params.find_state(name); j >= 0) value = params.state_tensor(j).clone();
    else
      throw Error(ErrorKind::usage,
                  {.where = "run.network", .what = "there is no parameter '" + name + "'", .hint = "run.network lists them"});
  });
  give_run(L, 3, std::move(value));
  lua_pushboolean(L, 1);
  return 1;
}

// The numbers of { {x, y}, ... }; what is not finite stays so, and leaves a gap.
std::vector<std::pair<double, double>> points_at(lua_State* L, int index) {
  luaL_checktype(L, index, LUA_TTABLE);
  std::vector<std::pair<double, double>> points;
  for (int i = 1; i <= static_cast<int>(lua_objlen(L, index)); ++i) {
    double numbers[2] = {std::nan(""), std::nan("")};
    lua_rawgeti(L, index, i);
    for (int k = 0; k < 2 && lua_istable(L, -1); ++k) {
      lua_rawgeti(L, -1, k + 1);
      if (lua_isnumber(L, -1)) numbers[k] = lua_tonumber(L, -1);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
    points.emplace_back(numbers[0], numbers[1]);
  }
  return points;
}

// write_chart(file, title, name, points, log_scale, label of x)
int write_chart(lua_State* L) {
  const std::string path = luaL_checkstring(L, 1), title = luaL_checkstring(L, 2), name = luaL_checkstring(L, 3);
  const bool png = path.ends_with(".png");
  if (!png && !path.ends_with(".svg"))
    throw Error(ErrorKind::usage, {.where = path, .what = "a chart's file has another name", .expected = "name.svg or name.png"});
  PlotCurve curve{.name = name};
  curve.points = points_at(L, 4);
  Chart chart{.title = name, .x_label = luaL_optstring(L, 6, "step"), .log_scale = lua_toboolean(L, 5) != 0};
  chart.curves.push_back(std::move(curve));
  const std::string text = png ? png_charts(title, {chart}) : svg_charts(title, {chart});
  write_file(path, std::as_bytes(std::span(text)));
  lua_pushboolean(L, 1);
  return 1;
}

// write_matrix(file, title, names, counts row after row)
int write_matrix(lua_State* L) {
  MatrixChart chart{.title = luaL_checkstring(L, 2), .names = {}, .counts = {}};
  const size_t classes = lua_objlen(L, 3);
  for (size_t i = 0; i < classes; ++i) {
    lua_rawgeti(L, 3, static_cast<int>(i) + 1);
    chart.names.emplace_back(luaL_checkstring(L, -1));
    lua_pop(L, 1);
  }
  for (size_t i = 0; i < classes * classes; ++i) {
    lua_rawgeti(L, 4, static_cast<int>(i) + 1);
    chart.counts.push_back(luaL_checknumber(L, -1));
    lua_pop(L, 1);
  }
  const std::string text = png_matrix(chart);
  write_file(luaL_checkstring(L, 1), std::as_bytes(std::span(text)));
  lua_pushboolean(L, 1);
  return 1;
}

std::string sequence_of(lua_State* L, int index, const PixelImage& image) {
  return std::string(luaL_checkstring(L, index)) == "kitty" ? kitty_sequence(image) : sixel_sequence(image);
}

// chart_graphics(kind, title, name, points, log_scale, label of x): what a terminal shows as the chart
int chart_graphics(lua_State* L) {
  const std::string title = luaL_checkstring(L, 2), name = luaL_checkstring(L, 3);
  PlotCurve curve{.name = name, .points = points_at(L, 4)};
  Chart chart{.title = name, .x_label = luaL_optstring(L, 6, "step"), .log_scale = lua_toboolean(L, 5) != 0};
  chart.curves.push_back(std::move(curve));
  const std::string text = sequence_of(L, 1, chart_pixels(title, {chart}));
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

// image_graphics(kind, x): of u8 [1 or 3, height, width]; a small image is shown with larger pixels
int image_graphics(lua_State* L) {
  constexpr int64_t kWide = 480, kMost = 4096;
  const Array x = contiguous(check_array(L, 2));
  const Shape shape = x.shape();
  if (shape.rank() != 3 || x.view.dtype != Dtype::u8 || shape[1] < 1 || shape[2] < 1 || shape[1] > kMost || shape[2] > kMost)
    throw Error(ErrorKind::usage,
                {.where = "plot", .what = "this image is too large to be shown", .got = x.text(), .hint = "give file = \"image.png\""});
  const int64_t channels = shape[0], height = shape[1], width = shape[2], scale = std::max<int64_t>(1, kWide / std::max(width, height));
  const auto* pixels = static_cast<const uint8_t*>(x.view.data);
  PixelImage image{.width = static_cast<int>(width * scale), .height = static_cast<int>(height * scale), .rgb = {}};
  for (int64_t row = 0; row < image.height; ++row)
    for (int64_t column = 0; column < image.width; ++column)
      for (int64_t channel = 0; channel < 3; ++channel)
        image.rgb.push_back(pixels[((channels == 3 ? channel : 0) * height + row / scale) * width + column / scale]);
  const std::string text = sequence_of(L, 1, image);
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

}  // namespace

void add_run_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"start", report<start>},
      {"attach", report<attach>},
      {"close", report<close>},
      {"has_workers", report<has_workers>},
      {"progress", report<progress>},
      {"workers_report", report<workers_report>},
      {"steer", report<steer>},
      {"options", report<options>},
      {"events", report<events>},
      {"evaluate", report<evaluate>},
      {"save", report<save>},
      {"predict", report<predict>},
      {"predict_records", report<predict_records>},
      {"generate", report<generate>},
      {"names", report<names>},
      {"parameter", report<parameter>},
      {"write_chart", report<write_chart>},
      {"write_matrix", report<write_matrix>},
      {"chart_graphics", report<chart_graphics>},
      {"image_graphics", report<image_graphics>},
      {nullptr, nullptr},
  };
  luaL_newmetatable(L, kType);
  lua_pushcfunction(L, close);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
