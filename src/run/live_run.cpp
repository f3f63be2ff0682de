#include "src/run/live_run.h"

namespace perigee {

LiveRun::LiveRun(const Job& job, SessionOptions options, std::function<void()> wake)
    : WatchedRun(std::move(wake)), options_(std::move(options)), thread_([this, job] { thread_main(job); }) {}

LiveRun::~LiveRun() {
  stop();
  close();
  thread_.join();
}

void LiveRun::thread_main(const Job& job) {
  State state = State::failed;
  std::string error;
  try {
    options_.hook = &hook();
    session_ = std::make_unique<Session>(job, options_);
    begin(*session_);
    server_ = RunServer::open(*this, session_->folder());
    const Json last = session_->run(stop_flag());
    const Json* stopped = last.find("stopped");
    state = stopped && *stopped == Json("interrupted") ? State::stopped : State::finished;
  } catch (const std::exception& failure) {
    error = failure.what();
  }
  server_.reset();
  end(state, error);
  serve_until_closed();
}

}  // namespace perigee
