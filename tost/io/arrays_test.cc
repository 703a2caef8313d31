// The idx and CIFAR readers, each on good files and on every kind of bad one.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/errors.h"
#include "tests/testing/shared.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/io/picture_files.h"

namespace tost {
namespace {

namespace fs = std::filesystem;

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

std::string idx(std::initializer_list<uint32_t> dims, size_t values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(dims.size())};
  for (uint32_t dim : dims) bytes += big_endian(dim);
  for (size_t i = 0; i < values; ++i) bytes.push_back(static_cast<char>(i * 3));
  return bytes;
}

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(bytes.size() + 200, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class ArraysTest : public ::testing::Test {
 protected:
  std::string write(const std::string& bytes) {
    const fs::path path = folder_ / "file";
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  void expect_idx_refused(const std::string& bytes, const std::string& part, int64_t dims = 3) {
    const std::string message =
        testing::data_error_of([&] { read_idx(write(bytes), dims, 1 << 20); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find((folder_ / "file").string()), std::string::npos) << message;
  }

  const testing::TempDir dir_;
  const fs::path folder_ = dir_.path();
};

TEST_F(ArraysTest, ReadsPlainAndCompressedIdx) {
  const std::string bytes = idx({2, 3, 4}, 24);
  const std::string members = gzip(bytes.substr(0, 20)) + gzip(bytes.substr(20));
  for (const std::string& file : {bytes, gzip(bytes), members}) {
    const IdxArray array = read_idx(write(file), 3);
    EXPECT_EQ(array.dims, (std::vector<int64_t>{2, 3, 4}));
    ASSERT_EQ(array.values.size(), 24u);
    EXPECT_EQ(array.values[23], 69);
  }
}

TEST_F(ArraysTest, RefusesBadIdx) {
  expect_idx_refused("", "too short");
  expect_idx_refused("\x89PNG....", "not an idx file");
  std::string floats = idx({2, 3, 4}, 24);
  floats[2] = '\x0D';
  expect_idx_refused(floats, "type 13");
  expect_idx_refused(idx({24}, 24), "1 dimensions, expected 3");
  expect_idx_refused(idx({2, 3, 4}, 24), "3 dimensions, expected 1", 1);
  expect_idx_refused(idx({2, 3, 4}, 24).substr(0, 13), "truncated inside");
  expect_idx_refused(idx({2, 0, 4}, 0), "length 0");
  expect_idx_refused(idx({2, 3, 4}, 23), "claims 24 values, it holds 23");
  expect_idx_refused(idx({2, 3, 4}, 25), "more than the 24");
  expect_idx_refused(idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, 9), "impossible");
  expect_idx_refused(idx({0xFFFF, 0xFFFF, 2}, 9), "above the limit");
}

TEST_F(ArraysTest, RefusesBadGzip) {
  const std::string good = gzip(idx({2, 30, 40}, 2400));
  for (size_t size : {size_t{10}, size_t{60}, good.size() - 9, good.size() - 1}) {
    expect_idx_refused(good.substr(0, size), size < good.size() - 9 ? "" : "truncated");
  }
  std::string damaged = good;
  damaged[good.size() - 6] ^= 1;  // its checksum
  expect_idx_refused(damaged, "damaged gzip");
  expect_idx_refused(good + "trailing", "bytes after");
  expect_idx_refused(gzip(idx({2, 30, 40}, 2401)), "more than the 2400");
}

TEST_F(ArraysTest, MissingFileIsNamed) {
  const std::string message = testing::data_error_of([] { read_idx("/nowhere/at/all", 1); });
  EXPECT_NE(message.find("/nowhere/at/all"), std::string::npos);
}

std::string record(int labels, uint8_t label) {
  std::string bytes(static_cast<size_t>(labels), static_cast<char>(label));
  for (int64_t i = 0; i < kCifarImageBytes; ++i) bytes.push_back(static_cast<char>(i / 1024 * 50));
  return bytes;
}

TEST_F(ArraysTest, ReadsCifar) {
  for (const CifarKind kind : {CifarKind::kCifar10, CifarKind::kCifar100}) {
    const int labels = kind == CifarKind::kCifar10 ? 1 : 2;
    std::string bytes = record(labels, 9) + record(labels, 4);
    CifarRecords records;
    append_cifar(write(bytes), kind, 10, records);
    append_cifar(write(record(labels, 1)), kind, 10, records);
    EXPECT_EQ(records.labels, (std::vector<uint8_t>{9, 4, 1}));
    ASSERT_EQ(records.pixels.size(), static_cast<size_t>(3 * kCifarImageBytes));
    EXPECT_EQ(records.pixels[0], 0);
    EXPECT_EQ(records.pixels[1], 50);
    EXPECT_EQ(records.pixels[5], 100);
  }
}

TEST_F(ArraysTest, TakesTheFineLabel) {
  CifarRecords records;
  append_cifar(write("\x13\x07" + record(0, 0)), CifarKind::kCifar100, 100, records);
  EXPECT_EQ(records.labels[0], 7);
}

TEST_F(ArraysTest, RefusesBadCifar) {
  const auto read = [&](const std::string& bytes) {
    CifarRecords records;
    append_cifar(write(bytes), CifarKind::kCifar10, 10, records);
  };
  EXPECT_NE(testing::data_error_of([&] { read(""); }).find("multiple"), std::string::npos);
  EXPECT_NE(testing::data_error_of([&] { read(record(1, 2).substr(1)); }).find("3072 bytes"),
            std::string::npos);
  EXPECT_NE(testing::data_error_of([&] { read(record(2, 2)); }).find("multiple"),
            std::string::npos);
  const std::string message = testing::data_error_of([&] { read(record(1, 2) + record(1, 10)); });
  EXPECT_NE(message.find("label 10 in record 1"), std::string::npos) << message;
}

TEST_F(ArraysTest, ReadsClassNames) {
  EXPECT_EQ(read_class_names(write("cat\r\nold dog\n\n\n")),
            (std::vector<std::string>{"cat", "old dog"}));
  EXPECT_NE(testing::data_error_of([&] { read_class_names(write("\n\n")); }).find("no class name"),
            std::string::npos);
  EXPECT_NE(testing::data_error_of([&] { read_class_names(write("a\n\nb\n")); }).find("line 2"),
            std::string::npos);
  EXPECT_NE(testing::data_error_of([&] {
              read_class_names(write("cat\ndog\ncat\n"));
            }).find("'cat' in lines 1 and 3"),
            std::string::npos);
  std::string many;
  for (int i = 0; i < 257; ++i) many += std::to_string(i) + "\n";
  EXPECT_NE(testing::data_error_of([&] { read_class_names(write(many)); }).find("257"),
            std::string::npos);
}

TEST_F(ArraysTest, ReadsTheRealTestLabels) {
  TOST_SHARED_OR_SKIP(labels, "data/fashion-mnist/t10k-labels-idx1-ubyte.gz");
  EXPECT_EQ(read_idx(labels.string(), 1).values.size(), 10'000u);
}

}  // namespace
}  // namespace tost
