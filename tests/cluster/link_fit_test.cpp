// Whether a policy fits a link, and what is advised; and images through a slow link, which let heartbeats by.
#include "cluster/launch/link_fit.h"

#include <gtest/gtest.h>

#include "cluster/policy/policy.h"
#include "cluster/protocol/images.h"

namespace perigee {
namespace {

// LeNet's 431,080 parameters every ten steps of 3 ms through 2 Mbit/s, as the trial had it.
ExchangeCost slow() {
  return {.train_s = 0.03, .steps = 10, .transfer_s = 6.9, .sent_bytes = 1'724'320, .block_bytes = 1'724'320, .workers = 2};
}

TEST(LinkFit, ToldIsWhatLeavesLessThanHalf) {
  EXPECT_FALSE(slow().fits());
  EXPECT_LT(slow().training_share(), 0.01);
  ExchangeCost cost = slow();
  cost.train_s = 7;
  EXPECT_TRUE(cost.fits());
  cost = slow();
  cost.train_s = 0.0001, cost.transfer_s = 0.25;
  EXPECT_TRUE(cost.fits()) << "processes that wait for each other: no link";
}

TEST(LinkFit, TheAdviceIsAPolicyThatLeavesEnough) {
  for (const double bandwidth : {1e4, 2.5e5, 1.25e6, 1.25e7}) {
    ExchangeCost cost = slow();
    cost.transfer_s = cost.sent_bytes / bandwidth;
    const std::string advice = policy_that_fits(cost);
    const size_t every = advice.find("every = ");
    ASSERT_NE(every, std::string::npos) << advice;
    const double steps = std::stod(advice.substr(every + 8));
    const double bytes = advice.find("int4") != std::string::npos ? cost.block_bytes / 7.5 : cost.block_bytes;
    const double train_s = steps * cost.train_s / static_cast<double>(cost.steps);
    EXPECT_GE(train_s / (train_s + bytes / bandwidth), 0.8 - 1e-9) << advice;
    EXPECT_LE(train_s / (train_s + bytes / bandwidth), 0.83) << advice << ": more than is needed";
    const Json type(advice.substr(0, advice.find(' ')));
    EXPECT_NO_THROW(read_policy(&type, "test")) << advice;
  }
  EXPECT_EQ(policy_that_fits(slow()), "diloco { every = 1300, codec = \"int4\" }");
  EXPECT_NE(why_not_fit("periodic", slow()).find("2 Mbit/s"), std::string::npos) << why_not_fit("periodic", slow());
}

TEST(LinkFit, WhatIsKeptIsReadAgainAndNonsenseIsNot) {
  const std::optional<ExchangeCost> again = read_exchange_cost(slow().to_json());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->to_json(), slow().to_json());
  for (const char* text : {"[]", "{}", R"({"train_s": 1, "steps": 1e30, "transfer_s": 1, "sent_bytes": 1, "block_bytes": 1, "workers": 2})",
                           R"({"train_s": -1, "steps": 1, "transfer_s": 1, "sent_bytes": 1, "block_bytes": 1, "workers": 2})"})
    EXPECT_FALSE(read_exchange_cost(Json::parse(text, "test"))) << text;
}

// In the first round one worker compiles while the other waits in the exchange: no link is that slow.
TEST(LinkWatch, ASlowFirstRoundDoesNotDecideThatALinkIsTooSlow) {
  LinkWatch watch;
  watch.set_job(64, 1'724'320);
  EXPECT_FALSE(watch.add(0.06, 18, 3.4e6, 1280, 2));
  for (int round = 0; round < 5; ++round) EXPECT_FALSE(watch.add(0.06, 0.02, 3.4e6, 1280, 2)) << "after " << round + 2 << " rounds";
  const ExchangeCost cost = watch.cost();
  EXPECT_TRUE(cost.fits());
  EXPECT_DOUBLE_EQ(cost.transfer_s, 0.01);
  EXPECT_DOUBLE_EQ(cost.train_s, 0.03);
  EXPECT_EQ(cost.steps, 10);
  EXPECT_EQ(cost.block_bytes, 1'724'320);
}

TEST(LinkWatch, ASlowLinkIsToldOnce) {
  for (const auto& [transfer_s, rounds] : {std::pair(13.8, 2), std::pair(0.7, 3)}) {  // of long exchanges fewer are enough
    LinkWatch watch;
    for (int round = 1; round < rounds; ++round) EXPECT_FALSE(watch.add(0.06, transfer_s, 3.4e6, 1280, 2)) << round;
    EXPECT_TRUE(watch.add(0.06, transfer_s, 3.4e6, 1280, 2));
    EXPECT_FALSE(watch.add(0.06, transfer_s, 3.4e6, 1280, 2)) << "again";
    EXPECT_DOUBLE_EQ(watch.cost().transfer_s, transfer_s / 2);
  }
  LinkWatch known;
  known.set_told();
  for (int round = 0; round < 4; ++round) EXPECT_FALSE(known.add(0.06, 13.8, 3.4e6, 1280, 2)) << "the run before said so";
}

// A connection whose queue takes one frame and empties at so many bytes a second.
class SlowLink final : public Transport, public Clock {
 public:
  explicit SlowLink(double bytes_per_s) : bytes_per_s_(bytes_per_s) {}
  uint64_t now_ns() const override { return now_; }
  PeerId connect(const std::string&, uint64_t) override { return 1; }
  bool send(PeerId, std::span<const std::byte>, std::span<const std::byte> body) override {
    if (busy_until_ > now_) return false;
    busy_until_ = now_ + static_cast<uint64_t>(1e9 * static_cast<double>(body.size()) / bytes_per_s_);
    longest_wait_ns = frames++ < 4 ? 0 : std::max(longest_wait_ns, busy_until_ - now_);  // it learns from the first
    bytes += body.size();
    return true;
  }
  void close(PeerId) override {}
  void start_timer(uint64_t, uint64_t) override {}
  void stop_timer(uint64_t) override {}
  void empty() { now_ = std::max(now_, busy_until_); }

  uint64_t longest_wait_ns = 0;
  size_t bytes = 0;
  int frames = 0;

 private:
  double bytes_per_s_;
  uint64_t now_ = 1, busy_until_ = 0;
};

TEST(ImageSender, SendsSmallPiecesThroughASlowLinkAndLargeOnesThroughAFastOne) {
  const auto image = std::make_shared<const std::vector<std::byte>>(size_t{5} << 20);
  for (const double bytes_per_s : {2.5e5, 1e9}) {
    SlowLink link(bytes_per_s);
    ImageSender sender(link, link);
    ASSERT_TRUE(sender.add(1, {}, Image{.request = 1, .round = 3}, image));
    while (!sender.idle()) {
      link.empty();
      sender.on_writable(1);
    }
    EXPECT_EQ(link.bytes, image->size());
    EXPECT_LE(link.longest_wait_ns, 140'000'000u) << "a heartbeat waits for as long";
    if (bytes_per_s > 1e8) {
      EXPECT_LE(link.frames, 24);
    }
  }
}

}  // namespace
}  // namespace perigee
