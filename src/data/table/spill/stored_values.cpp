#include "src/data/table/spill/stored_values.h"

#include <cmath>

#include "src/data/table/spill/merge.h"

namespace perigee::tables {
namespace {

// A table of this one column.
Frame of_column(ColumnSpec spec, Column&& column) {
  Frame frame{.rows = column.size()};
  frame.add(std::move(spec), std::move(column));
  return frame;
}

}  // namespace

void each_stored(const ChunkStore& table, size_t column, const std::function<void(const Column&)>& use) {
  for (size_t chunk = 0; chunk < table.size(); ++chunk) use(table.read(chunk, {column}).columns[0]);
}

std::vector<double> sorted_values_at(const ChunkStore& table, size_t column, const TableRoom& room,
                                     const std::function<std::vector<int64_t>(int64_t count)>& places) {
  const ColumnSpec spec{.name = "x", .type = Type::real};
  std::vector<int64_t> wanted;
  std::vector<double> found;
  int64_t count = 0, place = 0;
  SpilledSort sort(room, {spec.name}, {false}, spec.name, [&](Frame&& sorted) {
    while (found.size() < wanted.size() && wanted[found.size()] < place + sorted.rows)
      found.push_back(sorted.columns[0].real[static_cast<size_t>(wanted[found.size()] - place)]);
    place += sorted.rows;
  });
  each_stored(table, column, [&](const Column& values) {
    Column finite(Type::real);
    for (int64_t r = 0; r < values.size(); ++r)
      if (const double x = values.number(r); std::isfinite(x)) finite.add_real(x);
    count += finite.size();
    sort.add(of_column(spec, std::move(finite)));
  });
  wanted = places(count);
  sort.finish();
  return found;
}

std::string most_frequent(const ChunkStore& table, size_t column, const TableRoom& room) {
  const ColumnSpec spec{.name = "x", .type = Type::text};
  int64_t most = 0, same = 0;
  std::string now, best;
  SpilledSort sort(room, {spec.name}, {false}, spec.name, [&](Frame&& sorted) {
    for (int64_t r = 0; r < sorted.rows; ++r) {
      if (sorted.columns[0].text(r) != now || same == 0) now = sorted.columns[0].text(r), same = 0;
      if (++same > most) most = same, best = now;
    }
  });
  each_stored(table, column, [&](const Column& values) {
    Column texts(Type::text);
    for (int64_t r = 0; r < values.size(); ++r)
      if (!values.is_missing(r)) texts.add_text(cell_text(values, table.schema().columns[column], r));
    sort.add(of_column(spec, std::move(texts)));
  });
  sort.finish();
  return best;
}

}  // namespace perigee::tables
