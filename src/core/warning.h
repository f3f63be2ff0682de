// Something the user should know that stops nothing.
#pragma once

#include <functional>
#include <string>

namespace perigee {

using WarningHandler = std::function<void(const std::string& text)>;

// Hands `text` to the handler; without one, prints "warning: ..." to standard error. Any thread.
void warn(const std::string& text);
// Installs a handler (empty: none) and returns the one before it. The handler must not throw.
WarningHandler set_warning_handler(WarningHandler handler);

}  // namespace perigee
