// Sparse rows as SVMLight and LIBSVM write them: "1 qid:3 1:0.5 7:2 # a comment". Columns f1, f2, ... (f0 where a row has 0), what a row leaves out
// is 0; then qid, where rows have it, and last the label, so that it is the target unless another is named.
#pragma once

#include <memory>

#include "src/data/table/columnar/columnar.h"

namespace perigee::tables {

std::unique_ptr<ColumnarFile> open_svmlight(const ColumnarInput& input);

}  // namespace perigee::tables
