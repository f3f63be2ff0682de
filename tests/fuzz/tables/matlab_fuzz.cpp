// MATLAB's files of version 5.
#include "tests/fuzz/tables/table_reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { return perigee::tables::fuzz_table(data, size, "input.mat"); }
