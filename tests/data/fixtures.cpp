#include "tests/data/fixtures.h"

#include <cstdlib>
#include <string_view>

#include "src/data/records/prepare.h"
#include "src/io/codec/compress.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "tests/data/wav_file.h"
#include "tests/io/pictures.h"

namespace perigee {
namespace {

void idx_files(const std::string& folder) {
  std::string images("\0\0\x08\x03\0\0\0\x0a\0\0\0\x04\0\0\0\x04", 16), labels("\0\0\x08\x01\0\0\0\x0a", 8);
  for (int i = 0; i < 160; ++i) images += static_cast<char>(i);
  for (int i = 0; i < 10; ++i) labels += static_cast<char>(i % 3);
  write_file(folder + "/x.idx.gz", gzip(as_bytes(images)));
  write_file(folder + "/y.idx", as_bytes(labels));
}

void npy_files(const std::string& folder) {
  Tensor x(Dtype::f64, {6, 5}), y(Dtype::i32, {6});
  for (int i = 0; i < 30; ++i) x.data<double>()[i] = i / 10.0;
  for (int i = 0; i < 6; ++i) y.data<int32_t>()[i] = i % 2;
  write_file(folder + "/x.npy", npy_bytes(x));
  write_file(folder + "/y.npy", npy_bytes(y));
}

// As numpy.savez writes it, but by hand: two stored entries.
std::string zip_of(const std::map<std::string, Bytes>& files) {
  const auto number = [](uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
    return out;
  };
  const auto crc = [](const Bytes& bytes) {
    uint32_t c = ~0u;
    for (const std::byte b : bytes) {
      c ^= std::to_integer<uint32_t>(b);
      for (int k = 0; k < 8; ++k) c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
    }
    return ~c;
  };
  std::string archive, directory;
  for (const auto& [name, bytes] : files) {
    const std::string common = number(20, 2) + number(0, 2) + number(0, 2) + number(0, 4) + number(crc(bytes), 4) +
                               number(bytes.size(), 4) + number(bytes.size(), 4) + number(name.size(), 2) + number(0, 2);
    directory += number(0x02014b50, 4) + number(20, 2) + common + number(0, 10) + number(archive.size(), 4) + name;
    archive += number(0x04034b50, 4) + common + name;
    archive += as_text(bytes);
  }
  const size_t start = archive.size();
  return archive + directory + number(0x06054b50, 4) + number(0, 4) + number(files.size(), 2) + number(files.size(), 2) +
         number(directory.size(), 4) + number(start, 4) + number(0, 2);
}

// Three records of CIFAR-10's layout.
void cifar_file(const std::string& folder) {
  std::string records;
  for (int r = 0; r < 3; ++r) {
    records += static_cast<char>(r * 4);
    for (int i = 0; i < 3072; ++i) records += static_cast<char>(r + i);
  }
  write_file(folder + "/cifar/cifar-10-batches-bin/data_batch_1.bin", as_bytes(records));
  write_file(folder + "/cifar/cifar-10-batches-bin/data_batch_2.bin", as_bytes(records));
}

void csv_file(const std::string& folder) {
  write_file(folder + "/t.csv", as_bytes("age,colour,weight,kind\n1,red,0.5,cat\n2,blue,?,dog\n3,red,1.5,cat\n4,green,2,emu\n"));
}

void sound_files(const std::string& folder) {
  for (const char* name : {"left/1.wav", "left/2.wav", "right/1.wav"}) {
    std::string samples;
    for (int i = 0; i < (name[0] == 'l' ? 1000 : 700); ++i)
      for (const int value : {i * 7919 % 20001 - 10000, i * 31 % 3000})
        samples += {static_cast<char>(value), static_cast<char>(value >> 8)};
    write_file(folder + "/sounds/" + name, as_bytes(wav_of({.rate = 8000, .channels = 2, .bits = 16}, samples)));
  }
  write_file(folder + "/sounds/right/notes.txt", as_bytes("no sound"));
}

void image_files(const std::string& folder) {
  for (const char* name : {"cat/1.png", "cat/2.jpg", "dog/1.jpg", "dog/notes.txt"}) {
    const std::string path = folder + "/pets/" + name;
    if (path.ends_with(".png")) write_file(path, png_of(gradient(3, 9, 12)));
    else if (path.ends_with(".jpg")) write_file(path, jpeg_of(gradient(1, 10, 8)));
    else write_file(path, as_bytes("no image"));
  }
}

}  // namespace

std::map<std::string, Json> source_examples(const std::string& folder) {
  idx_files(folder);
  npy_files(folder);
  cifar_file(folder);
  csv_file(folder);
  image_files(folder);
  for (const char* name : {"cold/1.txt", "cold/2.txt", "warm/1.txt", "warm/2.txt"})
    write_file(folder + "/talk/" + name, as_bytes(std::string("It is ") + name + ", they say."));
  sound_files(folder);
  write_file(folder + "/said.tsv", as_bytes("asked\tanswered\nwho?\tI\nwhat is it?\ta bird\nwhere\tthere\n"));
  write_file(folder + "/t.txt", as_bytes("Speak, speak. We know't, we know't.\nLet us kill him, and we'll have corn.\n"));
  write_file(folder + "/d.npz", as_bytes(zip_of({{"x.npy", read_file(folder + "/x.npy")}, {"y.npy", read_file(folder + "/y.npy")}})));
  const bool real = std::getenv("PERIGEE_DATA") != nullptr;
  const auto parse = [](std::string_view text) { return Json::parse(text, "fixtures"); };
  const std::string digits = R"({"type":"digits","size":20})", arrays = R"({"type":"arrays","x":[[1,2],[3,4],[5,6],[7,9]],"y":[0,1,1,2]})";
  const Json stored = parse(R"({"type":"idx","x":"x.idx.gz","y":"y.idx"})");
  records::prepare_records(*open_source(Config(stored, "fixtures"), folder), stored, folder + "/records", {.level = 1, .shard_records = 4});
  return {
      {"arrays", parse(arrays)},
      {"audio", parse(R"({"type":"audio","folder":"sounds","seconds":0.1})")},
      {"by_label", parse(R"({"type":"by_label","source":)" + arrays + "}")},
      {"cifar10", parse(R"({"type":"cifar10","folder":"cifar"})")},
      {"concat", parse(R"({"type":"concat","sources":[)" + digits + "," + digits + "]}")},
      {"csv", parse(R"({"type":"csv","file":"t.csv","missing":"mean"})")},
      {"digits", parse(digits)},
      {"documents", parse(R"({"type":"documents","file":"talk","length":5,"folds":2,"fold":2})")},
      {"text_pairs", parse(R"({"type":"text_pairs","file":"said.tsv","input":"asked","output":"answered"})")},
      {"host", parse(R"({"type":"host","name":"drawn"})")},  // the test puts it in scope
      {"idx", parse(R"({"type":"idx","x":"x.idx.gz","y":"y.idx"})")},
      {"images", parse(R"({"type":"images","folder":"pets","size":[6,7]})")},
      {"balanced", parse(R"({"type":"balanced","source":)" + digits + "}")},
      {"cutmix", parse(R"({"type":"cutmix","source":)" + digits + "}")},
      {"mixup", parse(R"({"type":"mixup","source":)" + digits + "}")},
      {"masked_lm", parse(R"({"type":"masked_lm","source":{"type":"text","file":"t.txt","context":6,"targets":"none"}})")},
      {"k_fold", parse(R"({"type":"k_fold","folds":3,"fold":1,"source":)" + digits + "}")},
      {"map", parse(R"({"type":"map","transforms":[{"type":"shift"}],"source":)" + digits + "}")},
      {"mnist", real ? parse(R"({"type":"mnist","part":"test"})") : Json()},
      {"npy", parse(R"({"type":"npy","x":"x.npy","y":"y.npy"})")},
      {"npz", parse(R"({"type":"npz","file":"d.npz","x":"x","y":"y"})")},
      {"records", parse(R"({"type":"records","folder":"records"})")},
      {"split", parse(R"({"type":"split","parts":[0.5,0.5],"part":1,"source":)" + digits + "}")},
      {"subset", parse(R"({"type":"subset","indices":[3,1],"source":)" + arrays + "}")},
      {"table", parse(R"({"type":"table","file":"t.csv","steps":[{"impute":"*"},{"derive":{"old":"age > 2"},"after":"age"}]})")},
      {"take", parse(R"({"type":"take","count":7,"from":5,"source":)" + digits + "}")},
      {"with_noise", parse(R"({"type":"with_noise","field":"z","size":[3],"source":)" + digits + "}")},
      {"vector_corpus", parse(R"({"type":"vector_corpus","files":["t.txt"],"min_count":1})")},
      {"text", parse(R"({"type":"text","file":"t.txt","context":6,"parts":{"train":0.8,"test":0.2}})")},
  };
}

int class_of(int64_t x) { return x < 60 ? 0 : x < 90 ? 1 : 2; }

std::string unequal_classes() {
  std::string x, y;
  for (int i = 0; i < 103; ++i) {
    const int k = i * 37 % 103;
    x += (i ? "," : "") + std::to_string(k);
    y += (i ? "," : "") + std::to_string(class_of(k));
  }
  return R"({"type":"arrays","x":[)" + x + R"(],"y":[)" + y + R"(],"classes":3})";
}

}  // namespace perigee
