// Numbers with units on the command line: "1Gbit", "2ms", "1h".
#pragma once

#include <string>

namespace perigee {

// "100Mbit", "1.5Gbit/s", "10MB/s", "inf" -> bits per second. Error(usage) that names `option`.
double parse_bandwidth(const std::string& text, const std::string& option);
// "200us", "2ms", "30s", "15min", "1h", "2d" -> seconds.
double parse_duration(const std::string& text, const std::string& option);

std::string bandwidth_text(double bits_per_s);  // "100 Mbit/s"
std::string span_text(double seconds);          // "2.5 ms", "12.3 s", "1:02:45"
std::string amount_text(double bytes);          // "10.2 MB", decimal as networks are

}  // namespace perigee
