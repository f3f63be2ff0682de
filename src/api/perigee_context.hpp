// The threads, device and warnings of trainers and models. Include perigee.hpp instead of this.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "perigee_handle.hpp"

namespace perigee::api {

struct context_options {
  int threads = 0;                                   // 0: the job's, or one per core
  std::function<void(const std::string&)> log = {};  // warnings; without it they are dropped
  std::string device = {};  // for trainers and models: "cuda:0", "auto"; empty: the job's, for models from files the CPU
};

// Trainers and models that are made without one have one of their own.
class context {
 public:
  explicit context(context_options given = {}) : shared_(std::make_shared<content>()) {
    shared_->log = std::move(given.log);
    perigee_context_options options{};
    options.size = sizeof options;
    options.threads = given.threads;
    if (shared_->log) options.log = [](void* user, const char* text) { static_cast<content*>(user)->log(text); };
    options.log_user = shared_.get();
    if (!given.device.empty()) options.device = given.device.c_str();
    perigee_context* made = nullptr;
    detail::check(perigee_context_create(&options, &made), "threads must lie in 0 to 1024");
    shared_->handle.reset(made);
  }
  perigee_context* get() const { return shared_->handle.get(); }
  void check(perigee_status status) const { detail::check(status, perigee_context_message(get())); }

 private:
  struct content {
    std::function<void(const std::string&)> log;
    detail::handle<perigee_context, perigee_context_free> handle;
  };
  std::shared_ptr<content> shared_;
};

}  // namespace perigee::api
