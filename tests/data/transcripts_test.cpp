// Recordings with texts of what is said: labels for the loss `ctc`.
#include <gtest/gtest.h>

#include "src/data/source.h"
#include "src/io/archive/tar.h"
#include "tests/data/wav_file.h"
#include "tests/io/temporary.h"

namespace perigee {
namespace {

SourcePtr open_transcribed(const std::string& json, const TemporaryFolder& folder, const Json& fitted = Json()) {
  Json description = Json::parse(json, "test");
  if (fitted.is_object()) description = with_fitted(description, fitted);
  return open_source(Config(description, "test", ErrorKind::data), folder.path());
}

std::vector<int64_t> labels_of(const DataSource& source, int64_t index) {
  std::vector<float> x(static_cast<size_t>(source.fields()[0].shape.elements()));
  int64_t steps = 0;
  std::vector<int64_t> y(static_cast<size_t>(source.fields()[2].shape.elements()), 99);
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(&steps),
                              reinterpret_cast<std::byte*>(y.data())};
  source.read({.index = index}, slots);
  return y;
}

std::string transcripts_refusal(const std::string& json, const TemporaryFolder& folder, const Json& fitted = Json()) {
  try {
    open_transcribed(json, folder, fitted);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

void put_recordings(const TemporaryFolder& folder) {
  for (const char* name : {"said/a.wav", "said/b.wav", "said/c.wav"})
    write_file(folder / name, as_bytes(wav_of({}, std::string(400, '\1'))));
}

constexpr const char* kSaid = R"({"type": "audio", "folder": "said", "table": "said.csv"})";

TEST(Transcripts, NumberTheCharactersFromOneOn) {
  const TemporaryFolder folder;
  put_recordings(folder);
  write_file(folder / "said.csv", as_bytes("text,path\n\"abba\",c.wav\nbé,a.wav\n,b.wav\n"));
  const SourcePtr source = open_transcribed(kSaid, folder);
  ASSERT_EQ(source->fields().size(), 3u);
  const Field& labels = source->fields()[2];
  EXPECT_EQ(labels.name, "y");
  EXPECT_EQ(labels.shape, (Shape{4}));
  EXPECT_EQ(labels.classes, 0) << "a sequence, not a class of the example";
  EXPECT_EQ(labels.class_names, (std::vector<std::string>{"", "b", "a", "é"})) << "the blank, then the most frequent first";
  EXPECT_EQ(labels_of(*source, 0), (std::vector<int64_t>{1, 3, -1, -1}));
  EXPECT_EQ(labels_of(*source, 1), (std::vector<int64_t>{-1, -1, -1, -1})) << "silence";
  EXPECT_EQ(labels_of(*source, 2), (std::vector<int64_t>{2, 1, 1, 2}));
}

TEST(Transcripts, NumberWords) {
  const TemporaryFolder folder;
  put_recordings(folder);
  write_file(folder / "said.csv", as_bytes("path,text\na.wav,One two one\nb.wav,TWO\n"));
  const SourcePtr source = open_transcribed(
      R"({"type": "audio", "folder": "said", "table": "said.csv", "unit": "word", "lowercase": true, "labels": 5})", folder);
  EXPECT_EQ(source->size(), 2) << "those of the table alone";
  EXPECT_EQ(source->fields()[2].class_names, (std::vector<std::string>{"", "one", "two"}));
  EXPECT_EQ(labels_of(*source, 0), (std::vector<int64_t>{1, 2, 1, -1, -1}));
  EXPECT_EQ(labels_of(*source, 1), (std::vector<int64_t>{2, -1, -1, -1, -1}));
}

TEST(Transcripts, OtherPartsKeepTheNumbersAndTheRoom) {
  const TemporaryFolder folder;
  put_recordings(folder);
  write_file(folder / "said.csv", as_bytes("path,text\na.wav,aab\n"));
  const Json fitted = open_transcribed(kSaid, folder)->traits().fitted;
  write_file(folder / "said.csv", as_bytes("path,text\nb.wav,b\n"));
  const SourcePtr test = open_transcribed(kSaid, folder, fitted);
  EXPECT_EQ(labels_of(*test, 0), (std::vector<int64_t>{2, -1, -1}));
  write_file(folder / "said.csv", as_bytes("path,text\nb.wav,bab\na.wav,box\n"));
  EXPECT_NE(transcripts_refusal(kSaid, folder, fitted).find("said.csv:3: byte 1: no transcript of the training part has this; got \"o\""),
            std::string::npos)
      << transcripts_refusal(kSaid, folder, fitted);
  EXPECT_NE(transcripts_refusal(kSaid, folder, fitted).find("take a training part that has it, or leave the recording out"),
            std::string::npos);
  write_file(folder / "said.csv", as_bytes("path,text\nb.wav,abab\n"));
  const std::string longer = transcripts_refusal(kSaid, folder, fitted);
  EXPECT_NE(longer.find("the transcript has more labels than there is room for; got 4, expected at most 3"), std::string::npos) << longer;
  EXPECT_NE(longer.find("labels = 4 in all parts"), std::string::npos) << longer;
  const std::string roomy = R"({"type": "audio", "folder": "said", "table": "said.csv", "labels": 4})";
  EXPECT_EQ(labels_of(*open_transcribed(roomy, folder, fitted), 0), (std::vector<int64_t>{1, 2, 1, 2}));
}

TEST(Transcripts, StandInAnArchivesTable) {
  const TemporaryFolder folder;
  std::string tar;
  for (const auto& [name, bytes] : {std::pair<std::string, size_t>{"x/a.wav", 400}, {"x/b.wav", 300}}) {
    const std::string sound = wav_of({}, std::string(bytes, '\1'));
    std::string header(512, '\0');
    header.replace(0, 7, name), header.replace(100, 7, "0000644"), header.replace(156, 1, "0"), header.replace(257, 5, "ustar");
    char size[12];
    std::snprintf(size, sizeof size, "%011zo", sound.size());
    header.replace(124, 11, size), header.replace(148, 8, 8, ' ');
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    char check[8];
    std::snprintf(check, sizeof check, "%06o", sum);
    header.replace(148, 7, std::string(check, 7));
    tar += header + sound + std::string((512 - sound.size() % 512) % 512, '\0');
  }
  write_file(folder / "said.tar", as_bytes(tar + std::string(1024, '\0')));
  write_file(folder / "said.csv", as_bytes("path,text\nx/b.wav,ab\n"));
  const std::string archive = R"({"type": "audio", "folder": "said.tar", "table": "said.csv"})";
  const SourcePtr one = open_transcribed(archive, folder);
  EXPECT_EQ(one->size(), 1);
  EXPECT_EQ(one->fields()[0].shape, (Shape{1, 150})) << "the recording that the table names";
  write_file(folder / "said.csv", as_bytes("path,text\nx/c.wav,ab\n"));
  EXPECT_NE(transcripts_refusal(archive, folder).find("the archive has no such recording; got \"x/c.wav\""), std::string::npos);
}

TEST(Transcripts, RefuseWhatDoesNotFitThem) {
  const TemporaryFolder folder;
  put_recordings(folder);
  const auto with = [](const std::string& more) { return R"({"type": "audio", "folder": "said", "table": "said.csv", )" + more + "}"; };
  write_file(folder / "said.csv", as_bytes("path,text\na.wav,ab\n"));
  EXPECT_NE(transcripts_refusal(with(R"("classes": ["a"])"), folder).find("belongs to classes, and the table has texts"),
            std::string::npos);
  write_file(folder / "said.csv", as_bytes("path,text,label\na.wav,ab,c\n"));
  EXPECT_NE(transcripts_refusal(kSaid, folder).find("the table has classes and texts; expected one of the columns label and text"),
            std::string::npos);
  write_file(folder / "said.csv", as_bytes("path,label\na.wav,ab\n"));
  EXPECT_NE(transcripts_refusal(with(R"("unit": "word")"), folder)
                .find("belongs to texts; got \"word\", expected a table with the columns path and text"),
            std::string::npos);
  write_file(folder / "said.csv", as_bytes("path,text\na.wav,a\xff\n"));
  EXPECT_NE(transcripts_refusal(kSaid, folder).find("UTF-8"), std::string::npos) << transcripts_refusal(kSaid, folder);
}

}  // namespace
}  // namespace perigee
