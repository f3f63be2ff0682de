// Requests to a run while it trains; the run stays exact under all of them.
#include "cluster/protocol/steer.h"

#include "tests/cluster/protocol/scenario.h"
#include "tests/cluster/uv/raw_node.h"

namespace perigee {
namespace {

Json parsed(const std::string& text) { return Json::parse(text, "test"); }

std::string problem_of(const std::string& command) {
  try {
    read_steer(parsed(command));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
}

TEST(Steer, ReadsEachCommand) {
  EXPECT_EQ(read_steer(parsed(R"({"kick": 7})")).kick, 7u);
  EXPECT_EQ(read_steer(parsed(R"({"pause": false})")).pause, false);
  EXPECT_EQ(read_steer(parsed(R"({"every": 20})")).every, 20);
  const SteerCommand set = read_steer(parsed(R"({"set": {"option": "optimizer.lr", "value": 0.5}})"));
  EXPECT_EQ(set.option, "optimizer.lr");
  EXPECT_EQ(set.value, Json(0.5));
  EXPECT_TRUE(read_steer(parsed(R"({"checkpoint": true})")).checkpoint);
  EXPECT_TRUE(read_steer(parsed(R"({"stop": true})")).stop);
}

TEST(Steer, RefusesWhatIsNoCommand) {
  EXPECT_NE(problem_of("{}"), "");
  EXPECT_NE(problem_of("[1]"), "");
  EXPECT_NE(problem_of(R"({"@pause": true})"), "") << "a key that scripts use for positions";
  EXPECT_NE(problem_of("7"), "");
  EXPECT_NE(problem_of(R"({"pause": true, "every": 3})"), "");
  EXPECT_NE(problem_of(R"({"pauze": true})").find("pause"), std::string::npos) << "the nearest name is a hint";
  for (const char* wrong : {R"({"kick": 0})", R"({"kick": -1})", R"({"kick": 4294967296})", R"({"kick": "a"})", R"({"every": 0})",
                            R"({"every": 1.5})", R"({"every": 100000000})", R"({"pause": 1})", R"({"set": 3})",
                            R"({"set": {"option": "", "value": 1}})", R"({"set": {"option": "a", "value": "fast"}})",
                            R"({"set": {"option": "a", "value": 1, "b": 2}})", R"({"stop": false})", R"({"checkpoint": false})"})
    EXPECT_NE(problem_of(wrong), "") << wrong;
  for (const auto& [wrong, said] : {std::pair{R"({"stop": false})", "'stop' cannot be taken back; got false, expected true"},
                                    {R"({"set": {"option": "a", "value": "fast"}})",
                                     "is no value of an option; got \"fast\", expected a number, a boolean or a schedule"},
                                    {"{}", "expected one of kick, pause, every, set, checkpoint, stop"}})
    EXPECT_NE(problem_of(wrong).find(said), std::string::npos) << problem_of(wrong);
}

struct SteerTest : testing::Test {
  std::unique_ptr<Scenario> s;
  std::unique_ptr<RawNode> person;

  void start(Scenario::Setup setup) {
    setup.steerable = !read_only;
    s = std::make_unique<Scenario>(setup);
    person = std::make_unique<RawNode>(s->network(), 50, "host50:1");
    person->connect(Scenario::kCoordinatorAddress);
    ASSERT_TRUE(s->run_until([&] { return person->connected; }));
  }
  // The report, or what it was refused with.
  Json say(const std::string& command) {
    if (person->lost) {  // who asks nothing for a while is sent away
      person->lost = false;
      person->connect(Scenario::kCoordinatorAddress);
      EXPECT_TRUE(s->run_until([&] { return person->connected; }));
    }
    person->frames.clear();
    person->say(Steer{.version = PERIGEE_VERSION, .request = ++request, .json = command}, {});
    Report report;
    const bool told = s->run_until([&] { return person->take(&report); }, 5000);
    EXPECT_TRUE(told) << "no answer to " << command;
    if (!told) return Json();
    Json json = Json::parse(report.json, "report");
    EXPECT_EQ(json.find("answers")->as_int(), static_cast<int64_t>(request));
    const Json* why = json.find("refused");
    refused = why ? *why : Json();
    return why ? Json() : json;
  }
  Json status() { return s->coordinator().status(); }
  std::string phase() { return status().find("phase")->as_string(); }
  bool until_phase(const std::string& wanted) {
    return s->run_until([&] { return phase() == wanted; }, 20'000);
  }
  // Kicked workers end; their launcher starts them again.
  void revive() {
    for (size_t i = 0; i < 3; ++i)
      if (s->worker(i).failed) s->kill_worker(i), s->restart_worker(i);
  }

  bool read_only = false;
  Json refused;
  uint64_t request = 0;
};

TEST_F(SteerTest, WithoutASecretOneMayOnlyWatch) {
  read_only = true;
  start({.epochs = 1});
  for (const char* command : {R"({"pause": true})", R"({"kick": 1})", R"({"stop": true})", "nonsense"}) {
    EXPECT_TRUE(say(command).is_null());
    ASSERT_TRUE(refused.is_object()) << command;
    EXPECT_EQ(refused.find("kind")->as_int(), static_cast<int64_t>(ErrorKind::authentication));
    EXPECT_NE(refused.find("hint")->as_string().find("--secret"), std::string::npos);
  }
  EXPECT_EQ(status().find("steerable")->as_bool(), false);
  person->say(Status{.version = PERIGEE_VERSION}, {});
  Report report;
  EXPECT_TRUE(s->run_until([&] { return person->take(&report); }, 5000));
  ASSERT_TRUE(s->run_to_end());
  EXPECT_TRUE(s->asked_.empty());
  EXPECT_EQ(s->count_events("worker_kicked"), 0u);
  s->check_sound();
}

TEST_F(SteerTest, NonsenseChangesNothing) {
  start({.epochs = 1});
  for (const char* command : {"", "nonsense", R"({"kick": 4711})", R"({"pause": true, "stop": true})", R"({"every": 4})"}) {
    EXPECT_TRUE(say(command).is_null()) << command;
    ASSERT_TRUE(refused.is_object()) << command;
    EXPECT_NE(refused.find("kind")->as_int(), static_cast<int64_t>(ErrorKind::authentication)) << command;
    EXPECT_FALSE(refused.find("what")->as_string().empty());
  }
  say(R"({"kick": 4711})");
  EXPECT_EQ(refused.find("what")->as_string(), "kick: there is no such worker");
  EXPECT_TRUE(refused.find("expected")->as_string().starts_with("one of 1 (")) << refused.dump();
  ASSERT_TRUE(s->run_to_end());
  s->check_sound();
}

// Far longer than any deadline: no worker is taken for late, and not one round is made.
void pause_and_resume(SteerTest& t, const std::string& averaging) {
  t.start({.examples = 384, .averaging = averaging, .example_ms = 2});
  ASSERT_TRUE(t.s->run_to_round(3));
  t.s->worker(0).faults.slow = 30;  // the others wait for it when the pause comes
  t.s->run_for(300);
  EXPECT_FALSE(t.say(R"({"pause": true})").is_null());
  ASSERT_TRUE(t.until_phase("paused"));
  t.s->run_for(2000);
  const int64_t round = t.s->coordinator().round();
  const uint64_t generation = t.s->coordinator().generation();
  t.s->run_for(200'000);
  EXPECT_EQ(t.s->coordinator().round(), round);
  EXPECT_EQ(t.s->coordinator().generation(), generation);
  for (const char* fault : {"worker_lost", "worker_stuck", "link_lost"}) EXPECT_EQ(t.s->count_events(fault), 0u) << fault;
  t.s->worker(0).faults.slow = 1;
  EXPECT_FALSE(t.say(R"({"pause": false})").is_null());
  ASSERT_TRUE(t.s->run_to_end());
  EXPECT_EQ(t.s->count_events("paused"), 1u);
  EXPECT_EQ(t.s->count_events("resumed"), 1u);
  t.s->check_sound();
}

TEST_F(SteerTest, PauseHoldsGradients) { pause_and_resume(*this, R"({"type": "allreduce", "deadline_ms": 3000})"); }
TEST_F(SteerTest, PauseHoldsLocalSteps) { pause_and_resume(*this, R"({"type": "periodic", "every": 3, "deadline_ms": 3000})"); }
TEST_F(SteerTest, PauseHoldsOverlap) {
  pause_and_resume(*this, R"({"type": "streaming", "every": 4, "fragments": 2, "overlap": true, "deadline_ms": 3000})");
}

TEST_F(SteerTest, APauseOutlastsAChangeOfMembershipAndAnEpoch) {
  start({.examples = 96, .epochs = 2, .averaging = R"({"type": "periodic", "every": 2, "deadline_ms": 3000})", .evaluate = true});
  ASSERT_TRUE(s->run_to_round(0));
  EXPECT_FALSE(say(R"({"pause": true})").is_null());
  ASSERT_TRUE(until_phase("paused"));
  const int64_t round = s->coordinator().round();
  s->kill_worker(1);
  s->run_for(5000);
  s->add_worker();
  s->run_for(20'000);
  EXPECT_EQ(phase(), "paused");
  EXPECT_EQ(s->coordinator().round(), round);
  EXPECT_EQ(status().find("workers")->as_array().size(), 3u);
  EXPECT_FALSE(say(R"({"pause": false})").is_null());
  ASSERT_TRUE(s->run_to_end());
  s->check_sound();
}

TEST_F(SteerTest, AKickedWorkersExamplesAreDoneByOthers) {
  start({.examples = 384, .averaging = R"({"type": "periodic", "every": 3})", .example_ms = 2});
  ASSERT_TRUE(s->run_to_round(2));
  const Json workers = *status().find("workers");
  const Json id = *workers.as_array()[1].find("id");
  EXPECT_FALSE(say(R"({"kick": )" + id.dump() + "}").is_null());
  EXPECT_EQ(s->count_events("worker_kicked"), 1u);
  EXPECT_EQ(status().find("workers")->as_array().size(), 2u);
  EXPECT_TRUE(say(R"({"kick": )" + id.dump() + "}").is_null()) << "it is not there any more";
  ASSERT_TRUE(s->run_until([&] { return s->worker(0).failed || s->worker(1).failed || s->worker(2).failed; }, 5000));
  s->run_for(2000);
  revive();
  ASSERT_TRUE(s->run_until([&] { return status().find("workers")->as_array().size() == 3; }, 20'000));
  ASSERT_TRUE(s->run_to_end());
  s->check_sound();
}

TEST_F(SteerTest, WhoAloneHoldsTheResultStays) {
  start({.workers = 1, .examples = 960, .example_ms = 2});
  ASSERT_TRUE(s->run_to_round(2));
  EXPECT_TRUE(say(R"({"kick": 1})").is_null());
  ASSERT_TRUE(refused.is_object());
  EXPECT_NE(refused.find("what")->as_string().find("alone holds"), std::string::npos);
  s->add_worker();
  ASSERT_TRUE(s->run_until([&] { return s->members_of_round_.back() == 2; }, 20'000));
  EXPECT_FALSE(say(R"({"kick": 1})").is_null());
  ASSERT_TRUE(s->run_to_end());
  s->check_sound();
}

TEST_F(SteerTest, EveryHoldsForAllWorkers) {
  start({.workers = 2, .examples = 480, .epochs = 1, .batch = 4, .averaging = R"({"type": "periodic", "every": 1})", .example_ms = 2});
  ASSERT_TRUE(s->run_to_round(4));
  EXPECT_EQ(s->examples_of_round_.back(), 2 * 1 * 4);
  EXPECT_EQ(say(R"({"every": 5})").find("point")->find("every")->as_int(), 5);
  const auto rounds = s->examples_of_round_.size();
  ASSERT_TRUE(s->run_until([&] { return s->examples_of_round_.size() == rounds + 5; }));
  EXPECT_EQ(s->examples_of_round_.back(), 2 * 5 * 4);
  ASSERT_TRUE(s->run_to_end());
  s->check_sound();
}

TEST_F(SteerTest, EveryIsRefusedWhereItSaysNothing) {
  for (const auto& [averaging, said, remedy] :
       {std::tuple{R"({"type": "allreduce"})", "it averages at each step", "a policy of parameters has steps in between"},
        {R"({"type": "periodic", "every_ms": 100})", "the averages of this run come by time", "'every' in the place of 'every_ms'"},
        {R"({"type": "gossip", "every": 1, "consensus": 4, "group": 2})", "by a plan of the whole round",
         "start the run with another 'every'"},
        {R"({"type": "periodic", "every": 12, "overlap": true, "late": 7})",
         "a result is taken after 7 steps: that is not before the next round", "at least 8"},
        {R"({"type": "streaming", "every": 6, "fragments": 3})", "is no multiple of the 3 fragments, which take turns",
         "the next one is 6"}}) {
    start({.averaging = averaging});
    EXPECT_TRUE(say(R"({"every": 5})").is_null()) << averaging;
    ASSERT_TRUE(refused.is_object()) << averaging;
    EXPECT_NE(refused.find("what")->as_string().find("averaging.every: "), std::string::npos) << averaging;
    EXPECT_NE(refused.find("what")->as_string().find(said), std::string::npos) << refused.dump();
    EXPECT_NE(refused.find("hint")->as_string().find(remedy), std::string::npos) << refused.dump();
  }
}

TEST_F(SteerTest, AnOptionHoldsForWorkersThatComeLater) {
  start({.examples = 3840, .example_ms = 2});
  ASSERT_TRUE(s->run_to_round(2));
  EXPECT_FALSE(say(R"({"set": {"option": "optimizer.lr", "value": 0.25}})").is_null());
  s->run_for(500);
  s->add_worker();
  ASSERT_TRUE(s->run_until([&] { return s->members_of_round_.back() == 4; }, 20'000));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(s->worker(i).replica->options_set(), R"({"optimizer.lr":0.25})");
  ASSERT_TRUE(s->run_to_end());
  s->check_sound();
}

// Every worker that joins later is told all of it in one message.
TEST_F(SteerTest, OnlySoMuchCanBeSet) {
  start({});
  const std::string schedule = R"("value": {"type": ")" + std::string(3000, 'x') + R"("}}})";
  EXPECT_FALSE(say(R"({"set": {"option": "first", )" + schedule).is_null());
  EXPECT_TRUE(say(R"({"set": {"option": "second", )" + schedule).is_null());
  ASSERT_TRUE(refused.is_object());
  EXPECT_NE(refused.find("what")->as_string().find("run.second: all that was set is too long to be told"), std::string::npos)
      << refused.dump();
  EXPECT_NE(refused.find("hint")->as_string().find("set fewer options"), std::string::npos) << refused.dump();
}

// Options, local steps and a pause: a standby is told, and its coordinator goes on with them.
TEST_F(SteerTest, AStandbyIsToldAndItsCoordinatorHoldsIt) {
  start({.examples = 3840, .averaging = R"({"type": "periodic", "every": 2})", .example_ms = 2, .standby = "agent:1"});
  RawNode standby(s->network(), 60, "standby:1");
  standby.connect(Scenario::kCoordinatorAddress);
  ASSERT_TRUE(s->run_until([&] { return standby.connected; }));
  standby.say(Follow{.version = PERIGEE_VERSION, .name = "s", .host = "h", .address = "standby:1", .prepared = true},
              {.job = Scenario::kJob});
  ASSERT_TRUE(s->run_to_round(2));
  std::string steering;
  size_t named = 0;
  const auto hear = [&] {
    for (Replicate told; standby.take(&told);) {
      if (!told.steering.empty()) steering = told.steering;
      named = std::max(named, told.who.size());
    }
    return steering.find("\"pause\":true") != std::string::npos;
  };
  EXPECT_FALSE(hear());
  EXPECT_EQ(status().find("standby_address")->as_string(), "standby:1");
  EXPECT_FALSE(say(R"({"set": {"option": "optimizer.lr", "value": 0.25}})").is_null());
  EXPECT_FALSE(say(R"({"every": 5})").is_null());
  EXPECT_FALSE(say(R"({"pause": true})").is_null());
  ASSERT_TRUE(s->run_until(hear, 5000)) << steering;
  EXPECT_EQ(named, 3u) << "the workers' names, for who is missing";
  s->kill_coordinator();
  s->start_coordinator(true, steering);
  ASSERT_TRUE(until_phase("paused"));
  const int64_t round = s->coordinator().round();
  s->run_for(3000);
  EXPECT_EQ(s->coordinator().round(), round);
  EXPECT_EQ(status().find("settings")->dump(), R"({"optimizer.lr":0.25})");
  person->lost = true;  // it is connected to the one that was
  EXPECT_EQ(say(R"({"pause": false})").find("point")->find("every")->as_int(), 5);
  ASSERT_TRUE(s->run_to_end());
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(s->worker(i).replica->options_set(), R"({"optimizer.lr":0.25})");
  s->check_sound();
}

TEST_F(SteerTest, ACheckpointAndTheEndAreTheLaunchers) {
  start({.epochs = 1});
  EXPECT_FALSE(say(R"({"stop": true})").is_null());
  EXPECT_TRUE(say(R"({"checkpoint": true})").is_null());
  ASSERT_TRUE(refused.is_object());
  EXPECT_NE(refused.find("what")->as_string().find("no checkpoints here"), std::string::npos);
  EXPECT_EQ(s->asked_, (std::vector<Asked>{Asked::stop, Asked::checkpoint}));
}

}  // namespace
}  // namespace perigee
