// One fault, one line.
#include "cluster/membership/fault_log.h"

#include <gtest/gtest.h>

namespace perigee {
namespace {

class FaultLogTest : public testing::Test {
 protected:
  Json lost() {
    return Json(Json::Object{
        {"event", "worker_lost"}, {"worker", "h/1"}, {"host", "h"}, {"cause", "connection closed"}, {"done", "its work went back"}});
  }
  std::string told(size_t i, const char* key) { return events.at(i).find(key)->as_string(); }
  std::vector<Json> events;
  FaultLog log{[this](const Json& event) { events.push_back(event); }};
};

TEST_F(FaultLogTest, TheConnectionAndTheProcessAreOneFault) {
  log.event(lost(), 10);
  EXPECT_TRUE(events.empty());
  log.ended({.worker = "h/1", .agent = "h", .signal = 9, .restarted = true}, 10.1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(told(0, "cause"), "killed by signal 9 (Killed)");
  EXPECT_EQ(told(0, "done"), "its work went back; it is started again");
  log.flush();
  EXPECT_EQ(events.size(), 1u);
}

TEST_F(FaultLogTest, AlsoInTheOtherOrder) {
  log.ended({.worker = "h/1", .agent = "h", .code = 3, .tail = "warning: x\nperigee: train.csv: line 7 is damaged"}, 10);
  log.event(lost(), 10.5);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(told(0, "cause"), "ended with code 3: train.csv: line 7 is damaged");
  EXPECT_EQ(told(0, "done"), "its work went back; it is not started again");
}

TEST_F(FaultLogTest, WhatHasNoOtherHalfIsToldAlone) {
  log.event(lost(), 10);
  log.ended({.worker = "h/2", .agent = "h", .signal = 11}, 10);
  log.tick(10.5);
  EXPECT_TRUE(events.empty());
  log.tick(11.5);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(told(0, "cause"), "connection closed");
  EXPECT_EQ(told(1, "worker"), "h/2");
}

TEST_F(FaultLogTest, SilenceIsToldAtOnce) {
  Json silent = lost();
  silent.set("cause", "silent for 1650 ms");
  log.event(silent, 10);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(told(0, "cause"), "silent for 1650 ms");
  log.ended({.worker = "h/1", .agent = "h", .signal = 9}, 10.1);
  log.event(silent, 10.2);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(told(1, "cause"), "killed by signal 9 (Killed)");
  log.flush();
  EXPECT_EQ(events.size(), 2u);
}

TEST_F(FaultLogTest, OtherEventsPassAtOnceAndQuietEndsAreNoFaults) {
  log.event(Json(Json::Object{{"event", "worker_joined"}, {"worker", "h/1"}}), 10);
  EXPECT_EQ(events.size(), 1u);
  log.ended({.worker = "h/1", .agent = "h", .code = 0}, 10);
  log.ended({.worker = "h/2", .agent = "h", .code = 143}, 10);
  log.flush();
  EXPECT_EQ(events.size(), 1u);
}

}  // namespace
}  // namespace perigee
