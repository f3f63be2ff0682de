#include "cluster/ledger/ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "cluster/ledger/file_ledger.h"
#include "cluster/ledger/fixed_plan.h"
#include "src/core/error.h"
#include "src/core/warning.h"

namespace perigee {
namespace {

LedgerRecord job_record(int64_t examples, int64_t planned) {
  Json json = Json::object();
  json.set("examples", examples), json.set("planned", planned);
  return {.kind = LedgerRecord::Kind::job, .text = json.dump()};
}

LedgerRecord round_record(int64_t round, std::vector<Range> ranges, uint64_t generation = 1) {
  LedgerRecord record{.generation = generation, .round = round, .hash = 0x0123456789abcdef + static_cast<uint64_t>(round)};
  for (const Range& range : ranges) record.shares.push_back({static_cast<WorkerId>(record.shares.size() + 1), range.count, {range}});
  return record;
}

std::vector<std::byte> encoded(const std::vector<LedgerRecord>& records) {
  std::vector<std::byte> bytes;
  for (const LedgerRecord& record : records) {
    const auto one = encode_record(record);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

std::vector<LedgerRecord> varied_records() {
  std::vector<LedgerRecord> records = {job_record(100, 300), round_record(0, {{0, 0, 10}, {0, 10, 10}, {0, 20, 7}})};
  records.push_back({.generation = 1u << 20,
                     .round = 1,
                     .hash = ~0ull,
                     .shares = {{7, -5, {{3, 9, 1}, {0, 0, 0}, {9, 1ll << 40, 12}}}, {4000000000u, 12, {}}, {9, 3, {{0, 50, 3}}}}});
  records.push_back({.kind = LedgerRecord::Kind::skipped, .round = 1, .shares = {{0, 3, {{0, 27, 3}}}}, .text = "three workers failed"});
  records.push_back({.kind = LedgerRecord::Kind::voided, .generation = 9, .round = -1});
  records.push_back({.kind = LedgerRecord::Kind::epoch_evaluated, .round = 12, .epoch = 3});
  return records;
}

TEST(LedgerRecord, ComesBackAsItWas) {
  const auto records = varied_records();
  size_t read = 0;
  const auto bytes = encoded(records);
  EXPECT_EQ(decode_records(bytes, &read), records);
  EXPECT_EQ(read, bytes.size());
}

TEST(LedgerRecord, OfAStandingRoundIsSmall) {
  for (const int workers : {1, 4, 16}) {
    FixedPlan plan{.examples_per_epoch = 60000, .planned = 600000, .global = 32 * workers, .leaves = workers};
    for (const int64_t round : {int64_t{0}, int64_t{100}, int64_t{60000 / (32 * workers)}})
      EXPECT_LE(encode_record(round_record(round, plan.at(round).ranges, 300)).size(), 60u) << workers << " workers, round " << round;
  }
}

TEST(LedgerRecord, EveryDamagedByteIsNoticed) {
  const auto records = varied_records();
  const auto bytes = encoded(records);
  for (size_t at = 0; at < bytes.size(); ++at) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    size_t read = 0;
    const auto found = decode_records(damaged, &read);
    ASSERT_LE(read, at) << "byte " << at;
    ASSERT_LT(found.size(), records.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], records[i]);
  }
}

TEST(LedgerRecord, EveryTornTailIsNoticed) {
  const auto records = varied_records();
  const auto bytes = encoded(records);
  for (size_t length = 0; length < bytes.size(); ++length) {
    size_t read = 0;
    const auto found = decode_records(std::span(bytes).first(length), &read);
    ASSERT_LE(read, length);
    ASSERT_LT(found.size(), records.size());
    ASSERT_EQ(sound_bytes(std::span(bytes).first(length), "ledger"), read);
  }
}

TEST(LedgerRecord, RandomBytesAreNoRecords) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes(random() % 200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 4 ? random() : 0);
    size_t read = 1;
    EXPECT_TRUE(decode_records(bytes, &read).empty());
    EXPECT_EQ(read, 0u);
  }
}

// ---- audit ----

TEST(LedgerAudit, ASoundRunCountsEveryExampleOnce) {
  std::vector<LedgerRecord> records = {job_record(100, 250)};
  for (int64_t round = 0; round < 25; ++round)
    records.push_back(round_record(
        round, {{static_cast<uint64_t>(round / 10), round % 10 * 10, 6}, {static_cast<uint64_t>(round / 10), round % 10 * 10 + 6, 4}}));
  const LedgerAudit found = audit(records);
  EXPECT_TRUE(found.sound()) << found.to_json().dump();
  EXPECT_EQ(found.counted, 250);
  EXPECT_EQ(found.epochs_complete, 3u);
  EXPECT_EQ(found.rounds, 25);
}

