// Torch files that break one rule each, and their closest valid neighbours.
#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/base/machine.h"
#include "tost/io/torch_file.h"
#include "tost/io/torch_test_util.h"

namespace tost {
namespace torch_malformed_test {

using namespace testing;  // the writers of torch_test_util.h

std::string refusal(const std::string& bytes) {
  try {
    const auto file = TorchFile::parse(bytes, "x.pt");
    for (size_t i = 0; i < file->storages().size(); ++i) file->storage_bytes(i);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
}

struct Case {
  const char* name;
  std::string bytes;
  const char* message;  // "" where it is valid
};

void check_cases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string refused_with = refusal(c.bytes);
    EXPECT_EQ(refused_with.empty(), *c.message == '\0') << c.name << ": " << refused_with;
    EXPECT_NE(refused_with.find(c.message), std::string::npos) << c.name << ": " << refused_with;
  }
}

const std::string kStorage = storage("0", 4);  // of 16 bytes
const std::string kTensor = tensor(kStorage, 0, integers({2, 2}), integers({2, 1}));
const std::string kRebuild = global("torch._utils", "_rebuild_tensor_v2");
const std::string kRebuild3 = global("torch._utils", "_rebuild_tensor_v3");

// The archive of kTensor, with one entry replaced ("" leaves it out) or added.
std::string with_entry(const std::string& name, const std::string& data, bool keep = true) {
  auto items = torch_items(kTensor, std::string(16, 1));
  std::erase_if(items, [&](const ZipItem& item) { return item.name == name; });
  if (keep) items.push_back({name, data});
  return make_zip(items).bytes;
}

TEST(MalformedTorchFile, Archives) {
  auto crossed = torch_items(kTensor, std::string(16, 1));
  crossed.push_back({"other/x", ""});
  std::string damaged = torch_zip(kTensor);
  damaged[make_zip(torch_items(kTensor, std::string(16, 1))).data[2]] ^= 1;
  check_cases({
      {"good", torch_zip(kTensor), ""},
      {"empty", "", "it is empty"},
      {"text", "hello, this is not a checkpoint at all", "it is not a zip archive"},
      {"bare_pickle", proto() + kTensor + ".", "it is not a zip archive"},
      {"tar", std::string(257, 'x') + "ustar" + std::string(250, 'x'), "tar layout of torch 0.1"},
      {"no_entries", make_zip({}).bytes, "its archive is empty"},
      {"no_folder", make_zip({{"data.pkl", proto() + "N."}}).bytes, "lies in no folder"},
      {"two_folders", make_zip(crossed).bytes, "lie in different folders"},
      {"no_pickle", with_entry("m/data.pkl", "", false), "no entry 'm/data.pkl'"},
      {"empty_pickle", with_entry("m/data.pkl", ""), "ends without STOP"},
      {"torchscript", with_entry("m/constants.pkl", ""), "TorchScript program"},
      {"no_version", with_entry("m/version", "", false), "it has no version"},
      {"version_elsewhere", with_entry("m/version", "3\n"), ""},
      {"version_0", with_entry("m/version", "0\n"), "its version is '0'"},
      {"version_11", with_entry("m/version", "11\n"), "its version is '11'"},
      {"version_words", with_entry("m/version", "three"), "its version is 'three'"},
      {"version_empty", with_entry("m/version", ""), "its version is ''"},
      {"no_byte_order", with_entry("m/byteorder", "", false), ""},
      {"big_endian", with_entry("m/byteorder", "big"), "saved on a big-endian machine"},
      {"byte_order_words", with_entry("m/byteorder", "middle"), "its byte order is 'middle'"},
      {"no_storage", with_entry("m/data/0", "", false), "storage '0' is missing"},
      {"storage_short", with_entry("m/data/0", std::string(15, 1)),
       "should have 16 bytes and has 15"},
      {"storage_long", with_entry("m/data/0", std::string(17, 1)),
       "should have 16 bytes and has 17"},
      {"storage_unused", with_entry("m/data/9", "unused"), ""},
      {"storage_damaged", damaged, "the checksum of storage '0' does not fit"},
      {"deep", torch_zip([] {
         std::string lists(1'000'000, ']');
         return lists + std::string(999'999, 'a');
       }()),
       "more than 1000 deep"},
  });
}

TEST(MalformedTorchFile, Storages) {
  const auto persistent = [](const std::string& id) { return torch_zip(id + "Q"); };
  const std::string type = global("torch", "FloatStorage");
  check_cases({
      {"good", torch_zip(kStorage), ""},
      {"old_module",
       torch_zip(tuple({str("storage"), global("torch.cuda", "FloatStorage"), str("0"),
                        str("cuda:0"), integer(4)}) +
                 "Q"),
       ""},
      {"not_a_tuple", persistent(str("0")), "a persistent id is not a tuple"},
      {"empty_tuple", persistent(")"), "a persistent id is not a tuple"},
      {"another_word", persistent(tuple({str("tensor"), type, str("0"), str("cpu"), integer(4)})),
       "does not describe a storage"},
      {"four_parts", persistent(tuple({str("storage"), type, str("0"), str("cpu")})),
       "does not describe a storage"},
      {"module", persistent(tuple({str("module"), type, "N", "N"})), "layout before torch 1.6"},
      {"class_is_string",
       persistent(tuple({str("storage"), str("FloatStorage"), str("0"), str("cpu"), integer(4)})),
       "the class of a storage is a string"},
      {"class_unknown", torch_zip(storage("0", 4, "QuadStorage")), "'torch.QuadStorage'"},
      {"class_elsewhere",
       persistent(
           tuple({str("storage"), global("os", "FloatStorage"), str("0"), str("cpu"), integer(4)})),
       "'os.FloatStorage'"},
      {"key_is_number",
       persistent(tuple({str("storage"), type, integer(0), str("cpu"), integer(4)})),
       "a key that is not a short string"},
      {"key_is_long", torch_zip(storage(std::string(300, 'k'), 4)),
       "a key that is not a short string"},
      {"key_walks_up", torch_zip(storage("../data.pkl", 4)), "storage '../data.pkl' is missing"},
      {"location_is_none", persistent(tuple({str("storage"), type, str("0"), "N", integer(4)})),
       "storage '0' has no location"},
      {"size_negative", torch_zip(storage("0", -1)), "size of a storage is an integer"},
      {"size_is_float",
       persistent(tuple({str("storage"), type, str("0"), str("cpu"), "G" + std::string(8, '\0')})),
       "should be a count"},
      {"size_10_gb", torch_zip(storage("0", 2'500'000'000)),
       "should have 10000000000 bytes and has 16"},
      {"size_wraps", torch_zip(storage("0", INT64_MAX / 2)), "impossible"},
      {"size_wraps_to_16", torch_zip(storage("0", (int64_t{1} << 62) + 4)), "impossible"},
      {"two_sizes", torch_zip(tuple({storage("0", 4), storage("0", 3)})), "should have 12 bytes"},
      {"two_types_of_one_size",
       torch_zip(tuple({storage("0", 4), storage("0", 2, "DoubleStorage")})), ""},
      {"a_view",
       persistent(tuple({str("storage"), type, str("0"), str("cpu"), integer(4),
                         tuple({str("v"), integer(0), integer(2)})})),
       "layout before torch 1.6"},
  });
}

TEST(MalformedTorchFile, Tensors) {
  const auto of = [](int64_t offset, const std::string& shape, const std::string& strides) {
    return torch_zip(tensor(kStorage, offset, shape, strides));
  };
  const auto made = [](const std::vector<std::string>& args) {
    return torch_zip(call(kRebuild, args));
  };
  const std::string one = integers({4}), step = integers({1});
  std::vector<int64_t> ones(65, 1);
  check_cases({
      {"scalar", of(3, ")", ")"), ""},
      {"scalar_past_end", of(4, ")", ")"), "reaches to element 4 of a storage of 4"},
      {"empty", of(4, integers({0, 3}), integers({3, 1})), ""},
      {"empty_past_end", of(5, integers({0}), step), "is empty and begins past its storage"},
      {"transposed", of(0, integers({2, 2}), integers({1, 2})), ""},
      {"expanded", of(0, integers({1000, 4}), integers({0, 1})), ""},
      {"expanded_too_far", of(0, integers({100'000, 1000}), integers({0, 0})),
       "claims 100000000 elements of a storage of 4"},
      {"shape_in_torch_size", of(0, call(global("torch", "Size"), {one}), step), ""},
      {"one_past_end", of(1, one, step), "reaches to element 4 of a storage of 4"},
      {"stride_past_end", of(0, integers({2}), integers({4})), "reaches to element 4"},
      {"offset_negative", of(-1, one, step), "begins at something else than a count"},
      {"offset_huge", of(INT64_MAX, one, step), "impossible"},
      {"shape_negative", of(0, integers({-4}), step), "holds -4, which is negative"},
      {"stride_negative", of(3, one, integers({-1})), "holds -1, which is negative"},
      {"shape_product_wraps",
       of(0, integers({int64_t{1} << 40, int64_t{1} << 40}), integers({0, 0})), "impossible"},
      {"shape_wraps_times_0",
       of(0, integers({int64_t{1} << 40, int64_t{1} << 40, 0}), integers({0, 0, 0})), "impossible"},
      {"stride_wraps", of(0, integers({3}), integers({INT64_MAX})), "impossible"},
      {"place_wraps", of(4, integers({2}), integers({INT64_MAX})), "impossible"},
      {"strides_missing", of(0, one, ")"), "has 1 dimensions and 0 strides"},
      {"strides_too_many", of(0, one, integers({1, 1})), "has 1 dimensions and 2 strides"},
      {"shape_is_number", of(0, integer(4), step), "is an integer and should be a tuple"},
      {"shape_of_strings", of(0, tuple({str("4")}), step), "holds a string where integers belong"},
      {"shape_of_65", of(0, integers(ones), integers(ones)), "has 65 dimensions"},
      {"two_arguments", made({kStorage, integer(0)}), "is made of 2 arguments, not of 6"},
      {"eight_arguments", made({kStorage, integer(0), one, step, "\x89", "N", "N", "N"}),
       "is made of 8 arguments"},
      {"storage_is_none", made({"N", integer(0), one, step, "\x89", "N"}), "has no storage"},
      {"storage_is_tensor", made({kTensor, integer(0), one, step, "\x89", "N"}), "has no storage"},
      {"conjugated",
       made({kStorage, integer(0), one, step, "\x89", "N", dict({str("conj"), "\x88"})}),
       "save it after resolve_conj()"},
      {"negated", made({kStorage, integer(0), one, step, "\x89", "N", dict({str("neg"), "\x88"})}),
       "save it after resolve_neg()"},
      {"not_conjugated",
       made({kStorage, integer(0), one, step, "\x89", "N", dict({str("conj"), "\x89"})}), ""},
      {"metadata_list", made({kStorage, integer(0), one, step, "\x89", "N", "]"}),
       "carries metadata that is not a dict"},
  });
}

TEST(MalformedTorchFile, OtherWaysToMakeTensors) {
  const std::string one = integers({4}), step = integers({1});
  const std::string bytes = storage("0", 16, "UntypedStorage");
  const auto v3 = [&](const std::string& shape, const std::string& dtype) {
    return torch_zip(call(kRebuild3, {bytes, integer(0), shape, step, "\x89", "N", dtype}));
  };
  const auto typed = [&](const std::string& function, const std::string& args) {
    return torch_zip(call(global("torch._tensor", "_rebuild_from_type_v2"),
                          {function, global("torch", "Tensor"), args, "}"}));
  };
  const std::string args = tuple({kStorage, integer(0), one, step, "\x89", "N"});
  check_cases({
      {"v1",
       torch_zip(
           call(global("torch._utils", "_rebuild_tensor"), {kStorage, integer(0), one, step})),
       ""},
      {"v1_short", torch_zip(call(global("torch._utils", "_rebuild_tensor"), {kStorage})), "of 4"},
      {"v3_uint16", v3(integers({8}), global("torch", "uint16")), ""},
      {"v3_float8", v3(integers({16}), global("torch", "float8_e4m3fn")), ""},
      {"v3_past_end", v3(integers({9}), global("torch", "uint16")), "reaches to element 8"},
      {"v3_complex", v3(integers({2}), global("torch", "complex128")), "reaches to element 1"},
      {"v3_unknown_type", v3(integers({4}), global("torch", "float5")),
       "element type that is unknown"},
      {"v3_type_elsewhere", v3(integers({4}), global("os", "float32")),
       "element type that is unknown"},
      {"v3_type_is_string", v3(integers({4}), str("float32")), "element type that is unknown"},
      {"typed", typed(kRebuild, args), ""},
      {"typed_by_string", typed(str("_rebuild_tensor_v2"), args), "rebuilt from something unknown"},
      {"typed_without_tuple", typed(kRebuild, "]"), "rebuilt from something unknown"},
      {"typed_past_end", typed(kRebuild, tuple({kStorage, integer(1), one, step, "\x89", "N"})),
       "reaches to element 4"},
      {"parameter",
       torch_zip(call(global("torch._utils", "_rebuild_parameter"), {kTensor, "\x88", no_hooks()})),
       ""},
      {"parameter_of_nothing", torch_zip(call(global("torch._utils", "_rebuild_parameter"), {})),
       ""},
  });
}

// What torch.save wrote before 1.6 begins with: a pickle of its magic number.
TEST(MalformedTorchFile, LegacyLayout) {
  const std::string magic =
      proto() + std::string("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 13);
  check_cases({
      {"old", magic + proto() + integer(1001) + ".",
       "it has the layout of torch before 1.6, which is not read"},
      {"magic_only", magic, "torch.save(torch.load(FILE, weights_only=True), FILE)"},
      {"magic_changed", magic.substr(0, 12) + "\x18.", "it is not a zip archive"},
  });
}

TEST(MalformedTorchFile, AClaimOf10GbTakesNoMemory) {
  const int64_t before = peak_resident_bytes();
  EXPECT_NE(refusal(torch_zip(storage("0", 2'500'000'000))), "");
  EXPECT_NE(refusal(torch_zip(tensor(kStorage, 0, integers({2'500'000'000}), integers({0})))), "");
  EXPECT_LT(peak_resident_bytes() - before, 64 << 20);
}

// The arguments of one tensor of 64 dimensions, called over and over.
TEST(MalformedTorchFile, ShapesDoNotMultiply) {
  const std::vector<int64_t> ones(64, 1);
  std::string calls = kRebuild + "q\x01" +
                      tuple({kStorage, integer(0), integers(ones), integers(ones), "\x89", "N"}) +
                      "q\x02R";
  for (int i = 0; i < 70'000; ++i) calls += "0h\x01h\x02R";
  EXPECT_NE(refusal(torch_zip(calls)).find("more than 4000000 dimensions together"),
            std::string::npos);
}

// Whatever is cut off or flipped, the answer is a sentence or a file, never a crash.
TEST(MalformedTorchFile, EveryTruncationAndEveryFlippedBit) {
  const std::string good = torch_zip(dict({str("w"), kTensor}));
  for (size_t size = 0; size < good.size(); ++size) EXPECT_NE(refusal(good.substr(0, size)), "");
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    refusal(bytes);
  }
}

}  // namespace torch_malformed_test
}  // namespace tost
