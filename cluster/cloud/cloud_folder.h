// The folder of a run on rented machines, by which they and the caller talk. See CLOUD.md.
#pragma once

#include <string>

namespace perigee {

// Names in the folder where a machine works, which no file of the run may have.
inline constexpr const char* kSecretFile = "secret";
inline constexpr const char* kOutputFile = "output.txt";

class CloudFolder {
 public:
  explicit CloudFolder(std::string address) : address_(std::move(address)) {}
  const std::string& address() const { return address_; }
  std::string order() const { return address_ + "/run.json"; }
  std::string file(const std::string& name) const { return address_ + "/files/" + name; }
  std::string secret() const { return address_ + "/secret"; }
  std::string coordinator() const { return address_ + "/coordinator"; }  // address of machine 0
  std::string output(int piece) const;                                   // of machine 0, from 1 on
  std::string result() const { return address_ + "/result"; }            // machine 0's exit code, and why it could not begin
  std::string failed(int machine) const { return address_ + "/failed-" + std::to_string(machine); }  // another's
  std::string stop() const { return address_ + "/stop"; }                                            // the caller asks to end
  std::string run() const { return address_ + "/run"; }                                              // of --out

 private:
  std::string address_;
};

// The text of a small file of a store; empty: there is none.
std::string text_in_store(const std::string& path);

}  // namespace perigee
