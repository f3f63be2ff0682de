// Boxes of objects from the files that people keep them in: a table with a row for each, or COCO's JSON.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

struct ObjectsOnPictures {
  std::vector<std::string> classes;
  std::map<std::string, std::vector<float>> boxes;  // by the picture's name: left, top, right, bottom in pixels, and the class's number
};

// `classes`: the known ones in the order of their numbers; empty: those of the file, sorted. Error(data) with the line or the number of what
// is damaged, is no box, or has an unknown class.
ObjectsOnPictures read_objects(const std::string& path, std::vector<std::string> classes);
// The same for a file's content; `path` begins messages, and .tsv says that tabs stand between columns.
ObjectsOnPictures parse_objects(std::string_view text, const std::string& path, std::vector<std::string> classes);

}  // namespace perigee
