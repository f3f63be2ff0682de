#include "src/generate/generation.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "src/core/utf8.h"
#include "src/generate/stream_scores.h"
#include "src/text/token_decoder.h"

namespace perigee {

namespace {

// A text of a model that reads it, or none: where the other one should have been given, that is said.
void check_texts(const TextModel& text, const GenerateOptions& options, const std::string& where) {
  const auto refuse = [&](const char* what, const char* got, const char* expected) {
    throw Error(ErrorKind::usage,
                {.where = where + (text.encodes() || options.input ? "input" : "prompt"), .what = what, .got = got, .expected = expected});
  };
  if (text.encodes() && !options.input)
    refuse("the model reads one text and writes another, and has none to read", options.prompt ? "a prompt alone" : "",
           "an input; a prompt, if there is one, is how the other text begins");
  if (!text.encodes() && options.input) refuse("the model goes on with a text and reads no other", "an input", "a prompt, and no input");
  if (!text.encodes() && !options.prompt) refuse("the model goes on with a text, and has none", "", "a prompt");
}

const TextModel& checked(const TextModel& text, const GenerateOptions& options, const std::string& where) {
  check_texts(text, options, where);
  return text;
}

}  // namespace

Generation::Generation(Model& model, const Json& job, const Json& fitted, const GenerateOptions& options, std::string where)
    : options_(options),
      text_(model, job, fitted),
      sampler_(options.sampling),
      all_(checked(text_, options, where).numbers(options.prompt.value_or(""), where + "prompt")),
      row_(static_cast<size_t>(text_.vocabulary_size())),
      before_(options.prompt.value_or("")) {
  scores_ = scores_of(model, text_, options.beams, text_.encodes() ? text_.memory(*options.input, where + "input") : TextMemory());
  scores_->begin(all_);
  if (options_.beams > 1) search_ = std::make_unique<BeamSearch>(text_, *scores_, options_, all_);
}

Generation::~Generation() = default;

// An output has as many units as the model was taught to write, with its end.
bool Generation::full() const { return text_.encodes() && static_cast<int64_t>(all_.size()) > text_.context(); }

void Generation::make_one() {
  scores_->scores(0, row_);
  if (text_.unknown() >= 0) row_[static_cast<size_t>(text_.unknown())] = -std::numeric_limits<double>::infinity();
  sampler_.filter(row_, std::span(all_).subspan(text_.encodes() ? 1 : 0));
  const int64_t unit = sampler_.draw(row_, static_cast<uint64_t>(made_));
  if (unit == text_.end()) {
    complete_ = true;
    return;
  }
  all_.push_back(unit);
  held_ += text_.piece(unit, held_.empty() ? before_ : held_);
  if (++made_ == options_.tokens || full()) complete_ = true;
  size_t cut = std::string::npos;
  for (const std::string& stop : options_.stop) cut = std::min(cut, held_.find(stop));
  if (cut != std::string::npos) {
    held_.resize(cut);
    complete_ = stopped_ = true;
  }
  const int own = 0;
  if (!complete_) scores_->advance({&own, 1}, {&unit, 1});
}

// How many bytes of what is held cannot become part of a stop text.
size_t Generation::certain() const {
  if (complete_) return held_.size();
  size_t certain = held_.size();
  for (const std::string& stop : options_.stop)
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > 0; --length)
      if (held_.ends_with(std::string_view(stop).substr(0, length))) {
        certain = std::min(certain, held_.size() - length);
        break;
      }
  // A token may end inside a character.
  for (size_t back = 1; back <= 3 && back <= certain; ++back) {
    const auto byte = static_cast<unsigned char>(held_[certain - back]);
    if (byte < 0x80) break;
    if (byte >= 0xC0) return utf8_length(held_, certain - back) == 0 ? certain - back : certain;
  }
  return certain;
}

std::string Generation::take(size_t bytes) {
  std::string taken = held_.substr(0, bytes);
  held_.erase(0, bytes);
  if (!taken.empty()) before_ = taken;
  return readable(taken, false);
}

std::optional<std::string> Generation::next(const std::atomic<bool>* cancel) {
  const auto cancelled = [&] { return cancel != nullptr && *cancel; };
  if (search_ && !complete_) {
    while (!cancelled() && search_->step()) {}
    FoundText found = search_->best();
    held_ = std::move(found.text);
    const bool ended = !found.units.empty() && found.units.back() == text_.end();
    made_ = static_cast<int64_t>(found.units.size()) - (ended ? 1 : 0);
    stopped_ = found.stopped;
    complete_ = true;
  }
  while (!complete_ && certain() == 0) {
    if (cancelled()) complete_ = true;
    else make_one();
  }
  if (held_.empty()) return std::nullopt;
  return take(certain());
}

std::unique_ptr<Model> copy_of(const Model& model) {
  auto copy = std::make_unique<Model>(model.spec());
  std::memcpy(copy->params().block(), model.params().block(), model.params().block_bytes());
  const std::span<const std::byte> states = model.params().state_bytes();
  std::copy(states.begin(), states.end(), copy->params().state_bytes().begin());
  return copy;
}

}  // namespace perigee
