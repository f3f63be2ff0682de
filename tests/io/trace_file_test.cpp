#include "src/io/plot/trace_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "src/core/error.h"
#include "src/io/file.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

struct TraceFileTest : testing::Test {
  TemporaryFolder folder;
  const std::string path = folder / "trace.json";
  uint64_t now = monotonic_ns() + 1'000'000;

  std::string text() { return std::string(as_text(read_file(path))); }
  // The events; checks what the format asks of each.
  Json::Array events(const std::string& of) {
    const Json all = Json::parse(of, "trace");
    for (const Json& event : all.as_array()) {
      const std::string kind = event.find("ph")->as_string();
      EXPECT_TRUE(event.find("name")->is_string() && event.find("pid")->is_int() && event.find("tid")->is_int()) << event.dump();
      if (kind != "M") {
        EXPECT_GE(event.find("ts")->as_number(), 0) << event.dump();
      }
      if (kind == "X") {
        EXPECT_GE(event.find("dur")->as_number(), 0) << event.dump();
      }
      EXPECT_TRUE(kind == "M" || kind == "X" || kind == "i") << event.dump();
    }
    return all.as_array();
  }
  std::vector<Json> named(const Json::Array& all, const std::string& name) {
    std::vector<Json> found;
    for (const Json& event : all)
      if (event.find("name")->as_string() == name) found.push_back(event);
    return found;
  }
  PhaseSpan span(uint64_t begin_us, uint64_t end_us, TracePhase phase = TracePhase::compute) const {
    return {.begin_ns = now + begin_us * 1000, .end_ns = now + end_us * 1000, .round = 3, .count = 64, .phase = phase};
  }
};

TEST_F(TraceFileTest, IsAnArrayOfEvents) {
  {
    TraceFile file(path);
    file.name_process(4, "host/\"1\"");
    file.add(4, 0, std::vector{span(0, 10), span(10, 15, TracePhase::update)});
    file.add(0, 1, "round", now, now + 5000, Json(Json::Object{{"shares", 2}}));
    file.add(0, 1, "commit", now, now, Json::object());
  }
  const Json::Array all = events(text());
  EXPECT_EQ(named(all, "process_name").at(0).find("args")->find("name")->as_string(), "host/\"1\"");
  EXPECT_EQ(named(all, "thread_name").at(0).find("args")->find("name")->as_string(), "trainer");
  const Json compute = named(all, "compute").at(0), update = named(all, "update").at(0);
  EXPECT_NEAR(compute.find("dur")->as_number(), 10, 1e-6);
  EXPECT_EQ(compute.find("pid")->as_int(), 4);
  EXPECT_EQ(compute.find("args")->find("round")->as_int(), 3);
  EXPECT_EQ(compute.find("args")->find("examples")->as_int(), 64);
  EXPECT_NEAR(update.find("ts")->as_number() - compute.find("ts")->as_number(), 10, 1e-6);
  EXPECT_EQ(named(all, "round").at(0).find("args")->find("shares")->as_int(), 2);
  EXPECT_EQ(named(all, "commit").at(0).find("ph")->as_string(), "i");
}

TEST_F(TraceFileTest, TimesOfAnotherClockAreShifted) {
  {
    TraceFile file(path);
    std::vector<PhaseSpan> theirs{span(0, 10)};
    for (PhaseSpan& each : theirs) each.begin_ns += 5'000'000'000, each.end_ns += 5'000'000'000;
    file.add(1, 0, std::vector{span(0, 10)});
    file.add(2, -5'000'000'000, theirs);
  }
  const auto found = named(events(text()), "compute");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_DOUBLE_EQ(found[0].find("ts")->as_number(), found[1].find("ts")->as_number());
}

TEST_F(TraceFileTest, AClockThatIsMovedBackMakesNoOverlaps) {
  {
    TraceFile file(path);
    file.add(1, 0, std::vector{span(0, 100)});
    file.add(1, -20'000, std::vector{span(100, 110), span(110, 200)});
  }
  double end = 0;
  for (const Json& event : named(events(text()), "compute")) {
    EXPECT_GE(event.find("ts")->as_number(), end - 1e-6);
    end = event.find("ts")->as_number() + event.find("dur")->as_number();
  }
}

TEST_F(TraceFileTest, FollowsARing) {
  TraceRing ring;
  ring.turn_on();
  {
    TraceFile file(path, {.round_name = "step"});
    file.follow(ring, 1);
    for (size_t i = 0; i < TraceRing::kPlaces + 9; ++i) {
      const uint64_t at = monotonic_ns();
      ring.add({.begin_ns = at, .end_ns = at + TraceRing::kShortestNs, .round = 1});
    }
  }
  const Json::Array all = events(text());
  const auto found = named(all, "open");
  EXPECT_EQ(found.size() + ring.dropped(), TraceRing::kPlaces + 9);
  EXPECT_EQ(found.at(0).find("args")->find("step")->as_int(), 1);
  EXPECT_EQ(text().find("had no room in the ring") != std::string::npos, ring.dropped() > 0);
}

TEST_F(TraceFileTest, StopsAtItsBoundAndSaysSo) {
  {
    TraceFile file(path, {.limit_bytes = 20'000});
    for (uint64_t i = 0; i < 1000; ++i) file.add(1, 0, std::vector{span(10 * i, 10 * i + 5)});
  }
  EXPECT_LE(std::filesystem::file_size(path), 20'000u);
  const Json::Array all = events(text());
  EXPECT_GT(named(all, "compute").size(), 50u);
  EXPECT_EQ(all.back().find("name")->as_string(), "the file is full: what came later is not in it");
}

// As after a kill: what is there is whole lines, and with the array's end it is JSON.
TEST_F(TraceFileTest, IsReadableWithoutItsEnd) {
  TraceFile file(path);
  file.add(1, 0, std::vector{span(0, 10)});
  std::string so_far;
  for (const uint64_t until = monotonic_ns() + 20'000'000'000; monotonic_ns() < until && so_far.find("compute") == std::string::npos;)
    so_far = text();
  EXPECT_EQ(named(events(so_far + "]"), "compute").size(), 1u);
}

TEST_F(TraceFileTest, AFileThatCannotBeWrittenIsNamed) {
  try {
    TraceFile file(folder / "none/trace.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("none/trace.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace perigee
