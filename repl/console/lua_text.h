// Lua source as the prompt sees it while it is typed: tokens of text that may be unfinished or wrong anywhere. Nothing is run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "repl/editor/editor.h"

namespace perigee {

struct LuaToken {
  enum class Kind : uint8_t { name, keyword, number, string, comment, symbol };
  Kind kind = Kind::symbol;
  size_t begin = 0, end = 0;
  bool finished = true;  // of strings and comments: the closing mark is there
  std::string_view text(std::string_view source) const { return source.substr(begin, end - begin); }
};

std::vector<LuaToken> lua_tokens(std::string_view source);

std::vector<Colour> lua_colours(std::string_view source);

// Blanks in front of the next line: two for each block, table and call that is open.
size_t lua_indentation(std::string_view source);

// `local x = 1` at the outermost level becomes `x = 1`, so that the next input knows it; columns stay.
std::string without_outer_locals(std::string_view source);

// The context of the input at the cursor.
struct LuaContext {
  enum class Kind : uint8_t { none, name, option, file, setting };  // setting: a path of a job, as in { set = "optimizer.lr=0.1" }
  Kind kind = Kind::none;
  size_t from = 0;  // the word that is typed begins here
  std::vector<std::string>
      path;             // of `pg.data.mn`: pg, data. option: of the function that is called. Empty: a global name. setting: of the job
  bool method = false;  // after a colon
  std::vector<std::string> used;  // options that the table has already
  std::string script;             // setting: the job's file, where it is given as one
};

LuaContext lua_context(std::string_view source, size_t cursor);

}  // namespace perigee