TEST(LedgerAudit, FindsWhatIsCountedTwice) {
  const LedgerAudit found = audit(std::vector{job_record(100, 0), round_record(0, {{0, 0, 60}}), round_record(1, {{0, 50, 50}})});
  EXPECT_EQ(found.duplicates, 10);
  EXPECT_EQ(found.counted, 100);
  EXPECT_FALSE(found.sound());
}

TEST(LedgerAudit, FindsWhatIsMissingBeforeACompleteEpoch) {
  const LedgerAudit found =
      audit(std::vector{job_record(100, 0), round_record(0, {{0, 0, 60}}), round_record(1, {{1, 0, 100}}), round_record(2, {{2, 0, 1}})});
  EXPECT_EQ(found.epochs_complete, 2u);
  EXPECT_EQ(found.missing, 40);
}

TEST(LedgerAudit, FindsWhatIsMissingInAnEvaluatedEpoch) {
  const LedgerAudit found = audit(std::vector<LedgerRecord>{
      job_record(100, 0), round_record(0, {{0, 0, 99}}), {.kind = LedgerRecord::Kind::epoch_evaluated, .round = 0, .epoch = 0}});
  EXPECT_EQ(found.missing, 1);
}

TEST(LedgerAudit, AnUnfinishedEpochMissesNothing) {
  const LedgerAudit found = audit(std::vector{job_record(100, 0), round_record(0, {{0, 40, 10}}), round_record(1, {{0, 0, 10}})});
  EXPECT_TRUE(found.sound());
  EXPECT_EQ(found.epochs_complete, 0u);
}

TEST(LedgerAudit, SkippedAndCountedMakeAll) {
  std::vector<LedgerRecord> records{job_record(100, 100), round_record(0, {{0, 0, 60}, {0, 70, 30}})};
  records.push_back({.kind = LedgerRecord::Kind::skipped, .round = 0, .shares = {{0, 10, {{0, 60, 10}}}}, .text = "NaN"});
  const LedgerAudit found = audit(records);
  EXPECT_TRUE(found.sound());
  EXPECT_EQ(found.counted + found.skipped, 100);
  EXPECT_EQ(found.skipped, 10);
}

TEST(LedgerAudit, VoidedRoundsAreDoneAnew) {
  std::vector<LedgerRecord> records{job_record(30, 30), round_record(0, {{0, 0, 10}}), round_record(1, {{0, 10, 10}}),
                                    round_record(2, {{0, 20, 10}})};
  records.push_back({.kind = LedgerRecord::Kind::voided, .generation = 2, .round = 0});
  LedgerAudit found = audit(records);
  EXPECT_EQ(found.counted, 10);
  EXPECT_EQ(found.voided, 2);
  records.push_back(round_record(1, {{0, 10, 20}}, 2));
  found = audit(records);
  EXPECT_TRUE(found.sound());
  EXPECT_EQ(found.counted, 30);
  EXPECT_EQ(found.rounds, 2);
}

TEST(LedgerAudit, FindsRoundsOutOfOrderAndPositionsThatAreNone) {
  EXPECT_EQ(audit(std::vector{job_record(30, 0), round_record(0, {{0, 0, 10}}), round_record(2, {{0, 10, 10}})}).gaps, 1);
  EXPECT_EQ(audit(std::vector{job_record(30, 0), round_record(0, {{0, 0, 10}}), round_record(0, {{0, 0, 10}})}).duplicates, 10);
  EXPECT_EQ(audit(std::vector{job_record(30, 0), round_record(0, {}, 3), round_record(1, {}, 2)}).gaps, 1);
  EXPECT_EQ(audit(std::vector{job_record(30, 0), round_record(0, {{0, 25, 10}})}).duplicates, 5);
  EXPECT_EQ(audit(std::vector{job_record(30, 40), round_record(0, {{1, 5, 10}})}).duplicates, 5);
}

// ---- the lease pool, against a plain list of positions ----

struct PlainPool {
  enum State { open, leased, done };
  int64_t size;
  std::vector<State> states;
  Range take(int64_t count) {
    for (int64_t begin = 0; begin < static_cast<int64_t>(states.size()); ++begin) {
      if (states[static_cast<size_t>(begin)] != open) continue;
      int64_t end = begin;
      while (end < static_cast<int64_t>(states.size()) && end - begin < count && end / size == begin / size &&
             states[static_cast<size_t>(end)] == open)
        states[static_cast<size_t>(end++)] = leased;
      return {static_cast<uint64_t>(begin / size), begin % size, end - begin};
    }
    return {};
  }
  void set(const Range& range, State state) {
    for (int64_t i = 0; i < range.count; ++i) {
      State& at = states[static_cast<size_t>(static_cast<int64_t>(range.epoch) * size + range.begin + i)];
      if (state == done || at != done) at = state;
    }
  }
};

