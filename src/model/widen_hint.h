// How a network gets as many outputs as the data have classes.
#pragma once

#include <cstdint>
#include <string>

#include "src/model/model.h"

namespace perigee {

// For errors: "give layer 'dense2' 3 outputs: pg.dense { 3 }", which makes `outputs` of the network `classes`, or more where that is 0.
std::string widen_hint(const Model& model, int64_t outputs, int64_t classes);

}  // namespace perigee
