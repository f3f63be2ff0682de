// Examples that come from the coordinator: the server that reads them, the client that asks ahead, and sources made of both.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include "cluster/data/example_client.h"
#include "cluster/data/example_server.h"
#include "cluster/data/remote_source.h"
#include "src/data/loader.h"
#include "src/data/sources/host.h"

namespace perigee {
namespace {

// A thread that does what others hand to it, like a loop.
class Pump {
 public:
  Pump() : thread_([this] { work(); }) {}
  ~Pump() { stop(); }
  void post(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    more_.notify_one();
  }
  // Returns when all that was posted before is done.
  void settle() {
    std::atomic<bool> reached = false;
    post([&] { reached = true; });
    while (!reached) std::this_thread::yield();
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      more_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      more_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

// Connections that take `room` frames with a body before they are full.
class Pipe final : public Transport {
 public:
  PeerId connect(const std::string&, uint64_t) override { return 0; }
  bool send(PeerId peer, std::span<const std::byte> head, std::span<const std::byte> body) override {
    if (!body.empty()) {
      const auto limit = room.find(peer);
      if (limit != room.end() && limit->second == 0) return false;
      if (limit != room.end()) --limit->second;
    }
    std::vector<std::byte> frame(head.begin(), head.end());
    frame.insert(frame.end(), body.begin(), body.end());
    largest_body = std::max(largest_body, body.size());
    if (on_frame) on_frame(peer, frame);
    return true;
  }
  void close(PeerId) override {}
  void start_timer(uint64_t, uint64_t) override {}
  void stop_timer(uint64_t) override {}

  std::map<PeerId, size_t> room;
  size_t largest_body = 0;
  std::function<void(PeerId, std::span<const std::byte>)> on_frame;
};

bool read_examples(std::span<const std::byte> frame, Examples* message, std::span<const std::byte>* body) {
  FrameHeader header;
  return read_header(frame, &header) && header.type == MessageType::examples && decode(frame.subspan(kHeaderBytes), message, body);
}

constexpr PeerId kWorker = 1;

// A coordinator and a worker, and between them frames alone.
class World {
 public:
  explicit World(ExampleClientOptions client_options = {}, ExampleServerOptions server_options = {})
      : server_options_(server_options), client_([this] { pump_.post([this] { ask(); }); }, client_options) {
    pipe_.on_frame = [this](PeerId peer, std::span<const std::byte> frame) {
      Examples message;
      std::span<const std::byte> body;
      if (!read_examples(frame, &message, &body)) ++broken;
      else if (peer == kWorker && !client_.on_examples(message, body)) ++broken;
    };
  }
  ~World() {
    client_.stop();
    pump_.stop();
    server_.reset();
  }

  // Opens it here, as the launcher does, and gives it as the worker sees it.
  SourcePtr serve(const std::string& description, const std::map<std::string, SourcePtr>& host = {}) {
    const HostScope scope(host);
    json_ = Json::parse(description, "test");
    here = served_.open("train", Config(json_, "test"), ".");
    start_server();
    opener_ = std::make_unique<RemoteOpener>(served_.manifest(), client_);
    pump_.post([this] { client_.on_joined(); });
    return opener_->open("train", Config(json_, "test"), "/nowhere");
  }
  void lose_coordinator() {
    pump_.post([this] {
      client_.on_coordinator_lost();
      server_.reset();
    });
    pump_.settle();
  }
  void find_coordinator() {
    pump_.post([this] {
      start_server();
      client_.on_joined();
    });
  }

  SourcePtr here;
  std::atomic<int> broken{0};
  bool mute = false;  // the coordinator hears nothing
  Pump& pump() { return pump_; }
  Pipe& pipe() { return pipe_; }
  ExampleClient& client() { return client_; }
  ExampleServer& server() { return *server_; }

 private:
  void start_server() {
    server_ = std::make_unique<ExampleServer>(
        served_.sources(), pipe_, [this] { pump_.post([this] { deliver(); }); }, server_options_);
  }
  void deliver() {
    if (server_) server_->deliver();
  }
  void ask() {
    Read read;
    while (client_.next(&read)) {
      const std::vector<std::byte> frame = encode(read, FrameHeader{});
      Read received;
      if (!decode(std::span(frame).subspan(kHeaderBytes), &received)) ++broken;
      else if (!mute && server_ && !server_->on_read(kWorker, FrameHeader{}, received)) ++broken;
    }
  }

  const ExampleServerOptions server_options_;
  Json json_;
  ServedData served_;
  Pipe pipe_;
  Pump pump_;
  std::unique_ptr<ExampleServer> server_;
  ExampleClient client_;
  std::unique_ptr<RemoteOpener> opener_;
};

std::vector<std::vector<std::byte>> values_of(const DataSource& source, const ReadKey& key) {
  std::vector<std::vector<std::byte>> values;
  std::vector<std::byte*> slots;
  for (const Field& field : source.fields()) values.emplace_back(static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype));
  for (auto& value : values) slots.push_back(value.data());
  source.read(key, slots);
  return values;
}

void expect_same_fields(const DataSource& a, const DataSource& b) {
  ASSERT_EQ(a.fields().size(), b.fields().size());
  for (size_t i = 0; i < a.fields().size(); ++i) {
    const Field &x = a.fields()[i], &y = b.fields()[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.dtype, y.dtype);
    EXPECT_EQ(x.shape, y.shape);
    EXPECT_EQ(x.classes, y.classes);
    EXPECT_EQ(x.class_names, y.class_names);
  }
}

std::string file_with(const std::string& name, const std::string& text) {
  const std::string path = (std::filesystem::temp_directory_path() / (name + "." + std::to_string(getpid()))).string();
  std::ofstream(path) << text;
  return path;
}

// Numbers 0, 1, 2, ... as wide as wanted; what it is told is counted.
class Numbers final : public DataSource {
 public:
  explicit Numbers(int64_t size, int64_t width = 1, int64_t broken = -1) : size_(size), broken_(broken) {
    fields_.push_back({.name = "x", .dtype = Dtype::f32, .shape = {width}});
    fields_.push_back({.name = "y", .dtype = Dtype::u8, .shape = {}, .classes = 7});
  }
  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    if (key.index == broken_) throw Error(ErrorKind::data, {.where = "numbers", .what = "this one is damaged"});
    auto* x = reinterpret_cast<float*>(slots[0]);
    for (int64_t i = 0; i < fields_[0].shape.elements(); ++i)
      x[i] = static_cast<float>(key.index * 3 + i) + static_cast<float>(key.epoch) * .5f;
    const auto label = static_cast<uint8_t>(key.index % 7);
    std::memcpy(slots[1], &label, 1);
  }
  SourceTraits traits() const override { return {.description = "numbers", .live = is_live}; }
  bool is_live = false;

