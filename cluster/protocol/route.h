// Tables of the messages that a state machine takes: a row is a type, a fence (which frames the machine believes at the moment) and the
// handler of the decoded message. A handler takes what it needs of (from, header, message, body), in that order; nothing may follow a
// message whose handler takes no body. One that returns bool says whether an honest peer sends such a message.
#pragma once

#include <span>
#include <type_traits>
#include <utility>

#include "cluster/protocol/frame.h"

namespace perigee {

// The outcome for a frame. unknown: the table has no such message.
enum class Received : uint8_t { taken, fenced, malformed, unknown };

template <class Self, class From, class Fence>
struct Route {
  MessageType type;
  Fence fence;
  bool (*take)(Self& self, From from, const FrameHeader& header, std::span<const std::byte> payload);  // false: malformed
};

namespace route_detail {

template <class Call>
bool sound(Call call) {
  if constexpr (std::is_same_v<decltype(call()), bool>) return call();
  else return call(), true;
}

template <class M, auto handler, class Self, class From>
bool take(Self& self, From from, const FrameHeader& header, std::span<const std::byte> payload) {
  using Handler = decltype(handler);
  using Body = std::span<const std::byte>;
  constexpr bool with_body =
      std::is_invocable_v<Handler, Self&, From, const FrameHeader&, M&, Body> || std::is_invocable_v<Handler, Self&, From, M&, Body>;
  M message;
  Body body;
  if (!decode(payload, &message, with_body ? &body : nullptr)) return false;
  return sound([&] {
    if constexpr (std::is_invocable_v<Handler, Self&, From, const FrameHeader&, M&, Body>)
      return (self.*handler)(from, header, message, body);
    else if constexpr (std::is_invocable_v<Handler, Self&, From, M&, Body>) return (self.*handler)(from, message, body);
    else if constexpr (std::is_invocable_v<Handler, Self&, From, const FrameHeader&, M&&>)
      return (self.*handler)(from, header, std::move(message));
    else if constexpr (std::is_invocable_v<Handler, Self&, From, M&&>) return (self.*handler)(from, std::move(message));
    else if constexpr (std::is_invocable_v<Handler, Self&, const FrameHeader&, M&&>) return (self.*handler)(header, std::move(message));
    else return (self.*handler)(std::move(message));
  });
}

}  // namespace route_detail

template <class M, auto handler, class Self, class From, class Fence>
constexpr Route<Self, From, Fence> route(Fence fence) {
  return {M::kType, fence, &route_detail::take<M, handler, Self, From>};
}

// `believes(fence)`: whether the frame may be taken; asked before the payload is decoded.
template <class Self, class From, class Fence, class Believes>
Received dispatch(std::span<const Route<Self, From, Fence>> routes, Self& self, From from, const FrameHeader& header,
                  std::span<const std::byte> payload, Believes believes) {
  for (const Route<Self, From, Fence>& route : routes) {
    if (route.type != header.type) continue;
    if (!believes(route.fence)) return Received::fenced;
    return route.take(self, from, header, payload) ? Received::taken : Received::malformed;
  }
  return Received::unknown;
}

}  // namespace perigee
