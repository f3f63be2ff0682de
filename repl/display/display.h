// The output while training runs: a live view on a terminal, plain lines elsewhere, JSON Lines on request.
#pragma once

#include <memory>
#include <string>

#include "src/core/json.h"

namespace perigee {

class Display {
 public:
  virtual ~Display() = default;
  virtual void event(const Json& event) = 0;
  virtual void warning(const std::string& text) = 0;
};

enum class DisplayKind { automatic, pretty, plain, json };

// `automatic` is pretty on a terminal and plain elsewhere. NO_COLOR and TERM=dumb are heeded.
// `watches`: another process trains, which Ctrl-C does not stop.
std::unique_ptr<Display> make_display(DisplayKind kind, bool watches = false);

// "pretty", "plain" or "json", as --log has it. Error(usage).
DisplayKind display_kind(const std::string& log);

// "3:07", "1:02:45"; "?" when negative.
std::string duration_text(double seconds);
// "431,080"
std::string grouped(int64_t number);

}  // namespace perigee
