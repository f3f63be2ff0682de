// One of the machines of `perigee cloud up`: it finds its place among them, trains, tells what happens in the run's folder (cloud_folder.h), and
// leaves when AWS takes it back.
#pragma once

#include <string>

namespace perigee {

// `address`: of the run's folder, s3://bucket/path. The exit code of the training. Error(usage) when this is no machine of AWS.
int run_cloud_machine(const std::string& address);

}  // namespace perigee
