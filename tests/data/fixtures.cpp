#include "tests/data/fixtures.h"

#include <cstdlib>
#include <string_view>

#include "src/data/records/partition.h"
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

void object_files(const std::string& folder) {
  for (const char* name : {"a", "b"}) {
    write_file(folder + "/shown/" + name + ".png", png_of(gradient(3, 12, 16)));
    write_file(folder + "/shown_masks/" + name + ".png", png_of(gradient(1, 12, 16)));
  }
  write_file(folder + "/boxes.csv",
             as_bytes("file,left,top,right,bottom,class\na.png,1,2,9,8,cat\nb.png,0,0,16,12,dog\na.png,3,3,6,11,dog\n"));
}

// By h5py 3.16, with gzip: x is [6, 4] of 0, 0.25, ..., y is 0 1 2 0 1 2, and g/z is [3, 2, 2] of 0, 1, ... as u1 in chunks.
constexpr std::string_view kHdf5 =
    "1f8b0800000000000203ed96bf4bc34014c7df5dda1ad246da52a828d22282824b07670dd84a17514a719252ad56dc1ca34b33eae6e8227474145cba"
    "e9e4aa38092e45c57fc0450aa2df3477fd11287410ac705ff8e4ddbbdce55edebb0b39cd67574d63d2e0ba4e52df429998e767447feb29f5b59ecf16"
    "38d93cde3b50cae0c48842118261f6b59826fca314eff3f7573431609e86d6c15ad56c878007b05922ce190b897b01b99ecfd712c462e994f0d394d4"
    "2959432b88683543c79b68ec867963cb72a13a8dbcee831f45afe52ce1b24c640107d4c12d6802b288a2200d32c0021ba00c0e81034ec01938077570"
    "09ae40c3eae43a815cb36eaea5d522c4a23a7572db9bd30551df09197083fead1e9e3f175deb6e13b18d3bede18fc4f19ddcf2f9df0b6dd3cc758f04"
    "82e41a637219eeb303fbdd328a5722d2bd3286c3e845d1ddc8db05d6a73092071e03ddc992f6c4da9f97e9c27c778a855c8e21287f25a2433e232ebe"
    "7ae3be1c0dd24cacdfe7032c2325252525252525252525a551935daa947777aadb7b9531a22d9ab64bafcdb797aafb1fdfa2b91f9a6ec67f30110000";

void hdf5_file(const std::string& folder) {
  Bytes packed;
  for (size_t i = 0; i < kHdf5.size(); i += 2)
    packed.push_back(static_cast<std::byte>(std::stoi(std::string(kHdf5.substr(i, 2)), nullptr, 16)));
  write_file(folder + "/a.h5", gunzip(packed, "a.h5", 1 << 20));
}

}  // namespace

std::map<std::string, Json> source_examples(const std::string& folder) {
  idx_files(folder);
  npy_files(folder);
  cifar_file(folder);
  csv_file(folder);
  image_files(folder);
  object_files(folder);
  hdf5_file(folder);
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
  const Json idx = parse(R"({"type":"idx","x":"x.idx.gz","y":"y.idx"})");
  Json partition = describe_partition("train/0", *open_source(Config(idx, "fixtures"), folder));
  partition.set("source", idx);
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
      {"hdf5", parse(R"({"type":"hdf5","file":"a.h5","x":"/x","y":"/y"})")},
      {"idx", parse(R"({"type":"idx","x":"x.idx.gz","y":"y.idx"})")},
      {"images", parse(R"({"type":"images","folder":"pets","size":[6,7]})")},
      {"balanced", parse(R"({"type":"balanced","source":)" + digits + "}")},
      {"cutmix", parse(R"({"type":"cutmix","source":)" + digits + "}")},
      {"mixup", parse(R"({"type":"mixup","source":)" + digits + "}")},
      {"masked_lm", parse(R"({"type":"masked_lm","source":{"type":"text","file":"t.txt","context":6,"targets":"none"}})")},
      {"packed", parse(R"({"type":"packed","length":9,"next":"y","source":{"type":"documents","file":"talk","length":5}})")},
      {"objects",
       parse(R"({"type":"objects","folder":"shown","boxes":"boxes.csv","masks":"shown_masks","size":[6,8],"fit":"pad","most":3})")},
      {"k_fold", parse(R"({"type":"k_fold","folds":3,"fold":1,"source":)" + digits + "}")},
      {"map", parse(R"({"type":"map","transforms":[{"type":"shift"}],"source":)" + digits + "}")},
      {"mnist", real ? parse(R"({"type":"mnist","part":"test"})") : Json()},
      {"npy", parse(R"({"type":"npy","x":"x.npy","y":"y.npy"})")},
      {"npz", parse(R"({"type":"npz","file":"d.npz","x":"x","y":"y"})")},
      {"partition", partition},
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

SourcePtr open_json(const Json& json, const std::string& folder) { return open_source(Config(json, "test", ErrorKind::data), folder); }
SourcePtr open_parsed(const std::string& json, const std::string& folder) { return open_json(Json::parse(json, "test"), folder); }

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
