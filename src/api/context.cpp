// perigee.h: contexts, messages, memory.
#include <array>
#include <cstdlib>

#include "src/api/handles.h"
#include "src/core/warning.h"

namespace perigee {
namespace {

// Which calls are under way, so that a warning of a reading thread, which is inside none, finds its way out.
std::mutex all_scopes_mutex;
LogScope* all_scopes = nullptr;
thread_local LogScope* innermost = nullptr;

constexpr size_t kMessagesKept = 16;  // of each thread

}  // namespace

// Warnings of a thread that is inside a call go to that call's context; those of other threads to every context inside a call.
void LogScope::deliver(const std::string& text) {
  const std::lock_guard lock(all_scopes_mutex);
  for (const LogScope* scope = all_scopes; scope; scope = scope->after_) {
    if (scope->log_ == nullptr || (innermost && scope != innermost)) continue;
    bool told = false;
    for (const LogScope* earlier = all_scopes; earlier != scope; earlier = earlier->after_)
      told |= !innermost && earlier->log_ == scope->log_ && earlier->user_ == scope->user_;
    if (!told) scope->log_(scope->user_, text.c_str());
  }
}

LogScope::LogScope(perigee_log_function log, void* user) noexcept : log_(log), user_(user), outer_(innermost), before_(nullptr) {
  static const bool installed = (set_warning_handler(&LogScope::deliver), true);
  static_cast<void>(installed);
  innermost = this;
  const std::lock_guard lock(all_scopes_mutex);
  after_ = all_scopes;
  if (after_) after_->before_ = this;
  all_scopes = this;
}

LogScope::~LogScope() {
  innermost = outer_;
  const std::lock_guard lock(all_scopes_mutex);
  if (after_) after_->before_ = before_;
  (before_ ? before_->after_ : all_scopes) = after_;
}

const char* Message::get() const {
  thread_local std::array<std::string, kMessagesKept> copies;
  thread_local size_t next = 0;
  std::string& copy = copies[next++ % copies.size()];
  const std::lock_guard lock(mutex_);
  copy = text_;
  return copy.c_str();
}

char* copy_text(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace perigee

using namespace perigee;

extern "C" {

const char* perigee_version() noexcept { return PERIGEE_VERSION; }

void perigee_free(void* memory) noexcept { std::free(memory); }

perigee_status perigee_context_create(const perigee_context_options* options, perigee_context** out) noexcept {
  if (!out) return PERIGEE_USAGE;
  *out = nullptr;
  Message nowhere;  // there is no handle yet that could hold it
  return guard(ContextState{}, nowhere, [&] {
    const auto given = read_struct(options, "perigee_context_create");
    require(given.threads >= 0 && given.threads <= 1024, "perigee_context_create", "threads must lie in 0 to 1024");
    auto context = std::make_unique<perigee_context>();
    context->state =
        std::make_shared<const ContextState>(ContextState{given.threads, given.log, given.log_user, given.device ? given.device : ""});
    *out = context.release();
  });
}

void perigee_context_free(perigee_context* context) noexcept { const std::unique_ptr<perigee_context> owned(context); }

const char* perigee_context_message(const perigee_context* context) noexcept { return context ? context->message.get() : ""; }
}
