// What well-formed files give.
#include "tost/io/torch_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tost/base/error.h"
#include "tost/base/process_memory.h"
#include "tost/io/torch_dtype.h"
#include "tost/io/torch_numpy.h"
#include "tost/io/torch_outline.h"
#include "tost/io/torch_test_util.h"
#include "tost/io/torch_value.h"

namespace tost {
namespace torch_file_test {

using namespace testing;  // the writers of torch_test_util.h

std::shared_ptr<const TorchFile> parse(const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  return TorchFile::parse(*owner, "x.pt", owner);
}

const std::string kKeys = "](" + str("0") + "e";

// Four floats: 1, 2, 3, 4.
std::string floats() {
  std::string bytes;
  for (const float value : {1.f, 2.f, 3.f, 4.f}) bytes += number(std::bit_cast<uint32_t>(value), 4);
  return bytes;
}

TEST(TorchFile, BothLayoutsGiveTheSameTensors) {
  const std::string object =
      dict({str("model"),
            dict({str("a"), tensor(storage("0", 4), 1, integers({3}), integers({1})), str("b"),
                  tensor(storage("0", 4), 0, integers({2, 2}), integers({1, 2}))})});
  for (const std::string& bytes :
       {torch_zip(object, floats()), torch_legacy(object, kKeys, number(4, 8) + floats())}) {
    const auto file = parse(bytes);
    const auto tensors = list_torch_tensors(*file, file->root());
    ASSERT_EQ(tensors.size(), 2u);
    EXPECT_EQ(tensors[0].name, "model.a");
    EXPECT_EQ(tensors[1].name, "model.b");
    EXPECT_EQ(tensors[0].tensor->storage, tensors[1].tensor->storage);
    EXPECT_EQ(file->storages().size(), 1u);
    EXPECT_EQ(file->storage_bytes(0), floats());
    EXPECT_EQ(tensors[1].tensor->shape, (std::vector<int64_t>{2, 2}));
    EXPECT_EQ(tensors[1].tensor->strides, (std::vector<int64_t>{1, 2}));
    EXPECT_FALSE(tensors[1].tensor->contiguous());
    EXPECT_TRUE(tensors[0].tensor->contiguous());
  }
}

TEST(TorchFile, ATensorNamedTwiceIsListedTwiceAndTheSame) {
  const std::string shared = tensor(storage("0", 4), 0, integers({4}), integers({1})) + "q\x07";
  const auto file =
      parse(torch_zip(dict({str("head"), shared, str("embedding"), "h\x07"}), floats()));
  const auto tensors = list_torch_tensors(*file, file->root());
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].id, tensors[1].id);
  EXPECT_EQ(tensors[0].tensor, tensors[1].tensor);
}

std::string repeat(const std::string& part, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += part;
  return out;
}

