// Capture and graphs, with CUDA's rules: a call that a capture does not allow invalidates it, from any thread, and all later calls fail.
#include <algorithm>
#include <utility>

#include "tests/cuda/shim/state.h"

namespace shim {
namespace {

std::vector<std::weak_ptr<Capture>> captures;  // that were begun

template <class Act>
void for_each_capture(Act act) {
  std::erase_if(captures, [](const std::weak_ptr<Capture>& capture) { return capture.expired() || capture.lock()->ended; });
  for (const std::weak_ptr<Capture>& capture : captures) act(*capture.lock());
}

// The dependencies of the next node of a captured stream.
void come_after(CUstream_st* stream, const std::vector<size_t>& nodes) {
  stream->tail.insert(stream->tail.end(), nodes.begin(), nodes.end());
  std::sort(stream->tail.begin(), stream->tail.end());
  stream->tail.erase(std::unique(stream->tail.begin(), stream->tail.end()), stream->tail.end());
}

void join(CUstream_st* stream, const std::shared_ptr<Capture>& capture) {
  stream->capture = capture;
  stream->tail.clear();
  capture->streams.push_back(stream);
}

}  // namespace

cudaError_t spoil(Capture& capture, cudaError_t status) {
  capture.invalid = true;
  return say(status);
}

cudaError_t unsafe_call() {
  cudaError_t status = cudaSuccess;
  for_each_capture([&](Capture& capture) {
    const bool ours = capture.thread == std::this_thread::get_id();
    if (capture.mode == cudaStreamCaptureModeGlobal || (ours && capture.mode == cudaStreamCaptureModeThreadLocal))
      status = spoil(capture, cudaErrorStreamCaptureUnsupported);
  });
  return status;
}

cudaError_t null_stream_call() {
  cudaError_t status = cudaSuccess;
  for_each_capture([&](Capture& capture) {
    if (std::any_of(capture.streams.begin(), capture.streams.end(), [](const CUstream_st* stream) { return stream->blocking; }))
      status = spoil(capture, cudaErrorStreamCaptureImplicit);
  });
  return status;
}

cudaError_t look_at(const CUevent_st* event) {
  if (event->capture != nullptr) return spoil(*event->capture, cudaErrorCapturedEvent);
  return unsafe_call();
}

cudaError_t look_at(const CUstream_st* stream) {
  if (stream->capture != nullptr) return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  return unsafe_call();
}

cudaError_t add_node(CUstream_st* stream, Graph::Node node) {
  Capture& capture = *stream->capture;
  if (capture.invalid) return say(cudaErrorStreamCaptureInvalidated);
  node.after = stream->tail;
  capture.graph.nodes.push_back(std::move(node));
  stream->tail = {capture.graph.nodes.size() - 1};
  return cudaSuccess;
}

bool may_overlap(const CUstream_st* stream) { return stream->tail.size() == 1 && stream->capture->graph.nodes[stream->tail[0]].own; }

cudaError_t record_in_capture(CUevent_st* event, CUstream_st* stream) {
  if (stream->capture->invalid) return say(cudaErrorStreamCaptureInvalidated);
  event->capture = stream->capture;
  event->nodes = stream->tail;
  return say(cudaSuccess);
}

// A stream that waits for an event of a capture becomes part of it. Otherwise inside and outside do not wait for each other.
cudaError_t wait_in_capture(CUstream_st* stream, CUevent_st* event) {
  if (event->capture == nullptr) return spoil(*stream->capture, cudaErrorStreamCaptureIsolation);
  if (event->capture->ended) return say(cudaErrorCapturedEvent);
  if (event->capture->invalid) return say(cudaErrorStreamCaptureInvalidated);
  if (stream->capture == nullptr) join(stream, event->capture);
  if (stream->capture != event->capture) {
    spoil(*stream->capture, cudaErrorStreamCaptureMerge);
    return spoil(*event->capture, cudaErrorStreamCaptureMerge);
  }
  come_after(stream, event->nodes);
  return say(cudaSuccess);
}

}  // namespace shim

using namespace shim;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(mutex);
  if (stream == nullptr) return say(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != nullptr) return spoil(*stream->capture, cudaErrorIllegalState);
  const auto capture = std::make_shared<Capture>();
  static unsigned long long number = 0;
  capture->id = ++number;
  capture->mode = mode, capture->thread = std::this_thread::get_id();
  captures.push_back(capture);
  join(stream, capture);
  return say(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex);
  *graph = nullptr;
  if (stream == nullptr || stream->capture == nullptr) return say(cudaErrorIllegalState);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->streams[0] != stream) return spoil(*capture, cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return spoil(*capture, cudaErrorStreamCaptureWrongThread);
  const bool whole = capture->graph.all_before(stream->tail);
  for (CUstream_st* of : std::exchange(capture->streams, {})) of->capture = nullptr;
  capture->ended = true;
  CUgraph_st captured = std::move(capture->graph);
  if (capture->invalid) return say(cudaErrorStreamCaptureInvalidated);
  if (!whole) return say(cudaErrorStreamCaptureUnjoined);
  *graph = std::make_unique<CUgraph_st>(std::move(captured)).release();
  return say(cudaSuccess);
}

namespace {

// A node by its number.
CUgraphNode_st* handle_of(size_t node) { return reinterpret_cast<CUgraphNode_st*>(node + 1); }

}  // namespace

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges, size_t* count) {
  const std::lock_guard lock(mutex);
  if (stream == nullptr || graph != nullptr) return say(cudaErrorInvalidValue);
  *status = cudaStreamCaptureStatusNone;
  if (stream->capture == nullptr) return say(cudaSuccess);
  *status = stream->capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  stream->told.clear();
  for (const size_t node : stream->tail) stream->told.push_back(handle_of(node));
  *id = stream->capture->id, *nodes = stream->told.data(), *edges = nullptr, *count = stream->told.size();
  return say(cudaSuccess);
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* edges, size_t* count) {
  size_t found = 0;
  for (size_t i = 0; i < graph->nodes.size(); ++i)
    for (const size_t before : graph->nodes[i].after) {
      if (from != nullptr && found < *count) {
        from[found] = handle_of(before), to[found] = handle_of(i);
        const auto type = graph->nodes[i].overlaps ? cudaGraphDependencyTypeProgrammatic : cudaGraphDependencyTypeDefault;
        edges[found] = {.from_port = graph->nodes[i].overlaps, .type = static_cast<unsigned char>(type)};
      }
      ++found;
    }
  *count = from != nullptr ? std::min(found, *count) : found;
  return say(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = std::make_unique<CUgraphExec_st>(*graph).release();
  ++counters.graphs;
  return say(cudaSuccess);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes != nullptr) return say(cudaErrorInvalidValue);
  *count = graph->nodes.size();
  return say(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::unique_ptr<CUgraph_st> dropped(graph);
  return say(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const std::unique_ptr<CUgraphExec_st> dropped(exec);
  return say(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (lost[stream->device] != cudaSuccess) return say(lost[stream->device]);
  if (stream->capture != nullptr) return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  ++counters.graph_launches;
  for (const auto& node : exec->nodes)
    if (node.meeting != nullptr) node.meeting->members[node.member].queued.push_back(stream);
  return push(stream, {.graph = std::make_shared<GraphRun>(*exec)});
}
