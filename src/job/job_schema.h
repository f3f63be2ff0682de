// The keys of a job and of its sections: the one list. Job checks against it; help, completion, annotations and JSON Schema come from it.
#pragma once

#include <string>
#include <string_view>

#include "src/core/schema.h"

namespace perigee {

extern const Schema job_schema, data_schema, checkpoint_schema, early_stopping_schema, plateau_schema, pretrained_schema, ema_schema,
    swa_schema, phase_schema, objective_schema, log_schema;

// How a key is written in a script, its value alone: "pg.adamw { lr = 1e-3 }"; null: there is no such key. `section` is "" for the top level.
const char* job_example(std::string_view section, std::string_view key);
// A key of `section` that holds something else than it takes is told with an example of what to write; other errors as they are.
Error with_example(const Error& error, std::string_view section);

// A key that older jobs have and that nothing ever read. `section` is "" for the top level.
bool has_no_effect(std::string_view section, std::string_view key);

// The path of what other programs call `name`, as "optimizer.lr" for "lr"; empty: nothing is known.
std::string setting_meant_by(std::string_view name);

}  // namespace perigee
