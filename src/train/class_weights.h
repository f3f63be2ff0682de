// {"type": "cross_entropy", "class_weight": "balanced"}: weights of the classes by how often each comes in the training part.
#pragma once

#include "src/data/source.h"
#include "src/job/job.h"

namespace perigee {

// Puts the numbers into the losses of `job` that ask for them, as "weights": examples / (classes that come * examples of the class), as
// sklearn.utils.class_weight.compute_class_weight("balanced") has them, and 1 for a class that does not come. Reads every example once where one
// asks. Error(model), Error(data).
void balance_classes(Job& job, const DataSource& train);

}  // namespace perigee
