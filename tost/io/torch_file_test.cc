// What well-formed files give.
#include "tost/io/torch_file.h"

#include <gtest/gtest.h>

#include <bit>

#include "tost/base/error.h"
#include "tost/base/machine.h"
#include "tost/io/torch_test_util.h"
#include "tost/io/torch_value.h"

namespace tost {
namespace torch_file_test {

using namespace testing;  // the writers of torch_test_util.h

std::shared_ptr<const TorchFile> parse(const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  return TorchFile::parse(*owner, "x.pt", owner);
}

// Four floats: 1, 2, 3, 4.
std::string floats() {
  std::string bytes;
  for (const float value : {1.f, 2.f, 3.f, 4.f}) bytes += number(std::bit_cast<uint32_t>(value), 4);
  return bytes;
}

TEST(TorchFile, GivesTensorsByName) {
  const std::string object =
      dict({str("model"),
            dict({str("a"), tensor(storage("0", 4), 1, integers({3}), integers({1})), str("b"),
                  tensor(storage("0", 4), 0, integers({2, 2}), integers({1, 2}))})});
  const auto file = parse(torch_zip(object, floats()));
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
  const auto file = parse(torch_zip(dict({str("args"), space, str("o"), ordered, str("n"), "N"})));
  const PickleTree& tree = file->tree();
  const auto number_at = [&](const char* field, const char* key) {
    const auto inner = torch_field(tree, *torch_field(tree, file->root(), field), key);
    return inner ? torch_number(tree, *inner) : std::nullopt;
  };
  EXPECT_EQ(number_at("args", "lr"), 3.0);
  EXPECT_EQ(number_at("o", "k"), 5.0);
  EXPECT_EQ(number_at("args", "momentum"), std::nullopt);
  EXPECT_FALSE(torch_field(tree, file->root(), "missing"));
  EXPECT_TRUE(is_torch_dict(tree, *torch_field(tree, file->root(), "o")));
  EXPECT_FALSE(is_torch_dict(tree, *torch_field(tree, file->root(), "args")));
}

}  // namespace torch_file_test
}  // namespace tost
