// Reports of good, damaged and malicious files.
#include "tost/engine/inspect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>

#include "tests/testing/errors.h"
#include "tests/testing/shared.h"
#include "tests/testing/temp_dir.h"
#include "tost/base/path.h"
#include "tost/engine/foreign_model.h"
#include "tost/io/torch_test_util.h"
#include "tost/ops/safetensors.h"

namespace tost {
namespace inspect_test {

using namespace testing;  // the writers of torch_test_util.h
using Json = nlohmann::ordered_json;

Json inspect_bytes(const std::string& bytes, bool statistics = false) {
  const TempDir folder;
  std::ofstream(folder.path() / "x.pt", std::ios::binary) << bytes;
  return inspect_weight_file(folder.path() / "x.pt", {.statistics = statistics});
}

std::vector<std::string> names(const Json& report, bool harmless) {
  std::vector<std::string> found;
  for (const Json& row : report["classes"]) {
    if (row["harmless"] == harmless) found.push_back(row["name"]);
  }
  return found;
}

TEST(Inspect, AGoodFileIsNotSuspicious) {
  const std::string object =
      dict({str("model"),
            dict({str("w"), tensor(storage("0", 4), 0, integers({2, 2}), integers({2, 1})),
                  str("v"), tensor(storage("0", 4), 0, integers({2}), integers({2}))}),
            str("epoch"), integer(7), str("args"),
            global("argparse", "Namespace") + ")\x81" + dict({str("lr"), integer(3)}) + "b"});
  const Json report = inspect_bytes(torch_zip(object, std::string(16, '\0')), true);
  EXPECT_EQ(report["suspicious"], false);
  EXPECT_EQ(names(report, true)[0], "torch._utils._rebuild_tensor_v2");
  EXPECT_EQ(report["format"], "torch zip");
  EXPECT_EQ(report["elements"], 6);
  ASSERT_EQ(report["tensors"].size(), 2u);
  EXPECT_EQ(report["tensors"][0]["name"], "model.w");
  EXPECT_EQ(report["tensors"][0]["min"], 0.0);
  EXPECT_EQ(report["tensors"][0]["nan"], 0);
  EXPECT_EQ(report["tensors"][1]["shares"], "0");
  EXPECT_EQ(report["tensors"][1]["strides"], Json::array({2}));
}

TEST(Inspect, MaliciousPicklesAreShownAndDoNothing) {
  const std::string mark = ::testing::TempDir() + "tost_inspect_was_here";
  const std::string system = call(global("posix", "system"), {str("touch " + mark)});
  const std::string eval = call(global("builtins", "eval"), {str("open('" + mark + "', 'w')")});
  const std::string nested =
      call(call(global("builtins", "getattr"),
                {call(global("builtins", "__import__"), {str("os")}), str("system")}),
           {str("touch " + mark)});
  const std::string built = global("collections", "OrderedDict") + ")R" +
                            call(global("os", "popen"), {str("touch " + mark)}) + "b";
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {system, {"posix.system"}},
      {eval, {"builtins.eval"}},
      {nested, {"builtins.getattr", "builtins.__import__"}},
      {built, {"os.popen"}},
      {str("os") + str("system") + "\x93" + tuple({str("touch " + mark)}) + "R", {"os.system"}},
  };
  for (const auto& [object, expected] : cases) {
    const Json report = inspect_bytes(torch_zip(object));
    EXPECT_EQ(report["suspicious"], true);
    EXPECT_EQ(names(report, false), expected);
  }
  EXPECT_FALSE(path_exists(mark));
}

TEST(Inspect, WhatCannotBeReadIsRefused) {
  const std::string good = torch_zip(tensor(storage("0", 4), 0, integers({4}), integers({1})));
  const std::string evil = call(global("os", "system"), {str("ls")});
  for (const auto& [bytes, part] : std::vector<std::pair<std::string, const char*>>{
           {proto() + evil + ".", "neither a file of torch.save"},
           {good.substr(0, good.size() - 30), "may be truncated"},
           {torch_zip(evil + "0X" + number(1, 4) + "\xff"), "a string is not UTF-8"},
           {torch_zip("\x82\x01"), "extension code 1"}}) {
    EXPECT_NE(data_error_of([&, &bytes = bytes] { inspect_bytes(bytes); }).find(part),
              std::string::npos)
        << part;
  }
}

// os.system by way of the memo, with other strings on top: what a guess by the last two would miss.
TEST(Inspect, NamesAreFollowedThroughTheMemo) {
  const std::string hidden = str("os") + "q\x01" + str("system") +
                             "q\x02"
                             "00" +
                             str("collections") + str("OrderedDict") + "00" + "h\x01h\x02\x93" +
                             str("true") + "\x85R0";
  const Json report = inspect_bytes(torch_zip(hidden + "}"));
  EXPECT_EQ(report["suspicious"], true);
  EXPECT_EQ(names(report, false), std::vector<std::string>{"os.system"});
  EXPECT_EQ(report["classes"].size(), 1u);
}

// Protocol 4 writes "collections" once: pickle.dumps([OrderedDict, Counter], 4).
TEST(Inspect, NamesOfProtocol4AreFollowedThroughTheMemo) {
  const std::string pickle = "]\x94(" + str("collections") + "\x94" + str("OrderedDict") +
                             "\x94\x93\x94h\x01" + str("Counter") +
                             "\x94\x93\x94"
                             "e";
  const Json report = inspect_bytes(torch_zip(pickle));
  EXPECT_EQ(names(report, true),
            (std::vector<std::string>{"collections.OrderedDict", "collections.Counter"}));
  EXPECT_EQ(report["suspicious"], false);
}

TEST(Inspect, NamesCannotMoveTheTerminal) {
  const std::string evil = "\x1b[2J\xe2\x80\xae\n";
  const Json report = inspect_bytes(
      torch_zip(dict({str(evil), tensor(storage("0", 4), 0, integers({4}), integers({1})),
                      str("<class>"), str(evil)})));
  const std::string shown = report["tensors"][0]["name"];
  EXPECT_EQ(shown, "\\x1b[2J\\u202e\\n");
}

TEST(Inspect, StatisticsOfManyViewsOfOneStorageEnd) {
  std::string views =
      "](" + tensor(storage("0", 4), 0, integers({1 << 24}), integers({0})) + "q\x01";
  for (int i = 0; i < 100; ++i) {
    views += tensor(storage("0", 4), 0, integers({4096, 4096}), integers({0, 0}));
  }
  const Json report = inspect_bytes(torch_zip(views + "e", std::string(16, '\0')), true);
  ASSERT_EQ(report["tensors"].size(), 101u);
  EXPECT_EQ(report["tensors"][100]["max"], 0.0);
}

TEST(TensorStats, CountWhatIsNoNumber) {
  std::string bytes;
  for (const float value : {3.f, NAN, -2.f, INFINITY, 7.f, NAN}) {
    bytes += number(std::bit_cast<uint32_t>(value), 4);
  }
  const auto row = [&](const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
    const auto object = tensor(storage("0", 6), 0, integers(shape), integers(strides));
    return inspect_bytes(torch_zip(object, bytes), true)["tensors"][0];
  };
  Json stats = row({2, 3}, {1, 2});
  EXPECT_EQ(stats["min"], -2);
  EXPECT_EQ(stats["max"], 7);
  EXPECT_EQ(stats["nan"], 2);
  EXPECT_EQ(stats["inf"], 1);
  stats = row({1000, 2, 2}, {0, 1, 2});  // elements 0, 2, 1, 3, each 1000 times
  EXPECT_EQ(stats["max"], 3);
  EXPECT_EQ(stats["nan"], 1000);
  EXPECT_EQ(stats["inf"], 1000);
  EXPECT_TRUE(row({0}, {1})["min"].is_null());
}

TEST(TensorStats, AreThoseOfTorchForEveryPatternOfBits) {
  const TempDir folder;
  const auto file = folder.path() / "x.safetensors";
  const auto patterns = torch::arange(1 << 16, torch::kInt32).to(torch::kInt16);
  using enum c10::ScalarType;
  for (const auto type : {Half, BFloat16, Float8_e5m2, Float8_e4m3fn, Short, Char, Byte}) {
    const auto x = patterns.view(type), wide = x.to(torch::kDouble);
    const auto finite = wide.masked_select(wide.isfinite());
    save_safetensors(file, {{"x", x}});
    const Json row = inspect_weight_file(file, {.statistics = true})["tensors"][0];
    EXPECT_EQ(row["min"], finite.min().item<double>()) << row["dtype"];
    EXPECT_EQ(row["max"], finite.max().item<double>()) << row["dtype"];
    EXPECT_EQ(row["nan"], wide.isnan().sum().item<int64_t>()) << row["dtype"];
    EXPECT_EQ(row["inf"], wide.isinf().sum().item<int64_t>()) << row["dtype"];
  }
}

// The widths of its stem would say 2; what the file says of itself counts.
TEST(Inspect, PatchOfAFileThatDescribesItself) {
  const TempDir folder;
  const auto file = folder.path() / "model.safetensors";
  const std::map<std::string, torch::Tensor> state{
      {"blocks.0.attn.qkv.weight", torch::zeros({64, 64})},
      {"blocks.0.attn.temp", torch::zeros({4, 1})},
      {"patch_embed.proj.0.0.weight", torch::zeros({64, 3, 3, 3})}};
  save_safetensors(file, state, {{"tost.config", R"({"patch":4})"}});
  EXPECT_EQ(inspect_weight_file(file, {})["models"][0]["patch"], 4);
  save_safetensors(file, state);
  EXPECT_EQ(inspect_weight_file(file, {})["models"][0]["patch"], 2);
}

TEST(Inspect, RecognisesModels) {
  NamedShapes shapes;
  for (int i = 0; i < 3; ++i) {
    shapes["module.blocks." + std::to_string(i) + ".attn.qkv.weight"] = {192, 192};
    shapes["module.blocks." + std::to_string(i) + ".attn.temp"] = {6, 1};
  }
  shapes["module.cls_attn_blocks.0.attn.qkv.weight"] = {576, 192};
  shapes["module.patch_embed.proj.0.0.weight"] = {48, 3, 3, 3};
  shapes["module.patch_embed.proj.2.0.weight"] = {96, 48, 3, 3};
  shapes["module.patch_embed.proj.4.0.weight"] = {192, 96, 3, 3};
  shapes["module.head.weight"] = {1000, 192};
  shapes["transformer.h.0.attn.c_attn.weight"] = {768, 2304};
  shapes["transformer.wte.weight"] = {50257, 768};
  shapes["transformer.wpe.weight"] = {1024, 768};
  const Json models = recognise_models(shapes);
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(
      models[0].dump(),
      R"({"prefix":"module.","family":"ToST image classifier","mixer":"tssa","dim":192,"depth":3,)"
      R"("class_depth":1,"heads":6,"patch":8,"classes":1000})");
  EXPECT_EQ(models[1]["family"], "GPT-2 (Hugging Face layout)");
  EXPECT_EQ(models[1]["vocab"], 50257);
  EXPECT_EQ(models[1]["block"], 1024);
}

// Only every second convolution of such a stem halves the side.
TEST(Inspect, PatchOfAStemWithTwoConvolutionsAStage) {
  NamedShapes shapes;
  shapes["blocks.0.attn.qkv.weight"] = {64, 64};
  shapes["blocks.0.attn.temp"] = {4, 1};
  shapes["cls_attn_blocks.0.attn.qkv.weight"] = {192, 64};
  shapes["patch_embed.proj.0.0.weight"] = {32, 3, 3, 3};
  shapes["patch_embed.proj.2.0.weight"] = {32, 32, 3, 3};
  shapes["patch_embed.proj.4.0.weight"] = {64, 32, 3, 3};
  shapes["patch_embed.proj.6.0.weight"] = {64, 64, 3, 3};
  EXPECT_EQ(recognise_models(shapes)[0]["patch"], 4);
}

TEST(Inspect, OfficialCheckpoints) {
  TOST_SHARED_OR_SKIP(folder, "parity/vision_tssa_p16");
  const Json report = inspect_weight_file(folder / "checkpoint.pth", {.statistics = true});
  EXPECT_EQ(report["suspicious"], false);
  ASSERT_EQ(report["models"].size(), 2u);
  EXPECT_EQ(report["models"][0]["heads"], 4);
  EXPECT_EQ(report["models"][0]["patch"], 16);
  EXPECT_EQ(report["models"][1]["prefix"], "model_ema.");
  const Json same = inspect_weight_file(folder / "state.safetensors", {.statistics = true});
  EXPECT_EQ(same["format"], "safetensors");
  EXPECT_EQ(same["models"][0]["dim"], 32);
  for (const Json& row : same["tensors"]) {
    const auto same_row =
        std::find_if(report["tensors"].begin(), report["tensors"].end(), [&](const Json& other) {
          return other["name"] == "model." + row["name"].get<std::string>();
        });
    ASSERT_NE(same_row, report["tensors"].end());
    EXPECT_EQ((*same_row)["min"], row["min"]);
    EXPECT_EQ((*same_row)["max"], row["max"]);
    EXPECT_EQ((*same_row)["shape"], row["shape"]);
  }
}

}  // namespace inspect_test
}  // namespace tost
