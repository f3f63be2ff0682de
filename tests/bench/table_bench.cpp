// Steps on a table of 2 million rows, reading CSV and Parquet: by the CPU time of one thread, the best of some turns, as JSON. tables.py
// runs it in turns with polars and DuckDB.   table_bench [ROWS] [FILE|NAME...]   Names of steps: these alone, to be profiled.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>

#include "src/core/json.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/table/steps.h"
#include "src/io/file.h"

namespace {

using namespace perigee;
using namespace perigee::tables;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// x, y: numbers; key: 0 .. 999; city: one of five; text: a time; id.
Frame table(int64_t rows) {
  static constexpr const char* kCities[] = {"Rome", "Oslo", "Bern", "Lima", "Cairo"};
  Frame frame{.rows = rows};
  Column x(Type::real), y(Type::real), key(Type::integer), city(Type::text), text(Type::text), time(Type::time);
  uint64_t state = 1;
  for (int64_t r = 0; r < rows; ++r) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const auto draw = static_cast<int64_t>(state >> 33);
    x.add_real(static_cast<double>(draw % 2000001) / 1e6 - 1);
    y.add_real(static_cast<double>(draw % 1999) / 7);
    key.add_whole(draw % 1000);
    city.add_text(kCities[draw % 5]);
    char when[32];
    std::snprintf(when, sizeof when, "20%02d-%02d-%02d %02d:%02d:%02d", static_cast<int>(draw % 30), static_cast<int>(draw % 12 + 1),
                  static_cast<int>(draw % 28 + 1), static_cast<int>(draw % 24), static_cast<int>(draw % 60),
                  static_cast<int>(draw / 60 % 60));
    text.add_text(when);
    time.add_whole(draw * 1000);
  }
  frame.add({.name = "x", .type = Type::real}, std::move(x));
  frame.add({.name = "y", .type = Type::real}, std::move(y));
  frame.add({.name = "key", .type = Type::integer}, std::move(key));
  frame.add({.name = "city", .type = Type::text}, std::move(city));
  frame.add({.name = "text", .type = Type::text}, std::move(text));
  frame.add({.name = "time", .type = Type::time}, std::move(time));
  return frame;
}

struct Work {
  const char *name, *columns, *steps;
};

constexpr Work kWork[] = {
    {"derive", "x y", R"([{"derive":{"z":"x * 2 + y"}}])"},
    {"filter", "x city", R"([{"filter":"x > 0 and city = 'Rome'"}])"},
    {"group by 1000 keys", "key x", R"([{"group":["key"],"mean":["x"],"stdev":["x"],"count":["x"]}])"},
    {"group by 5 texts", "city x", R"([{"group":["city"],"mean":["x"]}])"},
    {"left join of 1000 rows", "key x", "join"},
    {"sort by a number", "x", R"([{"sort":"x"}])"},
    {"one-hot of 5 texts", "city", R"([{"category":"city"},{"one_hot":"city"}])"},
    {"parse a time", "text", R"-([{"derive":{"t":"time(text)"}}])-"},
    {"hour and weekday", "time", R"-([{"derive":{"h":"hour(time)","w":"weekday(time)"}}])-"},
    {"rolling mean of 10", "x", R"([{"moving":"x","rows":10}])"},
    {"standardize two", "x y", R"([{"normalize":["x","y"],"by":"standard"}])"},
};

Json joined() {
  Json rows = Json::array();
  for (int64_t i = 0; i < 1000; ++i) rows.push(Json(Json::Array{Json(i), Json(static_cast<double>(i) / 3)}));
  const Json columns = Json::parse(R"([{"name":"key","type":"integer"},{"name":"w","type":"real"}])", "bench");
  return Json(
      Json::Array{Json(Json::Object{{"join", Json(Json::Object{{"columns", columns}, {"rows", rows}})}, {"on", "key"}, {"how", "left"}})});
}

double best(int turns, const std::function<void()>& prepare, const std::function<void()>& work) {
  double seconds = 1e9;
  for (int turn = 0; turn < turns; ++turn) {
    prepare();
    const double begin = cpu_seconds();
    work();
    seconds = std::min(seconds, cpu_seconds() - begin);
  }
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 2'000'000;
  Json results = Json::object();
  const auto named = [&](const Work& work) {
    return std::any_of(argv + std::min(argc, 2), argv + argc, [&](const char* each) { return std::string(each) == work.name; });
  };
  const bool some_alone = std::any_of(std::begin(kWork), std::end(kWork), named);
  if (rows > 0) {
    const Frame whole = table(rows);
    for (const Work& work : kWork) {
      if (some_alone && !named(work)) continue;
      const Json list = std::string(work.steps) == "join" ? joined() : Json::parse(work.steps, "bench");
      Frame some{.rows = rows}, frame;
      const std::string columns = std::string(" ") + work.columns + " ";
      for (size_t c = 0; c < whole.columns.size(); ++c)
        if (columns.find(" " + whole.schema.columns[c].name + " ") != std::string::npos)
          some.add(whole.schema.columns[c], whole.columns[c]);
      const double seconds = best(
          some_alone ? 20 : 3, [&] { frame = some; }, [&] { Steps(list, "bench", ".").run(frame); });
      results.set(work.name, static_cast<double>(rows) / seconds / 1e6);
    }
  }
  for (int i = 2; i < argc && !some_alone; ++i) {
    const double seconds = best(
        3, [] {},
        [&] {
          TableFile file(argv[i], {});
          file.each([](TableFile::Chunk&) {}, [](TableFile::Chunk&) {});
        });
    results.set(argv[i], seconds);
  }
  std::printf("%s\n", results.dump(1).c_str());
  return 0;
}
