#include "lua/text/syntax_hint.h"

#include <algorithm>
#include <utility>

namespace perigee {
namespace {

// Texts in a line that Lua refuses, and how they are written here. The first that fits is taken. `start`: the line begins with it; `near`: what
// Lua stopped at, where a text alone would also be in lines that are wrong otherwise.
struct Habit {
  std::string_view text, near, hint;
  bool start = false;
};
constexpr std::string_view kFunction = "a function is function(x) return x + 1 end",
                           kLoop = "a loop is for i = 1, 10 do ... end, or for i, value in ipairs(list) do ... end",
                           kBlock = "a block is if a == b then ... elseif c then ... else ... end", kComment = "a comment begins with --",
                           kAgain = "it is written out: x = x + 1",
                           kFields = "options stand in braces: pg.dense { 10, activation = \"relu\" }";
constexpr Habit kHabits[] = {
    {"import ", "", "`pg` is there at the prompt; a script begins with local pg = require \"perigee\"", true},
    {"from ", "", "`pg` is there at the prompt; a script begins with local pg = require \"perigee\"", true},
    {"using ", "", "`pg` is there at the prompt; a script begins with local pg = require \"perigee\"", true},
    {"#", "", kComment, true},
    {"//", "/", kComment},
    {"def ", "", kFunction, true},
    {"class ", "", kFunction, true},
    {"lambda", "", kFunction},
    {"=>", "", kFunction},
    {"for ", "(", kLoop, true},
    {"range(", "", kLoop},
    {"for ", ":", kLoop, true},
    {"elif", "", kBlock},
    {"if ", "", kBlock, true},
    {"while ", "", "a loop is while a < b do ... end", true},
    {"with ", "", "a script has no `with`: a file is opened by io.open, and pg.load reads arrays", true},
    {"!=", "", "`a ~= b` is true of what is not equal, `not a` denies"},
    {"!", "!", "`a ~= b` is true of what is not equal, `not a` denies"},
    {"&&", "", "`and`, `or` and `not` join conditions"},
    {"||", "", "`and`, `or` and `not` join conditions"},
    {"+=", "", kAgain},
    {"-=", "", kAgain},
    {"*=", "", kAgain},
    {"/=", "", kAgain},
    {"++", "", kAgain},
    {"**", "", "a power is x ^ 2"},
    {"[", "[", "a list is written in braces: { 1, 2, 3 }; places count from 1: x[1]"},
    {":", ":", "a table is { name = 1, [\"two words\"] = 2 }; a method is called as x:sum()"},
    {"=", "=", kFields},
};

constexpr std::pair<std::string_view, std::string_view> kForeign[] = {
    {"len", "#x is the length of x"},
    {"range", kLoop},
    {"enumerate", kLoop},
    {"str", "tostring(x) makes a text of x"},
    {"int", "math.floor(x) cuts the decimals off, tonumber(text) reads a number"},
    {"float", "tonumber(text) reads a number"},
    {"np", "tensors are pg.tensor { 1, 2, 3 }, pg.zeros(2, 3), pg.load \"file.npy\""},
    {"numpy", "tensors are pg.tensor { 1, 2, 3 }, pg.zeros(2, 3), pg.load \"file.npy\""},
    {"torch", "tensors are pg.tensor { 1, 2, 3 }, layers pg.dense { 10 }"},
    {"nn", "layers are pg.dense { 10 }, pg.conv2d { 16, kernel = 3 }"},
    {"tf", "tensors are pg.tensor { 1, 2, 3 }, layers pg.dense { 10 }"},
    {"keras", "layers are pg.dense { 10 } in pg.sequential { ... }"},
    {"pd", "pg.table \"file.csv\" shows a table, pg.data.csv { \"file.csv\" } learns from one"},
    {"plt", "pg.plot(x) draws tensors, run:plot \"loss\" a run"},
    {"model", "model = pg.load_model \"RUN\" gives a trained one; a job is trained by pg.start or `perigee train`"},
    {"perigee", "it is called pg: a script begins with local pg = require \"perigee\""},
    {"console", "print(x) shows x"},
};

bool has_near(std::string_view message, std::string_view near) {
  const size_t at = message.rfind("near '");
  return near.empty() || (at != message.npos && message.substr(at + 6).starts_with(near));
}

}  // namespace

std::string syntax_hint(std::string_view line, std::string_view message) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  if (line.starts_with("return ")) line.remove_prefix(7);  // the prompt puts it before what may be an expression
  for (const Habit& habit : kHabits)
    if ((habit.start ? line.starts_with(habit.text) : line.find(habit.text) != line.npos) && has_near(message, habit.near))
      return std::string(habit.hint);
  if (has_near(message, "<eof>") && message.find("'=' expected") == message.npos && message.find("unfinished") == message.npos)
    return "the text ends before what it has begun: a }, a ) or an end is missing";
  return message.find("'}' expected") == message.npos ? "" : "entries of a table are separated by commas, and each { has its }";
}

std::string foreign_name_hint(std::string_view message) {
  constexpr std::string_view kGlobal = "global '", kNil = "' (a nil value)";
  const size_t at = message.find(kGlobal), end = message.find(kNil);
  if (at == message.npos || end == message.npos || end < at + kGlobal.size()) return "";
  const std::string_view name = message.substr(at + kGlobal.size(), end - at - kGlobal.size());
  for (const auto& [foreign, hint] : kForeign)
    if (name == foreign) return std::string(hint);
  return "";
}

}  // namespace perigee
