// A confusion matrix as pixels: a cell for each pair of classes, with its count, as dark as its share of the row.
#pragma once

#include <string>
#include <vector>

namespace perigee {

struct MatrixChart {
  std::string title;
  std::vector<std::string> names;  // of the classes
  std::vector<double> counts;      // row after row: what is, then what was said
};

// The bytes of a PNG file. Letters beyond ASCII are shown as '?'. Error(resources).
std::string png_matrix(const MatrixChart& chart);

}  // namespace perigee
