// Streams: the lanes of a text as batches of a job.
#include <gtest/gtest.h>

#include <cstring>

#include "src/data/loader.h"
#include "src/data/streams.h"
#include "src/run/checkpoint.h"
#include "tests/core/refusal.h"
#include "tests/train/lanes.h"

namespace perigee {
namespace {

class Streams : public testing::Test {
 protected:
  Streams() { write_lanes(folder_); }

  Json data(int64_t window, const std::string& more = "") const {
    return Json::parse(R"({"type": "text", "file": "text.txt", "targets": "every", "context": )" + std::to_string(window) + more + "}",
                       "data");
  }
  SourcePtr open(const Json& description) const { return open_source(Config(description, "data"), folder_.path()); }

  Json job(int64_t window, const std::string& streams = R"(, "streams": 3)") const {
    Json job = Json::parse(R"({"network": [{"type": "embedding", "size": 6, "out": 4},
        {"type": "conv1d", "out": 6, "kernel": 2, "padding": "causal"}],
        "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.05}, "epochs": 2, "seed": 3, "data": {"batch": 3}})",
                           "job");
    job.find("data")->set("train", data(window, streams));
    return job;
  }
  Trainer trainer(const Json& job, int threads = 1) const { return Trainer(Job(job, "job", folder_.path()), {.threads = threads}); }

  TemporaryFolder folder_;
};

TEST_F(Streams, EachLaneGoesOnInTheNextBatch) {
  const SourcePtr streams = open(data(4, R"(, "streams": 3)")), whole = open(data(kLanes * kLane));
  EXPECT_EQ(streams_of(*streams), kLanes);
  EXPECT_EQ(streams->size(), kLanes * kLane / 4);
  std::vector<int64_t> text(kLanes * kLane), after(text.size()), x(4), y(4);
  std::byte* const all[] = {reinterpret_cast<std::byte*>(text.data()), reinterpret_cast<std::byte*>(after.data())};
  whole->read({.index = 0}, all);
  Loader loader(streams, {.batch = kLanes, .shuffle = false, .threads = 0});
  loader.seek(0, 2 * kLanes);  // in the middle
  for (int64_t batch = 2; batch < kLane / 4; ++batch) {
    const Batch& got = loader.next();
    ASSERT_EQ(got.size, kLanes);
    for (int64_t lane = 0; lane < kLanes; ++lane)
      for (int64_t i = 0; i < 4; ++i) {
        const auto at = static_cast<size_t>(lane * kLane + batch * 4 + i);
        EXPECT_EQ(got.fields[0].data<int64_t>()[lane * 4 + i], text[at]);
        EXPECT_EQ(got.fields[1].data<int64_t>()[lane * 4 + i], after[at]);
      }
  }
  EXPECT_EQ(loader.next().epoch, 1u);
  const Json mapped = Json(Json::Object{{"type", "map"}, {"source", data(4, R"(, "streams": 3)")}, {"transforms", Json::array()}});
  EXPECT_EQ(streams_of(*open(mapped)), kLanes);
  const Json taken = Json(Json::Object{{"type", "take"}, {"source", data(4, R"(, "streams": 3)")}, {"count", 5}});
  EXPECT_EQ(streams_of(*open(taken)), 0) << "some of the windows are no lanes";
}

// Without a word about shuffling, and whatever the seed.
TEST_F(Streams, AJobReadsThemInOrder) {
  Trainer streamed = trainer(job(4));
  for (int64_t batch = 0; batch < 2 * kLane / 4; ++batch) {
    const Batch& got = streamed.next_batch();
    ASSERT_EQ(got.size, kLanes);
    for (int64_t lane = 0; lane < kLanes; ++lane) EXPECT_EQ(got.ids[static_cast<size_t>(lane)], batch % (kLane / 4) * kLanes + lane);
  }
}

TEST_F(Streams, AResumeInTheMiddleEndsWithTheSameBits) {
  Trainer straight = trainer(job(2), 2), before = trainer(job(2), 2);
  losses(before, 5);
  save_checkpoint(before, folder_ / "c.safetensors", {});
  losses(straight, 5);
  const std::vector<double> expected = losses(straight, 9);  // into the next epoch
  Trainer resumed = trainer(job(2), 2);
  load_checkpoint(resumed, folder_ / "c.safetensors");
  EXPECT_EQ(losses(resumed, 9), expected);
  EXPECT_EQ(std::memcmp(resumed.model().params().block(), straight.model().params().block(), straight.model().params().block_bytes()), 0);
}

TEST_F(Streams, SaysWhatIsWrong) {
  const auto of_job = [&](const Json& job) { return refusal(ErrorKind::model, [&] { trainer(job); }); };
  Json wrong = job(6);
  wrong.find("data")->set("batch", 4);
  EXPECT_HAS(of_job(wrong), "expected batch = 3");
  wrong = job(6);
  wrong.find("data")->set("shuffle", true);
  EXPECT_HAS(of_job(wrong), "mixes streams");
  EXPECT_HAS(refusal(ErrorKind::data, [&] { open(data(30, R"(, "streams": 3)")); }), "for each stream");
  EXPECT_HAS(refusal(ErrorKind::model, [&] { open(data(4, R"(, "streams": 3, "stride": 2)")); }), "stride");
}

}  // namespace
}  // namespace perigee
