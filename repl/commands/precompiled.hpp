// As src/precompiled.hpp, with the command line's library, which most subcommands include.
#include <CLI/App.hpp>

#include "src/precompiled.hpp"
