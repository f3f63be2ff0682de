// Walks over graphs, DeepWalk on a graph with known groups, and GloVe beside the published formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "src/core/error.h"
#include "src/io/file.h"
#include "src/vectors/glove.h"
#include "src/vectors/graph_walks.h"
#include "src/vectors/trained_vectors.h"

namespace perigee {
namespace {

std::string glove_problem(const std::string& text) {
  try {
    WalkedGraph(text, "g", false);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(WalkedGraph, EdgesAreReadAndJoined) {
  const WalkedGraph graph("# comment\na b\nb,c,2.5\nb\tc 0.5\nd d\nb d\n", "g", false);
  EXPECT_EQ(graph.nodes().size(), 4);
  EXPECT_EQ(graph.nodes().name(0), "b");  // has most edges
  const auto id = [&](const char* name) { return graph.nodes().find(name); };
  EXPECT_EQ(graph.next(id("b")).size(), 3u);
  EXPECT_TRUE(graph.joined(id("c"), id("b")));
  EXPECT_FALSE(graph.joined(id("a"), id("c")));
  EXPECT_DOUBLE_EQ(graph.sums(id("b")).back(), 5);
  EXPECT_DOUBLE_EQ(graph.sums(id("c")).back(), 3);  // an edge that comes again adds its weight
  EXPECT_EQ(graph.next(id("d")).size(), 2u);
  const WalkedGraph directed("a b\nb c\n", "g", true);
  EXPECT_FALSE(directed.joined(directed.nodes().find("b"), directed.nodes().find("a")));
  EXPECT_EQ(glove_problem("a b\na\n"),
            "g:2: the line is no edge; got 'a', expected two nodes and perhaps a weight above 0, such as: a b 0.5");
  EXPECT_NE(glove_problem("a b -1\n").find("the weight of an edge is no number above 0; got '-1'"), std::string::npos);
  EXPECT_NE(glove_problem("# nothing\n").find("the graph has no edges"), std::string::npos);
}

std::vector<std::vector<int32_t>> walks_of(const WalkedGraph& graph, const WalkRules& rules, uint64_t epoch = 0) {
  const auto sequences = walk_sequences(graph, rules);
  std::vector<std::vector<int32_t>> walks;
  SequenceBlock block;
  for (int64_t part = 0; part < sequences->parts(); ++part) {
    sequences->read(part, epoch, block);
    for (size_t i = 0; i < block.ends.size(); ++i) walks.emplace_back(block.sequence(i).begin(), block.sequence(i).end());
  }
  return walks;
}

TEST(WalkedGraph, WalksFollowEdgesByTheirWeightsFromEveryNode) {
  const WalkedGraph graph("a b 1\na c 3\nb c 1\nc d 1\n", "g", false);
  const auto walks = walks_of(graph, {.walks = 5000, .length = 6});
  ASSERT_EQ(walks.size(), 20000u);
  std::map<int32_t, int> starts;
  const int32_t a = graph.nodes().find("a"), c = graph.nodes().find("c");
  double from_a = 0, to_c = 0;
  for (const auto& walk : walks) {
    ++starts[walk[0]];
    ASSERT_EQ(walk.size(), 6u);
    for (size_t i = 1; i < walk.size(); ++i) {
      ASSERT_TRUE(graph.joined(walk[i - 1], walk[i]));
      if (walk[i - 1] == a) ++from_a, to_c += walk[i] == c;
    }
  }
  for (const auto& [node, count] : starts) EXPECT_EQ(count, 5000) << node;
  EXPECT_NEAR(to_c / from_a, 0.75, 0.01);
  EXPECT_EQ(walks, walks_of(graph, {.walks = 5000, .length = 6}));
  EXPECT_NE(walks, walks_of(graph, {.walks = 5000, .length = 6}, 1));
}

// After a - b, with p = 4 and q = 0.5: back to a 1/4, to c (joined with a) 1, to d (not joined) 2.
TEST(WalkedGraph, Node2VecsSecondSteps) {
  const WalkedGraph graph("a b\na c\nb c\nb d\n", "g", false);
  const int32_t a = graph.nodes().find("a"), b = graph.nodes().find("b");
  std::map<int32_t, double> counts;
  double all = 0;
  for (const auto& walk : walks_of(graph, {.walks = 20000, .length = 3, .back = 4, .out = 0.5}))
    if (walk[0] == a && walk[1] == b) ++counts[walk[2]], ++all;
  EXPECT_NEAR(counts[a] / all, 0.25 / 3.25, 0.01);
  EXPECT_NEAR(counts[graph.nodes().find("c")] / all, 1 / 3.25, 0.015);
  EXPECT_NEAR(counts[graph.nodes().find("d")] / all, 2 / 3.25, 0.015);
}

TEST(WalkedGraph, AWalkEndsWhereNoEdgeLeadsOn) {
  const WalkedGraph graph("a b\nb c\n", "g", true);
  for (const auto& walk : walks_of(graph, {.walks = 2, .length = 10})) EXPECT_LE(walk.size(), 3u);
}

// Four groups of 25 nodes: an edge within a group with chance 0.3, between groups with chance 0.02.
TEST(WalkedGraph, DeepWalkFindsTheGroupsOfABlockModel) {
  std::mt19937 random(1);
  std::string edges;
  for (int i = 0; i < 100; ++i)
    for (int k = 0; k < i; ++k)
      if (static_cast<double>(random()) / 4294967296.0 < (i / 25 == k / 25 ? 0.3 : 0.02))
        edges += std::to_string(i) + " " + std::to_string(k) + "\n";
  const std::string path = testing::TempDir() + "perigee_graph.txt";
  write_file(path, as_bytes(edges));
  Json given = Json::parse(R"({"graph": true, "size": 16, "threads": 1, "walks": 10, "walk_length": 40, "epochs": 3})", "options");
  given.set("files", path);
  const TrainedVectors trained(vector_options(given, "test"), {}, nullptr);
  double right = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string name = std::to_string(i);
    for (const Neighbour& near : trained.words().nearest(trained.words().vector(name), 5, {name}))
      right += std::stoi(std::string(trained.words().names().name(near.number))) / 25 == i / 25;
  }
  EXPECT_GE(right / 500, 0.93);
}

std::string option_refusal(const std::string& options) {
  Json given = Json::parse(options, "options");
  given.set("files", "none");
  try {
    vector_options(given, "test");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(VectorOptions, OfGraphsAndOfGlove) {
  EXPECT_NE(option_refusal(R"({"walks": 3})").find("belongs to graphs"), std::string::npos);
  EXPECT_NE(option_refusal(R"({"graph": true, "min_count": 3})").find("belongs to texts"), std::string::npos);
  EXPECT_NE(option_refusal(R"({"graph": true, "model": "dm"})").find("has vectors of documents, of which a graph has none"),
            std::string::npos);
  EXPECT_NE(option_refusal(R"({"glove_most": 3})").find("belongs to glove"), std::string::npos);
  EXPECT_NE(option_refusal(R"({"model": "glove", "negative": 3})").find("has no part in glove"), std::string::npos);
  EXPECT_EQ(option_refusal(R"({"model": "glove"})"), "");
}

SequenceBlock block_of(const std::vector<std::vector<int32_t>>& sequences) {
  SequenceBlock block;
  for (const auto& sequence : sequences) {
    block.elements.insert(block.elements.end(), sequence.begin(), sequence.end());
    block.ends.push_back(block.elements.size());
  }
  return block;
}

TEST(Glove, PairsWeighByTheirDistance) {
  const SequenceBlock block = block_of({{0, 1, 0, 2}, {2, 1}});
  const auto pairs = count_together(*held_sequences(block), 2, 1, nullptr);
  ASSERT_EQ(pairs.size(), 4u);
  const auto weight = [&](int32_t a, int32_t b) {
    return std::find_if(pairs.begin(), pairs.end(), [&](const Together& pair) { return pair.a == a && pair.b == b; })->weight;
  };
  EXPECT_FLOAT_EQ(weight(0, 0), 1);  // at distance 2, from both sides
  EXPECT_FLOAT_EQ(weight(0, 1), 2);
  EXPECT_FLOAT_EQ(weight(0, 2), 1);
  EXPECT_FLOAT_EQ(weight(1, 2), 1.5);
  const auto again = count_together(*held_sequences(block), 2, 3, nullptr);
  for (size_t i = 0; i < pairs.size(); ++i) EXPECT_EQ(pairs[i].weight, again[i].weight);
}

// The model has enough freedom to fit few pairs: products become logarithms, up to biases.
TEST(Glove, ItFitsLogarithms) {
  std::vector<Together> pairs;
  std::mt19937 random(2);
  for (int32_t a = 0; a < 12; ++a)
    for (int32_t b = a; b < 12; ++b) pairs.push_back({a, b, static_cast<float>(1 + random() % 200)});
  Json given = Json::parse(R"({"model": "glove", "size": 12, "epochs": 3000, "threads": 1, "files": "none"})", "options");
  GloveTraining training(12, vector_options(given, "test"));
  EXPECT_TRUE(training.run(pairs, {}, nullptr));
  EXPECT_LT(training.loss(), 1e-3);
}

// The published program's loop over entries, in double precision (glove.c of GloVe 1.2: glove_thread).
TEST(Glove, TheStepIsThePublishedOne) {
  Json given = Json::parse(R"({"model": "glove", "size": 3, "lr": 0.2, "epochs": 5, "threads": 1, "seed": 4, "files": "none"})", "options");
  GloveTraining training(2, vector_options(given, "test"));
  struct Row {
    double values[4], squares[4] = {1, 1, 1, 1};  // the last is the bias
  };
  Row rows[2][2];  // words, contexts
  for (uint32_t side = 0; side < 2; ++side)
    for (uint64_t row = 0; row < 2; ++row) {
      const PhiloxBlock block = philox_for_example(philox_key(4, 0x476C6F56), side, row, 0);
      for (int i = 0; i < 4; ++i) rows[side][row].values[i] = (static_cast<double>(uniform_from_bits(block.lane[i])) - 0.5) / 4;
    }
  const double count = 30, eta = 0.2;
  for (int epoch = 0; epoch < 5; ++epoch)
    for (int way = 0; way < 2; ++way) {
      Row &w = rows[0][way], &c = rows[1][1 - way];
      double diff = w.values[3] + c.values[3] - std::log(count);
      for (int i = 0; i < 3; ++i) diff += w.values[i] * c.values[i];
      const double fdiff = std::pow(count / 100, 0.75) * diff * eta;
      for (int i = 0; i < 4; ++i) {
        const double gw = i == 3 ? fdiff : fdiff * c.values[i], gc = i == 3 ? fdiff : fdiff * w.values[i];
        w.values[i] -= gw / std::sqrt(w.squares[i]), c.values[i] -= gc / std::sqrt(c.squares[i]);
        w.squares[i] += gw * gw, c.squares[i] += gc * gc;
      }
    }
  training.run({{0, 1, 30}}, {}, nullptr);
  const VectorRows vectors = training.vectors();
  for (int row = 0; row < 2; ++row)
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(vectors.row(row)[i], rows[0][row].values[i] + rows[1][row].values[i], 1e-5);
}

}  // namespace
}  // namespace perigee
