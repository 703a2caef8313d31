// Reports of good, damaged and malicious files.
#include "tost/io/torch_inspect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tost/base/error.h"
#include "tost/io/torch_model.h"
#include "tost/io/torch_test_util.h"
#include "tost/testing/shared.h"

namespace tost {
namespace torch_inspect_test {

using namespace testing;  // the writers of torch_test_util.h
using Json = nlohmann::ordered_json;

Json inspect(const std::string& bytes, bool calls = true) {
  return inspect_torch_bytes(bytes, "x.pt", {.statistics = true, .calls = calls});
}

std::vector<std::string> unknown_names(const Json& report) {
  std::vector<std::string> names;
  for (const Json& row : report["classes"]) {
    if (!row["harmless"].get<bool>()) names.push_back(row["name"]);
  }
  return names;
}

TEST(Inspect, AGoodFileIsNotSuspicious) {
  const std::string object =
      dict({str("model"),
            dict({str("w"), tensor(storage("0", 4), 0, integers({2, 2}), integers({2, 1})),
                  str("v"), tensor(storage("0", 4), 0, integers({2}), integers({2}))}),
            str("epoch"), integer(7), str("args"),
            global("argparse", "Namespace") + ")\x81" + dict({str("lr"), integer(3)}) + "b"});
  const Json report = inspect(torch_zip(object, std::string(16, '\0')), false);
  EXPECT_FALSE(report["suspicious"].get<bool>());
  EXPECT_FALSE(report.contains("error")) << report["error"];
  EXPECT_EQ(report["format"], "torch zip");
  EXPECT_EQ(report["elements"], 6);
  EXPECT_EQ(report["contents"]["epoch"], 7);
  EXPECT_EQ(report["arguments"]["args"]["lr"], 3);
  ASSERT_EQ(report["tensors"].size(), 2u);
  EXPECT_EQ(report["tensors"][0]["name"], "model.w");
  EXPECT_EQ(report["tensors"][0]["min"], 0.0);
  EXPECT_EQ(report["tensors"][0]["nan"], 0);
  EXPECT_EQ(report["tensors"][1]["shares"], "0");
  EXPECT_EQ(report["tensors"][1]["strides"], Json::array({2}));
  EXPECT_FALSE(report.contains("opcodes"));
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
      {"(" + str("touch " + mark) + "ios\nsystem\n", {"os.system"}},
      {str("os") + str("system") + "\x93" + tuple({str("touch " + mark)}) + "R", {"os.system"}},
      // Refused, since it would change a class; the names are still listed.
      {global("os", "environ") + dict({str("setattr"), "N"}) + "b", {"os.environ"}},
  };
  for (const auto& [object, names] : cases) {
    for (const std::string& bytes : {torch_zip(object), torch_legacy(object, "]", "")}) {
      const Json report = inspect(bytes);
      EXPECT_TRUE(report["suspicious"].get<bool>());
      EXPECT_EQ(unknown_names(report), names);
      EXPECT_NE(report["opcodes"].dump().find("import " + names[0]), std::string::npos);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST(Inspect, BarePicklesAreRefusedAndTheirNamesShown) {
  const Json report = inspect(proto() + call(global("os", "system"), {str("ls")}) + ".");
  EXPECT_TRUE(report["suspicious"].get<bool>());
  EXPECT_EQ(report["format"], "refused");
  EXPECT_EQ(unknown_names(report), std::vector<std::string>{"os.system"});
  EXPECT_NE(report["error"].get<std::string>().find("neither a zip archive"), std::string::npos);
}

std::vector<std::string> all_names(const Json& report) {
  std::vector<std::string> names;
  for (const Json& row : report["classes"]) names.push_back(row["name"]);
  return names;
}

// os.system by way of the memo, with other strings on top: what a guess by the last two would miss.
TEST(Inspect, RefusedFilesCannotHideWhatTheyWouldCall) {
  const std::string hidden = str("os") + "q\x01" + str("system") +
                             "q\x02"
                             "00" +
                             str("collections") + str("OrderedDict") + "00" + "h\x01h\x02\x93" +
                             str("true") + "\x85R0";
  const std::string object = hidden + "}";
  const std::string not_utf8 = hidden + "X" + number(1, 4) + "\xff";
  const std::string late = "X" + number(1, 4) +
                           "\xff"
                           "0" +
                           hidden + "}";
  const std::vector<std::string> expected{"os.system"};
  for (const std::string& bytes :
       {torch_zip(object), torch_zip(not_utf8), torch_zip(late),
        torch_legacy(object, "]", "trailing"), torch_legacy(late, "]", ""),
        torch_legacy("}", hidden + "]", ""), proto() + late + "."}) {
    const Json report = inspect(bytes);
    EXPECT_EQ(report["suspicious"], true);
    EXPECT_EQ(all_names(report), expected);
    EXPECT_NE(report["opcodes"].dump().find("import os.system"), std::string::npos);
    EXPECT_EQ(report["opcodes"].dump().find("import collections"), std::string::npos);
  }
}

// Protocol 4 writes "collections" once: pickle.dumps([OrderedDict, Counter], 4).
TEST(Inspect, NamesOfProtocol4AreFollowedThroughTheMemo) {
  const std::string pickle = "]\x94(" + str("collections") + "\x94" + str("OrderedDict") +
                             "\x94\x93\x94h\x01" + str("Counter") +
                             "\x94\x93\x94"
                             "e";
  for (const std::string& bytes : {torch_legacy(pickle, "]", ""), torch_legacy(pickle, "]", "x")}) {
    const Json report = inspect(bytes);
    EXPECT_EQ(all_names(report),
              (std::vector<std::string>{"collections.OrderedDict", "collections.Counter"}));
    EXPECT_EQ(report["suspicious"], false);
  }
}

TEST(Inspect, NamesPutTogetherByCallsAreSuspicious) {
  const std::string joined = call(global("_codecs", "encode"), {str("os"), str("latin1")});
  const Json report = inspect(torch_zip(joined + str("system") + "\x93" + ")R"));
  EXPECT_EQ(report["suspicious"], true);
  EXPECT_EQ(unknown_names(report).back(), "<1 imports of names that cannot be listed>");
  EXPECT_NE(report["opcodes"].dump().find("import a name put together earlier"), std::string::npos);
  EXPECT_EQ(inspect(torch_zip("\x82\x01"))["suspicious"], true);
  // The memo's place in a spelling that only Python reads.
  EXPECT_EQ(inspect(proto() + str("os") + "p1_0\n" + str("system") + "\x93.")["suspicious"], true);
}

TEST(Inspect, WhereClassesCannotBeReadNothingIsPromised) {
  const std::string good = torch_zip(tensor(storage("0", 4), 0, integers({4}), integers({1})));
  EXPECT_EQ(inspect(good)["suspicious"], false);
  EXPECT_EQ(inspect(good)["classes_complete"], true);
  const std::string no_end = proto() + global("collections", "OrderedDict") + ")R";
  for (const std::string& bytes :
       {good.substr(0, good.size() - 30), make_zip({{"m/version", "3"}}).bytes, no_end}) {
    const Json report = inspect(bytes);
    EXPECT_TRUE(report.contains("error"));
    EXPECT_TRUE(report["suspicious"].is_null());
    EXPECT_EQ(report["classes_complete"], false);
  }
}

TEST(Inspect, NamesCannotMoveTheTerminal) {
  const std::string evil = "\x1b[2J\xe2\x80\xae\n";
  const Json report =
      inspect(torch_zip(dict({str(evil), tensor(storage("0", 4), 0, integers({4}), integers({1})),
                              str("<class>"), str(evil)})));
  const std::string shown = report["tensors"][0]["name"];
  EXPECT_EQ(shown, "\\x1b[2J\\u202e\\n");
  EXPECT_EQ(report["contents"]["\\<class>"], shown);
}

TEST(Inspect, OutlinesAreBounded) {
  // 40 lists, each holding the one before twice: 2^40 values to who prints them all.
  std::string shared = "]\x94";
  for (int i = 0; i < 40; ++i) {
    const std::string at = number(static_cast<uint64_t>(i), 1);
    shared += "](h" + at + "h" + at + "e\x94";
  }
  std::string many = "](";
  for (int i = 0; i < 20'000; ++i) many += "K\x01";
  const Json bomb = inspect(
      make_zip({{"m/data.pkl", proto(4) + "(" + shared + "t."}, {"m/version", "3"}}).bytes, false);
  EXPECT_LT(bomb.dump().size(), 100'000u);
  const Json long_list = inspect(torch_zip(many + "e"), false);
  EXPECT_EQ(long_list["contents"].size(), 41u);
  EXPECT_EQ(long_list["contents"].back(), "… 19960 more");
}

TEST(Inspect, StatisticsOfManyViewsOfOneStorageEnd) {
  std::string views =
      "](" + tensor(storage("0", 4), 0, integers({1 << 24}), integers({0})) + "q\x01";
  for (int i = 0; i < 100; ++i) {
    views += tensor(storage("0", 4), 0, integers({4096, 4096}), integers({0, 0}));
  }
  const Json report = inspect(torch_zip(views + "e", std::string(16, '\0')), false);
  ASSERT_EQ(report["tensors"].size(), 101u);
  EXPECT_EQ(report["tensors"][100]["max"], 0.0);
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
  EXPECT_FALSE(report["suspicious"].get<bool>());
  EXPECT_EQ(report["arguments"]["args"]["model"], "tost_cab_tiny_12_p16");
  EXPECT_EQ(report["contents"]["args"]["<class>"], "argparse.Namespace");
  ASSERT_EQ(report["models"].size(), 2u);
  EXPECT_EQ(report["models"][0]["heads"], 4);
  EXPECT_EQ(report["models"][0]["patch"], 16);
  EXPECT_EQ(report["models"][1]["prefix"], "model_ema.");
  const Json same = inspect_weight_file(folder / "state.safetensors", {.statistics = true});
  EXPECT_EQ(same["format"], "safetensors");
  EXPECT_EQ(same["models"][0]["dim"], 32);
  for (const Json& row : same["tensors"]) {
    const auto twin =
        std::find_if(report["tensors"].begin(), report["tensors"].end(), [&](const Json& other) {
          return other["name"] == "model." + row["name"].get<std::string>();
        });
    ASSERT_NE(twin, report["tensors"].end());
    EXPECT_EQ((*twin)["min"], row["min"]);
    EXPECT_EQ((*twin)["max"], row["max"]);
    EXPECT_EQ((*twin)["shape"], row["shape"]);
  }
}

}  // namespace torch_inspect_test
}  // namespace tost
