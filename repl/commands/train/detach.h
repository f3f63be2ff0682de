// `perigee train --detach`: another process trains, in a session of its own, so that the terminal may be closed. This one shows what it prints until
// it trains, and says how to follow, steer and stop it.
#pragma once

#include <string>

namespace perigee {

// Starts this program with the same arguments but --detach. The exit code: 0 once it trains; its own when it ends before. Error(resources).
int train_detached();

// In the process that trains.
class Detached {
 public:
  Detached();  // of this process; `begins` does nothing where it was not started by train_detached()
  ~Detached();
  Detached(const Detached&) = delete;
  Detached& operator=(const Detached&) = delete;
  // The run trains and has a folder, where output.txt takes what is printed. Further calls do nothing.
  void begins(const std::string& folder);

 private:
  int tell_ = -1;
};

}  // namespace perigee