// What has no tensor gets no name: neither many children under one long key, nor one long key in
// many dicts, nor one state of many objects.
TEST(TorchFile, NamesAreMadeForTensorsAlone) {
  const std::string key = str(std::string(1000, 'k')) + "q\x07";
  const std::string one = tensor(storage("0", 4), 0, integers({4}), integers({1})) + "q\x08";
  const std::string state = dict({str("w"), "h\x08", str("v"), "](" + repeat("N", 1000) + "e"});
  const std::string object = global("a", "B") + "q\x09" + ")\x81" + state + "q\x0a" + "b";
  const auto file = parse(torch_zip(dict({key, "](" + repeat(")", 300'000) + one + "e", str("many"),
                                          "](" +
                                              repeat("}h\x07"
                                                     "Ns",
                                                     50'000) +
                                              "e",
                                          str("objects"),
                                          "](" + object +
                                              repeat("h\x09)\x81h\x0a"
                                                     "b",
                                                     50'000) +
                                              "e"}),
                                    floats()));
  const int64_t before = peak_resident_bytes();
  const auto tensors = list_torch_tensors(*file, file->root());
  EXPECT_LT(peak_resident_bytes() - before, 16 << 20);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, std::string(1000, 'k') + ".300000");
  EXPECT_EQ(tensors[1].name, "objects.0.w");
}

TEST(TorchFile, NamesHaveALimitTogether) {
  const std::string one = tensor(storage("0", 4), 0, integers({4}), integers({1})) + "q\x08";
  const auto listed = [&](size_t key, size_t times) {
    const auto file = parse(torch_zip(
        dict({str(std::string(key, 'k')), "](" + one + repeat("h\x08", times - 1) + "e"})));
    return list_torch_tensors(*file, file->root()).size();
  };
  EXPECT_EQ(listed(1, 200'000), 200'000u);
  EXPECT_THROW(listed(1, 200'001), Error);
  EXPECT_EQ(listed(1018, 60'000), 60'000u);
  EXPECT_THROW(listed(1018, 70'000), Error);
}

TEST(TorchFile, ViewsOfTheLegacyLayoutShareTheirStorage) {
  const auto view = [](const char* key, int64_t begin, int64_t size) {
    return tuple({str("storage"), global("torch", "FloatStorage"), str("0"), str("cpu"), integer(4),
                  tuple({str(key), integer(begin), integer(size)})}) +
           "Q";
  };
  const auto file =
      parse(torch_legacy(tuple({tensor(view("a", 1, 3), 1, integers({2}), integers({1})),
                                tensor(view("b", 0, 4), 0, integers({2, 2}), integers({1, 2})),
                                tensor(storage("0", 4), 0, integers({4}), integers({1}))}),
                         kKeys, number(4, 8) + floats()));
  ASSERT_EQ(file->storages().size(), 1u);
  EXPECT_EQ(file->storage_bytes(0), floats());
  const auto tensors = list_torch_tensors(*file, file->root());
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].tensor->offset, 2);
  EXPECT_EQ(tensors[1].tensor->offset, 0);
  for (const NamedTorchTensor& named : tensors) EXPECT_EQ(named.tensor->storage, 0u);
}

TEST(TorchFile, ParametersKeepTheirFlag) {
  const std::string data = tensor(storage("0", 4), 0, integers({4}), integers({1}));
  const auto file = parse(
      torch_zip(call(global("torch._utils", "_rebuild_parameter"), {data, "\x88", no_hooks()})));
  const TorchTensor* parameter = file->tensor(file->root());
  ASSERT_NE(parameter, nullptr);
  EXPECT_TRUE(parameter->parameter);
  EXPECT_TRUE(parameter->requires_grad);
  EXPECT_EQ(parameter->elements(), 4);
}

TEST(TorchFile, ListsWithCirclesEnd) {
  const std::string object = "}q\x01(" + str("self") + "h\x01" + str("w") +
                             tensor(storage("0", 4), 0, integers({4}), integers({1})) + "u";
  const auto file = parse(torch_zip(object));
  const auto tensors = list_torch_tensors(*file, file->root());
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].name, "w");
}

TEST(TorchFile, FieldsOfDictsAndNamespaces) {
  const std::string space =
      global("argparse", "Namespace") + ")\x81" + dict({str("lr"), integer(3)}) + "b";
  const std::string ordered =
      call(global("collections", "OrderedDict"), {}) + str("k") + integer(5) + "s";
  const std::string python2 =
      call(global("collections", "OrderedDict"), {"](](" + str("k") + integer(6) + "ee"});
  const auto file = parse(
      torch_zip(dict({str("args"), space, str("o"), ordered, str("p"), python2, str("n"), "N"})));
  const PickleTree& tree = file->tree();
  const auto number_at = [&](const char* field, const char* key) {
    const auto inner = torch_field(tree, *torch_field(tree, file->root(), field), key);
    return inner ? torch_number(*file, *inner) : std::nullopt;
  };
  EXPECT_EQ(number_at("args", "lr"), 3.0);
  EXPECT_EQ(number_at("o", "k"), 5.0);
  EXPECT_EQ(number_at("p", "k"), 6.0);
  EXPECT_EQ(number_at("args", "momentum"), std::nullopt);
  EXPECT_FALSE(torch_field(tree, file->root(), "missing"));
  EXPECT_TRUE(is_torch_dict(tree, *torch_field(tree, file->root(), "o")));
  EXPECT_FALSE(is_torch_dict(tree, *torch_field(tree, file->root(), "args")));
}

std::string numpy_type(const std::string& code, const std::string& order = "<") {
  return call(global("numpy", "dtype"), {str(code), "\x89", "\x88"}) +
         tuple({integer(3), str(order), "N", "N", "N", integer(-1), integer(-1), integer(0)}) + "b";
}
std::string latin1(const std::string& utf8) {
  return call(global("_codecs", "encode"), {str(utf8), str("latin1")});
}

TEST(TorchFile, NumpyScalarsAndArrays) {
  const std::string half = latin1(std::string(6, '\0') + "\xc3\xa0?");
  const std::string scalar =
      call(global("numpy.core.multiarray", "scalar"), {numpy_type("f8"), half});
  const auto array = [](const std::string& sides, const std::string& bytes) {
    return call(global("numpy._core.multiarray", "_reconstruct"),
                {global("numpy", "ndarray"), integers({0}), latin1("b")}) +
           tuple({integer(1), sides, numpy_type("i2"), "\x89", bytes}) + "b";
  };
  const std::string big =
      call(global("numpy.core.multiarray", "scalar"), {numpy_type("f8", ">"), half});
  const auto file = parse(torch_zip(tuple(
      {scalar, array(integers({2}), latin1("abcd")), array(integers({3}), latin1("abcd")), big})));
  const auto& items = file->tree().items(file->root());
  EXPECT_EQ(torch_number(*file, items[0]), 0.5);
  const auto two = read_numpy(file->tree(), items[1]);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->shape, std::vector<int64_t>{2});
  EXPECT_EQ(two->bytes, "abcd");
  EXPECT_EQ(two->dtype, TorchDtype::kInt16);
  EXPECT_FALSE(read_numpy(file->tree(), items[2]));  // bytes for two
  EXPECT_FALSE(read_numpy(file->tree(), items[3]));  // big-endian
}

TEST(TorchElement, TypesOfFewBits) {
  const auto read = [](uint32_t bits, TorchDtype dtype) {
    return read_element(number(bits, 4).c_str(), dtype);
  };
  EXPECT_EQ(read(0x3c00, TorchDtype::kFloat16), 1.0);
  EXPECT_EQ(read(0xc000, TorchDtype::kFloat16), -2.0);
  EXPECT_EQ(read(0x0001, TorchDtype::kFloat16), 0x1p-24);
  EXPECT_EQ(read(0x7bff, TorchDtype::kFloat16), 65504.0);
  EXPECT_TRUE(std::isinf(read(0x7c00, TorchDtype::kFloat16)));
  EXPECT_TRUE(std::isnan(read(0x7c01, TorchDtype::kFloat16)));
  EXPECT_EQ(read(0x3f80, TorchDtype::kBFloat16), 1.0);
  EXPECT_EQ(read(0x38, TorchDtype::kFloat8E4m3fn), 1.0);
  EXPECT_EQ(read(0x7e, TorchDtype::kFloat8E4m3fn), 448.0);
  EXPECT_TRUE(std::isnan(read(0xff, TorchDtype::kFloat8E4m3fn)));
  EXPECT_EQ(read(0x3c, TorchDtype::kFloat8E5m2), 1.0);
  EXPECT_EQ(read(0x7b, TorchDtype::kFloat8E5m2), 57344.0);
  EXPECT_EQ(read(0x40, TorchDtype::kFloat8E4m3fnuz), 1.0);
  EXPECT_TRUE(std::isnan(read(0x80, TorchDtype::kFloat8E5m2fnuz)));
  EXPECT_EQ(read(0x7f, TorchDtype::kFloat8E8m0fnu), 1.0);
  EXPECT_EQ(read(0xff, TorchDtype::kInt8), -1.0);
}

TEST(TensorStats, CountWhatIsNoNumber) {
  std::string bytes;
  for (const float value : {3.f, NAN, -2.f, INFINITY, 7.f, NAN}) {
    bytes += number(std::bit_cast<uint32_t>(value), 4);
  }
  TorchTensor tensor;
  tensor.shape = {2, 3};
  tensor.strides = {1, 2};
  TensorStats stats = tensor_stats(tensor, bytes);
  EXPECT_EQ(stats.least, -2);
  EXPECT_EQ(stats.greatest, 7);
  EXPECT_EQ(stats.nans, 2);
  EXPECT_EQ(stats.infinities, 1);
  tensor.shape = {1000, 2, 2};  // elements 0, 2, 1, 3, each 1000 times
  tensor.strides = {0, 1, 2};
  EXPECT_EQ(stats_cost(tensor), 4);
  stats = tensor_stats(tensor, bytes);
  EXPECT_EQ(stats.greatest, 3);
  EXPECT_EQ(stats.nans, 1000);
  EXPECT_EQ(stats.infinities, 1000);
  tensor.shape = {0};
  tensor.strides = {1};
  EXPECT_FALSE(tensor_stats(tensor, "").any);
}

}  // namespace torch_file_test
}  // namespace tost
