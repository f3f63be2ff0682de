#include "lua/run.h"

#include <cmath>
#include <memory>
#include <utility>

#include "cluster/launch/worker_gpus.h"
#include "lua/job_file.h"
#include "lua/json.h"
#include "lua/run_handle.h"
#include "lua/state.h"
#include "lua/tensor.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/io/plot/chart.h"
#include "src/model/device/device_choice.h"
#include "src/model/inference.h"
#include "src/run/live_run.h"

namespace perigee {
namespace {

constexpr char kType[] = "perigee.run";
using Handle = RunHandle<LiveRun, kType>;

LiveRun& run_at(lua_State* L, int index) { return Handle::at(L, index); }

// False when Ctrl-C ended the waiting.
bool between_steps(lua_State* L, const std::function<void(Session&)>& work) {
  if (run_at(L, 1).between_steps(work, lua_options(L).interrupt)) return true;
  throw Error(ErrorKind::usage, {.what = "interrupted"});
}

SessionOptions read_options(const Config& options) {
  SessionOptions session;
  session.trainer.threads = static_cast<int>(options.integer_in("threads", 0, 4096, 0));
  session.folder = options.boolean("folder", true);
  session.out = options.string("out", "");
  session.resume = options.string("resume", "");
  session.about = Json(Json::Object{{"script", options.string("script")}});
  return session;
}

// start(path or experiment, options): handle. `options` has "script", the name to tell, and "set", a list of "path=value".
int start(lua_State* L) {
  const Json given = to_json(L, 2, "pg.start");
  const Config options(given, "pg.start", ErrorKind::usage);
  SessionOptions session = read_options(options);
  const std::vector<std::string> settings = options.string_list("set");
  options.reject_unread();
  const Job job = job_to_start(L, options.string("script"), settings);
  warn_of_gpus_in_one_process(job.json(), job.where());
  session.trainer.use(choose_device(job.json(), job.where() + ": device"));
  Handle::push(L) = std::make_unique<LiveRun>(job, std::move(session), wake_of(L));
  return 1;
}

void set_number(lua_State* L, const char* key, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

void set_text(lua_State* L, const char* key, const std::string& value) {
  if (value.empty()) return;
  lua_pushlstring(L, value.data(), value.size());
  lua_setfield(L, -2, key);
}

int progress(lua_State* L) {
  const LiveRun::Progress at = run_at(L, 1).progress();
  lua_newtable(L);
  set_text(L, "state", to_string(at.state));
  set_text(L, "folder", at.folder);
  set_text(L, "error", at.error);
  set_number(L, "step", static_cast<double>(at.step));
  set_number(L, "epoch", static_cast<double>(at.epoch));
  set_number(L, "examples", static_cast<double>(at.examples));
  set_number(L, "learning_rate", at.learning_rate);
  if (at.planned > 0) {
    set_number(L, "planned", static_cast<double>(at.planned));
    set_number(L, "progress", std::min(1.0, static_cast<double>(at.examples) / static_cast<double>(at.planned)));
  }
  if (at.step > 0) {
    set_number(L, "loss", at.loss);
    if (at.accuracy >= 0) set_number(L, "accuracy", at.accuracy);
    set_number(L, "examples_per_s", at.examples_per_s);
    set_number(L, "seconds", at.seconds);
  }
  return 1;
}

int pause(lua_State* L) { return run_at(L, 1).pause(), lua_pushboolean(L, 1), 1; }
int resume(lua_State* L) { return run_at(L, 1).resume(), lua_pushboolean(L, 1), 1; }
int stop(lua_State* L) { return run_at(L, 1).stop(), lua_pushboolean(L, 1), 1; }

int set_learning_rate(lua_State* L) {
  const Json schedule = to_json(L, 2, "lr");
  between_steps(L, [&](Session& session) { session.set_learning_rate(schedule); });
  lua_pushboolean(L, 1);
  return 1;
}

// evaluate(run, part): figures
int evaluate(lua_State* L) {
  const std::string part = luaL_checkstring(L, 2);
  const std::atomic<bool>* cancel = lua_options(L).interrupt;
  Json figures;
  between_steps(L, [&](Session& session) {
    if (!session.trainer().has_part(part))
      throw Error(ErrorKind::usage, {.where = "run:eval", .what = "the job's data have no part '" + part + "'"});
    figures = scalar_figures(session.trainer().evaluate(part, cancel));
  });
  if (cancel && *cancel) throw Error(ErrorKind::usage, {.what = "interrupted"});
  push_json(L, figures);
  return 1;
}

int checkpoint(lua_State* L) {
  std::string file;
  between_steps(L, [&](Session& session) { file = session.checkpoint(); });
  lua_pushlstring(L, file.data(), file.size());
  return 1;
}

// save(run, path): the model as it is now
int save(lua_State* L) {
  const std::string path = luaL_checkstring(L, 2);
  between_steps(L, [&](Session& session) { save_model(session.trainer(), path); });
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
  trainer.inference().run_all(input, dims[0], static_cast<std::byte*>(output.view().data));
  return output;
}

// Its storage has one owner then, as the account of what lies outside Lua wants it.
void give(lua_State* L, int index, Tensor value) {
  Array array(value);
  value = {};
  give_array(L, index, std::move(array));
}

// predict(run, x, out)
int predict(lua_State* L) {
  const Array x = check_array(L, 2);
  Tensor output;
  between_steps(L, [&](Session& session) { output = predicted(session.trainer(), x); });
  give(L, 3, std::move(output));
  lua_pushboolean(L, 1);
  return 1;
}

// names(run): of all parameters and states
int names(lua_State* L) {
  Json list = Json::array();
  between_steps(L, [&](Session& session) {
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
  between_steps(L, [&](Session& session) {
    const Params& params = std::as_const(session.trainer()).model().params();
    if (const int i = params.find(name); i >= 0) value = params.parameter_tensor(i).clone();
    else if (const int j = params.find_state(name); j >= 0) value = params.state_tensor(j).clone();
    else throw Error(ErrorKind::usage, {.where = "run.network", .what = "there is no parameter '" + name + "'"});
  });
  give(L, 3, std::move(value));
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

// write_chart(file, title, name, points, log_scale)
int write_chart(lua_State* L) {
  const std::string path = luaL_checkstring(L, 1), title = luaL_checkstring(L, 2), name = luaL_checkstring(L, 3);
  const bool png = path.ends_with(".png");
  if (!png && !path.ends_with(".svg"))
    throw Error(ErrorKind::usage, {.where = path, .what = "a chart's file has another name", .expected = "name.svg or name.png"});
  PlotCurve curve{.name = name};
  curve.points = points_at(L, 4);
  Chart chart{.title = name, .x_label = "step", .log_scale = lua_toboolean(L, 5) != 0};
  chart.curves.push_back(std::move(curve));
  const std::string text = png ? png_charts(title, {chart}) : svg_charts(title, {chart});
  write_file(path, std::as_bytes(std::span(text)));
  lua_pushboolean(L, 1);
  return 1;
}

}  // namespace

void add_run_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {
      {"start", report<start>},
      {"progress", report<progress>},
      {"events", report<Handle::events>},
      {"pause", report<pause>},
      {"resume", report<resume>},
      {"stop", report<stop>},
      {"set_learning_rate", report<set_learning_rate>},
      {"evaluate", report<evaluate>},
      {"checkpoint", report<checkpoint>},
      {"save", report<save>},
      {"predict", report<predict>},
      {"names", report<names>},
      {"parameter", report<parameter>},
      {"write_chart", report<write_chart>},
      {nullptr, nullptr},
  };
  Handle::add_type(L);
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
