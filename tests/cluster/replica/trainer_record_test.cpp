// The record of a worker that trains while a round is on its way: what is written is read again, what cannot be is refused with its line.
#include "cluster/ledger/trainer_record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "cluster/replica/replay_workers.h"
#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee {
namespace {

using Kind = TrainerStep::Kind;

const Welcome kTrainerWelcome{.id = 3, .job = R"({"name": "x"})", .folder = "/data", .tuning = "{}", .threads = 2};

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("perigee-trainer-record-" + std::to_string(getpid()));
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string text(const std::string& name) const { return std::string(as_text(read_file((path / name).string()))); }
};

SharedBytes image_of(const std::string& head, const std::string& values) {
  std::vector<std::byte> bytes(8 + head.size() + values.size());
  const uint64_t size = head.size();
  std::memcpy(bytes.data(), &size, 8);
  std::memcpy(bytes.data() + 8, head.data(), head.size());
  std::memcpy(bytes.data() + 8 + head.size(), values.data(), values.size());
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

// Two orders, of which the second is given up after the first round was taken beside it.
std::string written(const Folder& folder) {
  TrainerRecord record(folder.path.string());
  record.begin(kTrainerWelcome);
  record.loaded(-1, 0xa, nullptr, false, 0);
  record.train({.round = 0, .ranges = {{0, 16, 8}, {0, 24, 8}}, .examples_before = 0, .examples_per_step = 16});
  record.staged({.round = 0, .examples = 16, .steps = 2});
  record.train({.round = 1, .ranges = {{1, 0, 8}}, .overlapped = true, .row = 1, .examples_before = 32, .examples_per_step = 16});
  record.exchanged(Json::parse(R"({"event": "exchanged", "worker": "w", "exchanged": 0, "examples": 32, "last": false, "self": 3,
                                   "of": [{"id": 2, "site": "a", "examples": 16}, {"id": 3, "site": "b", "examples": 16}]})",
                               "event"));
  record.applied(0, 0xb, 1);
  record.imaged(image_of("head", "values"), 1);
  record.unstaged(1);
  record.given_up(1);
  record.dropped();
  return folder.text("worker-3.jsonl");
}

TEST(TrainerRecord, WhatIsWrittenIsReadAgain) {
  const Folder folder;
  const TrainerLog log = read_trainer_log(written(folder), "r");
  EXPECT_EQ(log.worker, 3u);
  EXPECT_EQ(log.folder, "/data");
  EXPECT_EQ(log.threads, 2);
  const std::vector<Kind> kinds = {Kind::loaded,  Kind::train,  Kind::staged,   Kind::train,    Kind::exchanged,
                                   Kind::applied, Kind::imaged, Kind::unstaged, Kind::given_up, Kind::dropped};
  ASSERT_EQ(log.steps.size(), kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(log.steps[i].kind, kinds[i]) << i;
  EXPECT_EQ(log.steps[0].image, 0u);
  EXPECT_EQ(log.steps[1].order.ranges, (std::vector<Range>{{0, 16, 8}, {0, 24, 8}}));
  EXPECT_EQ(log.steps[2].examples, 16);
  EXPECT_TRUE(log.steps[3].order.overlapped);
  EXPECT_EQ(log.steps[3].order.row, 1u);
  EXPECT_EQ(log.steps[3].order.examples_before, 32);
  EXPECT_EQ(log.steps[4].members, (std::vector<TrainerStep::Member>{{2, "a", 16}, {3, "b", 16}}));
  EXPECT_EQ(log.steps[5].hash, 0xbu);
  EXPECT_EQ(log.steps[5].at, 1);
}

TEST(TrainerRecord, AnImageIsKnownByItsNumbersAlone) {
  EXPECT_EQ(image_digest(*image_of("one", "values")), image_digest(*image_of("another head", "values")));
  EXPECT_NE(image_digest(*image_of("one", "values")), image_digest(*image_of("one", "valuet")));
  EXPECT_NE(image_digest({}), 0u);
  EXPECT_NE(image_digest(std::vector<std::byte>(8, std::byte{255})), 0u);
}

TEST(TrainerRecord, EachProcessHasAFileOfItsOwn) {
  const Folder folder;
  written(folder), written(folder);
  EXPECT_TRUE(std::filesystem::exists(folder.path / "worker-3-1.jsonl"));
}

TEST(TrainerRecord, WhatIsNoneIsRefusedWithItsLine) {
  const Folder folder;
  const std::string good = written(folder);
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      read_trainer_log(text, "r");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      return error.what();
    }
    return "";
  };
  const auto refused = [&](const std::string& from, const std::string& to, int line) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    const std::string why = refusal(text.replace(at, from.size(), to));
    EXPECT_NE(why.find("r:" + std::to_string(line)), std::string::npos) << to << ": " << why;
  };
  EXPECT_EQ(refusal(good), "");
  EXPECT_EQ(refusal(good.substr(0, good.size() - 3)), "") << "a line that was not finished";
  EXPECT_NE(refusal("").find("is no record of a worker"), std::string::npos);
  refused("\"worker\":3", "\"worker\":0", 1);
  refused("\"threads\":2", "\"threads\":0", 1);
  refused("\"hash\":\"", "\"hash\":\"0", 2);
  refused("[0,16,8]", "[0,-16,8]", 3);
  refused("[0,16,8]", "[0,16]", 3);
  refused("\"row\":0", "\"row\":2", 3);
  refused("\"row\":0", "\"row\":0,\"else\":1", 3);
  refused("\"steps\":2", "\"steps\":-1", 4);
  refused("\"self\":3", "\"self\":0", 6);
  refused("\"site\":\"a\"", "\"site\":7", 6);
  const size_t members = good.find("\"of\":"), end = good.find("]", members);
  EXPECT_NE(refusal(std::string(good).replace(members, end + 1 - members, "\"of\":[]")).find("'of' is no list of workers; expected 1 to "),
            std::string::npos);
  refused("\"at\":1", "\"at\":-1", 7);
  refused("{\"dropped\":true}", "{\"dropped\":true,\"given_up\":true}", 11);
}

// Lines of several workers that do not belong together.
TEST(TrainerRecord, WhatNoOtherRecordHasIsNamed) {
  const Folder folder;
  const TrainerLog log = read_trainer_log(written(folder), "r");
  try {
    replay_workers({log}, {});
    FAIL() << "worker 2 has no record";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("lacks what worker 2 gave to round 0"), std::string::npos) << error.what();
  }
}

// One of them may say of a round only that which it can have seen of it.
TEST(TrainerRecord, RoundsThatCannotHaveBeenAreNamed) {
  const Folder folder;
  const TrainerLog log = read_trainer_log(written(folder), "r");
  const auto said = [](std::vector<TrainerLog> logs) -> std::string {
    try {
      replay_workers(logs, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  constexpr size_t kStaged = 2, kExchanged = 4;
  TrainerLog alone = log, silent = log, other = log;
  alone.steps.erase(alone.steps.begin() + kExchanged);
  EXPECT_EQ(said({alone}), "r: applies a round that it was not in: 0; the record, or the data of its job, was changed since");
  silent.steps.erase(silent.steps.begin() + kStaged);
  EXPECT_EQ(said({silent}), "r: applies a round to which it gave nothing: 0; the record, or the data of its job, was changed since");
  other.where = "s", other.steps[kExchanged].members[0].examples = 8;
  EXPECT_EQ(said({log, other}), "s: names others in round 0 than another log; the record, or the data of its job, was changed since");
}

}  // namespace
}  // namespace perigee
