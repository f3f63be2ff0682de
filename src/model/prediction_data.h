// Files given to `predict` as examples of a trained model: arrays, tables, images and texts, put through the transforms that its job
// applies to test data, with what was fitted on the training data.
#pragma once

#include <string>

#include "src/data/source.h"
#include "src/model/model_file.h"

namespace perigee {

// `path`: .npy (one example or several), .npz (an array per input), .csv, .jpg, .jpeg or .png; any other file is text to a
// model of text. The source has at least the model's
// inputs as fields. Error(usage) for other files, Error(data) when the content does not fit the model.
SourcePtr open_for_prediction(const LoadedModel& loaded, const std::string& path);

}  // namespace perigee
