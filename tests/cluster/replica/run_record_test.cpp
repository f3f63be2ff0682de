// The record of a served run: what is written is read again, what cannot be true is refused, with its line.
#include "cluster/ledger/run_record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee {
namespace {

const Welcome kWelcome{.id = 1, .job = R"({"name": "x"})", .folder = "/data", .tuning = "{}", .threads = 2};

Arrival arrival(WorkerId from, int64_t base, uint64_t counted, int64_t begin, int64_t count = 4) {
  Arrival a{.from = from, .peer = 0, .push = {}, .body = {}};
  a.push.base = base;
  a.push.counted = counted;
  a.push.examples_before = 8;
  a.push.examples_per_step = 12;
  a.push.threads = 3;
  a.push.isa = "avx2";
  a.push.ranges = {{1, begin, count}};
  return a;
}

std::string begin() { return record_begin(kWelcome, "avx2"); }
std::string round(int64_t number, int64_t after, const std::vector<Arrival>& merged) {
  return record_round(number, 0xabc0 + static_cast<uint64_t>(number), after, 2, merged);
}
// Rounds 0, 1 and 2, of workers 5, 6 and 5.
std::string three() {
  return begin() + record_restored(-1, 7) + round(0, 4, {arrival(5, -1, 0, 0)}) + round(1, 8, {arrival(6, -1, 0, 4)}) +
         round(2, 12, {arrival(5, 0, 1, 8)});
}

std::string refusal(const std::string& text) {
  try {
    read_record(text, "r");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    return error.what();
  }
  return "";
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.rfind(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(RunRecord, WhatIsWrittenIsReadAgain) {
  const RunRecord record = read_record(begin() + round(0, 10, {arrival(5, -1, 0, 0), arrival(6, -1, 0, 4, 6)}), "r");
  EXPECT_EQ(record.job.dump(), Json::parse(kWelcome.job, "").dump());
  EXPECT_EQ(record.folder, "/data");
  EXPECT_EQ(record.tuning, "{}");
  EXPECT_EQ(record.isa, "avx2");
  EXPECT_EQ(record.threads, 2);
  ASSERT_EQ(record.rounds.size(), 1u);
  EXPECT_EQ(record.rounds[0].hash, 0xabc0u);
  EXPECT_EQ(record.rounds[0].examples_after, 10);
  EXPECT_EQ(record.rounds[0].workers, 2);
  ASSERT_EQ(record.rounds[0].shares.size(), 2u);
  const RecordedShare& share = record.rounds[0].shares[1];
  EXPECT_EQ(share.worker, 6u);
  EXPECT_EQ(share.counted, 0u);
  EXPECT_EQ(share.base, -1);
  EXPECT_EQ(share.examples_before, 8);
  EXPECT_EQ(share.examples_per_step, 12);
  EXPECT_EQ(share.threads, 3u);
  EXPECT_EQ(share.isa, "avx2");
  EXPECT_EQ(share.ranges, (std::vector<Range>{{1, 4, 6}}));
}

TEST(RunRecord, ALineThatWasNotFinishedIsLeftOut) {
  const std::string text = three();
  for (size_t torn = 1; torn < 20; ++torn) EXPECT_EQ(read_record(text.substr(0, text.size() - torn), "r").rounds.size(), 2u) << torn;
  EXPECT_EQ(read_record(text, "r").rounds.size(), 3u);
}

TEST(RunRecord, WhatBecameVoidIsForgotten) {
  // The server goes on from round 0; worker 5 had contributed to it and to round 2, worker 6 begins afresh.
  const std::string text = three() + begin() + record_restored(0, 0xabc0) + record_round(1, 0xd, 8, 2, {arrival(5, 0, 1, 4)}) +
                           record_round(2, 0xe, 12, 2, {arrival(6, 1, 0, 8)});
  const RunRecord record = read_record(text, "r");
  ASSERT_EQ(record.rounds.size(), 3u);
  EXPECT_EQ(record.rounds[1].hash, 0xdu);
  EXPECT_EQ(record.rounds[1].shares[0].worker, 5u);
  EXPECT_TRUE(read_record(three() + record_restored(-1, 9), "r").rounds.empty());
}

TEST(RunRecord, GapsAreRefused) {
  EXPECT_NE(refusal("").find("r: is no record of a run; `perigee train --record` writes one"), std::string::npos);
  EXPECT_NE(refusal("{}\n").find("r:1"), std::string::npos);
  EXPECT_NE(refusal(begin() + round(1, 4, {arrival(5, -1, 0, 0)})).find("does not follow"), std::string::npos);
  EXPECT_NE(refusal(three() + record_restored(3, 1)).find("without --record"), std::string::npos);
  EXPECT_NE(refusal(three() + record_restored(1, 0xbad)).find("not that of the round"), std::string::npos);
  // Worker 5 has contributed once before, not twice; and the one contribution of worker 6 was void.
  EXPECT_NE(refusal(three() + round(3, 16, {arrival(5, 2, 1, 12)})).find("lacks"), std::string::npos);
  EXPECT_NE(refusal(three() + record_restored(0, 0xabc0) + round(1, 8, {arrival(6, 0, 1, 4)})).find("lacks"), std::string::npos);
  EXPECT_NE(refusal(three() + record_begin(kWelcome, "avx512")).find("another job, version or machine"), std::string::npos);
}

// Another process may have measured kernels for its own calls while the run was stopped; those of the run are the record's.
TEST(RunRecord, MoreMeasuredKernelsGoOnWithARecordButNoOthers) {
  const auto with = [](const std::string& tuning) {
    Welcome welcome = kWelcome;
    welcome.tuning = tuning;
    return record_begin(welcome, "avx2");
  };
  const std::string known = with(R"({"add": "plain", "mul": "fast"})");
  EXPECT_EQ(read_record(known + with(R"({"add": "plain", "div": "fast", "mul": "fast"})"), "r").tuning,
            R"({"add": "plain", "mul": "fast"})");
  for (const char* other : {R"({"add": "plain", "mul": "plain"})", R"({"mul": "fast"})", "[]", "{", ""})
    EXPECT_NE(refusal(known + with(other)).find("another job, version or machine"), std::string::npos) << other;
}

TEST(RunRecord, HostileValuesAreRefused) {
  const std::string good = three();
  ASSERT_EQ(refusal(good), "");
  const auto refused = [&](const std::string& from, const std::string& to, const char* said = "") {
    const std::string text = refusal(changed(good, from, to));
    EXPECT_NE(text.find("r:5"), std::string::npos) << to;
    EXPECT_NE(text.find(said), std::string::npos) << text;
  };
  refused("\"round\":2", "\"round\":-2");
  refused("\"round\":2", "\"round\":9223372036854775807");
  refused("\"hash\":\"", "\"hash\":\"0", "expected 16 hexadecimal digits");
  refused("\"hash\":\"000000000000abc2\"", "\"hash\":\"0000000000000000\"");
  refused("\"examples\":12", "\"examples\":13", "'examples' is not what the shares come to; got 13, expected 12");
  refused("\"workers\":2", "\"workers\":0");
  refused("\"worker\":5", "\"worker\":0");
  refused("\"worker\":5", "\"worker\":4294967296");
  refused("\"base\":0", "\"base\":2");
  refused("\"base\":0", "\"base\":-2");
  refused("\"per_step\":12", "\"per_step\":0");
  refused("\"per_step\":12", "\"per_step\":4503599627370496");
  refused("\"threads\":3", "\"threads\":1000000");
  refused("\"isa\":\"avx2\"", "\"isa\":7");
  refused("[1,8,4]", "[1,8,0]");
  refused("[1,8,4]", "[1,-8,4]");
  refused("[1,8,4]", "[1,8]", "'ranges' holds something else; expected [epoch, begin, count] each");
  refused("[1,8,4]", "[1,8,4],[1,10,4]");
  refused("[1,8,4]", "[1,8,4503599627370497]");
  refused("\"ranges\":[[1,8,4]]", "\"ranges\":[]");
  refused("\"counted\":1", "\"counted\":1,\"else\":1");
  refused("\"round\":2", "\"round\":2,\"round\":2");
}

TEST(RunRecord, AWorkerHasOneShareOfARound) {
  EXPECT_NE(refusal(begin() + round(0, 8, {arrival(5, -1, 0, 0), arrival(5, -1, 1, 4)}))
                .find("'merged' has two shares of one worker; got 5, expected one of each"),
            std::string::npos);
}

TEST(RunRecord, AFileGoesOnBehindItsLastWholeLine) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("perigee-run-record-" + std::to_string(getpid()) + ".jsonl")).string();
  std::filesystem::remove(path);
  {
    RecordFile file(path);
    file.append(begin());
  }
  std::ofstream(path, std::ios::app) << "{\"round\":0,\"has";
  {
    RecordFile file(path);
    file.append(round(0, 4, {arrival(5, -1, 0, 0)}));
  }
  const Bytes bytes = read_file(path);
  EXPECT_EQ(as_text(bytes), begin() + round(0, 4, {arrival(5, -1, 0, 0)}));
  std::filesystem::remove(path);
  EXPECT_THROW(RecordFile("/nowhere/record"), Error);
}

}  // namespace
}  // namespace perigee
