// perigee.h: sequences that a model reads in pieces.
#include "src/api/handles.h"
#include "src/tensor/bytes.h"

using namespace perigee;

struct perigee_session {
  std::shared_ptr<const ContextState> context;
  mutable Message message;
  std::mutex mutex;
  std::unique_ptr<StepSession> session;
};

namespace {

constexpr int64_t kMostRows = StepModel::kMostRows, kMostSteps = StepModel::kMostSteps;

size_t state_bytes(CarriedRows& state) {
  size_t bytes = 0;
  for (size_t i = 0; i < state.specs().size(); ++i) bytes += state.now(i).size();
  return bytes;
}

void check_state(perigee_session& handle, const void* data, size_t byte_count, const char* function) {
  require(data != nullptr, function, "data must not be null");
  const size_t wanted = state_bytes(handle.session->state());
  if (byte_count != wanted)
    misuse(function, "the memory has another size than the state", std::to_string(byte_count), std::to_string(wanted));
}

template <class Work>
perigee_status in_turn(perigee_session* handle, Work&& work) noexcept {
  if (!handle) return PERIGEE_USAGE;
  return guard(*handle->context, handle->message, [&] {
    const std::lock_guard lock(handle->mutex);
    work();
  });
}

}  // namespace

extern "C" {

perigee_status perigee_session_open(perigee_model* model, int64_t rows, perigee_session** out) noexcept {
  if (out) *out = nullptr;
  if (!model) return PERIGEE_USAGE;
  return guard(*model->context, model->message, [&] {
    constexpr const char* kHere = "perigee_session_open";
    require(out != nullptr, kHere, "out must not be null");
    if (rows < 1 || rows > kMostRows) misuse(kHere, "rows is out of range", std::to_string(rows), "1 to " + std::to_string(kMostRows));
    auto handle = std::make_unique<perigee_session>();
    handle->context = model->context;
    const std::lock_guard lock(model->turns());
    const auto in_use = model->in_use();
    handle->session = std::make_unique<StepSession>(StepModel::shared(model->step, model->model(), rows));
    *out = handle.release();
  });
}

void perigee_session_free(perigee_session* session) noexcept { const std::unique_ptr<perigee_session> owned(session); }

const char* perigee_session_message(const perigee_session* session) noexcept { return session ? session->message.get() : ""; }

perigee_status perigee_session_step(perigee_session* session, const void* x, int64_t steps, void* y, size_t byte_count) noexcept {
  return in_turn(session, [&] {
    constexpr const char* kHere = "perigee_session_step";
    require(x != nullptr && y != nullptr, kHere, "x and y must not be null");
    if (steps < 1 || steps > kMostSteps)
      misuse(kHere, "steps is out of range", std::to_string(steps), "1 to " + std::to_string(kMostSteps));
    const StepModel& model = session->session->model();
    const size_t each = byte_size(model.output()) * static_cast<size_t>(model.rows());
    if (byte_count / each < static_cast<size_t>(steps))
      misuse(kHere, "the memory for the output is too small", std::to_string(byte_count) + " bytes",
             std::to_string(steps) + " x " + std::to_string(each));
    session->session->step(x, steps, y);
  });
}

size_t perigee_session_memory_count(const perigee_session* session) noexcept {
  return session ? session->session->model().memory().size() : 0;
}

const char* perigee_session_memory_name(const perigee_session* session, size_t i) noexcept {
  if (!session || i >= session->session->model().memory().size()) return nullptr;
  return session->session->model().memory()[i].name.c_str();
}

perigee_status perigee_session_remember(perigee_session* session, size_t i, const void* data, size_t byte_count) noexcept {
  return in_turn(session, [&] {
    constexpr const char* kHere = "perigee_session_remember";
    require(data != nullptr, kHere, "data must not be null");
    const size_t count = session->session->model().memory().size();
    if (i >= count) misuse(kHere, "the model has no such memory", std::to_string(i), "less than " + std::to_string(count));
    const size_t wanted = byte_size(session->session->memory_type(i));
    if (byte_count != wanted)
      misuse(kHere, "the data has another size than the input", std::to_string(byte_count), std::to_string(wanted) + " bytes");
    session->session->remember(i, data);
  });
}

perigee_status perigee_session_clear(perigee_session* session) noexcept {
  return in_turn(session, [&] { session->session->clear(); });
}

size_t perigee_session_state_bytes(const perigee_session* session) noexcept { return session ? state_bytes(session->session->state()) : 0; }

perigee_status perigee_session_read_state(perigee_session* session, void* data, size_t byte_count) noexcept {
  return in_turn(session, [&] {
    check_state(*session, data, byte_count, "perigee_session_read_state");
    auto* to = static_cast<std::byte*>(data);
    CarriedRows& state = session->session->state();
    for (size_t i = 0; i < state.specs().size(); ++i) to = std::ranges::copy(state.now(i), to).out;
  });
}

perigee_status perigee_session_write_state(perigee_session* session, const void* data, size_t byte_count) noexcept {
  return in_turn(session, [&] {
    check_state(*session, data, byte_count, "perigee_session_write_state");
    const auto* from = static_cast<const std::byte*>(data);
    CarriedRows& state = session->session->state();
    for (size_t i = 0; i < state.specs().size(); ++i) {
      std::memcpy(state.now(i).data(), from, state.now(i).size());
      from += state.now(i).size();
    }
  });
}
}
