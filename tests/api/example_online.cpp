// Online learning: one thread measures, one learns from what arrives, and this one asks the newest model meanwhile.
#include <perigee.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

int main() {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::vector<float>> stream;  // batches of 16 pairs (x, y), at most 8 of them
  constexpr int kBatches = 2000;
  std::atomic<float> slope = 2;  // of the line y = slope * x + 1; the world changes it on the way
  std::thread measuring([&] {
    for (unsigned i = 0, state = 1; i < kBatches; ++i) {
      std::vector<float> xs, ys;
      if (i == kBatches / 2) slope = -1;
      for (int k = 0; k < 16; ++k) {
        state = state * 1664525u + 1013904223u;
        xs.push_back(static_cast<float>(state >> 8) / (1 << 23) - 1);
        ys.push_back(slope * xs.back() + 1);
      }
      xs.insert(xs.end(), ys.begin(), ys.end());
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return stream.size() < 8; });
      stream.push_back(std::move(xs));
      changed.notify_all();
    }
  });
  pg::trainer trainer(pg::experiment{.network = pg::sequential(pg::dense(1)),
                                     .loss = pg::losses::mse,
                                     .optimizer = pg::sgd({.lr = 0.1}),
                                     .data = {.train = pg::fed({pg::declare("x", {1}), pg::declare("y", {1})})}});
  pg::predictor predictor(trainer.model());
  std::thread learning([&] {
    for (int i = 1; i <= kBatches; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !stream.empty(); });
      const std::vector<float> batch = std::move(stream.front());
      stream.pop_front();
      changed.notify_all();
      lock.unlock();
      trainer.feed({batch.data(), batch.data() + 16}, 16);  // read in place
      if (i % 100 == 0) predictor.swap(trainer.model());    // from now on it answers
    }
  });
  measuring.join();
  learning.join();
  const float after = predictor.predict(std::vector<float>{1})[0];
  std::printf("at x = 1 the newest model says %.3f, the world %.3f\n", after, slope + 1.f);
  return after > -0.05f && after < 0.05f ? 0 : 1;
}
