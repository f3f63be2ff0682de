// One tensor of the flat parameter block, as the optimiser sees it.
#pragma once

#include <string>

#include "src/core/json.h"
#include "src/core/row_update.h"
#include "src/tensor/shape.h"

namespace perigee {

enum class ParamRole : uint8_t { weight, bias, gain };  // only weights are regularised and decayed unless told otherwise

struct ParamWindow {
  using Role = ParamRole;

  std::string name;                  // "conv1.weight": of layer "conv1"
  int64_t offset = 0, elements = 0;  // in elements of the block
  Shape shape;
  ParamRole role = ParamRole::weight;
  bool trainable = true;
  double lr_scale = 1.0;
  Json regularization;  // null: the job's
  Json constraint;      // null: the job's
  RowUpdate rows = RowUpdate::dense;
};

}  // namespace perigee