TEST(LeasePool, DoesWhatAListOfPositionsWould) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const int64_t size = 1 + static_cast<int64_t>(random() % 40), planned = 1 + static_cast<int64_t>(random() % 150);
    LeasePool pool(size, planned);
    PlainPool plain{size, std::vector<PlainPool::State>(static_cast<size_t>(planned), PlainPool::open)};
    std::vector<Range> leased;
    for (int step = 0; step < 400 && !pool.all_done(); ++step) {
      const auto pick = [&] {
        const size_t i = random() % leased.size();
        const Range range = leased[i];
        leased.erase(leased.begin() + static_cast<std::ptrdiff_t>(i));
        return range;
      };
      if (const uint64_t what = random() % 8; what < 4 || leased.empty()) {
        const int64_t count = 1 + static_cast<int64_t>(random() % 12);
        const Range range = pool.take(count);
        const Range expected = plain.take(count);
        ASSERT_EQ(range.count, expected.count);
        if (range.count > 0) {
          ASSERT_EQ(range, expected) << "seed " << seed;
          leased.push_back(range);
        }
      } else if (what < 6) {
        const Range range = pick();
        ASSERT_EQ(pool.mark_done(range), range.count);
        plain.set(range, PlainPool::done);
        ASSERT_EQ(pool.mark_done(range), 0);
      } else {
        const Range range = pick();
        if (random() % 3 == 0) {  // part of it was counted before it came back
          const Range part{range.epoch, range.begin, range.count / 2};
          pool.mark_done(part), plain.set(part, PlainPool::done);
        }
        pool.put_back(range), plain.set(range, PlainPool::open);
      }
      ASSERT_EQ(pool.done(), std::count(plain.states.begin(), plain.states.end(), PlainPool::done));
      for (int64_t epoch = 0; epoch * size < planned; ++epoch) {
        const auto begin = plain.states.begin() + epoch * size, end = plain.states.begin() + std::min(planned, (epoch + 1) * size);
        ASSERT_EQ(pool.epoch_done(static_cast<uint64_t>(epoch)), std::all_of(begin, end, [](auto s) { return s == PlainPool::done; }));
      }
    }
  }
}

TEST(LeasePool, IsRebuiltFromALedger) {
  LeasePool pool(100, 200);
  EXPECT_EQ(pool.mark_done({0, 0, 40}), 40);
  EXPECT_EQ(pool.mark_done({0, 60, 40}), 40);
  EXPECT_EQ(pool.mark_done({1, 10, 10}), 10);
  EXPECT_EQ(pool.take(64), (Range{0, 40, 20}));
  EXPECT_EQ(pool.take(64), (Range{1, 0, 10}));
  EXPECT_EQ(pool.frontier(), (Range{1, 20, 0}));
  EXPECT_EQ(pool.take(1000), (Range{1, 20, 80}));
  EXPECT_EQ(pool.take(1).count, 0);
  EXPECT_EQ(pool.first_open_epoch(), 0u);
  pool.mark_done({0, 40, 20});
  EXPECT_EQ(pool.first_open_epoch(), 1u);
  EXPECT_TRUE(pool.all_taken());
  EXPECT_FALSE(pool.all_done());
}

TEST(LeasePool, AnEndlessOneNeverEnds) {
  LeasePool pool(10, 0);
  for (uint64_t epoch = 0; epoch < 50; ++epoch) EXPECT_EQ(pool.take(1000), (Range{epoch, 0, 10}));
  EXPECT_FALSE(pool.all_done());
  EXPECT_FALSE(pool.all_taken());
}

TEST(Ledger, ARoundHasTheHashOfTheRecordThatCounts) {
  const auto round = [](int64_t number, uint64_t hash) {
    return LedgerRecord{.kind = LedgerRecord::Kind::round, .round = number, .hash = hash};
  };
  std::vector<LedgerRecord> records = {round(0, 10), round(1, 11), round(2, 12)};
  EXPECT_EQ(counted_hash(records, 2), 12u);
  EXPECT_EQ(counted_hash(records, 3), std::nullopt);
  records.push_back({.kind = LedgerRecord::Kind::voided, .round = 0});
  EXPECT_EQ(counted_hash(records, 2), std::nullopt);
  EXPECT_EQ(counted_hash(records, 1), std::nullopt);
  EXPECT_EQ(counted_hash(records, 0), 10u);
  records.push_back(round(1, 21));
  EXPECT_EQ(counted_hash(records, 1), 21u) << "of the line that the run went on with";
  EXPECT_EQ(counted_hash(records, 2), std::nullopt);
}

