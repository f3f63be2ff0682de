// Damaged HDF5 files: what each refusal says, and where. The files are made here, byte by byte: a superblock, whatever the test puts at kRest, and
// the header of the root, which is a group or a data set. That no damage crashes is for tests/fuzz.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/core/error.h"
#include "src/io/hdf5/hdf5.h"
#include "tests/io/hdf5_bytes.h"

namespace perigee::hdf5 {
namespace {

using namespace std::string_literals;

using namespace hdf5_bytes;

// Messages of a header.
constexpr unsigned kShape = 1, kLinks = 2, kType = 3, kLink = 6, kLayout = 8, kFilters = 11, kMore = 16, kOldGroup = 17;

struct Damage {
  size_t at;
  uint64_t value;
  size_t bytes;
  std::string_view says;
};

// A remedy follows.
void expect_said(const Error& error, const std::string& says) {
  EXPECT_TRUE(std::string_view(error.what()).starts_with("t.h5: byte " + says)) << error.what() << "\nexpected: " << says;
  EXPECT_FALSE(error.parts().hint.empty()) << error.what();
}

// Opens the file and reads all that is in it.
void expect_refusal(const std::string& content, std::string_view says) {
  try {
    const File file("t.h5", as_bytes(content), nullptr);
    for (const DataSet& set : file.sets()) file.read(set, 0, set.rows());
    ADD_FAILURE() << "accepted; expected: " << says;
  } catch (const Error& error) {
    expect_said(error, std::string(says));
  }
}

void expect_refusals(const std::string& content, const std::vector<Damage>& list) {
  for (const Damage& damage : list) {
    std::string damaged = content;
    expect_refusal(damaged.replace(damage.at, damage.bytes, little(damage.value, damage.bytes)), damage.says);
  }
}

// --- the head, headers and groups ---

TEST(DamagedHdf5, SaysWhatIsWrongWithTheHead) {
  const std::string good = file_of("");
  EXPECT_TRUE(File("t.h5", as_bytes(good), nullptr).sets().empty());
  expect_refusal("GIF89a", "0: the file is none of HDF5");
  expect_refusals(good, {{8, 9, 1, "8: the HDF5 file has an unknown version, 9"},
                         {9, 3, 1, "9: the HDF5 file has addresses of an impossible size"},
                         {36, 9999, 8, "36: an address of the HDF5 file leads out of it"},
                         {36, 64, 8, "64: the HDF5 file is cut short, or an address leads out of it"},
                         {48, 2, 1, "48: an object of the HDF5 file has no header"}});
}

TEST(DamagedHdf5, SaysWhatIsWrongWithAHeader) {
  expect_refusals(file_of(message(0, "abcd")), {{66, 5, 2, "64: a message of the HDF5 file leads out of its header"}});
  // The block that leads to itself, alone and with messages.
  expect_refusal(file_of(message(kMore, little(64, 8) + little(24, 8))), "64: a header of the HDF5 file has too many blocks");
  std::string empty;
  for (int i = 0; i < 8; ++i) empty += message(0, "");
  expect_refusal(file_of(message(kMore, little(64, 8) + little(88, 8)) + empty), "144: the HDF5 file has too many messages");
  const std::string more = little(kMore, 1) + little(16, 2) + '\0' + little(kRest, 8) + little(16, 8);
  expect_refusal(file_of_root("OHDR\2\0"s + little(more.size(), 1) + more), "48: a block of a header of the HDF5 file is none");
}

TEST(DamagedHdf5, SaysWhereATypeOfItsOwnNameLeads) {
  const auto shared = [](uint64_t version, uint64_t where) { return message(kType, little(version, 1) + '\0' + little(where, 8), 2); };
  expect_refusal(file_of(shared(5, kRest)), "72: a shared message of the HDF5 file cannot be read");
  expect_refusal(file_of(shared(2, kNone)), "72: a shared message of the HDF5 file leads nowhere");
  expect_refusal(file_of(shared(2, kRest), "OHDR"), "76: a type of the HDF5 file has a name of its own in a new header, which is not read");
  expect_refusal(file_of(shared(2, kRest), "none"), "76: a shared message of the HDF5 file leads to no header");
  expect_refusal(file_of(shared(2, kRest), header("")), "88: a shared message of the HDF5 file leads to no type");
}

std::string link_to(uint64_t address) { return message(kLink, "\1\0\1a"s + little(address, 8)); }

TEST(DamagedHdf5, SaysWhatIsWrongWithAGroup) {
  expect_refusal(file_of(message(kLink, "\1\0\xff"s)), "75: a name of the HDF5 file is too long");
  expect_refusal(file_of(message(kLinks, "\0\0"s + little(kRest, 8))),
                 "72: the group '/' has an index of links, which is not read; "
                 "h5repack --high 0 OLD NEW, or libver=\"earliest\", writes a group that is");
  std::string chain;
  while (chain.size() < 32 * header(link_to(0)).size()) chain += header(link_to(kRest + chain.size() + header(link_to(0)).size()));
  EXPECT_NO_THROW(File("t.h5", as_bytes(file_of("", chain)), nullptr));
  expect_refusal(file_of(link_to(kRest), chain + header("")), "1200: the groups of the HDF5 file are too deep");
}

TEST(DamagedHdf5, HasABoundOnItsDataSets) {
  const std::string set = header(message(kLayout, "\x09") + message(kShape, "\2\0\0\0"s) + message(kType, little(0x13, 4) + little(1, 4)));
  std::string sets, links;
  for (int i = 0; i < 65537; ++i, sets += set) links += link_to(kRest + sets.size());
  expect_refusal(file_of(links, sets), "0: the HDF5 file has too many data sets");
}

// The root is a group of the old form, with the heap of its names at kRest and this node of its tree behind.
constexpr uint64_t kNames = kRest + 32, kNode = kNames + 8;

std::string old_group(const std::string& node) {
  const std::string heap = "HEAP"s + little(0, 4) + little(8, 8) + little(kNone, 8) + little(kNames, 8) + "\0a\0\0\0\0\0\0"s;
  return file_of(message(kOldGroup, little(kNode, 8) + little(kRest, 8)), heap + node);
}

TEST(DamagedHdf5, SaysWhatIsWrongWithAnOldGroup) {
  const std::string entry = little(1, 8) + little(kNode + 48, 8) + little(0, 24);
  const std::string good = old_group("SNOD\1\0\1\0"s + entry + header(""));
  EXPECT_NO_THROW(File("t.h5", as_bytes(good), nullptr));
  expect_refusals(good, {{kRest, 'h', 1, "48: a group of the HDF5 file has no names"},
                         {kNode, 's', 1, "88: the tree of a group of the HDF5 file is none"},
                         {kNode + 8, 8, 8, "96: a name of the HDF5 file leads out of its heap"}});
  const std::string itself = "TREE\0\0\1\0"s + little(kNone, 8) + little(kNone, 8) + little(0, 8) + little(kNode, 8);
  expect_refusal(old_group(itself), "88: the tree of a group of the HDF5 file comes back to itself");
}

// --- shapes and types ---

const std::string kScalar = "\2\0\0\0"s, kUnread = "\x09";  // a shape; a layout
const std::string kWhole = little(0x0810, 4) + little(4, 4) + little(0, 2) + little(32, 2);

// Numbers of one axis.
std::string shape_of(uint64_t size) { return "\1\1"s + little(0, 6) + little(size, 8); }

std::string type_head(unsigned kind, unsigned flags, uint64_t size) { return little(kind | 3 << 4 | flags << 8, 4) + little(size, 4); }

// The type is the last of the file: it begins at byte 93.
void expect_no_type(const std::string& type, std::string_view says) {
  expect_refusal(file_of(message(kLayout, kUnread) + message(kShape, kScalar) + message(kType, type)), says);
}

TEST(DamagedHdf5, SaysWhatIsWrongWithAShape) {
  const std::string good = file_of(message(kShape, kScalar) + message(kType, kWhole) + message(kLayout, kUnread));
  expect_refusals(good, {{72, 7, 1, "72: a data set of the HDF5 file has a shape of an unknown version"},
                         {73, 99, 1, "72: a data set of the HDF5 file has too many axes"},
                         {64, 0, 1, "72: the data set '' has no type or no shape"}});
}

TEST(DamagedHdf5, SaysWhatIsWrongWithAType) {
  constexpr unsigned compound = 6, enumeration = 8, list = 9, array = 10;
  expect_no_type(type_head(3, 0, 0), "97: an element of the HDF5 file has an impossible size");
  std::string deep;
  for (int i = 0; i < 10; ++i) deep += type_head(list, 0, 16);
  expect_no_type(deep, "165: a type of the HDF5 file is too deep, or cut short");
  expect_no_type(type_head(compound, 1, 4), "101: a type of the HDF5 file is cut short");
  expect_no_type(type_head(compound, 1, 4) + "abc", "101: a name of the HDF5 file does not end");
  expect_no_type(type_head(compound, 5000, 4), "101: a type of the HDF5 file has too many members");
  expect_no_type(type_head(compound, 1, 4) + "a\0\1"s + kWhole, "116: a member of an HDF5 type leads out of it");
  expect_no_type(type_head(enumeration, 1, 1) + type_head(3, 0, 1), "109: an enumeration of the HDF5 file is none of whole numbers");
  expect_no_type(type_head(array, 0, 8) + '\0', "101: an array of the HDF5 file has an impossible number of axes");
  expect_no_type(type_head(array, 0, 8) + '\1' + little(9, 4), "102: an array of the HDF5 file is larger than its element");
  expect_no_type(type_head(array, 0, 8) + '\1' + little(1, 4) + kWhole, "118: an array of the HDF5 file has not the size of its elements");
}

// --- where the elements lie ---

std::string numbers_at(const std::string& layout, const std::string& rest, const std::string& filters = "") {
  return file_of(message(kShape, shape_of(2)) + message(kType, kWhole) + message(kLayout, layout) +
                     (filters.empty() ? "" : message(kFilters, filters)),
                 rest);
}

const std::string kNumbers = little(1, 4) + little(2, 4);

void expect_numbers(const std::string& content) {
  const File file("t.h5", as_bytes(content), nullptr);
  ASSERT_EQ(file.sets().size(), 1U);
  EXPECT_EQ(file.sets()[0].refusal, "");
  EXPECT_EQ(as_text(file.read(file.sets()[0], 0, 2)), kNumbers);
}

std::string entry_of(uint64_t child, uint64_t size = 8) { return little(size, 8) + little(0, 16) + little(child, 8); }

std::string node_of(unsigned level, const std::string& entries) {
  return "TREE\1"s + little(level, 1) + little(entries.size() / entry_of(0).size(), 2) + little(kNone, 8) + little(kNone, 8) + entries;
}

std::string in_tree(uint64_t chunk) { return "\3\2\2"s + little(kRest, 8) + little(chunk, 4) + little(4, 4); }

constexpr uint64_t kEntry = kRest + 24, kChunk = kEntry + 32;  // of a tree of one chunk

TEST(DamagedHdf5, SaysWhatIsWrongWithATreeOfChunks) {
  const std::string tree = node_of(0, entry_of(kChunk)) + kNumbers;
  const std::string good = numbers_at(in_tree(2), tree);
  expect_numbers(good);
  expect_refusals(good, {{kRest, 't', 1, "48: the tree of an HDF5 data set is none"},
                         {kRest + 5, 2, 1, "104: the tree of an HDF5 data set has levels that do not fit"},
                         {kEntry, 9999, 4, "104: the HDF5 file is cut short, or an address leads out of it"},
                         {kEntry, 4, 4, "104: a chunk of the HDF5 file has another size than its elements"},
                         {kEntry + 24, 9999, 8, "96: an address of the HDF5 file leads out of it"}});
  expect_refusal(numbers_at(in_tree(0), tree), "195: the chunks of an HDF5 data set are empty");
  expect_refusal(numbers_at("\3\2\3"s + little(kRest, 8), tree), "191: the chunks of an HDF5 data set have another rank than it");
  expect_refusal(numbers_at(in_tree(1 << 28), tree), "104: a chunk of '' is far larger than the file");
}

TEST(DamagedHdf5, HasABoundOnItsChunks) {
  std::string deep;
  for (unsigned i = 0; i <= 33; ++i) deep += node_of(60 - i, entry_of(kRest + (i + 1) * 56));
  expect_refusal(numbers_at(in_tree(2), deep), "1896: the chunks of an HDF5 data set come back to themselves");
  // Many ways to the same chunks.
  std::string ways, chunks;
  for (int i = 0; i < 20; ++i) ways += entry_of(kRest + 24 + 20 * 32), chunks += entry_of(kRest);
  expect_refusal(numbers_at(in_tree(2), node_of(1, ways) + node_of(0, chunks)), "1120: an HDF5 data set has more chunks than room");
}

TEST(DamagedHdf5, SaysWhatIsWrongWithAListOfChunks) {
  constexpr uint64_t block = kRest + 24, chunk = block + 14 + 8;
  const std::string list =
      "FAHD\0\0\x08\x0a"s + little(1, 8) + little(block, 8) + "FADB\0\0"s + little(kRest, 8) + little(chunk, 8) + kNumbers;
  const auto layout = [](char size) { return "\4\2\0\2\1"s + size + "\4\3\x0a"s + little(kRest, 8); };
  const std::string good = numbers_at(layout(2), list);
  expect_numbers(good);
  expect_refusals(good, {{kRest, 'f', 1, "48: the list of an HDF5 data set's chunks is none"},
                         {block, 'f', 1, "72: the list of an HDF5 data set's chunks is none"},
                         {kRest + 8, 0, 8, "48: the list of an HDF5 data set's chunks is damaged"}});
  expect_refusal(numbers_at(layout(0), list), "177: the chunks of an HDF5 data set have an impossible size");
  expect_refusal(numbers_at("\4\2\0\3\1"s, list), "175: the chunks of an HDF5 data set have another rank than it");
}

TEST(DamagedHdf5, SaysWhatIsWrongWithAChunk) {
  const std::string tree = node_of(0, entry_of(kChunk)) + kNumbers;
  const auto refuse = [&](const std::string& filters, std::string_view says) {
    expect_refusal(numbers_at(in_tree(2), tree, filters), says);
  };
  const auto filter = [](uint64_t id, const std::string& values = "") {
    return "\2\1"s + little(id, 2) + (id < 256 ? "" : little(0, 2)) + little(0, 2) + little(values.size() / 4, 2) + values;
  };
  refuse("\x09\1"s, "207: the filters of an HDF5 data set cannot be read");
  refuse(filter(2, little(0, 4)), "104: a filter of the HDF5 file has no width");
  refuse(filter(3), "104: the checksum (Fletcher-32) of a chunk differs: the HDF5 file is damaged");
  refuse(filter(32000), "104: a chunk of the HDF5 file is damaged (LZF)");
  for (const uint64_t id : {1, 3})
    expect_refusals(numbers_at(in_tree(2), tree, filter(id)), {{kEntry, 3, 4, "104: a chunk of the HDF5 file is cut short"}});
}

TEST(DamagedHdf5, SaysWhatIsWrongWithOtherPlaces) {
  const std::string good = numbers_at("\3\1"s + little(kRest, 8) + little(8, 8), kNumbers);
  expect_numbers(good);
  const size_t layout = good.size() - 18;
  expect_refusals(good, {{layout + 10, 4, 8, "126: the data set '' has fewer bytes than elements"},
                         {layout + 10, 9999, 8, "48: the HDF5 file is cut short, or an address leads out of it"}});
}

// --- texts of any length ---

TEST(DamagedHdf5, SaysWhereATextIsMissing) {
  const std::string heap = "GCOL\1\0\0\0"s + little(48, 8) + little(1, 8) + little(3, 8) + "abc\0\0\0\0\0"s + little(0, 8);
  const std::string content = file_of("", heap);
  const File file("t.h5", as_bytes(content), nullptr);
  const auto text = [&](uint64_t size, uint64_t address, uint64_t index) {
    const std::string element = little(size, 4) + little(address, 8) + little(index, 4);
    return std::string(File::Texts(file).at(as_bytes(element).data()));
  };
  const auto refuse = [&](uint64_t size, uint64_t address, uint64_t index, const std::string& says) {
    try {
      ADD_FAILURE() << "accepted: " << text(size, address, index);
    } catch (const Error& error) {
      expect_said(error, says);
    }
  };
  EXPECT_EQ(text(3, kRest, 1), "abc");
  refuse(3, 9999, 1, "9999: a text of the HDF5 file leads out of it");
  refuse(3, kRest + 1, 1, "49: a heap of the HDF5 file is none");
  refuse(3, kRest, 2, "48: a text of the HDF5 file is not in its heap");
  refuse(4, kRest, 1, "48: a text of the HDF5 file is not in its heap");
}

}  // namespace
}  // namespace perigee::hdf5
