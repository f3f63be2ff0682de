// Word vectors for Lua: what lua/perigee/text/word_vectors.lua calls.
#include "lua/json.h"
#include "lua/object.h"
#include "lua/state.h"
#include "lua/tensor.h"
#include "src/core/cores.h"
#include "src/io/codec/compress.h"
#include "src/run/vectors/stored_vectors.h"
#include "src/vectors/files/vector_file.h"
#include "src/vectors/trained_vectors.h"
#include "src/vectors/vector_tests.h"

namespace perigee {
namespace {

constexpr char kVectorsType[] = "perigee.vectors";

struct HeldVectors {
  std::shared_ptr<const TrainedVectors> trained;  // null: from a file
  WordVectors vectors;
};

HeldVectors& held_at(lua_State* L) { return object_at<HeldVectors>(L, 1, kVectorsType); }

std::string text_at(lua_State* L, int index) {
  size_t length = 0;
  const char* text = luaL_checklstring(L, index, &length);
  return {text, length};
}

std::vector<std::string> list_at(lua_State* L, int index) {
  std::vector<std::string> texts;
  for (size_t i = 1; lua_istable(L, index) && i <= lua_objlen(L, index); ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    texts.push_back(text_at(L, -1));
    lua_pop(L, 1);
  }
  return texts;
}

std::vector<std::vector<std::string>> lists_at(lua_State* L, int index) {
  std::vector<std::vector<std::string>> lists;
  for (size_t i = 1; lua_istable(L, index) && i <= lua_objlen(L, index); ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    lists.push_back(list_at(L, lua_gettop(L)));
    lua_pop(L, 1);
  }
  return lists;
}

void give_vectors_rows(lua_State* L, int index, const VectorRows& rows) {
  Tensor values(Dtype::f32, Shape{rows.rows, rows.size});
  for (int64_t i = 0; i < rows.rows; ++i) std::copy_n(rows.row(i), rows.size, values.data<float>() + i * rows.size);
  give_array(L, index, values);
}

void give_vector(lua_State* L, int index, const std::vector<float>& values) {
  give_array(L, index, Tensor::from<float>(Shape{static_cast<int64_t>(values.size())}, values));
}

// Calls the Lua function at `index` with what there is to report. What it raises is kept until no other thread is at work.
struct Reporter {
  lua_State* L;
  int index;
  std::atomic<bool> stop{false};
  std::string problem;