TEST(Ledger, ARunReachesAsFarAsRecordsThatCount) {
  const auto record = [](LedgerRecord::Kind kind, int64_t round, uint64_t epoch, int64_t begin) {
    return LedgerRecord{.kind = kind, .round = round, .shares = {Share{.id = 1, .examples = 10, .ranges = {{epoch, begin, 10}}}}};
  };
  using enum LedgerRecord::Kind;
  std::vector<LedgerRecord> records = {{.kind = job, .text = "{\"examples\": 100}"}, record(round, 0, 0, 30), record(round, 1, 2, 0)};
  EXPECT_EQ(reach_of(records).examples, 100);
  EXPECT_EQ(reach_of(records).end, 210) << "the furthest, whatever lies before it";
  records.push_back({.kind = voided, .round = 0});
  EXPECT_EQ(reach_of(records).end, 40);
  records.push_back(record(skipped, 0, 1, 20));
  EXPECT_EQ(reach_of(records).end, 130) << "what is given up is accounted for too";
  EXPECT_EQ(reach_of({}).end, 0);
}

// ---- the file ----

class FileLedgerTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() / ("perigee-ledger-" + std::to_string(getpid()) + "-" + info->name());
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "ledger";
    before_ = set_warning_handler([this](const std::string& text) { warnings_.push_back(text); });
  }
  void TearDown() override {
    set_warning_handler(before_);
    std::filesystem::remove_all(folder_);
  }
  size_t size() const { return std::filesystem::file_size(path_); }
  void write(size_t at, const std::string& bytes) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at)), file << bytes;
  }
  std::filesystem::path folder_;
  std::string path_;
  std::vector<std::string> warnings_;
  WarningHandler before_;
};

TEST_F(FileLedgerTest, KeepsRecords) {
  const auto records = varied_records();
  for (const LedgerRecord& record : records) {
    FileLedger ledger(path_);
    EXPECT_TRUE(ledger.append(encode_record(record)));
    EXPECT_TRUE(ledger.sync());
  }
  EXPECT_EQ(FileLedger(path_).read(), encoded(records));
  EXPECT_EQ(FileLedger::load(path_), encoded(records));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(FileLedgerTest, CutsATornTailAtEveryLength) {
  const auto records = varied_records();
  {
    FileLedger ledger(path_);
    ledger.append(encoded(records));
  }
  const size_t whole = size();
  for (size_t length = whole; length-- > 0;) {
    std::filesystem::resize_file(path_, length);
    std::vector<std::byte> bytes = FileLedger::load(path_);
    size_t read = 0, expected = 0, end = whole - encoded(records).size();
    for (const LedgerRecord& record : records) expected += (end += encode_record(record).size()) <= length;
    EXPECT_EQ(decode_records(bytes, &read).size(), expected);
    EXPECT_EQ(FileLedger(path_).read(), bytes);
  }
  EXPECT_FALSE(warnings_.empty());
}

TEST_F(FileLedgerTest, DamageInTheMiddleIsAnErrorThatNamesTheByte) {
  {
    FileLedger ledger(path_);
    ledger.append(encoded(varied_records()));
  }
  const size_t second = 17 + encode_record(varied_records()[0]).size();
  write(second + 15, "!");
  try {
    FileLedger ledger(path_);
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_NE(std::string(error.what()).find("byte " + std::to_string(second)), std::string::npos) << error.what();
  }
}

TEST_F(FileLedgerTest, RefusesAnotherFile) {
  std::ofstream(path_) << "something else entirely";
  try {
    FileLedger ledger(path_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("this is no ledger; expected a file that begins with \"perigee ledger 1\""), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(size(), 23u);
}

TEST_F(FileLedgerTest, HasOneWriter) {
  FileLedger first(path_);
  EXPECT_THROW(FileLedger second(path_), Error);
  EXPECT_NO_THROW(FileLedger::load(path_));
}

// A file size limit makes the kernel write what still fits and fail after that, as a full disk does.
TEST_F(FileLedgerTest, AFullDiskLeavesWholeRecords) {
  FileLedger ledger(path_);
  const auto record = encode_record(varied_records()[2]);
  ASSERT_TRUE(ledger.append(record));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  for (size_t room = 0; room < record.size(); ++room) {
    const rlimit limit{size() + room, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const size_t whole = size();
    const bool appended = ledger.append(record);
    setrlimit(RLIMIT_FSIZE, &before);
    ASSERT_FALSE(appended);
    ASSERT_EQ(size(), whole);
  }
  std::signal(SIGXFSZ, old);
  EXPECT_TRUE(ledger.append(record));
  EXPECT_TRUE(ledger.sync());
  size_t read = 0;
  EXPECT_EQ(decode_records(ledger.read(), &read).size(), 2u);
}

}  // namespace
}  // namespace perigee
