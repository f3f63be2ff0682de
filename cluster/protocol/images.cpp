#include "cluster/protocol/images.h"

#include <algorithm>
#include <cassert>

namespace perigee {

bool ImageSender::add(PeerId peer, const FrameHeader& header, Image first, SharedBytes bytes) {
  assert(peer != 0 && first.offset == 0);
  if (transfers_.size() >= most_) return false;
  first.total = bytes ? bytes->size() : 0;
  Transfer transfer{peer, header, std::move(first), std::move(bytes)};
  transfer.header.round = transfer.image.round;
  if (!push(transfer)) transfers_.push_back(std::move(transfer));
  return true;
}

// A piece was taken: the one before it has left by now.
void ImageSender::adapt(Transfer& transfer) const {
  constexpr uint64_t kLongNs = 100'000'000, kShortNs = 25'000'000;
  const uint64_t now = clock_.now_ns(), took = now - transfer.sent_ns;
  if (transfer.sent_ns != 0 && took > kLongNs) transfer.piece = std::max(kLeastPiece, transfer.piece / 2);
  if (transfer.sent_ns != 0 && took < kShortNs) transfer.piece = std::min(kChunkBytes, 2 * transfer.piece);
  transfer.sent_ns = now;
}

bool ImageSender::push(Transfer& transfer) {
  Image& image = transfer.image;
  do {
    std::span<const std::byte> body;
    if (transfer.bytes)
      body = std::span(*transfer.bytes).subspan(image.offset, std::min<size_t>(transfer.piece, image.total - image.offset));
    if (!transport_.send(transfer.peer, encode(image, transfer.header, body.size()), body)) return false;
    image.offset += body.size();
    adapt(transfer);
    image.log.clear();  // goes with the first only
  } while (image.offset < image.total);
  return true;
}

void ImageSender::on_writable(PeerId peer) {
  for (size_t i = 0; i < transfers_.size();) {
    if (transfers_[i].peer != peer) {
      ++i;
      continue;
    }
    if (!push(transfers_[i])) return;  // its queue is full again
    transfers_.erase(transfers_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void ImageSender::forget(PeerId peer) {
  std::erase_if(transfers_, [&](const Transfer& t) { return t.peer == peer; });
}

void ImageReceiver::expect(PeerId from, uint64_t request) {
  assert(from != 0);
  from_ = from;
  request_ = request;
  total_ = 0;
  bytes_ = {};
  log_.clear();
  why_.clear();
}

ImageReceiver::Progress ImageReceiver::on_image(PeerId from, Image& image, std::span<const std::byte> body) {
  if (from != from_ || image.request != request_) return Progress::unexpected;
  if (image.total == 0) {
    why_ = image.why.empty() ? "the image cannot be had" : image.why;
    from_ = 0;
    return Progress::failed;
  }
  const bool first = bytes_.empty();
  const bool sound = image.offset == bytes_.size() && image.total <= kMaxImageBytes && !body.empty() &&
                     body.size() <= image.total - image.offset &&
                     (first || (image.total == total_ && image.round == round_ && image.hash == hash_));
  if (!sound) {
    why_ = "the image came in pieces that do not fit together";
    from_ = 0;
    return Progress::failed;
  }
  if (first) {
    total_ = image.total;
    round_ = image.round;
    hash_ = image.hash;
    log_ = std::move(image.log);
  }
  bytes_.insert(bytes_.end(), body.begin(), body.end());
  if (bytes_.size() < total_) return Progress::more;
  from_ = 0;
  return Progress::complete;
}

}  // namespace perigee
