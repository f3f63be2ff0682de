// Places on the Earth as texts of latitude and longitude, and the middle of several.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace perigee::tables {

// The middle of places: where the mean of the vectors from the Earth's centre to them points.
class PlaceMean {
 public:
  // Degrees, "48.1,11.6", also with ; : or a blank between them. False: it is no place.
  bool add(std::string_view text);
  // As the first place was written; empty where there was none, or where the places are opposite each other.
  std::string result() const;

 private:
  double x_ = 0, y_ = 0, z_ = 0;
  int64_t count_ = 0;
  std::string between_;
};

}  // namespace perigee::tables
