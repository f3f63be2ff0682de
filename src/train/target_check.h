// Targets that are names of classes, compared with what the job makes of them: mistakes that train without a complaint, and learn nothing.
#pragma once

#include <string>
#include <vector>

#include "src/data/source.h"
#include "src/model/model.h"

namespace perigee {

// Error(model) at `where` for a loss of amounts, such as mse, whose target is a column of classes: it would learn their numbers in the alphabet.
// Integers of which nothing says that they are classes pass.
void refuse_classes_as_amounts(const Model& model, const DataSource& source, const std::string& where);

// For warnings: outputs that stand for no class of the data, and data with a single class.
std::vector<std::string> lines_of_classes(const Model& model, const DataSource& source);

}  // namespace perigee
