// The shim's module offers this to tests beyond a real module's interface: faults and counters.
#pragma once

namespace shim {

// Counts so far: kernels launched outside graphs; times that the host waited for a whole stream or a copy, for something queued
// earlier, for the last thing that was queued; graphs made.
struct Counters {
  long launches = 0, graph_launches = 0, waits = 0, event_waits = 0, newest_waits = 0, allocations = 0, graphs = 0;
};

}  // namespace shim

// `what`: "malloc" (the nth allocation from now fails), "launch" (the nth kernel that runs from now on spoils the device), "" (none).
extern "C" {
[[gnu::visibility("default")]] shim::Counters* shim_counters();
// From now on stand-ins of the op give a first element that is wrong by 1; "": none does.
[[gnu::visibility("default")]] void shim_spoil(const char* op);
[[gnu::visibility("default")]] void shim_fault(const char* what, long nth);
// Per stand-in, by "op/name": how long each of its algorithms takes by the device's clock, negative where it refuses, -3 where it spoils the
// device (no algorithms: all forget what they were told); how often one ran, "op/name#2" for one of its algorithms.
[[gnu::visibility("default")]] void shim_kernel(const char* way, const double* times_ms, int algorithms);
[[gnu::visibility("default")]] long shim_runs(const char* way);
}