 private:
  int64_t size_, broken_;
  std::vector<Field> fields_;
};

constexpr const char* kHost = R"({"type": "host", "name": "numbers"})";
std::map<std::string, SourcePtr> numbers(int64_t size, int64_t width = 1, int64_t broken = -1) {
  return {{"numbers", std::make_shared<Numbers>(size, width, broken)}};
}

TEST(Examples, AreTheSameWhoeverReadsThem) {
  std::string rows = "a,b,y\n";
  for (int i = 0; i < 300; ++i)
    rows += std::to_string(i % 13) + "," + std::string(1, static_cast<char>('p' + i % 3)) + "," + std::to_string(i % 2) + "\n";
  const std::string csv = file_with("examples.csv", rows),
                    text = file_with("examples.txt", std::string(400, 'a') + "the quick brown fox. " + rows);
  const std::string digits = R"({"type": "digits", "size": 500, "endless": true})";
  const std::string table = R"({"type": "csv", "file": ")" + csv + R"(", "target": "y"})";
  const std::string words = R"({"type": "text", "file": ")" + text + R"(", "context": 9})";
  const std::string maps =
      R"({"type": "map", "source": )" + digits + R"(, "transforms": [{"type": "standardize"}, {"type": "shift", "pixels": 3}]})";
  for (const std::string& description :
       {digits, table, words, maps, R"({"type": "take", "from": 40, "count": 60, "source": )" + maps + "}",
        R"({"type": "split", "parts": [0.7, 0.3], "part": 1, "source": )" + maps + "}",
        R"({"type": "map", "transforms": [{"type": "shift"}], "source": {"type": "k_fold", "fold": 2, "source": )" + digits + "}}",
        R"({"type": "concat", "sources": [)" + table + "," + table + "]}",
        R"({"type": "subset", "indices": [7, 7, 0], "source": )" + words + "}"}) {
    SCOPED_TRACE(description);
    World world;
    const SourcePtr remote = world.serve(description);
    ASSERT_EQ(remote->size(), world.here->size());
    expect_same_fields(*remote, *world.here);
    EXPECT_EQ(remote->traits().fitted.dump(), world.here->traits().fitted.dump());
    for (int64_t i = 0; i < 40; ++i) {
      const ReadKey key{.index = (i * 37) % remote->size(), .epoch = static_cast<uint64_t>(i / 10), .seed = 11};
      EXPECT_EQ(values_of(*remote, key), values_of(*world.here, key)) << i;
    }
    EXPECT_EQ(world.broken, 0);
  }
  std::filesystem::remove(csv), std::filesystem::remove(text);
}

TEST(Examples, OfAPlanAreAskedForAheadOfNeed) {
  for (const int threads : {0, 1, 3}) {
    World world;
    const SourcePtr remote = world.serve(kHost, numbers(1000, 5));
    Loader near(world.here, {.batch = 24, .seed = 4, .threads = 0}), far(remote, {.batch = 24, .seed = 4, .threads = threads});
    for (int step = 0; step < 100; ++step) {
      const Batch &a = near.next(), &b = far.next();
      ASSERT_EQ(a.size, b.size);
      for (size_t f = 0; f < a.fields.size(); ++f) {
        const size_t bytes = static_cast<size_t>(a.size) * (f == 0 ? 20 : 1);
        ASSERT_EQ(std::memcmp(a.fields[f].view().data, b.fields[f].view().data, bytes), 0) << step;
      }
    }
    const ExampleClient::Counters counted = world.client().counters();
    // One thread may read while another announces batches to the source.
    if (threads <= 1) {
      EXPECT_EQ(counted.unexpected, 0u);
    }
    EXPECT_EQ(counted.given_up, 0u);
    EXPECT_LE(counted.held_bytes, size_t{17} << 20);
    EXPECT_LE(counted.requests, counted.asked / 15) << "in batches";
    EXPECT_EQ(world.broken, 0);
  }
}

TEST(Examples, ListedRangesAreReadOnceAndNothingElseIs) {
  World world;
  const SourcePtr remote = world.serve(kHost, numbers(1000));
  Loader loader(remote, {.batch = 10, .shuffle = false, .threads = 1});
  loader.clear_list();
  for (const int64_t at : {500, 20, 700}) ASSERT_TRUE(loader.list({.epoch = 1, .position = at, .size = 30}));
  for (int i = 0; i < 3; ++i) loader.next();
  EXPECT_EQ(world.client().counters().examples, 90u);
  EXPECT_EQ(world.client().counters().held_bytes, 0u);
}

TEST(Examples, LargerThanAnyBufferComeInPieces) {
  World world({.window_bytes = 16 << 10, .block_bytes = 4 << 10}, {.threads = 2, .piece_bytes = 4 << 10, .frame_bytes = 1000});
  const SourcePtr remote = world.serve(kHost, numbers(50, 9001));
  Loader loader(remote, {.batch = 4, .shuffle = false, .threads = 1});
  for (int step = 0; step < 25; ++step) {
    const Batch& batch = loader.next();
    for (int64_t i = 0; i < batch.size; ++i) {
      const auto* row = batch.fields[0].data<float>() + i * 9001;
      ASSERT_EQ(row[9000], static_cast<float>(batch.ids[static_cast<size_t>(i)] * 3 + 9000) + static_cast<float>(batch.epoch) * .5f);
    }
  }
  world.pump().settle();
  EXPECT_LE(world.pipe().largest_body, 1000u);
  EXPECT_EQ(world.broken, 0);
}

TEST(Examples, SurviveTheLossOfTheCoordinator) {
  World world({.window_bytes = 8 << 10, .block_bytes = 1 << 10}, {.piece_bytes = 512, .frame_bytes = 100});
  const SourcePtr remote = world.serve(kHost, numbers(400, 6));
  Loader loader(remote, {.batch = 16, .seed = 9, .threads = 2});
  for (int step = 0; step < 200; ++step) {
    if (step % 20 == 7) world.lose_coordinator();
    if (step % 20 == 7) world.find_coordinator();
    const Batch& batch = loader.next();
    for (int64_t i = 0; i < batch.size; ++i)
      ASSERT_EQ(batch.fields[0].data<float>()[i * 6],
                static_cast<float>(batch.ids[static_cast<size_t>(i)] * 3) + static_cast<float>(batch.epoch) * .5f);
  }
  EXPECT_EQ(world.broken, 0);
}

TEST(Examples, OneThatCannotBeReadFailsAlone) {
  World world;
  const SourcePtr remote = world.serve(kHost, numbers(100, 3, 7));
  std::vector<ReadKey> keys;
  for (int64_t i = 0; i < 20; ++i) keys.push_back({.index = i, .epoch = 2});
  remote->expect(keys);
  for (const ReadKey& key : keys) {
    if (key.index != 7) {
      EXPECT_EQ(values_of(*remote, key), values_of(*world.here, key));
      continue;
    }
    try {
      values_of(*remote, key);
      FAIL() << "it is damaged";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_NE(std::string(error.what()).find("data of the coordinator: example 7: "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("this one is damaged"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(world.broken, 0);
  EXPECT_EQ(world.client().counters().held_bytes, 0u);
}

TEST(Examples, AreNotWaitedForWithoutADeadlineNorAfterTheEnd) {
  World world({.deadline_ms = 10});
  const SourcePtr remote = world.serve(kHost, numbers(100));
  world.mute = true;
  EXPECT_THROW(values_of(*remote, {.index = 5}), Error);
  World other;
  const SourcePtr mute = other.serve(kHost, numbers(100));
  other.mute = true;
  std::thread end([&] {
    while (!other.client().starved()) std::this_thread::yield();
    other.client().stop();
  });
  EXPECT_THROW(values_of(*mute, {.index = 5}), Error);
  end.join();
  EXPECT_THROW(values_of(*mute, {.index = 6}), Error);
}

TEST(Examples, OfAPlanThatCameToNothingMakeRoom) {
  World world({.window_bytes = 4 << 10, .block_bytes = 1 << 10});
  const SourcePtr remote = world.serve(kHost, numbers(1000, 14));  // records of 64 bytes: 64 fit
  std::vector<ReadKey> forgotten, wanted;
  for (int64_t i = 0; i < 64; ++i) forgotten.push_back({.index = i}), wanted.push_back({.index = 500 + i});
  remote->expect(forgotten);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (world.client().counters().examples < 64 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  remote->expect(wanted);
  for (const ReadKey& key : wanted) EXPECT_EQ(values_of(*remote, key), values_of(*world.here, key));
  const ExampleClient::Counters counted = world.client().counters();
  EXPECT_EQ(counted.unexpected, 0u);
  EXPECT_GT(counted.given_up, 0u);
  EXPECT_LE(counted.held_bytes, size_t{4} << 10);
}

TEST(ExampleServer, RefusesWhatNobodyMayAskFor) {
  World world({}, {.max_requests = 3, .max_ids = 100});
  const SourcePtr remote = world.serve(kHost, numbers(50));
  world.pump().settle();
  std::vector<int64_t> many(101, 1);
  const std::vector<Read> bad = {{.request = 1, .source = 1, .ids = {0}},
                                 {.request = 1, .source = 0xFFFFFFFF, .ids = {0}},
                                 {.request = 1, .ids = {}},
                                 {.request = 1, .ids = {50}},
                                 {.request = 1, .ids = {0, -1}},
                                 {.request = 1, .ids = {INT64_MAX}},
                                 {.request = 1, .ids = {INT64_MIN}},
                                 {.request = 1, .ids = many}};
  world.pump().post([&] {
    for (const Read& read : bad) EXPECT_FALSE(world.server().on_read(77, FrameHeader{}, read));
  });
  world.pump().settle();
  EXPECT_EQ(world.server().counters().refused, bad.size());
  EXPECT_EQ(world.server().counters().buffered, 0u);
}

TEST(ExampleServer, KeepsLittleForAWorkerThatTakesNothing) {
  World world({}, {.threads = 1, .piece_bytes = 256, .frame_bytes = 64, .pieces = 2, .max_requests = 8, .max_ids = 1000});
  const SourcePtr remote = world.serve(kHost, numbers(1000, 14));
  constexpr PeerId kSlow = 5;
  std::atomic<bool> greedy = false;
  world.pump().post([&] {
    world.pipe().room[kSlow] = 1;
    std::vector<int64_t> ids(100);
    for (int i = 0; i < 8; ++i)
      EXPECT_TRUE(world.server().on_read(kSlow, FrameHeader{}, Read{.request = static_cast<uint64_t>(i + 1), .ids = ids}));
    greedy = !world.server().on_read(kSlow, FrameHeader{}, Read{.request = 99, .ids = std::vector<int64_t>(300)});
  });
  for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(values_of(*remote, {.index = i}), values_of(*world.here, {.index = i}));
  EXPECT_TRUE(greedy) << "more than a worker may ask for at once";
  EXPECT_LE(world.server().counters().buffered, 3u);
  world.pump().post([&] { world.server().on_lost(kSlow); });
  world.pump().settle();
  values_of(*remote, {.index = 900});
  EXPECT_EQ(world.broken, 0);
}

TEST(ExampleServer, GoesOnWhereAConnectionWasFull) {
  World world({}, {.piece_bytes = 256, .frame_bytes = 64});
  const SourcePtr remote = world.serve(kHost, numbers(1000, 14));
  world.pump().settle();
  std::atomic<bool> over = false;
  world.pump().post([&] { world.pipe().room[kWorker] = 0; });
  std::thread drain([&] {
    while (!over) {
      world.pump().post([&] {
        world.pipe().room[kWorker] = 3;
        world.server().on_writable(kWorker);
      });
      world.pump().settle();
    }
  });
  std::vector<ReadKey> keys;
  for (int64_t i = 0; i < 300; ++i) keys.push_back({.index = i * 3});
  remote->expect(keys);
  for (const ReadKey& key : keys) EXPECT_EQ(values_of(*remote, key), values_of(*world.here, key));
  over = true;
  drain.join();
  EXPECT_EQ(world.broken, 0);
}

TEST(ExampleClient, RefusesWhatItDidNotAskFor) {
  ExampleClient client([] {});
  const RecordLayout layout({{.name = "x", .dtype = Dtype::f32, .shape = {4}}});
  const std::vector<ReadKey> keys = {{.index = 1}, {.index = 2}};
  client.expect(0, layout, keys);
  const std::vector<std::byte> bytes(64);
  const auto body = [&](size_t count) { return std::span(bytes).first(count); };
  EXPECT_FALSE(client.on_examples({.request = 1}, body(16))) << "nothing was asked yet";
  client.on_joined();
  Read read;
  ASSERT_TRUE(client.next(&read));
  EXPECT_EQ(read.ids, (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(client.on_examples({.request = read.request + 1}, body(16)));
  EXPECT_FALSE(client.on_examples({.request = read.request, .offset = 16}, body(16))) << "not in order";
  EXPECT_FALSE(client.on_examples({.request = read.request}, body(40))) << "too much";
  EXPECT_FALSE(client.on_examples({.request = read.request, .offset = UINT64_MAX}, body(2)));
  EXPECT_FALSE(client.on_examples({.request = read.request, .offset = 8, .kind = 3, .error = "x"}, {})) << "in the midst of a record";
  EXPECT_FALSE(client.on_examples({.request = read.request, .offset = 32, .kind = 3, .error = "x"}, {})) << "behind the last one";
  EXPECT_FALSE(client.on_examples({.request = read.request}, {})) << "nothing";
  EXPECT_TRUE(client.on_examples({.request = read.request}, body(16)));
  EXPECT_TRUE(client.on_examples({.request = read.request, .offset = 16}, body(16)));
}

TEST(Manifest, IsCheckedAndOpensNoFileHere) {
  World world;
  const SourcePtr remote = world.serve(kHost, numbers(50));
  for (
      const char* text :
      {"", "[]", "{}", R"({"sources": 3, "parts": {}})", R"({"sources": [{}], "parts": {}})",
       R"({"sources": [{"size": 0, "describe": "", "fields": []}], "parts": {}})",
       R"({"sources": [{"size": 5, "describe": "", "fields": [{"name": "x", "dtype": "f32", "shape": [-1]}]}], "parts": {}})",
       R"({"sources": [{"size": 5, "describe": "", "fields": [{"name": "x", "dtype": "f32", "shape": [1099511627776, 1099511627776]}]}], "parts": {}})",
       R"({"sources": [{"size": 5, "describe": "", "fields": [{"name": "x", "dtype": "f32", "shape": [1099511627776]}]}], "parts": {}})",
       R"({"sources": [], "parts": {"train": {"leaves": [0]}}})"})
    EXPECT_THROW(read_manifest(text), Error) << text;
  const auto expect_refused = [](const std::string& said, const std::function<void()>& work) {
    try {
      work();
      ADD_FAILURE() << said;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
    }
  };
  expect_refused("'leaves' names no source; got 0", [] { read_manifest(R"({"sources": [], "parts": {"train": {"leaves": [0]}}})"); });
  // The job names a file; nothing is served for it.
  RemoteOpener opener(R"({"sources": [], "parts": {"train": {"leaves": []}}})", world.client());
  const Json job = Json::parse(R"({"type": "csv", "file": "/etc/passwd"})", "job");
  expect_refused("other sources", [&] { opener.open("train", Config(job, "job"), "/"); });
  expect_refused("job: the coordinator does not serve the part 'test'; start its workers with the run's own job",
                 [&] { opener.open("test", Config(job, "job"), "/"); });
}

TEST(ServedData, RefusesALiveSourceAndServesASharedOneOnce) {
  ServedData served;
  const Json shared = Json::parse(R"({"type": "split", "parts": [0.5, 0.5], "part": 0, "source": {"type": "digits", "size": 100}})", "job");
  const Json other = Json::parse(R"({"type": "split", "parts": [0.5, 0.5], "part": 1, "source": {"type": "digits", "size": 100}})", "job");
  served.open("train", Config(shared, "job"), ".");
  served.open("test", Config(other, "job"), ".");
  EXPECT_EQ(served.sources().size(), 1u);
  auto live = std::make_shared<Numbers>(10);
  live->is_live = true;
  const std::map<std::string, SourcePtr> host = {{"numbers", live}};
  const HostScope scope(host);
  const Json json = Json::parse(kHost, "job");
  try {
    served.open("validation", Config(json, "job"), ".");
    FAIL() << "a source that goes on by itself";
  } catch (const Error& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("examples that appear while the program runs cannot be shared out among workers"), std::string::npos) << said;
    EXPECT_NE(said.find("train on them in one process"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace perigee
