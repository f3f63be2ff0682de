// A text in memory as the source "text" reads it from files.
#pragma once

#include <string>
#include <string_view>

#include "src/data/source.h"

namespace perigee {

// `config`: the options of the source "text", of which 'file' is not read. `where` stands for the file in messages. The text is not needed
// afterwards.
SourcePtr text_source(const Config& config, std::string_view text, const std::string& where);

}  // namespace perigee
