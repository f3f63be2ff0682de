#include "src/core/error.h"

#include <algorithm>
#include <utility>

#include "src/core/elsewhere.h"
#include "src/core/known_hint.h"

namespace perigee {
namespace {

std::string compose(const Error::Parts& parts) {
  std::string text;
  if (!parts.where.empty()) text += parts.where + ": ";
  text += parts.what;
  if (!parts.got.empty()) text += "; got " + parts.got;
  if (!parts.expected.empty()) text += (parts.got.empty() ? "; expected " : ", expected ") + parts.expected;
  if (!parts.hint.empty()) text += "; " + parts.hint;
  return text;
}

// Damerau-Levenshtein distance of adjacent transpositions (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

}  // namespace

Error::Error(ErrorKind kind, Parts parts) : kind_(kind), parts_(std::move(parts)), text_(compose(parts_)) {}

Error Error::within(std::string_view outer) const {
  Parts parts = parts_;
  parts.where = parts.where.empty() ? std::string(outer) : std::string(outer) + ": " + parts.where;
  return Error(kind_, std::move(parts));
}

std::string nearest_hint(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > 64) return "";  // the distance is quadratic, and no typing error is that long
  if (std::string other = meant_elsewhere(name, known); !other.empty()) return other;
  std::vector<std::pair<size_t, std::string>> near;
  const std::string plain = lower_case(name);
  for (const auto& candidate : known) {
    const size_t distance = edit_distance(plain, lower_case(candidate));
    const bool prefix = name.size() >= 3 && candidate.starts_with(name);
    // One letter is as near as any other: only in another case is it meant.
    const size_t most = candidate.size() == 1 ? 0 : std::max<size_t>(1, name.size() / 3);
    const std::pair<size_t, std::string> found(distance, candidate);
    if ((prefix || distance <= most) && std::find(near.begin(), near.end(), found) == near.end()) near.push_back(found);
  }
  std::sort(near.begin(), near.end());                              // the caller's order may be that of a hash table
  const size_t most = !near.empty() && near[0].first == 0 ? 1 : 3;  // only the case of letters differs
  std::string text;
  for (size_t i = 0; i < near.size() && i < most; ++i) text += (i ? " or '" : "did you mean '") + near[i].second + "'";
  return text.empty() ? "" : text + "?";
}

std::string known_hint(const std::string& name, const std::vector<std::string>& known, size_t most) {
  std::string hint = nearest_hint(name, known);
  if (!hint.empty() || known.size() > most) return hint;
  for (const std::string& each : known) hint += (hint.empty() ? "known: " : ", ") + each;
  return hint;
}

}  // namespace perigee
