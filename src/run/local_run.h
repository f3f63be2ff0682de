// A run of one process that another process of this machine trains, by its folder. Events come from its log, also those from before; questions
// and commands go over its socket (run_socket.h). A run that is over can be looked at too.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/run/run.h"
#include "src/run/run_file.h"
#include "src/run/run_socket.h"

namespace perigee {

class LocalRun final : public Run {
 public:
  // Error(usage) when there is no run in the folder.
  explicit LocalRun(std::string folder);

  bool has_workers() const override { return false; }
  Json progress_report(Cancel cancel) override;
  Json workers_report(const std::string& what, Cancel cancel) override;
  Json options_report(Cancel cancel) override;
  Json steer(const Json& command, Cancel cancel) override;
  std::vector<Json> take_events() override;
  void wait_for_events(std::chrono::milliseconds most, Cancel cancel) override;
  Json evaluate(const std::string& part, Cancel cancel) override;
  void save(const std::string& path, Cancel cancel) override;
  void with_session(const std::string& what, const std::function<void(Session&)>& work, Cancel cancel) override;  // always an Error

 private:
  void follow();
  void keep(Json event);
  std::string exchange(const std::string& line, Cancel cancel, std::chrono::milliseconds most);
  Json ask(const Json& request, Cancel cancel, std::chrono::milliseconds most = LineConnection::kForever);
  Json logged_progress() const;

  const std::string folder_;
  LogFollower log_;
  LineConnection connection_;
  std::vector<Json> events_;
  size_t steps_ = 0, every_ = 1;  // of the steps one in `every_` is kept
  std::string state_ = "training", error_;
  Json last_step_;
  bool told_over_ = false;
};

}  // namespace perigee
