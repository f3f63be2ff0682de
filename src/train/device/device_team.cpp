#include "src/train/device/device_team.h"

#include <algorithm>
#include <cassert>

namespace perigee {

DeviceTeam::DeviceTeam(GpuGroup& gpus, Model& model, const std::vector<Storage>* slots, PlanSet& plans, Optimizer& optimizer,
                       const DataSource& source, const std::vector<int>& fields, uint64_t seed, Tuning& tuning, const LossScale* scale,
                       size_t data_room, int64_t streams)
    : gpus_(gpus) {
  for (size_t i = 0; i < gpus.size(); ++i) {
    members_.push_back(
        std::make_unique<Member>(gpus[i], model, slots, plans, optimizer, source, fields, seed, tuning, scale, data_room, streams));
    if (gpus.size() > 1) members_.back()->step.join_team();
  }
  bind_sums();
  gpus_.first().select();
}

// Graphs that hold on to the group's sums go before those do. A gradient that was not fetched may still be on its way to the host, whose
// memory goes.
DeviceTeam::~DeviceTeam() {
  if (fetching_) gpus_.first().drain(gpus_.first().copies());
}

DeviceTeam::Member::Member(Gpu& gpu, Model& of, const std::vector<Storage>* slots, PlanSet& plans, Optimizer& optimizer,
                           const DataSource& source, const std::vector<int>& fields, uint64_t seed, Tuning& tuning, const LossScale* scale,
                           size_t data_room, int64_t streams)
    : model(gpu, of, slots, tuning), step(model, plans, optimizer, source, fields, seed, tuning, scale, data_room, streams) {}

// A failure on one GPU must not leave the others waiting for it.
template <class Act>
void DeviceTeam::all_or_none(Act act) {
  try {
    act();
  } catch (const std::exception&) {
    gpus_.abort();
    throw;
  }
  gpus_.first().select();
}

void DeviceTeam::bind_sums() {
  bucket_sums_.clear();
  state_sums_.clear();
  complete_.clear();
  arrived_.clear();
  const Params& params = members_[0]->model.model().params();
  if (buckets_.empty()) buckets_ = {{0, params.block_elements()}};
  gpus_.first().select();
  for (size_t b = 0; b < buckets_.size(); ++b) {
    complete_.push_back(gpus_.first().event());
    arrived_.push_back(gpus_.first().event());
  }
  if (alone()) return;
  const auto of_each = [&](auto address) {
    std::vector<void*> at;
    for (const auto& member : members_) at.push_back(address(member->step));
    return at;
  };
  for (const Optimizer::Range& bucket : buckets_)
    bucket_sums_.push_back(
        {{.at = of_each([&](DeviceStep& step) { return step.gradient() + static_cast<size_t>(bucket.begin) * params.width(); }),
          .elements = bucket.end - bucket.begin,
          .dtype = params.dtype()}});
  bucket_sums_.back().push_back({.at = of_each([](DeviceStep& step) { return step.shares(); }), .elements = 3, .dtype = Dtype::f64});
  for (const DeviceStep::StateRun& run : members_[0]->step.state_runs())
    state_sums_.push_back({.at = of_each([&](DeviceStep& step) { return step.shared_states() + run.shared; }),
                           .elements = run.elements,
                           .dtype = run.sum_dtype()});
}

std::vector<DeviceModel*> DeviceTeam::models() {
  std::vector<DeviceModel*> models;
  for (const auto& member : members_) models.push_back(&member->model);
  return models;
}

void DeviceTeam::reserve(size_t bytes) {
  for (const auto& member : members_) member->model.arena().reserve(bytes);
  gpus_.first().select();
}

void DeviceTeam::host_changed() {
  for (const auto& member : members_) member->model.host_changed();
}

void DeviceTeam::host_changed_states() {
  for (const auto& member : members_) member->model.host_changed_states();
}

void DeviceTeam::host_changed_slots() {
  for (const auto& member : members_) member->model.host_changed_slots();
}

void DeviceTeam::rows_to_host(CarriedRows& rows) {
  const auto count = static_cast<int64_t>(size());
  for (int64_t i = 0; i < count; ++i) {
    DeviceStep& step = members_[static_cast<size_t>(i)]->step;
    const int64_t first = rows.rows() * i / count;
    step.gpu().select();
    step.rows()->to_host(first, rows.rows() * (i + 1) / count - first, rows);
  }
  gpus_.first().select();
}

void DeviceTeam::rows_to_device(const CarriedRows& rows) {
  for (const auto& member : members_) {
    member->step.gpu().select();
    member->step.rows()->to_device(rows);
  }
  gpus_.first().select();
}

bool DeviceTeam::resident() const {
  return std::all_of(members_.begin(), members_.end(), [](const auto& member) { return member->step.resident(); });
}

void DeviceTeam::prepare(int64_t examples) {
  const auto most = static_cast<int64_t>(size());
  for (const auto& member : members_) member->step.prepare((examples + most - 1) / most);
  gpus_.first().select();
}

// On the first GPU, for all: they are of one kind.
int DeviceTeam::measure(const Batch& batch, const StepInfo& info) {
  const auto count = static_cast<int64_t>(size());
  return members_[0]->step.measure(batch, info, (batch.size + count - 1) / count);
}

void DeviceTeam::check_kernels() {
  for (const auto& member : members_) member->step.check_kernels();
}

void DeviceTeam::choose_kernels_again() {
  for (const auto& member : members_) member->step.choose_kernels_again();
}

void DeviceTeam::set_loss_scale(const LossScale& scale) {
  for (const auto& member : members_) member->step.set_loss_scale(scale);
  gpus_.first().select();
}

void DeviceTeam::cut(const std::vector<Optimizer::Range>& buckets) {
  buckets_ = buckets;
  for (const auto& member : members_) member->step.cut(buckets);
  bind_sums();
}

void DeviceTeam::begin(Part part, const Batch& batch, const StepInfo& info) {
  const auto count = static_cast<int64_t>(size());
  for (int64_t i = 0; i < count; ++i) {
    DeviceStep::Share share;
    if (part != Part::update) {
      share.first = batch.size * i / count;
      share.examples = batch.size * (i + 1) / count - share.first;
      if (!alone()) share.of = batch.size;
    }
    members_[static_cast<size_t>(i)]->step.begin(part, batch, share, info);
  }
}

void DeviceTeam::run(Part part) {
  DeviceStep& first = members_[0]->step;
  const size_t sections = first.sections();
  const bool together = part == Part::whole && gpus_.can_be_captured(), blocking = first.blocking();
  const size_t graphs = together ? 1 : sections;
  if (blocking || !std::all_of(members_.begin(), members_.end(), [&](const auto& member) { return member->step.has_graphs(graphs); })) {
    for (const auto& member : members_) member->step.describe();
    const bool branched = !blocking && first.prefers_branches();  // they are of one kind
    if (blocking) queue_sections(part);
    else if (together) capture_together(branched);
    else
      for (const auto& member : members_) member->step.capture_sections(branched);
  }
  if (!blocking && together)
    for (const auto& member : members_) member->step.launch(0);
  for (size_t section = 0; section < sections && !blocking && !together; ++section) {
    for (const auto& member : members_) member->step.launch(section);
    sum_after(part, section);
  }
  for (const auto& member : members_) member->step.end();
}

// One graph of each GPU, all captured at once: a sum belongs to the graphs of all.
void DeviceTeam::capture_together(bool branched) {
  std::vector<std::vector<GroupSum>> sums = bucket_sums_;
  if (!state_sums_.empty()) sums.push_back(state_sums_);
  gpus_.connect(sums);
  // Before the capture: branches come with memory, which is waited for.
  std::vector<std::vector<DeviceWork>> work;
  std::vector<std::unique_ptr<BranchedCapture>> captures;
  for (size_t i = 0; i < size(); ++i) work.push_back(work_with_sums(i, sums));
  for (size_t i = 0; i < size(); ++i) {
    GpuBranches& branches = members_[i]->step.branches(branched);
    captures.push_back(std::make_unique<BranchedCapture>(branches, work[i], branched ? branches.count() : 1, gpus_.beside(i)));
  }
  const CudaModule& module = gpus_.first().module();
  const auto stream = [&](size_t i) { return gpus_[i].queue().stream; };
  size_t begun = 0;
  try {
    for (; begun < size(); ++begun) {
      gpus_[begun].select();
      gpus_[begun].check(module.begin_capture(stream(begun)), "begin a graph");
    }
    queue_whole(sums, captures);
  } catch (const std::exception&) {
    for (size_t i = 0; i < begun; ++i) module.end_capture(stream(i), nullptr);
    throw;
  }
  std::vector<GpuHandle> graphs;
  int failed = 0;
  size_t where = 0;
  for (size_t i = 0; i < size(); ++i) {
    gpus_[i].select();
    void* graph = nullptr;
    const int status = module.end_capture(stream(i), &graph);
    graphs.emplace_back(graph, module.destroy_graph);
    if (status != 0 && failed == 0) failed = status, where = i;
  }
  gpus_[where].check(failed, "make a graph of a step");
  for (size_t i = 0; i < size(); ++i) members_[i]->step.add_graph(std::move(graphs[i]));
}

// A whole step of each GPU with its sums: each begins as soon as what it adds up is there, and only what needs it waits for it. All GPUs
// come to the sums in the same order.
void DeviceTeam::queue_whole(const std::vector<std::vector<GroupSum>>& sums,
                             const std::vector<std::unique_ptr<BranchedCapture>>& captures) {
  for (size_t sum = 0; sum <= sums.size(); ++sum) {
    for (size_t i = 0; i < size(); ++i) {
      gpus_[i].select();
      const bool meets = captures[i]->advance();
      assert(meets == (sum < sums.size()));
      static_cast<void>(meets);
    }
    if (sum < sums.size()) gpus_.queue_sums(sums[sum]);
  }
}

// Section i is followed by sum i, those of the states by the rest of the step.
std::vector<DeviceWork> DeviceTeam::work_with_sums(size_t gpu, const std::vector<std::vector<GroupSum>>& sums) const {
  const DeviceStep& step = members_[gpu]->step;
  std::vector<DeviceWork> work;
  for (size_t section = 0; section < step.sections(); ++section) {
    work.insert(work.end(), step.section(section).begin(), step.section(section).end());
    if (section >= sums.size()) continue;
    DeviceWork& piece = work.emplace_back();
    piece.what = "a sum over the GPUs";
    piece.access.apart = true;
    for (const GroupSum& sum : sums[section]) {
      const size_t bytes = static_cast<size_t>(sum.elements) * dtype_bytes(sum.dtype);
      piece.access.write(range_of(sum.at[gpu], bytes));
      piece.access.cost += static_cast<double>(bytes) / 2e5;  // a link has about a tenth of a memory's rate
    }
  }
  return work;
}

// Op by op, each waited for.
void DeviceTeam::queue_sections(Part part) {
  const size_t sections = members_[0]->step.sections();
  for (size_t section = 0; section < sections; ++section) {
    for (const auto& member : members_) member->step.queue_section(section);
    sum_after(part, section);
    wait("add up what the GPUs computed");
  }
}

// Sums run beside what is queued next, until the section that needs them.
void DeviceTeam::sum_after(Part part, size_t section) {
  if (part == Part::update) return;
  const bool last_bucket = section + 1 == buckets_.size();
  if (section < buckets_.size()) {
    if (!alone()) gpus_.add_up(bucket_sums_[section]);
    if (fetching_) fetch(section);
    if (last_bucket && !alone()) gpus_.join();
  } else if (section == buckets_.size() && part == Part::whole && !state_sums_.empty()) {
    gpus_.add_up(state_sums_);
    gpus_.join();
  }
}

void DeviceTeam::queue(const Batch& batch, const StepInfo& info) {
  if (alone()) return members_[0]->step.queue(batch, info);
  assert(batch.size > 0);
  all_or_none([&] {
    begin(Part::whole, batch, info);
    run(Part::whole);
  });
}

void DeviceTeam::wait(const std::string& doing) {
  if (alone()) return gpus_.first().wait();
  gpus_.wait(doing);
}

DeviceReport DeviceTeam::take() {
  if (alone()) return members_[0]->step.take();
  events_.clear();
  for (const auto& member : members_) events_.push_back(member->step.done());
  gpus_.wait(events_, "finish a step");
  for (size_t i = 1; i < size(); ++i) members_[i]->step.taken();
  gpus_.first().select();
  return members_[0]->step.taken();
}

std::string DeviceTeam::find_non_finite() {
  std::string found;
  for (size_t i = 0; i < size() && found.empty(); ++i) found = members_[i]->step.find_non_finite();
  gpus_.first().select();
  return found;
}

void DeviceTeam::forget_in_flight() {
  if (!alone()) wait("finish what was queued");
  for (const auto& member : members_) member->step.forget_in_flight();
  gpus_.first().select();
}

DeviceReport DeviceTeam::compute(const Batch& batch, const StepInfo& info) {
  if (alone()) return members_[0]->step.compute(batch, info);
  if (batch.size == 0) {
    for (const auto& member : members_) member->step.compute(batch, info);
    gpus_.first().select();
    return {};
  }
  all_or_none([&] {
    begin(Part::compute, batch, info);
    run(Part::compute);
  });
  return end_compute();
}

DeviceReport DeviceTeam::end_compute() {
  fetching_ = false;
  const DeviceReport report = take();
  if (!report.finite)
    for (const auto& member : members_) member->step.forget_in_flight();
  gpus_.first().select();
  return report;
}

void DeviceTeam::start_compute(const Batch& batch, const StepInfo& info) {
  assert(batch.size > 0 && in_flight() == 0);
  if (!fetched_) fetched_ = gpus_.first().allocate_pinned(members_[0]->model.model().params().block_bytes());
  fetching_ = true;
  all_or_none([&] {
    begin(Part::compute, batch, info);
    run(Part::compute);
  });
}

// Behind the bucket's sum, on the stream for copies.
void DeviceTeam::fetch(size_t bucket) {
  Gpu& gpu = gpus_.first();
  const CudaModule& module = gpu.module();
  const size_t width = members_[0]->model.model().params().width(), begin = static_cast<size_t>(buckets_[bucket].begin) * width;
  gpu.select();
  gpu.check(module.record_event(complete_[bucket].get(), alone() ? gpu.queue().stream : gpus_.beside(0)), "record an event");
  gpu.check(module.stream_waits(gpu.copies(), complete_[bucket].get()), "wait for a gradient");
  gpu.queue_download(static_cast<std::byte*>(fetched_.get()) + begin, members_[0]->step.gradient() + begin,
                     static_cast<size_t>(buckets_[bucket].end) * width - begin, gpu.copies());
  gpu.check(module.record_event(arrived_[bucket].get(), gpu.copies()), "record an event");
}

const std::byte* DeviceTeam::bucket(size_t bucket) {
  gpus_.wait_for(0, arrived_[bucket].get(), "fetch a gradient");
  return static_cast<const std::byte*>(fetched_.get()) +
         static_cast<size_t>(buckets_[bucket].begin) * members_[0]->model.model().params().width();
}

void DeviceTeam::divide_gradient(double by) {
  for (const auto& member : members_) member->step.divide_gradient(by);
  gpus_.first().select();
}

void DeviceTeam::keep_sums() {
  for (const auto& member : members_) member->step.keep_sum();
  gpus_.first().select();
}

void DeviceTeam::add_to_sum(bool first, bool last) {
  all_or_none([&] {
    for (const auto& member : members_) member->step.add_to_sum(first, last);
  });
}

void DeviceTeam::update(const std::byte* gradient) {
  if (alone()) {
    members_[0]->step.update(gradient);
    norm_ = members_[0]->step.gradient_norm();
    return;
  }
  const size_t bytes = members_[0]->model.model().params().block_bytes();
  all_or_none([&] {
    for (const auto& member : members_) {
      if (!gradient) break;
      member->step.gpu().select();
      member->step.gpu().queue_upload(member->step.gradient(), gradient, bytes);
    }
    begin(Part::update, {}, {});
    run(Part::update);
  });
  norm_ = take().gradient_norm;
}

void DeviceTeam::commit_states() {
  if (alone()) return members_[0]->step.commit_states();
  all_or_none([&] {
    bool any = false;
    for (const auto& member : members_) any = member->step.queue_commit(false);
    if (!any) return;
    gpus_.add_up(state_sums_);
    gpus_.join();
    for (const auto& member : members_) member->step.queue_commit(true);
  });
  wait("commit states");
}

size_t DeviceTeam::bytes() const {
  size_t sum = 0;
  for (const auto& member : members_) sum += member->step.bytes();
  return sum;
}

std::vector<DeviceTaken> DeviceTeam::taken() const {
  std::vector<DeviceTaken> of_each;
  for (size_t i = 0; i < size(); ++i) {
    const DeviceStep& step = members_[i]->step;
    of_each.push_back({.device = step.gpu().name(), .peak = step.bytes(), .of_sums = gpus_.bytes_of_sums(i)});
    of_each.back().of_others = step.bytes_of_others() - std::min(step.bytes_of_others(), of_each.back().of_sums);
  }
  gpus_.first().select();
  return of_each;
}

DeviceMemory DeviceTeam::memory() const {
  DeviceMemory held = members_[0]->step.memory();
  held.sums = gpus_.scratch();
  return held;
}

}  // namespace perigee
