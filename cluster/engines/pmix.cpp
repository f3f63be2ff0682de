// PMIx without Open MPI's own variables: prterun, and launchers of other systems. The environment does not say how many processes there are;
// libpmix, loaded when PMIX_RANK is set, asks the launcher. It is left again before training begins.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "cluster/engines/engine.h"
#include "src/core/error.h"

namespace perigee {
namespace {

// As in pmix.h, whose first layout all versions since 2 have kept.
struct Process {
  char space[256];
  uint32_t rank;
};
struct Value {
  uint16_t type;
  union {
    char* text;
    uint32_t number32;
    uint16_t number16;
    char room[64];
  };
};
constexpr uint16_t kString = 3;
constexpr uint32_t kWholeJob = 0xfffffffe;
constexpr uint8_t kForAll = 3;
constexpr int kMeetSeconds = 120;

struct Fence {
  std::atomic<bool> over{false};
  std::atomic<int> status{0};
};

class Pmix {
 public:
  // Null where the library or its launcher is not to be had.
  static std::shared_ptr<Pmix> open() {
    const auto pmix = std::make_shared<Pmix>();
    return pmix->started_ ? pmix : nullptr;
  }
  // open() makes one.
  Pmix() {
    void* library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    started_ = find(init_, "PMIx_Init") && find(get_, "PMIx_Get") && find(put_, "PMIx_Put") && find(commit_, "PMIx_Commit") &&
               find(fence_, "PMIx_Fence_nb") && find(finalize_, "PMIx_Finalize") && init_(&self_, nullptr, 0) == 0;
  }
  ~Pmix() { leave(); }
  Pmix(const Pmix&) = delete;
  Pmix& operator=(const Pmix&) = delete;

  int rank() const { return static_cast<int>(self_.rank); }
  const char* space() const { return self_.space; }

  // A number that the launcher knows of the job, or of this process; 0: it does not.
  uint32_t number(const char* key, bool of_job) {
    const Value* value = get(key, of_job ? kWholeJob : self_.rank);
    return value ? value->number32 : 0;
  }
  uint16_t short_number(const char* key) {
    const Value* value = get(key, self_.rank);
    return value ? value->number16 : uint16_t{0};
  }

  Meeting exchange(const Meeting* mine, const std::atomic<bool>& stop) {
    std::string text;
    if (mine) {
      text = mine->address + "," + mine->key;
      Value value = {.type = kString, .text = text.data()};
      if (put_(kForAll, kKey, &value) != 0 || commit_() != 0) fail("does not take where rank 0 is");
    }
    // Kept alive by the library's thread, should it answer after we have gone.
    auto fence = std::make_unique<std::shared_ptr<Fence>>(std::make_shared<Fence>());
    const std::shared_ptr<Fence> waiting = *fence;
    const auto done = [](int status, void* data) {
      const std::unique_ptr<std::shared_ptr<Fence>> held(static_cast<std::shared_ptr<Fence>*>(data));
      (*held)->status = status;
      (*held)->over = true;
    };
    if (fence_(nullptr, 0, nullptr, 0, done, fence.get()) != 0) fail("has no barrier");
    (void)fence.release();  // done() has it now
    for (int hundredths = 0; !waiting->over; ++hundredths) {
      if (stop) fail("stopped while the processes met");
      if (hundredths > 100 * kMeetSeconds) fail("did not bring all processes together within " + std::to_string(kMeetSeconds) + " s");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (waiting->status != 0) fail("did not bring all processes together: status " + std::to_string(waiting->status));
    const Value* value = get(kKey, 0);
    const std::string told = value && value->type == kString && value->text ? value->text : "";
    leave();
    const size_t comma = told.rfind(',');
    if (comma == std::string::npos) fail("does not know where rank 0 is");
    return {told.substr(0, comma), told.substr(comma + 1)};
  }

 private:
  static constexpr const char* kKey = "perigee.meeting";

  void leave() {
    if (started_) finalize_(nullptr, 0);
    started_ = false;
  }
  const Value* get(const char* key, uint32_t rank) {
    Process of = self_;
    of.rank = rank;
    Value* value = nullptr;
    return get_(&of, key, nullptr, 0, &value) == 0 ? value : nullptr;  // few bytes, asked once: not worth the library's way to free it
  }
  [[noreturn]] static void fail(const std::string& what) {
    throw Error(
        ErrorKind::cluster,
        {.where = "the launcher's PMIx", .what = what, .hint = "start the job again; --engine none leaves the launcher's answers aside"});
  }

  bool started_ = false;
  Process self_ = {};
  int (*init_)(Process*, void*, size_t) = nullptr;
  int (*get_)(const Process*, const char*, const void*, size_t, Value**) = nullptr;
  int (*put_)(uint8_t, const char*, Value*) = nullptr;
  int (*commit_)() = nullptr;
  int (*fence_)(const Process*, size_t, const void*, size_t, void (*)(int, void*), void*) = nullptr;
  int (*finalize_)(const void*, size_t) = nullptr;
};

std::optional<Engine> find_pmix(const Environment& environment) {
  const char* rank = environment("PMIX_RANK");
  const char* step = environment("SLURM_STEP_ID");
  if (!rank || !*rank || (step && *step)) return std::nullopt;
  const std::shared_ptr<Pmix> pmix = Pmix::open();
  if (!pmix) return std::nullopt;
  const uint32_t size = pmix->number("pmix.job.size", true);
  if (size < 1 || size > (1 << 20) || static_cast<uint32_t>(pmix->rank()) >= size) return std::nullopt;
  Engine engine{.name = "pmix", .job = file_name_of(pmix->space()), .rank = pmix->rank(), .size = static_cast<int>(size)};
  engine.local_rank = pmix->short_number("pmix.lrank");
  engine.local_size = static_cast<int>(std::clamp(pmix->number("pmix.local.size", true), 1u, size));
  engine.exchange = [pmix](const Meeting* mine, const std::atomic<bool>& stop) { return pmix->exchange(mine, stop); };
  return engine;
}

}  // namespace

extern const EngineDef engine_pmix;
const EngineDef engine_pmix{
    .name = "pmix", .doc = "prterun, and other launchers with PMIx", .variables = "PMIX_RANK, and libpmix.so.2", .find = find_pmix};

}  // namespace perigee
