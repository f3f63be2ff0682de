// The functions of expressions.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "src/core/error.h"
#include "src/data/table/expression/expression_node.h"
#include "src/data/table/loops/arithmetic.h"
#include "src/data/table/loops/times.h"
#include "src/data/table/time_text.h"
#include "src/io/digest.h"
#include "src/io/file.h"

namespace perigee::tables {
namespace {

// --- Loops ---------------------------------------------------------------------------------------------------------------------

template <class F>  // F: small, and given to one of few loops
Column each_row(Call& call, Type type, F&& f) {
  Column out(type);
  out.reserve(static_cast<int64_t>(call.rows));
  for (int64_t r = 0; r < static_cast<int64_t>(call.rows); ++r)
    if (call.any_missing(r)) out.add_missing();
    else f(r, out);
  return out;
}

Column of_number(Call& call, double (*f)(double)) {
  return each_row(call, Type::real, [&](int64_t r, Column& out) { out.add_real(f(call.number(0, r))); });
}

Column of_text(Call& call, std::string (*f)(std::string_view)) {
  return each_row(call, Type::text, [&](int64_t r, Column& out) { out.add_text(f(call.args[0].text(r))); });
}

Column functions_of_texts(Call& call, bool (*f)(std::string_view, std::string_view)) {
  return each_row(call, Type::boolean, [&](int64_t r, Column& out) { out.add_whole(f(call.args[0].text(r), call.args[1].text(r))); });
}

Column of_time(Call& call, TimePart part) {
  const std::string zone = call.args.size() > 1 ? call.constant(1) : "";
  if (const Value& time = call.args[0]; !time.nothing && (zone.empty() || zone == "UTC")) {
    Column out(Type::integer);
    time_parts(time.column(), part, out.whole);
    out.missing = time.column().missing;
    for (size_t r = 0; r < out.missing.size(); ++r)
      if (out.missing[r] != 0) out.whole[r] = 0;
    return out;
  }
  return each_row(call, Type::integer, [&](int64_t r, Column& out) {
    int64_t ms = call.args[0].column().whole[static_cast<size_t>(call.args[0].row(r))];
    out.add_whole(time_part(ms + zone_offset_ms(zone, ms, call.where), part));
  });
}

// Whole numbers stay whole.
Column rounded(Call& call, double (*f)(double)) {
  if (call.args[0].type() == Type::integer || call.args[0].type() == Type::boolean)
    return each_row(call, Type::integer, [&](int64_t r, Column& out) { out.add_whole(static_cast<int64_t>(f(call.number(0, r)))); });
  return of_number(call, f);
}

std::string changed(std::string_view text, int (*f)(int)) {  // ASCII letters; others stay
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x80) c = static_cast<char>(f(static_cast<unsigned char>(c)));
  return out;
}

bool functions_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string functions_trimmed(std::string_view text) {
  while (!text.empty() && functions_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && functions_blank(text.back())) text.remove_suffix(1);
  return std::string(text);
}

// The least of the arguments, or the largest.
Column extreme(Call& call, char op) {
  const bool whole = std::all_of(call.args.begin(), call.args.end(), [](const Value& v) { return v.type() == Type::integer; });
  return each_row(call, whole ? Type::integer : Type::real, [&](int64_t r, Column& out) {
    double best = call.number(0, r);
    for (size_t i = 1; i < call.args.size(); ++i) best = op == '<' ? std::min(best, call.number(i, r)) : std::max(best, call.number(i, r));
    if (!whole) return out.add_real(best);
    int64_t exact = call.args[0].column().whole[static_cast<size_t>(call.args[0].row(r))];
    for (const Value& arg : call.args) {
      const int64_t value = arg.column().whole[static_cast<size_t>(arg.row(r))];
      exact = op == '<' ? std::min(exact, value) : std::max(exact, value);
    }
    out.add_whole(exact);
  });
}

// The type that values of all arguments from `first` on have.
Type common_type(const Call& call, size_t first) {
  Type type = Type::real;
  bool found = false;
  for (size_t i = first; i < call.args.size(); ++i) {
    const Value& arg = call.args[i];
    if (arg.nothing) continue;
    const Type next = arg.is_text() ? Type::text : arg.type();
    if (!found) type = next;
    else if (type != next) {
      if (type == Type::text || next == Type::text || type == Type::time || next == Type::time || type == Type::list || next == Type::list)
        call.fail("its values have different types", std::string(type_text(type)) + " and " + type_text(next),
                  "one type: text(x), real(x) and time(x) convert");
      type = type == Type::real || next == Type::real ? Type::real : Type::integer;
    }
    found = true;
  }
  return type;
}

void add_as(Type type, const Value& value, int64_t r, Column& out) {
  const int64_t row = value.row(r);
  if (value.is_missing(r)) out.add_missing();
  else if (type == Type::text) out.add_text(value.text(r));
  else if (type == Type::real) out.add_real(value.column().number(row));
  else if (type == Type::list) out.add_from(value.column(), row);
  else out.add_whole(value.column().whole[static_cast<size_t>(row)]);
}

Column functions_chosen(Call& call) {
  const Type type = common_type(call, 1);
  Column out(type);
  for (int64_t r = 0; r < static_cast<int64_t>(call.rows); ++r) {
    const Value& condition = call.args[0];
    const bool yes = !condition.is_missing(r) && condition.column().whole[static_cast<size_t>(condition.row(r))] != 0;
    add_as(type, call.args[yes ? 1 : 2], r, out);
  }
  return out;
}

Column first_there(Call& call) {
  const Type type = common_type(call, 0);
  Column out(type);
  for (int64_t r = 0; r < static_cast<int64_t>(call.rows); ++r) {
    size_t i = 0;
    while (i + 1 < call.args.size() && call.args[i].is_missing(r)) ++i;
    add_as(type, call.args[i], r, out);
  }
  return out;
}

Column about(Call& call, bool (*f)(const Value& value, int64_t row)) {
  Column out(Type::boolean);
  for (int64_t r = 0; r < static_cast<int64_t>(call.rows); ++r) out.add_whole(f(call.args[0], r));
  return out;
}

// --- Conversions: what cannot be read becomes missing --------------------------------------------------------------------------

Column functions_converted(Call& call, Type type) {
  const Value& from = call.args[0];
  const std::string format = call.args.size() > 1 ? call.constant(1) : "", zone = call.args.size() > 2 ? call.constant(2) : "";
  const ColumnSpec spec{.type = type, .format = format};
  if (type == Type::time && from.type() == Type::text && !from.nothing && format.empty() && zone.empty()) {
    Column out(type);
    parse_times(
        from.column(), [](std::string_view text, int64_t& ms) { return parse_iso_time(functions_trimmed(text), ms); }, out);
    return out;
  }
  return each_row(call, type, [&](int64_t r, Column& out) {
    const int64_t row = from.row(r);
    if (from.is_text()) {
      const std::string text = functions_trimmed(from.text(r));
      if (!add_parsed(spec, text, out)) {
        double real = 0;  // "7.0" is a whole number
        if (type == Type::integer && add_parsed({.type = Type::real}, text, out) &&
            (real = out.real.back(), out.real.clear(), std::abs(real) < 9e18))
          out.add_whole(static_cast<int64_t>(real));
        else out.real.clear(), out.add_missing();
      } else if (type == Type::time && !zone.empty()) {
        const int64_t local = out.whole.back();
        const int64_t guess = local - zone_offset_ms(zone, local, call.where);
        out.whole.back() = local - zone_offset_ms(zone, guess, call.where);
      }
      return;
    }
    const double value = from.column().number(row);
    if (type == Type::real) return out.add_real(value);
    if (from.type() != Type::real)
      return out.add_whole(type == Type::boolean ? from.column().whole[static_cast<size_t>(row)] != 0
                                                 : from.column().whole[static_cast<size_t>(row)]);
    if (!(std::abs(value) < 9.2e18)) return out.add_missing();
    out.add_whole(type == Type::boolean ? value != 0 : static_cast<int64_t>(value));
  });
}

Column functions_as_text(Call& call) {
  const ColumnSpec none;
  const Value& from = call.args[0];
  return each_row(call, Type::text, [&](int64_t r, Column& out) {
    if (from.is_text()) out.add_text(from.text(r));
    else out.add_text(cell_text(from.column(), none, from.row(r)));
  });
}

Column time_text(Call& call) {
  const std::string format = call.constant(1), zone = call.args.size() > 2 ? call.constant(2) : "";
  return each_row(call, Type::text, [&](int64_t r, Column& out) {
    int64_t ms = call.args[0].column().whole[static_cast<size_t>(call.args[0].row(r))];
    ms += zone_offset_ms(zone, ms, call.where);
    std::string text;
    append_time(ms, format, text);
    out.add_text(text);
  });
}

Column joined(Call& call) {
  const ColumnSpec none;
  const std::string between = call.constant(0);
  return each_row(call, Type::text, [&](int64_t r, Column& out) {
    std::string text;
    for (size_t i = 1; i < call.args.size(); ++i) {
      if (i > 1) text += between;
      if (call.args[i].is_text()) text += call.args[i].text(r);
      else append_cell(call.args[i].column(), none, call.args[i].row(r), text);
    }
    out.add_text(text);
  });
}

// The first digit that is not zero: "3" of 3.14, "8" of "8e-4".
Column first_digit(Call& call) {
  return each_row(call, Type::text, [&](int64_t r, Column& out) {
    const Value& from = call.args[0];
    Column number(Type::real);
    if (from.is_text()) add_parsed({.type = Type::real}, functions_trimmed(from.text(r)), number);
    else number.add_real(from.column().number(from.row(r)));
    const std::string text = number.real.empty() ? "" : cell_text(number, {}, 0);
    const size_t at = text.find_first_of("123456789");
    const size_t end = text.find_first_of("eni");
    if (number.real.empty() || !std::isfinite(number.real[0])) out.add_missing();
    else out.add_text(at == text.npos || at > end ? "0" : text.substr(at, 1));
  });
}

Column hashed(Call& call) {
  const int64_t buckets = call.args[1].constant && call.args[1].type() == Type::integer ? call.args[1].column().whole[0] : 0;
  if (buckets < 1) call.fail("the number of buckets is no positive constant");
  const ColumnSpec none;
  return each_row(call, Type::integer, [&](int64_t r, Column& out) {
    const Value& from = call.args[0];
    const std::string text = from.is_text() ? std::string(from.text(r)) : cell_text(from.column(), none, from.row(r));
    out.add_whole(static_cast<int64_t>(xxh3_64(as_bytes(text)) % static_cast<uint64_t>(buckets)));
  });
}

Column replaced(Call& call) {
  const std::string with = call.constant(2);
  const Regex& regex = call.regex(1);
  return each_row(call, Type::text, [&](int64_t r, Column& out) { out.add_text(regex.replaced(call.args[0].text(r), with)); });
}

Column matched(Call& call, bool (Regex::*f)(std::string_view) const) {
  const Regex& regex = call.regex(1);
  return each_row(call, Type::boolean, [&](int64_t r, Column& out) { out.add_whole((regex.*f)(call.args[0].text(r))); });
}

Column part_of(Call& call) {
  return each_row(call, Type::text, [&](int64_t r, Column& out) {
    const std::string_view text = call.args[0].text(r);
    const auto size = static_cast<double>(text.size());
    const double from = std::clamp(call.number(1, r) - 1, 0.0, size);
    const double count = call.args.size() > 2 ? std::clamp(call.number(2, r), 0.0, size) : size;
    out.add_text(text.substr(static_cast<size_t>(from), static_cast<size_t>(count)));
  });
}

// Distances of the lists that columns of numbers make side by side: halves of the arguments are the two vectors.
Column distance(Call& call, int kind) {
  if (call.args.size() % 2 != 0) call.fail("it wants as many numbers for the first vector as for the second");
  const size_t half = call.args.size() / 2;
  return each_row(call, Type::real, [&](int64_t r, Column& out) {
    double sum = 0, a2 = 0, b2 = 0;
    for (size_t i = 0; i < half; ++i) {
      const double a = call.number(i, r), b = call.number(i + half, r);
      sum += kind == 0 ? a * b : kind == 1 ? (a - b) * (a - b) : std::abs(a - b);
      a2 += a * a;
      b2 += b * b;
    }
    out.add_real(kind == 0 ? 1 - sum / std::sqrt(a2 * b2) : kind == 1 ? std::sqrt(sum) : sum);
  });
}

Column divided(Call& call) {
  return each_row(call, Type::integer, [&](int64_t r, Column& out) {
    const double result = std::floor(call.number(0, r) / call.number(1, r));
    if (std::abs(result) < 9e15) out.add_whole(static_cast<int64_t>(result));
    else out.add_missing();
  });
}

constexpr size_t kAny = 10'000;
#define NUMBER(name, f)                                                                        \
  {                                                                                            \
#name, "(x)", 1, 1, "n", [](Call & c) { return of_number(c, [](double x) { return f; }); } \
  }
#define PART(name)                                                                                       \
  {                                                                                                      \
#name, "(time, zone) as an integer", 1, 2, "ts", [](Call & c) { return of_time(c, TimePart::name); } \
  }

constexpr Function kFunctions[] = {
    {"abs", "(x)", 1, 1, "n", [](Call& c) { return rounded(c, [](double x) { return std::fabs(x); }); }},
    NUMBER(acos, std::acos(x)),
    NUMBER(asin, std::asin(x)),
    NUMBER(atan, std::atan(x)),
    {"boolean", "(x) of a number or a text; else missing", 1, 1, "a", [](Call& c) { return functions_converted(c, Type::boolean); }},
    {"ceil", "(x)", 1, 1, "n", [](Call& c) { return rounded(c, [](double x) { return std::ceil(x); }); }},
    {"coalesce", "(a, b, ...): the first that is not missing", 1, kAny, "a", first_there},
    {"concat", "(between, a, b, ...) as one text", 2, kAny, "sa", joined},
    {"contains", "(text, part)", 2, 2, "s",
     [](Call& c) { return functions_of_texts(c, [](std::string_view a, std::string_view b) { return a.find(b) != a.npos; }); }},
    NUMBER(cos, std::cos(x)),
    NUMBER(cosh, std::cosh(x)),
    {"cosine_distance", "(a1, a2, ..., b1, b2, ...)", 2, kAny, "n", [](Call& c) { return distance(c, 0); }},
    PART(day),
    {"div", "(a, b): the quotient rounded down", 2, 2, "n", divided},
    {"ends_with", "(text, end)", 2, 2, "s",
     [](Call& c) { return functions_of_texts(c, [](std::string_view a, std::string_view b) { return a.ends_with(b); }); }},
    {"euclidean_distance", "(a1, a2, ..., b1, b2, ...)", 2, kAny, "n", [](Call& c) { return distance(c, 1); }},
    NUMBER(exp, std::exp(x)),
    {"first_digit", "(x): the first digit of a number that is not 0; else missing", 1, 1, "a", first_digit},
    {"floor", "(x)", 1, 1, "n", [](Call& c) { return rounded(c, [](double x) { return std::floor(x); }); }},
    {"format_time", "(time, format, zone): \"%Y-%m-%d %H:%M\"", 2, 3, "tss", time_text},
    {"hash", "(x, n): a number from 0 to n - 1", 2, 2, "an", hashed},
    PART(hour),
    {"if", "(condition, yes, no)", 3, 3, "baa", functions_chosen},
    {"integer", "(x) of a number, time or text; else missing", 1, 1, "a", [](Call& c) { return functions_converted(c, Type::integer); }},
    {"is_infinite", "(x)", 1, 1, "n",
     [](Call& c) { return about(c, [](const Value& v, int64_t r) { return std::isinf(v.column().number(v.row(r))); }); }},
    {"is_missing", "(x)", 1, 1, "a", [](Call& c) { return about(c, [](const Value& v, int64_t r) { return v.is_missing(r); }); }},
    {"is_nan", "(x): a number that is none, and not missing", 1, 1, "n",
     [](Call& c) {
       return about(c, [](const Value& v, int64_t r) { return !v.is_missing(r) && std::isnan(v.column().number(v.row(r))); });
     }},
    {"length", "(text) in bytes", 1, 1, "s",
     [](Call& c) {
       return each_row(c, Type::integer, [&](int64_t r, Column& out) { out.add_whole(static_cast<int64_t>(c.args[0].text(r).size())); });
     }},
    NUMBER(log, std::log(x)),
    NUMBER(log10, std::log10(x)),
    NUMBER(log2, std::log2(x)),
    {"lower", "(text), ASCII letters", 1, 1, "s",
     [](Call& c) { return of_text(c, [](std::string_view s) { return changed(s, [](int x) { return std::tolower(x); }); }); }},
    {"manhattan_distance", "(a1, a2, ..., b1, b2, ...)", 2, kAny, "n", [](Call& c) { return distance(c, 2); }},
    {"matches", "(text, pattern): all of it, a regular expression", 2, 2, "s", [](Call& c) { return matched(c, &Regex::is_all_of); }},
    {"max", "(a, b, ...)", 1, kAny, "n", [](Call& c) { return extreme(c, '>'); }},
    PART(millisecond),
    {"min", "(a, b, ...)", 1, kAny, "n", [](Call& c) { return extreme(c, '<'); }},
    PART(minute),
    PART(month),
    {"pow", "(x, y), also x ^ y", 2, 2, "n",
     [](Call& c) {
       return each_row(c, Type::real, [&](int64_t r, Column& out) { out.add_real(std::pow(c.number(0, r), c.number(1, r))); });
     }},
    {"real", "(x) of a number or a text; else missing", 1, 1, "a", [](Call& c) { return functions_converted(c, Type::real); }},
    {"replace", "(text, pattern, with): each match; $1 is a group", 3, 3, "s", replaced},
    {"round", "(x)", 1, 1, "n", [](Call& c) { return rounded(c, [](double x) { return std::round(x); }); }},
    {"search", "(text, pattern): anywhere in it, a regular expression", 2, 2, "s", [](Call& c) { return matched(c, &Regex::found_in); }},
    PART(second),
    {"sign", "(x)", 1, 1, "n", [](Call& c) { return rounded(c, [](double x) -> double { return (x > 0) - (x < 0); }); }},
    NUMBER(sin, std::sin(x)),
    NUMBER(sinh, std::sinh(x)),
    {"span", "(\"2 hours\") in milliseconds", 1, 1, "s",
     [](Call& c) {
       return each_row(c, Type::integer, [&](int64_t r, Column& out) { out.add_whole(span_ms(c.args[0].text(r), c.where)); });
     }},
    NUMBER(sqrt, std::sqrt(x)),
    {"starts_with", "(text, begin)", 2, 2, "s",
     [](Call& c) { return functions_of_texts(c, [](std::string_view a, std::string_view b) { return a.starts_with(b); }); }},
    {"substring", "(text, from, count), from 1 on, in bytes", 2, 3, "snn", part_of},
    NUMBER(tan, std::tan(x)),
    NUMBER(tanh, std::tanh(x)),
    {"text", "(x) of anything", 1, 1, "a", functions_as_text},
    {"time", "(text, format, zone) of ISO 8601 or the format \"%d.%m.%Y\"; of milliseconds; else missing", 1, 3, "ass",
     [](Call& c) { return functions_converted(c, Type::time); }},
    {"trim", "(text) without blanks at its ends", 1, 1, "s", [](Call& c) { return of_text(c, functions_trimmed); }},
    {"upper", "(text), ASCII letters", 1, 1, "s",
     [](Call& c) { return of_text(c, [](std::string_view s) { return changed(s, [](int x) { return std::toupper(x); }); }); }},
    PART(weekday),
    {"without_blanks", "(text)", 1, 1, "s",
     [](Call& c) {
       return of_text(c, [](std::string_view s) {
         std::string out(s);
         std::erase_if(out, functions_blank);
         return out;
       });
     }},
    PART(year),
    PART(yearday),
};
#undef NUMBER
#undef PART

}  // namespace

std::string Call::constant(size_t arg) const {
  const Value& value = args[arg];
  if (!value.constant || value.nothing || value.type() != Type::text) fail("argument " + std::to_string(arg + 1) + " is no constant text");
  return std::string(value.text(0));
}

const Regex& Call::regex(size_t arg) const {
  const std::string pattern = constant(arg);
  if (regexes.empty()) regexes.emplace_back(pattern, where);
  return regexes[0];
}

void Call::fail(const std::string& what, const std::string& got, const std::string& expected) const {
  throw Error(ErrorKind::data, {where, name + "(): " + what, got, expected, ""});
}

const Function* find_function(std::string_view name) {
  for (const Function& each : kFunctions)
    if (name == each.name) return &each;
  return nullptr;
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const Function& each : kFunctions) names.push_back(each.name);
  return names;
}

std::vector<FunctionText> expression_functions() {
  std::vector<FunctionText> list;
  for (const Function& each : kFunctions) list.push_back({each.name, each.doc});
  return list;
}

}  // namespace perigee::tables
