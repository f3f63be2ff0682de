// One of the machines of `perigee cloud up`: it finds its place among them, trains, tells what happens in the run's folder of the store, and
// leaves when AWS takes it back. The folder has: run.json (words, machines, files, port), secret, files/, coordinator (address of machine 0),
// log/NUMBER (pieces of machine 0's output), result (machine 0's exit code), failed-NUMBER (of the others), stop (the caller asks to end).
#pragma once

#include <string>

namespace perigee {

// `folder`: s3://bucket/path of the run. The exit code of the training. Error(usage) when this is no machine of AWS.
int run_cloud_machine(const std::string& folder);

}  // namespace perigee
