#include "src/generate/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace perigee {
namespace {

// Penalties alone: what else a sampler does belongs to draws.
SamplingOptions penalties_of(const SamplingOptions& options) {
  return {.repetition_penalty = options.repetition_penalty, .no_repeat = options.no_repeat};
}

}  // namespace

BeamSearch::BeamSearch(const TextModel& text, NextScores& scores, const GenerateOptions& options, std::span<const int64_t> prompt)
    : text_(text),
      scores_(scores),
      options_(options),
      prompt_(prompt.begin() + (text.encodes() ? 1 : 0), prompt.end()),
      sampler_(penalties_of(options.sampling)),
      most_(text.encodes() ? std::min(options.tokens, text.context() + 1 - static_cast<int64_t>(prompt.size())) : options.tokens),
      beams_(1),
      row_(static_cast<size_t>(text.vocabulary_size())) {}

double BeamSearch::score_of(double sum, size_t length) const {
  return sum / std::pow(static_cast<double>(length), options_.length_penalty);
}

// candidates_ become the best continuations of all beams, twice as many as there are beams: some may be complete.
void BeamSearch::rank() {
  candidates_.clear();
  for (size_t b = 0; b < beams_.size(); ++b) {
    scores_.scores(static_cast<int>(b), row_);
    if (text_.unknown() >= 0) row_[static_cast<size_t>(text_.unknown())] = -std::numeric_limits<double>::infinity();
    log_softmax(row_);
    std::vector<int64_t> previous = prompt_;
    previous.insert(previous.end(), beams_[b].units.begin(), beams_[b].units.end());
    sampler_.filter(row_, previous);
    for (size_t i = 0; i < row_.size(); ++i)
      if (std::isfinite(row_[i])) candidates_.push_back({beams_[b].sum + row_[i], static_cast<int>(b), static_cast<int64_t>(i)});
  }
  const size_t kept = std::min(candidates_.size(), static_cast<size_t>(2 * options_.beams));
  const auto better = [](const Candidate& a, const Candidate& b) {
    if (a.sum != b.sum) return a.sum > b.sum;
    return a.beam != b.beam ? a.beam < b.beam : a.unit < b.unit;
  };
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(kept), candidates_.end(), better);
  candidates_.resize(kept);
}

// A beam that has reached the text's end or a stop text, without it.
bool BeamSearch::set_aside(const Beam& beam) {
  const bool ends = beam.units.back() == text_.end();
  size_t cut = ends ? beam.text.size() : std::string::npos;
  for (const std::string& stop : options_.stop) cut = std::min(cut, beam.text.find(stop));
  if (cut == std::string::npos) return false;
  ++finished_;
  if (const double score = score_of(beam.sum, beam.units.size()); score > best_finished_.score)
    best_finished_ = {beam.units, beam.text.substr(0, cut), score, !ends};
  return true;
}

bool BeamSearch::step() {
  rank();
  std::vector<Beam> next;
  std::vector<int> parents;
  std::vector<int64_t> units;
  for (const Candidate& each : candidates_) {
    if (next.size() == static_cast<size_t>(options_.beams)) break;
    Beam beam = beams_[static_cast<size_t>(each.beam)];
    beam.units.push_back(each.unit);
    if (each.unit != text_.end()) beam.text += text_.piece(each.unit, beam.text.empty() ? options_.prompt.value_or("") : beam.text);
    beam.sum = each.sum;
    if (set_aside(beam)) continue;
    next.push_back(std::move(beam));
    parents.push_back(each.beam);
    units.push_back(each.unit);
  }
  beams_ = std::move(next);
  if (beams_.empty()) return false;
  const size_t length = beams_[0].units.size();
  if (length >= static_cast<size_t>(most_)) return false;
  if (finished_ >= options_.beams) {
    // Whether a beam can still become better than the best that is complete.
    const size_t longest = options_.length_penalty > 0 ? static_cast<size_t>(most_) : length;
    if (best_finished_.score >= score_of(beams_[0].sum, longest)) return false;
  }
  parents.resize(static_cast<size_t>(options_.beams), parents[0]);  // rows without a beam: their scores are not read
  units.resize(static_cast<size_t>(options_.beams), units[0]);
  scores_.advance(parents, units);
  return true;
}

FoundText BeamSearch::best() const {
  FoundText best = best_finished_;
  for (const Beam& beam : beams_)
    if (const double score = beam.units.empty() ? best.score : score_of(beam.sum, beam.units.size()); score > best.score)
      best = {beam.units, beam.text, score, false};
  return best;
}

}  // namespace perigee
