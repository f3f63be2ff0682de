// Steps of a traced program that are several ops of the graph, because they depend on shapes that are known only when a network is built:
// indexing, einsum, triangles, axes that come and go. A program names them like ops.
#pragma once

#include <span>

#include "src/core/config.h"
#include "src/graph/graph.h"

namespace perigee {

struct ProgramForm {
  const char* name = nullptr;
  Schema attributes = {};
  int operands = 1;  // -1: any number from 1
  // Error(model), where empty, when the operands do not fit.
  Value (*build)(std::span<const Value> operands, const Config& attrs) = nullptr;
};

const ProgramForm* find_program_form(std::string_view name);  // null when there is none
std::span<const ProgramForm> program_forms();

}  // namespace perigee
