// A run on rented machines, seen by the one who starts it: writes what they need to a folder of the store, starts them, shows what machine 0
// prints, and sees to it that none is left. See CLOUD.md.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "cluster/cloud/cloud_folder.h"
#include "cluster/cloud/machines.h"

namespace perigee {

struct CloudRun {
  std::string region, store;       // the store: s3://bucket/path, below which the run's folder lies
  std::vector<std::string> words;  // "train", "lenet.lua", …
  std::vector<std::string> files;  // local ones that the words need; the script is one
  std::string package;             // a .deb or .whl that each machine installs; empty: their image has the program
  double hours = 24;               // after which each machine ends itself
  int port = 7700;
  MachineOrder order;  // without run, until and user_data

  CloudFolder folder() const { return CloudFolder(store + "/" + order.run); }
};

// Error(usage) for what cannot be meant; gives the run its name.
void check_cloud_run(CloudRun* run);
// A shell script that each machine runs when it starts: no secret is in it.
std::string user_data_of(const CloudRun& run);
// Policies of IAM, least rights: for the caller, and for the machines. `bucket`: "bucket/path" or "BUCKET".
std::string cloud_policy(const std::string& bucket, bool of_machines);

// The exit code of the training; `show` gets what machine 0 prints. Afterwards no machine is left, however it ends; Error(cluster) with their
// names when EC2 does not end them. `stop`: asks for a checkpoint, then ends.
int run_in_cloud(CloudRun run, Machines* machines, const std::function<void(std::string_view)>& show, const std::atomic<bool>& stop);

}  // namespace perigee
