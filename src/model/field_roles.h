// "data": {"lengths": {"x": "n"}, "masks": {"y": "m"}, "weights": "w"}: fields of the data that say how much others count. What a source says
// of its own fields (Field::role) holds where the job says nothing else.
#pragma once

#include "src/core/config.h"
#include "src/data/source.h"
#include "src/model/model.h"

namespace perigee {

// Adds them to the inputs, or the target roles, of `spec`, which has its inputs and targets. Error(model) when one is missing or does not fit.
void add_field_roles(const Config& data, const DataSource& source, ModelSpec* spec);

// Error(model) when the type of `role` cannot say which steps of the field `of` count, or how much.
void check_role(const NetworkInput& role, const NetworkInput& of, const std::string& where);

}  // namespace perigee
