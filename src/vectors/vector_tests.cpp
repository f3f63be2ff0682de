#include "src/vectors/vector_tests.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "src/core/error.h"
#include "src/io/text.h"

namespace perigee {
namespace {

// Calls take(fields, line number) for each line that has some.
template <class Take>
void each_line(std::string_view text, Take&& take) {
  std::vector<std::string_view> fields;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1, ++number, fields.clear();
    for (size_t i = 0; i < line.size();) {
      const size_t begin = line.find_first_not_of(" \t\r", i);
      if (begin == std::string_view::npos) break;
      i = std::min(line.find_first_of(" \t\r", begin), line.size());
      fields.push_back(line.substr(begin, i - begin));
    }
    if (!fields.empty() && !fields[0].starts_with('#')) take(fields, number);
  }
}

// The word's number, or that of its small letters; -1.
int32_t known(const WordVectors& vectors, std::string_view word, const std::string& where) {
  if (const int32_t number = vectors.names().find(word); number >= 0) return number;
  UnitReader reader(word, {.words = true, .lowercase = true}, where);
  return reader.next() && reader.is_word() ? vectors.names().find(reader.unit()) : -1;
}

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0, end = 0; i < order.size(); i = end) {
    for (end = i; end < order.size() && values[order[end]] == values[order[i]]; ++end) continue;
    for (size_t k = i; k < end; ++k) ranks[order[k]] = static_cast<double>(i + end - 1) / 2;
  }
  return ranks;
}

double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  const double mx = std::accumulate(x.begin(), x.end(), 0.0) / n, my = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) xy += (x[i] - mx) * (y[i] - my), xx += (x[i] - mx) * (x[i] - mx), yy += (y[i] - my) * (y[i] - my);
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

struct Question {
  int32_t words[4];
  size_t section;
};

struct Section {
  std::string name;
  int64_t right = 0, asked = 0;
};

// b - a + c, each made 1 long.
VectorRows queries_of(const WordVectors& vectors, const std::vector<Question>& questions, std::vector<std::vector<int64_t>>& except) {
  VectorRows queries(static_cast<int64_t>(questions.size()), vectors.numbers());
  std::vector<float> one(static_cast<size_t>(queries.width));
  for (size_t q = 0; q < questions.size(); ++q) {
    float* const query = queries.row(static_cast<int64_t>(q));
    const int32_t* words = questions[q].words;
    for (const auto& [word, sign] : {std::pair(words[1], 1.f), {words[0], -1.f}, {words[2], 1.f}}) {
      vectors.unit(word, one.data());
      for (int64_t i = 0; i < queries.width; ++i) query[i] += sign * one[static_cast<size_t>(i)];
    }
    except.push_back({words[0], words[1], words[2]});
  }
  return queries;
}

}  // namespace

Json pair_scores(const WordVectors& vectors, std::string_view text, const std::string& where) {
  std::vector<double> said, found;
  int64_t unknown = 0;
  each_line(text, [&](const std::vector<std::string_view>& fields, int64_t line) {
    double number = 0;
    const bool fits = fields.size() == 3 &&
                      std::from_chars(fields[2].data(), fields[2].data() + fields[2].size(), number).ec == std::errc() &&
                      std::isfinite(number);
    if (!fits)
      throw Error(ErrorKind::data, {.where = where + ":" + std::to_string(line),
                                    .what = "the line is no pair of words with a number",
                                    .expected = "such as: tiger cat 7.35"});
    const int32_t a = known(vectors, fields[0], where), b = known(vectors, fields[1], where);
    if (a < 0 || b < 0) {
      ++unknown;
      return;
    }
    said.push_back(number);
    found.push_back(vectors.similarity(vectors.names().name(a), vectors.names().name(b)));
  });
  if (said.size() < 2)
    throw Error(ErrorKind::data, {.where = where, .what = "fewer than two pairs have vectors", .got = std::to_string(said.size())});
  Json scores = Json::object();
  scores.set("spearman", correlation(ranks(found), ranks(said)));
  scores.set("pearson", correlation(found, said));
  scores.set("pairs", static_cast<int64_t>(said.size()));
  scores.set("unknown", unknown);
  return scores;
}

Json analogy_scores(const WordVectors& vectors, std::string_view text, const std::string& where, int threads) {
  std::vector<Question> questions;
  std::vector<Section> sections;
  int64_t unknown = 0;
  each_line(text, [&](const std::vector<std::string_view>& fields, int64_t line) {
    if (fields[0] == ":") {
      sections.push_back({.name = fields.size() > 1 ? std::string(fields[1]) : std::string("questions")});
      return;
    }
    if (fields.size() != 4)
      throw Error(ErrorKind::data, {.where = where + ":" + std::to_string(line),
                                    .what = "the line is no question",
                                    .got = std::to_string(fields.size()) + " words",
                                    .expected = "four words, such as: Athens Greece Oslo Norway"});
    if (sections.empty()) sections.push_back({.name = "questions"});
    Question question{.words = {}, .section = sections.size() - 1};
    bool all = true;
    for (size_t i = 0; i < 4; ++i) all = (question.words[i] = known(vectors, fields[i], where)) >= 0 && all;
    if (all) questions.push_back(question);
    else ++unknown;
  });
  std::vector<std::vector<int64_t>> except;
  const VectorRows queries = queries_of(vectors, questions, except);
  const std::vector<Neighbour> best = vectors.best(queries, except, threads);
  int64_t right = 0;
  for (size_t q = 0; q < questions.size(); ++q) {
    Section& section = sections[questions[q].section];
    const bool is_right = best[q].number == questions[q].words[3];
    section.right += is_right, right += is_right, ++section.asked;
  }
  Json scores = Json::object(), by_section = Json::object();
  for (const Section& section : sections) {
    Json one = Json::object();
    one.set("right", section.right), one.set("asked", section.asked);
    by_section.set(section.name, std::move(one));
  }
  scores.set("accuracy", questions.empty() ? 0 : static_cast<double>(right) / static_cast<double>(questions.size()));
  scores.set("right", right), scores.set("asked", static_cast<int64_t>(questions.size())), scores.set("unknown", unknown);
  scores.set("sections", std::move(by_section));
  return scores;
}

Json vector_scores(const WordVectors& vectors, std::string_view text, const std::string& where, int threads) {
  size_t fields_of_first = 0;
  each_line(text, [&](const std::vector<std::string_view>& fields, int64_t) {
    if (fields_of_first == 0 && fields[0] != ":") fields_of_first = fields.size();
  });
  return fields_of_first == 4 ? analogy_scores(vectors, text, where, threads) : pair_scores(vectors, text, where);
}

}  // namespace perigee
