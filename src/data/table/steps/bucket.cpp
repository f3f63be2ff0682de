// bucket: numbers become categories by ranges, which are given or measured.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "src/data/table/spill/stored_values.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

class Bucket : public Step {
 public:
  Bucket(const Config& config, const StepContext& context)
      : names_(config.string_list("bucket")),
        where_(context.where),
        count_(config.integer_in("count", 2, 1000, 10)),
        by_quantiles_(config.string("by", "quantiles") == "quantiles") {
    if (const Json* edges = config.raw("edges"); edges != nullptr && edges->is_array())
      for (const Json& each : edges->as_array()) given_.push_back(each.as_number());
    if (!std::is_sorted(given_.begin(), given_.end(), std::less_equal<>())) config.fail("edges", "must ascend");
  }
  bool is_fitted() const override { return fitted_ || !given_.empty(); }

  void fit(const Frame& frame) override {
    for (const size_t c : columns_of(frame, names_, where_, is_numeric)) {
      std::vector<double> values;
      for (int64_t r = 0; r < frame.rows; ++r)
        if (const double x = frame.columns[c].number(r); std::isfinite(x)) values.push_back(x);
      std::sort(values.begin(), values.end());
      std::vector<double> chosen;
      for (const int64_t place : places(static_cast<int64_t>(values.size()))) chosen.push_back(values[static_cast<size_t>(place)]);
      set_edges(frame.schema.columns[c].name, chosen);
    }
    fitted_ = true;
  }
  bool fit_stored(const ChunkStore& table, const TableRoom& room) override {
    for (const size_t c : columns_of(empty_frame(table.schema()), names_, where_, is_numeric))
      set_edges(table.schema().columns[c].name, sorted_values_at(table, c, room, [this](int64_t count) { return places(count); }));
    return fitted_ = true;
  }
  Json state() const override {
    if (!fitted_) return {};
    Json json = Json::object();
    for (const auto& [name, edges] : found_) {
      Json list = Json::array();
      for (const double edge : edges) list.push(edge);
      json.set(name, std::move(list));
    }
    return json;
  }
  void set_state(const Config& state) override {
    for (const auto& [name, list] : state.json().as_object()) {
      auto& edges = found_[name];
      if (list.is_array())
        for (const Json& each : list.as_array())
          if (each.is_number()) edges.push_back(each.as_number());
    }
    fitted_ = true;
  }

  void apply(Frame& frame) const override {
    for (const size_t c : columns_of(frame, names_, where_, is_numeric)) {
      const std::string name = frame.schema.columns[c].name;
      const auto found = found_.find(name);
      const std::vector<double>& edges = given_.empty() && found != found_.end() ? found->second : given_;
      Column out(Type::category);
      for (int64_t r = 0; r < frame.rows; ++r) {
        const double x = frame.columns[c].number(r);
        if (std::isnan(x)) out.add_missing();
        else out.add_whole(std::upper_bound(edges.begin(), edges.end(), x) - edges.begin());
      }
      ColumnSpec spec{.name = name, .type = Type::category};
      for (size_t i = 0; i <= edges.size(); ++i)
        spec.categories.push_back(i == 0 ? (edges.empty() ? "all" : "< " + text(edges[0])) : ">= " + text(edges[i - 1]));
      frame.columns[c] = std::move(out);
      frame.schema.columns[c] = std::move(spec);
    }
  }

 private:
  // The places among the sorted values that edges come from: the quantiles, or the least and the greatest.
  std::vector<int64_t> places(int64_t count) const {
    std::vector<int64_t> list;
    if (count == 0) return list;
    if (!by_quantiles_) return {0, count - 1};
    for (int64_t i = 1; i < count_; ++i)
      list.push_back(static_cast<int64_t>(static_cast<double>(i) / static_cast<double>(count_) * static_cast<double>(count)));
    return list;
  }
  void set_edges(const std::string& name, const std::vector<double>& values) {
    auto& edges = found_[name];
    for (int64_t i = 1; i < count_ && !values.empty(); ++i) {
      const double edge = by_quantiles_
                              ? values[static_cast<size_t>(i - 1)]
                              : values.front() + static_cast<double>(i) / static_cast<double>(count_) * (values.back() - values.front());
      if (edges.empty() || edge > edges.back()) edges.push_back(edge);
    }
  }

  static std::string text(double x) {
    char digits[32];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
  }

  std::vector<std::string> names_;
  std::string where_;
  int64_t count_;
  bool by_quantiles_, fitted_ = false;
  std::vector<double> given_;
  std::map<std::string, std::vector<double>> found_;
};

std::unique_ptr<Step> open_bucket(const Config& config, const StepContext& context) { return std::make_unique<Bucket>(config, context); }

constexpr Option kBucket[] = {{"bucket", "list of names", nullptr, "columns of numbers"},
                              {"edges", "list of numbers", "measured", "where buckets begin, ascending"},
                              {"count", "integer", "10", "of the buckets that are measured", {2, 1000}},
                              {"by", "name", "quantiles", "equally many rows in each, or equal widths", {}, {"quantiles", "width"}}};

}  // namespace

extern const StepDef step_bucket;
const StepDef step_bucket{"bucket", "makes numbers categories by ranges", {.options = kBucket}, open_bucket};

}  // namespace perigee::tables
