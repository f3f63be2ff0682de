// A text in memory as the source "documents" reads one from a file.
#pragma once

#include <string>
#include <string_view>

#include "src/data/source.h"

namespace perigee {

// `config`: the options of the source "documents" with its "fitted", of which 'file' is not read. One example, without a label.
SourcePtr document_source(const Config& config, std::string_view text, const std::string& where);

}  // namespace perigee
