#include "src/run/checkpoint_folder.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "src/core/warning.h"
#include "src/io/file.h"

namespace perigee {

namespace fs = std::filesystem;

std::string CheckpointFolder::file_of(int64_t step) const {
  char name[64];
  std::snprintf(name, sizeof name, "/step-%012lld.safetensors", static_cast<long long>(step));
  return folder_ + name;
}

void CheckpointFolder::set_aside_after(const std::string& newest) {
  for (const std::string& file : files()) {
    if (file <= newest) return;
    std::error_code failed;
    fs::rename(file, folder_ + "/void-" + fs::path(file).filename().string(), failed);
    if (failed) warn(file + " is of training that was given up, but cannot be renamed: " + failed.message());
  }
}

void CheckpointFolder::remove_old() {
  const std::vector<std::string> all = files();
  std::error_code ignored;  // an old file that stays is no fault
  for (size_t i = static_cast<size_t>(std::max(1, keep_)); i < all.size(); ++i) fs::remove(all[i], ignored);
}

// A process that was killed while it wrote left "<file>.tmp<process>.<number>" (write_file).
void CheckpointFolder::remove_temporaries() {
  if (std::exchange(swept_, true)) return;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const size_t at = name.find(".safetensors.tmp");
    if (at == std::string::npos) continue;
    const int process = std::atoi(name.c_str() + at + std::strlen(".safetensors.tmp"));
    std::error_code ignored;
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) fs::remove(entry->path(), ignored);
  }
}

std::string CheckpointFolder::written(std::string file) {
  set_aside_after(file);
  remove_old();
  remove_temporaries();
  return file;
}

std::string CheckpointFolder::save(const Trainer& trainer, const Json& extra) {
  std::string file = file_of(trainer.position().step);
  save_checkpoint(trainer, file, extra);
  return written(std::move(file));
}

std::string CheckpointFolder::add(const CheckpointSnapshot& snapshot) {
  std::string file = file_of(snapshot.step());
  snapshot.write(file);
  return written(std::move(file));
}

void CheckpointFolder::add_best(const CheckpointSnapshot& snapshot) { snapshot.write(best_file()); }

std::string CheckpointFolder::add(std::span<const std::byte> checkpoint, int64_t step) {
  std::string file = file_of(step);
  write_file(file, checkpoint);
  return written(std::move(file));
}

void CheckpointFolder::add_best(std::span<const std::byte> checkpoint) { write_file(best_file(), checkpoint); }

std::vector<std::string> CheckpointFolder::files() const {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".safetensors")) found.push_back(entry->path().string());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

std::string CheckpointFolder::resume(Trainer& trainer, Json* extra) {
  const std::vector<std::string> all = files();
  for (size_t i = 0; i < all.size(); ++i) {
    try {
      const Json back = load_checkpoint(trainer, all[i]);
      if (extra) *extra = back;
      return all[i];
    } catch (const Error& error) {
      if (i + 1 == all.size()) throw;
      warn(std::string(error.what()) + "; trying the checkpoint before it");
    }
  }
  return "";
}

CheckpointSchedule::CheckpointSchedule(const Config& options)
    : keep(static_cast<int>(options.integer_in("keep", 1, 1 << 20, 3))),
      every_epochs(options.integer_in("every_epochs", 0, int64_t{1} << 40, 1)),
      every_steps(options.integer_in("every_steps", 0, int64_t{1} << 52, 0)),
      every_seconds(options.number_in("every_seconds", 0, 1e12, 0)) {}

bool CheckpointSchedule::due_after_step(int64_t last, int64_t step, double seconds_since) const {
  return (every_steps > 0 && step / every_steps > last / every_steps) || (every_seconds > 0 && seconds_since >= every_seconds);
}

}  // namespace perigee
