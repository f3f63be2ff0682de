// MATLAB's files: what scipy.io wrote reads as scipy reads it, damage is refused where it is.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/core/error.h"
#include "src/data/table/reading/table_file.h"
#include "src/io/codec/compress.h"
#include "src/io/file.h"
#include "tests/core/refusal.h"
#include "tests/io/temporary.h"

namespace perigee::tables {
namespace {

// scipy.io.savemat of scipy 1.17: X (3 x 2 doubles), y (int32), flag (logical), name (letters), s (a structure with a and t), cells (texts), scalar,
// z (complex numbers), f (single), big (int64).
constexpr const char* kPlain =
    "4d41544c414220352e30204d41542d66696c6520506c6174666f726d3a20706f7369782c2043726561746564206f6e3a20536174204e6f7620323820"
    "31383a30333a313620323032360000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000001494d0e000000600000000600000008000000060000000000000005000000080000000300000002000000010001005800000009000000"
    "30000000000000000000f83f0000000000000840000000000000f87f00000000000000c000000000000010409c7500883ce4377e0e00000040000000"
    "06000000080000000c00000000000000050000000800000003000000010000000100010079000000050000000c0000000700000008000000f7ffffff"
    "000000000e00000030000000060000000800000009020000000000000500000008000000030000000100000001000400666c61670200030001000100"
    "0e000000400000000600000008000000040000000000000005000000080000000300000003000000010004006e616d65100000000b0000004142c5bb"
    "646f6f6162c3ab00000000000e000000c000000006000000080000000200000000000000050000000800000001000000010000000100010073000000"
    "050004000200000001000400610074000e00000030000000060000000800000009000000000000000500000008000000030000000100000001000000"
    "0000000002000300010203000e0000004800000006000000080000000600000000000000050000000800000003000000010000000100000000000000"
    "0900000018000000000000000000f03f000000000000004000000000000010400e000000d80000000600000008000000010000000000000005000000"
    "080000000300000001000000010000000500000063656c6c730000000e00000030000000060000000800000004000000000000000500000008000000"
    "0100000003000000010000000000000010000300726564000e0000003000000006000000080000000400000000000000050000000800000000000000"
    "00000000010000000000000010000000000000000e000000300000000600000008000000040000000000000005000000080000000100000004000000"
    "010000000000000010000400626c75650e00000040000000060000000800000006000000000000000500000008000000010000000100000001000000"
    "060000007363616c61720000090000000800000000000000000014400e00000068000000060000000800000006080000000000000500000008000000"
    "0300000001000000010001007a0000000900000018000000000000000000f03f00000000000008400000000000001040090000001800000000000000"
    "00000040000000000000000000000000000000000e000000400000000600000008000000070000000000000005000000080000000300000001000000"
    "0100010066000000070000000c0000000000003f0000803f00000040000000000e0000004800000006000000080000000e0000000000000005000000"
    "08000000030000000100000001000300626967000c000000180000000100000000000010010000000000000000000000000000c0";
// The same, compressed.
constexpr const char* kPacked =
    "4d41544c414220352e30204d41542d66696c6520506c6174666f726d3a20706f7369782c2043726561746564206f6e3a20536174204e6f7620323820"
    "31383a30333a313620323032360000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000001494d0f0000003f000000789ce36360604800623620e680d220c00ae533033113103302610490e60462030618f8610fa1391ca0fc7aa8"
    "c4010825e030a794a1c3e689791d00d97f089c0f0000002f000000789ce36360607000623620e600621e06086085f2998198118c19192aa1e22035ec"
    "50f9efffffff07a90700477c05090f0000002b000000789ce36360603000623620e600624e2606306085f2998198118c5918d27212d39980228c4008"
    "00245f020f0f00000036000000789ce36360607000623620e600621606086085f299a19811289397989b2a00647303b1a3d3d1dd29f9f98949875783"
    "d5030084a007ab0f00000055000000789ce36360603800c46c40cc01c44c0c10c00ae533c231234331589c05ac86114827329430f001d90648fa39d1"
    "f4332399c100369f9981918919accf03491f1b017d2073251860e0833d94e100a1041c00ed6a05160f0000004c000000789ce3636060b801c46c40cc"
    "01c48c0c10c00ae53343c518a162c9a93939c5409a0f880d90f4b1a0e96344d20b0202405e516a0a417d3080d00701c4d8c782a28f852129a7341500"
    "6140075d0f0000002a000000789ce36360607000623620e680d220c00ae5332261905c7172624e6211030327541e02441c00538d03540f0000003900"
    "0000789ce3636060c800623620e600d120020858a17c662066046346862a20cd09c4120c30f0c11e427338406801075479060706340000c48103690f"
    "0000002e000000789ce36360607000623620e600627606086085f2998198118c1919d2a0f23c1025f60c0c0df650ed0c0035b4022e0f000000310000"
    "00789ce3636060f000623620e600623e06086085f2998198118c99199232d31978806c09a8181008406918380000555702b0";

std::string unhex(std::string_view hex) {
  std::string bytes;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return bytes;
}

Frame all_of(const std::string& bytes, const std::string& part = "") {
  const TemporaryFolder folder;
  write_file(folder / "m.mat", as_bytes(bytes));
  return TableFile(folder / "m.mat" + (part.empty() ? "" : "#" + part), {}).all();
}
std::string refused(const std::string& bytes, const std::string& part = "") {
  return refusal([&] { all_of(bytes, part); });
}
std::string mat_row(const Frame& frame, int64_t row) {
  std::string text;
  for (size_t c = 0; c < frame.columns.size(); ++c) text += (c ? "|" : "") + cell_text(frame.columns[c], frame.schema.columns[c], row);
  return text;
}

TEST(Matlab, ReadsWhatScipyWrites) {
  for (const char* const hex : {kPlain, kPacked}) {
    const Frame frame = all_of(unhex(hex));
    ASSERT_EQ(frame.rows, 3);
    std::string columns;
    for (const ColumnSpec& spec : frame.schema.columns) columns += spec.name + ":" + type_text(spec.type) + " ";
    EXPECT_EQ(columns, "X[0]:real X[1]:real y:integer flag:boolean name:text s.a:integer s.t:real cells:text f:real big:integer ");
    EXPECT_EQ(mat_row(frame, 0), "1.5|-2|7|true|Ada|1|1|red|0.5|1152921504606846977");
    EXPECT_EQ(mat_row(frame, 1), "3|4|8|false|Bob|2|2||1|1");
    EXPECT_TRUE(std::isnan(frame.columns[0].real[2]));
    EXPECT_EQ(frame.columns[1].real[2], 1e300);
    EXPECT_EQ(frame.columns[4].text(2), "\u017bo\u00eb");
    EXPECT_EQ(frame.columns[9].whole[2], -(int64_t{1} << 62));
    EXPECT_EQ(all_of(unhex(hex), "s.t").columns.size(), 1u);
    EXPECT_EQ(all_of(unhex(hex), "scalar").columns[0].real[0], 5);
    EXPECT_HAS(refused(unhex(hex), "z"), "the file has no such array of numbers or texts");
    EXPECT_HAS(refused(unhex(hex), "z"), "'z' (complex numbers)");
  }
}

TEST(Matlab, ReadsMatricesOfText) {
  const Frame frame = all_of("% made by hand\n   1.0000000e+00   2.5\n\n -3, +4 % the last\n");
  ASSERT_EQ(frame.rows, 2);
  EXPECT_EQ(mat_row(frame, 0), "1|2.5");
  EXPECT_EQ(mat_row(frame, 1), "-3|4");
  EXPECT_HAS(refused("1 2\n3 x\n"),
             "m.mat:2:3: a matrix of MATLAB has numbers alone; got 'x', expected a number; or the file is of another version of MATLAB");
  EXPECT_HAS(refused("1 2\n3\n"), "m.mat:2:1: the row has another number of columns than the first; got '1', expected 2");
  EXPECT_HAS(refused("% nothing\n"), "the file has no array of numbers or texts");
}

// --- Files that are made here -------------------------------------------------------------------------------------------------

std::string number(uint32_t value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return bytes;
}
std::string element(uint32_t type, std::string data) {
  const auto size = static_cast<uint32_t>(data.size());
  data.resize((data.size() + 7) / 8 * 8);
  return number(type) + number(size) + data;
}
std::string array(uint32_t kind, const std::string& sizes, const std::string& name, const std::string& rest) {
  return element(6, number(kind) + number(0)) + element(5, sizes) + element(1, name) + rest;
}
std::string mat(const std::string& elements) {
  std::string head = "MATLAB 5.0 MAT-file";
  head.resize(124, ' ');
  return head + std::string("\0\1IM", 4) + elements;
}
std::string mat_of(const std::string& matrix) { return mat(element(14, matrix)); }
std::string sizes(uint32_t rows, uint32_t columns) { return number(rows) + number(columns); }

// Version 7.3, as h5py writes what MATLAB would, packed by zlib: X (3 x 2), y (3 x 1, int32), z (1 x 3, int16), n (1 x 1), and a cell's #refs#/a.
constexpr const char* kNewest =
    "78daf3750cf171745230d73356f0750cd14dcbcc49d55108c8492c49cb2fcab55270f7f18b703433611805c3113079fa767ab8b8f172497181f9"
    "1c1c0c2c0c02503908f51f0a1824d0f8509000a519a17407945ec104136704cb41b5330842cd47571712e4ea0a52fd1f0dc0ec316081d012a3b1"
    "36228187ab6300888e80a507287d8209551d4cbe124a5741e93c28ad5c949a56ac8c48af1a04ec65646085a86584f1213a18991891b309033303"
    "03563e3330c582540a2ad8337080451c184cb8194cfe4315b0024541f24c4c100339a0299c9911aa1cee5318a818d07808f6f3770185092cdc66"
    "b0a3e67f052108ed2002a13960e2ccf8cd55803104f0ab834957b0e257072b273ad806677a2694ae18d1d2112346ba12008b0900039805290471"
    "a727036854f0a0b9a461488407ae7060c4121e4c4829057778d840c3836d908607f67a133d7f5107fcb087e65607082d02a5190e40731d942fe1"
    "c00ecdd39cd0b0879577701da360148c8251300a46c12818f480d876282e9afcfe8d13076a0f6170f46f880d0f76b47060a7383cbca0016131a8"
    "c283d0b8cc0e11ecb1380a46e6b80cac7f9e80d63f4944cb2f1e541987800f923008088ec6053900005f35645b";

TEST(Matlab, TurnsTheArraysOfVersion73) {
  const Bytes bytes = inflate_zlib(as_bytes(unhex(kNewest)), "test", 1 << 16);
  const Frame frame = all_of(std::string(as_text(bytes)));
  std::string columns;
  for (const ColumnSpec& spec : frame.schema.columns) columns += spec.name + ":" + type_text(spec.type) + " ";
  EXPECT_EQ(columns, "X[0]:real X[1]:real y:integer z:integer ");
  ASSERT_EQ(frame.rows, 3);
  EXPECT_EQ(mat_row(frame, 0) + " " + mat_row(frame, 1) + " " + mat_row(frame, 2), "1.5|-2|7|1 3|4|8|0 5|6|9|2");
  EXPECT_EQ(all_of(std::string(as_text(bytes)), "n").columns[0].real[0], 5);
}

// As h5py writes an X of 1 x 3,145,728 doubles of which none is set.
constexpr const char* kFarLarger =
    "78daf3750cf171745230d73356f0750cd14dcbcc4955a035608001264f5f865130a0a0d3c3c58d974b8a0bcce1e06060611080c60d84fa0f0515"
    "eca87c98fe0428cd08a53ba0f40a26983823584e022a2e08351f5d5d4890ab2b48f57f3400b3c7800542738c46d988041eae8e01203a02ca87a6"
    "5286134ca8ea22d0d2a30785f63232b041cc6284f135203413238a3dc0148a95cf0c4cf9203141057b68da756030e16630f9cf0c51c50a1405c9"
    "3331430ce480e61466266658166084e647b0761eb83dbc40010e065f70f91d9f9c93585c0c121706aa664372474a7e69524e2ac45e6a80603f7f"
    "17508e86e54305e6d1b4490e00001ca64f44";

TEST(Matlab, RefusesAnArrayOfVersion73ThatIsFarLargerThanItsFile) {
  const Bytes bytes = inflate_zlib(as_bytes(unhex(kFarLarger)), "test", 1 << 16);
  EXPECT_HAS(refused(std::string(as_text(bytes))), "it is an array of MATLAB that is far larger than its file");
}

// Version 7.3 by h5py, packed by zlib: X (3 x 2 x 2, 0 to 11 in chunks of 2 rows), cells (5 x 1), letters (1 x 5, uint16) and p, a compound of
// a (int32) and b (double). Then two that hold nothing: far (2^22 doubles) and pairs, a compound of 2^22 rows.
constexpr const char* kNewestKinds =
    "78daed5a416b1341147eb3936d36a985a4c5b64a34a3cdc14b2560c07a31893652c1a8680e1ea4b4d60dad2c589a1c16bc78108cde7bf722f8033cf4"
    "0f88bd08fe03fb033c78126f7177e7cd6e32649396aaadf47d21bccc9bb733b36fbef760e6a55e6ddca9de10572f5f11f56a63beb9e1d8e25f018cdb"
    "75201c29de2c2dde9a489f4d070dcb82046464872145170105ad8d5841c95076507e30949e057db3a8cfe2f8ba5de341ade65b7735a8798a09292fd1"
    "969d482cd5aaf77df948f101e5aed16fa7fae7b6ec666b0e60cd769c96d776ec76dbde6ac1a6c6d7517c6230266d996a2f48c9596f9884926b6d5dcf"
    "bd48f09fcc8a325881a602a5712875d1c0f4b47ebfc18d60827110419b85f35b41443db59bce6adb060c0b4f2be4f846c235a35734f06b456fb470a8"
    "7d7878f7de22f35689590276cef4fb730fdb9053eb92107cf8b82a3f7c3d3fdc4ea879f2c3edd4befe10c793cf7ebe63deeee9f9eef43e9fdfc94a39"
    "19d3af85057c41fb198dff71f886f65331f6faf83fb37adc0c8e038b521981402010080402817060b8cb6b2b95b1fcf70ba5d7fcd5b477aa9dcdb35d"
    "5f093c6999fce2e67548adc376a061a964f193e0efb7df7d7ccb61aac05e48b5992c9ac9679ee5c463f88cc7a5b28b07b751721d6c70bccff39ea3c1"
    "5e393a16fc2a4727be4485368c40201008843f80b8ba8a7eff3aaaaed2392725ddcb9d4ce8751575af2f72fd76ab21eff0b943f3d7d4ea2af2c69ec9"
    "b247384f9cdc771dc590035a18299ca5260733de3dd27d90751516aecacd1137ff26af4c8d4f66c82bc99b1964483c8fb2c823bd82d8f9affc11e787"
    "28ce32c16f3f2f183d1922de2fd7d02f696d252f8fa93fe4ba191658a33aad926e603aedbdfca99e3c380a198f3cb2362be0893a068f7866502e8bf7"
    "f34df473411be560ff90f80d6b31a5a6";
constexpr const char* kNewestEmpty =
    "78daf3750cf171745230d73356f0750cd14dcbcc4955a0176060f2f4651805030a3a3d5cdc78b9a4b8c01c0e0e0616060188041384fa0f051d1ca87c"
    "98fe0428cd08a53ba0f40a26983823584e022a2e08351f5d5d4890ab2b48f57f3400b3c78005420b8c46d988041eae8e01203a02ca87a5a7134ca8ea"
    "d2128bc074416266513152ba7420d35e46065688198c30be068466624449f7301bd0f9cc409782c40415ec1938a0e226dc0c26ff9921aa5881a22079"
    "266688811c509f313331c3b20023541b3407560c683c04fbf9bb30020b07a863181498f1ab87e5d70ad6d1348c3f5d41e29d91113dc5c2d2510358a9"
    "1813244c1389b4075bba4b82ca7190a117777a654214d90ec8c5b40251ee04008dd85c84";

TEST(Matlab, KindsOfArraysOfVersion73) {
  const Bytes bytes = inflate_zlib(as_bytes(unhex(kNewestKinds)), "test", 1 << 20);
  const std::string file(as_text(bytes));
  const Frame frame = all_of(file);  // cells, and letters of another length, are no rows
  EXPECT_EQ(frame.schema.names(), (std::vector<std::string>{"X[0]", "X[1]", "X[2]", "X[3]", "a", "b"}));
  ASSERT_EQ(frame.rows, 3);
  EXPECT_EQ(mat_row(frame, 0) + " " + mat_row(frame, 1) + " " + mat_row(frame, 2), "0|3|6|9|1|0.5 1|4|7|10|2|1.5 2|5|8|11|3|2.5");
  EXPECT_EQ(all_of(file, "letters").columns[0].whole, (std::vector<int64_t>{'h', 'e', 'l', 'l', 'o'}));
  EXPECT_HAS(refused(file, "cells"), "the column 'cells' is not read");
  const Bytes empty = inflate_zlib(as_bytes(unhex(kNewestEmpty)), "test", 1 << 20);
  EXPECT_HAS(refused(std::string(as_text(empty)), "far"),
             "the column 'far' is not read: it is an array of MATLAB that is far larger than its file");
  EXPECT_HAS(refused(std::string(as_text(empty)), "pairs"),
             "the column 'a' is not read: it is an array of MATLAB that is far larger than its file");
}

// scipy.io.savemat(format="4") of X (3 x 2 doubles), name (letters), k (int16), c (complex).
constexpr const char* kOldest =
    "00000000030000000200000000000000020000005800000000000000f83f0000000000000840000000000000144000000000000000c000000000"
    "00001040000000000000184033000000030000000400000000000000050000006e616d6500414245646f766162652020201e0000000300000001"
    "00000000000000020000006b0001000200030000000000010000000300000001000000020000006300000000000000f03f000000000000084000"
    "00000000001040000000000000004000000000000000000000000000000000";

TEST(Matlab, ReadsVersion4) {
  const std::string bytes = unhex(kOldest);
  const Frame frame = all_of(bytes);
  ASSERT_EQ(frame.rows, 3);
  EXPECT_EQ(mat_row(frame, 0) + " " + mat_row(frame, 1) + " " + mat_row(frame, 2), "1.5|-2|Ada|1 3|4|Bob|2 5|6|Eve|3");
  EXPECT_EQ(frame.schema.columns[3].type, Type::integer);
  EXPECT_HAS(refused(bytes, "c"), "'c' (complex numbers)");
  for (size_t n = 21; n < bytes.size(); n += 8) EXPECT_NE(refused(bytes.substr(0, n)), "accepted") << n;
  const auto changed = [&](size_t at, char value) {
    std::string other = bytes;
    other[at] = value;
    return refused(other);
  };
  std::string sparse = bytes;
  sparse[0] = 2;
  EXPECT_HAS(refused(sparse, "X"), "'X' (a sparse matrix of version 4: full(x) makes it a full one)");
  EXPECT_HAS(changed(0, 9), "an array has an unknown type; got offset 0, expected a whole MATLAB file of version 4");
  EXPECT_HAS(changed(19, 1), "an array has an impossible size");
  EXPECT_HAS(changed(7, 64), "the file ends within an array");
  EXPECT_HAS(refused("\2" + bytes.substr(1), "X"), "'X' (a sparse matrix of version 4: full(x) makes it a full one)");
  std::string big;  // the other order of bytes: one array of int16
  for (const uint32_t word : {1030u, 2u, 1u, 0u, 2u})
    for (int shift = 24; shift >= 0; shift -= 8) big += static_cast<char>(word >> shift & 255);
  EXPECT_EQ(mat_row(all_of(big + std::string("k\0\1\2\0\3", 6)), 0), "258");
}

// scipy.io.savemat of S (3 x 2, sparse: 1, 2.5 and -3) and y.
constexpr const char* kSparse =
    "0e0000007800000006000000080000000500000003000000050000000800000003000000020000000100010053000000050000000c0000000100"
    "0000000000000200000000000000050000000c000000000000000100000003000000000000000900000018000000000000000000f03f00000000"
    "0000044000000000000008c00e000000480000000600000008000000060000000000000005000000080000000300000001000000010001007900"
    "00000900000018000000000000000000f03f00000000000000400000000000000840";

TEST(Matlab, FillsSparseArrays) {
  const std::string bytes = mat(unhex(kSparse));
  const Frame frame = all_of(bytes);
  ASSERT_EQ(frame.rows, 3);
  EXPECT_EQ(mat_row(frame, 0) + " " + mat_row(frame, 1) + " " + mat_row(frame, 2), "0|2.5|1 1|0|2 0|-3|3");
  const auto places = [](uint32_t rows, uint32_t row, uint32_t end) {
    return mat_of(array(5, sizes(rows, 1), "S", element(5, number(row)) + element(5, number(0) + number(end)) + element(2, "a")));
  };
  EXPECT_EQ(mat_row(all_of(places(2, 1, 1)), 1), "97");
  EXPECT_HAS(refused(places(2, 2, 1)), "a sparse array has impossible places");
  EXPECT_HAS(refused(places(2, 0, 2)), "a sparse array has impossible places");
  EXPECT_HAS(refused(mat_of(array(5, sizes(2, 1), "S", element(5, number(0)) + element(5, number(0)) + element(2, "a")))),
             "a sparse array has no places");
  const auto two = [](uint32_t type, uint32_t first, uint32_t second) {
    return mat_of(
        array(5, sizes(3, 1), "S", element(type, number(first) + number(second)) + element(5, number(0) + number(2)) + element(2, "ab")));
  };
  EXPECT_EQ(mat_row(all_of(two(6, 0, 2)), 2), "98") << "unsigned numbers are as good";
  EXPECT_HAS(refused(two(5, 1, 1)), "a sparse array has impossible places");
  EXPECT_HAS(refused(two(5, 2, 0)), "a sparse array has impossible places");
  EXPECT_HAS(refused(two(7, 0, 2)), "a sparse array has places that are no integers of 32 bits");
  EXPECT_HAS(refused(places(1u << 30, 0, 1)), "'S' (a sparse matrix that is far larger than its file)");
}

TEST(Matlab, UsualOddities) {
  const std::string three = element(2, "abc");
  const auto matrix = [](const std::string& content) { return element(14, content); };
  std::string large(16, '\0');
  large[0] = 5;
  for (size_t i = 8; i < 16; ++i) large[i] = '\xff';
  EXPECT_EQ(mat_row(all_of(mat_of(array(15, sizes(2, 1), "x", element(13, large)))), 1), "18446744073709551616") << "no negative number";
  const std::string text = matrix(array(4, sizes(1, 1), "", element(16, "a")));
  EXPECT_EQ(all_of(mat_of(array(1, sizes(2, 1), "c", text + element(14, "")))).rows, 2) << "a cell that was never set";
  EXPECT_EQ(all_of(mat_of(array(9, sizes(3, 1), "x", three)) + matrix(array(4, sizes(0, 0), "d", element(16, "")))).rows, 3);
  EXPECT_HAS(refused(mat_of(array(9, sizes(3, 1), std::string(5000, 'n'), three))), "an array has a name of more than 4096 letters");
  EXPECT_HAS(refused(mat_of(array(1, sizes(1, 1), "c", three))), "a cell is no array");
  EXPECT_HAS(refused(mat_of(array(4, sizes(5'000'000, 1), "x", element(2, std::string(5'000'000, 'a'))))),
             "an array of letters has far too many rows");
  std::string names, values;
  for (int i = 0; i < 10'000; ++i)
    names += "f" + std::to_string(100'000 + i) + std::string(1, '\0'), values += matrix(array(9, sizes(1, 1), "", element(2, "a")));
  EXPECT_HAS(refused(mat_of(array(2, sizes(1, 1), std::string(4000, 'n'), element(5, number(8)) + element(1, names) + values))),
             "names and texts are far larger than those of such a file");
}

TEST(Matlab, RefusesDamage) {
  const std::string three = element(2, "abc");
  EXPECT_EQ(mat_row(all_of(mat_of(array(9, sizes(3, 1), "x", three))), 2), "99") << "a good one";
  EXPECT_HAS(refused(mat_of(element(6, number(9) + number(0)))), "the file ends within an array");
  EXPECT_HAS(refused(mat(number(5u << 16 | 14) + number(0))), "a small element has more than four bytes");
  EXPECT_HAS(refused(mat(number(14) + number(1u << 30))), "an element is longer than what it stands in; got offset 128");
  EXPECT_HAS(refused(mat(element(9, "12345678"))), "an element is no array");
  EXPECT_HAS(refused(mat_of(array(9, number(3), "x", three))), "an array has no size");
  EXPECT_HAS(refused(mat_of(array(9, sizes(UINT32_MAX, 1), "x", three))), "an array has an impossible size");
  EXPECT_HAS(refused(mat_of(array(9, sizes(4, 1), "x", three))), "an array has not as many values as its size says");
  EXPECT_HAS(refused(mat_of(array(9, sizes(3, 1), "x", element(14, "abc")))), "an array has not as many values as its size says");
  EXPECT_HAS(refused(mat_of(array(4, sizes(1u << 30, 1), "x", three))), "an array of letters has none");
  EXPECT_HAS(refused(mat_of(array(2, sizes(1, 1), "x", element(5, number(0)) + element(1, "")))), "a structure has no names");
  EXPECT_HAS(
      refused(mat_of(array(9, sizes(3, 1), "x", three)) + element(14, array(9, sizes(2, 1), "y", element(2, "ab")))),
      "the arrays have different numbers of rows; got 'x' (3 x 1), 'y' (2 x 1), expected arrays of one table; FILE#NAME chooses an array");
  EXPECT_HAS(refused(mat_of(array(2, sizes(3, 1), "x", three))), "a list of structures or objects");
  EXPECT_HAS(refused(mat_of(array(1, sizes(2, 2), "x", three))), "cells that are no list");
  EXPECT_HAS(refused(mat_of(array(1, sizes(1, 1), "x", element(14, array(9, sizes(3, 1), "", three))))), "cells that are no texts");
  EXPECT_HAS(refused(mat_of(array(9, sizes(2, 70'000), "x", element(2, std::string(140'000, 'a'))))), "the arrays have too many columns");
  EXPECT_HAS(refused(mat_of(array(9, sizes(0, 2), "x", element(2, "")))), "the table has no rows");
  EXPECT_HAS(refused(mat("")), "the file has no array of numbers or texts");
  std::string many;
  for (int i = 0; i < 65'600; ++i) many += element(14, element(6, ""));
  for (int i = 0; i < 65'600; ++i) many += element(14, array(9, sizes(1, 1), "x", element(2, "a")));
  EXPECT_HAS(refused(mat(many)), "the file has too many arrays");
  // Every way to cut it or to change a byte is an error or another table.
  const std::string good = unhex(kPacked);
  for (size_t cut = 0; cut < good.size(); cut += 31) refused(good.substr(0, cut));
  for (const char* const hex : {kPlain, kPacked})
    for (size_t at = 0; at < std::strlen(hex) / 2; at += 5) {
      std::string bytes = unhex(hex);
      bytes[at] = static_cast<char>(bytes[at] ^ (at % 2 == 0 ? 0xff : 0x41));
      refused(bytes);
    }
}

}  // namespace
}  // namespace perigee::tables