  void operator()(const VectorProgress& now) {
    const std::atomic<bool>* const interrupt = lua_options(L).interrupt;
    if (interrupt != nullptr && *interrupt) stop = true;
    if (!lua_isfunction(L, index) || !problem.empty()) return;
    lua_pushvalue(L, index);
    lua_newtable(L);
    const auto set = [&](const char* key, double value) {
      lua_pushnumber(L, value);
      lua_setfield(L, -2, key);
    };
    set("done", static_cast<double>(now.done)), set("all", static_cast<double>(now.all)), set("seconds", now.seconds);
    set("speed", now.speed), set("remaining", now.remaining), set("rate", now.rate), set("loss", now.loss);
    if (lua_pcall(L, 1, 0, 0) == 0) return;
    const char* const message = lua_tostring(L, -1);
    problem = message != nullptr ? message : "the function of progress failed";
    lua_pop(L, 1);
    stop = true;
  }
};

// vectors_train({ options }, { { elements } } or nil, { labels }, progress or nil): vectors, whether training came to its end
int vectors_train(lua_State* L) {
  lua_settop(L, 4);
  Json given = to_json(L, 1, "word_vectors");
  const bool held = lua_istable(L, 2);
  if (held) given.set("files", "sequences");
  const VectorOptions options = vector_options(given, "word_vectors");
  Reporter reporter{L, 4};
  const auto report = [&](const VectorProgress& now) { reporter(now); };
  std::shared_ptr<const TrainedVectors> trained;
  if (held) trained = std::make_shared<const TrainedVectors>(lists_at(L, 2), list_at(L, 3), options, report, &reporter.stop);
  else trained = std::make_shared<const TrainedVectors>(options, report, &reporter.stop);
  if (!reporter.problem.empty()) throw Error(ErrorKind::usage, {.what = reporter.problem});
  HeldVectors& made = push_object<HeldVectors>(L, kVectorsType);
  made.vectors = trained->words(), made.trained = trained;
  lua_pushboolean(L, trained->complete());
  return 2;
}

// vectors_documents(vectors): those of the documents, false: there are none
int vectors_documents(lua_State* L) {
  const std::shared_ptr<const TrainedVectors> trained = held_at(L).trained;
  if (trained == nullptr || trained->documents().size() == 0) {
    lua_pushboolean(L, 0);
    return 1;
  }
  push_object<HeldVectors>(L, kVectorsType).vectors = trained->documents();
  return 1;
}

// vectors_infer(vectors, text or { elements }, epochs, rate, out)
int vectors_infer(lua_State* L) {
  const HeldVectors& held = held_at(L);
  if (held.trained == nullptr)
    throw Error(
        ErrorKind::usage,
        {.where = "vectors:infer", .what = "vectors from a file cannot learn a text", .hint = "train with model = \"dbow\" or \"dm\""});
  const int64_t epochs = luaL_checkinteger(L, 3);
  const double rate = luaL_checknumber(L, 4);
  give_vector(L, 5,
              lua_istable(L, 2) ? held.trained->infer(list_at(L, 2), epochs, rate) : held.trained->infer(text_at(L, 2), epochs, rate));
  lua_pushboolean(L, 1);
  return 1;
}

// vectors_open(path): vectors
int vectors_open(lua_State* L) {
  const std::string path = text_at(L, 1);
  if (is_stored_vectors(path)) {
    const std::shared_ptr<const TrainedVectors> trained = stored_vectors(path);
    HeldVectors& held = push_object<HeldVectors>(L, kVectorsType);
    held.vectors = trained->words(), held.trained = trained;
    return 1;
  }
  WordVectors vectors = read_vectors(path);
  push_object<HeldVectors>(L, kVectorsType).vectors = std::move(vectors);
  return 1;
}

// vectors_save(vectors, path, format or "")
int vectors_save(lua_State* L) {
  const std::string path = text_at(L, 2), format = text_at(L, 3);
  const VectorFormat wanted = format == "binary"  ? VectorFormat::binary
                              : format == "text"  ? VectorFormat::text
                              : format == "glove" ? VectorFormat::glove
                              : format == "keyed" ? VectorFormat::keyed
                                                  : vector_format(path);
  write_vectors(path, held_at(L).vectors, wanted);
  lua_pushboolean(L, 1);
  return 1;
}

// vectors_about(vectors): how many, numbers of each
int vectors_about(lua_State* L) {
  const WordVectors& vectors = held_at(L).vectors;
  lua_pushinteger(L, static_cast<lua_Integer>(vectors.size()));
  lua_pushinteger(L, static_cast<lua_Integer>(vectors.numbers()));
  return 2;
}

// vectors_names(vectors): { names }, { counts }
int vectors_names(lua_State* L) {
  const ElementTable& names = held_at(L).vectors.names();
  lua_createtable(L, static_cast<int>(names.size()), 0);
  lua_createtable(L, static_cast<int>(names.size()), 0);
  for (int64_t i = 0; i < names.size(); ++i) {
    lua_pushlstring(L, names.name(i).data(), names.name(i).size());
    lua_rawseti(L, -3, static_cast<int>(i) + 1);
    lua_pushnumber(L, static_cast<double>(names.count(i)));
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 2;
}

// vectors_number(vectors, name): from 1; false: it has no vector of its own
int vectors_number(lua_State* L) {
  const int32_t number = held_at(L).vectors.names().find(text_at(L, 2));
  if (number >= 0) lua_pushinteger(L, number + 1);
  else lua_pushboolean(L, 0);
  return 1;
}

// vectors_matrix(vectors, out)
int vectors_matrix(lua_State* L) {
  give_vectors_rows(L, 2, held_at(L).vectors.rows());
  lua_pushboolean(L, 1);
  return 1;
}

// vectors_vector(vectors, name, out)
int vectors_vector(lua_State* L) {
  give_vector(L, 3, held_at(L).vectors.vector(text_at(L, 2)));
  lua_pushboolean(L, 1);
  return 1;
}

// vectors_mean(vectors, { plus }, { minus }, out)
int vectors_mean(lua_State* L) {
  give_vector(L, 4, held_at(L).vectors.mean(list_at(L, 2), list_at(L, 3)));
  lua_pushboolean(L, 1);
  return 1;
}

int vectors_similarity(lua_State* L) {
  lua_pushnumber(L, held_at(L).vectors.similarity(text_at(L, 2), text_at(L, 3)));
  return 1;
}

// vectors_nearest(vectors, tensor, count, { names that are left out }): { names }, { similarities }
int vectors_nearest(lua_State* L) {
  const WordVectors& vectors = held_at(L).vectors;
  const Tensor query = to_tensor(cast(contiguous(check_array(L, 2)), Dtype::f32));
  const std::vector<Neighbour> found =
      vectors.nearest({query.data<float>(), static_cast<size_t>(query.elements())}, luaL_checkinteger(L, 3), list_at(L, 4));
  lua_createtable(L, static_cast<int>(found.size()), 0);
  lua_createtable(L, static_cast<int>(found.size()), 0);
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string_view name = vectors.names().name(found[i].number);
    lua_pushlstring(L, name.data(), name.size());
    lua_rawseti(L, -3, static_cast<int>(i) + 1);
    lua_pushnumber(L, static_cast<double>(found[i].similarity));
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 2;
}

// vectors_scores(vectors, path): { figures }
int vectors_scores(lua_State* L) {
  const std::string path = text_at(L, 2);
  expect_there(path);
  const FileContent content = FileContent::open(path, uint64_t{1} << 30);
  push_json(L, vector_scores(held_at(L).vectors, as_text(content.bytes()), path, available_cores()));
  return 1;
}

// vectors_options(): { names }
int vectors_options(lua_State* L) {
  lua_newtable(L);
  int index = 0;
  for (const Option& option : word_vectors_schema.options) {
    lua_pushstring(L, option.name);
    lua_rawseti(L, -2, ++index);
  }
  return 1;
}

}  // namespace

void add_vector_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"vectors_train", report<vectors_train>},     {"vectors_documents", report<vectors_documents>},
                                        {"vectors_infer", report<vectors_infer>},     {"vectors_open", report<vectors_open>},
                                        {"vectors_save", report<vectors_save>},       {"vectors_about", report<vectors_about>},
                                        {"vectors_names", report<vectors_names>},     {"vectors_number", report<vectors_number>},
                                        {"vectors_matrix", report<vectors_matrix>},   {"vectors_vector", report<vectors_vector>},
                                        {"vectors_mean", report<vectors_mean>},       {"vectors_similarity", report<vectors_similarity>},
                                        {"vectors_nearest", report<vectors_nearest>}, {"vectors_scores", report<vectors_scores>},
                                        {"vectors_options", report<vectors_options>}, {nullptr, nullptr}};
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
