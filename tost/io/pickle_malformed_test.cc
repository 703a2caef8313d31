// Pickles that break one rule each, bombs, and pickles that would run something.
#include <gtest/gtest.h>

#include "tost/base/error.h"
#include "tost/base/machine.h"
#include "tost/io/pickle.h"
#include "tost/io/torch_test_util.h"

namespace tost {
namespace pickle_malformed_test {

using testing::dict;
using testing::global;
using testing::integer;
using testing::number;
using testing::proto;
using testing::str;

std::string refusal(const std::string& bytes, const PickleLimits& limits = {}) {
  try {
    read_pickle(bytes, "'x'", limits);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
}

std::string repeat(const std::string& part, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += part;
  return out;
}

struct Case {
  const char* name;
  std::string bytes;
  const char* message;  // "" where it is valid
};

std::vector<Case> frame_cases() {
  const std::string framed = proto(4) + "\x95" + number(2, 8) + "N.";
  return {
      {"none", proto() + "N.", ""},
      {"no_proto", "N.", ""},
      {"empty", "", "byte 0 of its pickle: it ends without STOP"},
      {"proto_alone", proto(), "byte 2 of its pickle: it ends without STOP"},
      {"proto_cut", "\x80", "PROTO needs 1 bytes where 0 are left"},
      {"protocol_1", proto(1) + "N.", "protocol 1 is unknown; 2 to 5 are read"},
      {"protocol_6", proto(6) + "N.", "protocol 6 is unknown"},
      {"proto_twice", proto() + proto() + "N.", "PROTO stands in the middle"},
      {"no_stop", proto() + "N", "ends without STOP"},
      {"stop_alone", proto() + ".", "takes a value from an empty stack"},
      {"two_values", proto() + "NN.", "1 values or marks are left"},
      {"open_mark", proto() + "(N.", "1 values or marks are left"},
      {"mark_at_stop", proto() + "N(.", "from below a mark"},
      {"trailing", proto() + "N.x", "1 bytes follow STOP"},
      {"second_pickle", proto() + "N." + proto() + "N.", "4 bytes follow STOP"},
      {"opcode_0", proto() + std::string(1, '\0') + ".", "no opcode 0 in"},
      {"opcode_255", proto() + "\xff.", "no opcode 255 in"},
      {"frame", framed, ""},
      {"frame_past_end", proto(4) + "\x95" + number(3, 8) + "N.",
       "a frame of 3 bytes begins where 2"},
      {"frame_huge", proto(4) + "\x95" + number(UINT64_MAX, 8) + "N.",
       "a frame of 1844674407370955"},
      {"frame_cut", proto(4) + "\x95" + number(2, 4), "FRAME needs 8 bytes where 4"},
      {"frame_inside_frame", proto(4) + "\x95" + number(11, 8) + "\x95" + number(1, 8) + "N.",
       "a frame begins inside another"},
      {"argument_across_frame", proto(4) + "\x95" + number(1, 8) + "K\x01.",
       "BININT1 needs 1 bytes where 0 are left in its frame"},
      {"stop_inside_frame", proto(4) + "\x95" + number(3, 8) + "N.N", "STOP stands inside a frame"},
      {"extension_1", proto() + "\x82\x01.", "extension code 1"},
      {"extension_2", proto() + "\x83" + number(300, 2) + ".", "extension code 300"},
      {"extension_4", proto() + "\x84" + number(70000, 4) + ".", "extension code 70000"},
      {"next_buffer", proto(5) + "\x97.", "it refers to a buffer outside"},
      {"readonly_buffer", proto(5) + "N\x98.", "it refers to a buffer outside"},
  };
}

std::vector<Case> value_cases() {
  return {
      {"int_cut", proto() + "J\x01\x02", "BININT needs 4 bytes where 2"},
      {"float_cut", proto() + "G1234567", "BINFLOAT needs 8 bytes where 7"},
      {"string_past_end", proto() + "X" + number(5, 4) + "abc", "BINUNICODE needs 5 bytes where 3"},
      {"string_4_gb", proto() + "X" + number(UINT32_MAX, 4) + "abc.", "needs 4294967295 bytes"},
      {"string_10_gb", proto(4) + "\x8d" + number(10'000'000'000, 8) + "abc.",
       "needs 10000000000 bytes"},
      {"string_sign_bit", proto(4) + "\x8d" + number(uint64_t{1} << 63, 8) + "abc.",
       "needs 9223372036854775808"},
      {"bytes_wrap", proto(4) + "\x8e" + number(UINT64_MAX, 8) + "abc.", "BINBYTES8 needs"},
      {"bytearray_10_gb", proto(5) + "\x96" + number(10'000'000'000, 8) + ".", "BYTEARRAY8 needs"},
      {"short_string_cut", proto(4) + "\x8c\x05" + "abc", "SHORT_BINUNICODE needs 5 bytes"},
      {"not_utf8", proto() + "X" + number(1, 4) + "\xff.", "a string is not UTF-8"},
      {"overlong_utf8", proto() + "X" + number(2, 4) + "\xc0\x80.", "a string is not UTF-8"},
      {"long_of_9_bytes", proto() + "\x8a\x09" + number(0, 8) + "\x01.", ""},
      {"long_cut", proto() + "\x8a\x09" + "ab.", "LONG1 needs 9 bytes"},
      {"long_4096_bytes", proto() + "\x8b" + number(4096, 4) + std::string(4096, 'a') + ".", ""},
      {"long_4097_bytes", proto() + "\x8b" + number(4097, 4) + std::string(4097, 'a') + ".",
       "an integer of 4097 bytes"},
      {"long_negative_length", proto() + "\x8b" + number(UINT32_MAX, 4) + "a.",
       "LONG4 needs 4294967295"},
      {"global_without_name", "cos\n", "the line after GLOBAL does not end"},
      {"global_not_utf8", "cos\xff\nx\n.", "something else than UTF-8"},
      {"global_long", "c" + std::string(5000, 'm') + "\nx\n.", "more than 512 bytes"},
      {"stack_global_of_numbers", proto(4) + "NN\x93.", "by something else than two strings"},
      {"stack_global_of_one", proto(4) + str("os") + "\x93.", "from an empty stack"},
  };
}

std::vector<Case> stack_cases() {
  return {
      {"pop_nothing", proto() + "0N.", "from an empty stack"},
      {"pop_mark_nothing", proto() + "1N.", "a mark that is not there"},
      {"pop_a_mark", proto() + "(0N.", ""},
      {"tuple_without_mark", proto() + "Nt.", "a mark that is not there"},
      {"tuple2_of_1", proto() + "N\x86.", "from an empty stack"},
      {"tuple3_across_mark", proto() + "N(NN\x87t.", "from below a mark"},
      {"append_across_mark", proto() + "](Na.", "from below a mark"},
      {"append_to_tuple", proto() + ")Na.", "it appends to a tuple"},
      {"append_to_none", proto() + "NNa.", "it appends to None"},
      {"appends_to_dict", proto() + "}(Ne.", "it appends to a dict"},
      {"setitem_of_list", proto() + "]NNs.", "it sets items of a list"},
      {"setitems_odd", proto() + "}(Nu.", "a key has no value"},
      {"key_is_list", proto() + "}]Ns.", "a list cannot be a key"},
      {"key_is_dict", proto() + "}}Ns.", "a dict cannot be a key"},
      {"key_is_set", proto(4) + "}\x8fNs.", "a set cannot be a key"},
      {"key_of_65537_bytes", proto() + "}" + str(std::string(65537, 'k')) + "Ns.",
       "a key of a dict has 65537 bytes"},
      {"key_of_65536_bytes", proto() + "}" + str(std::string(65536, 'k')) + "Ns.", ""},
      {"key_twice_as_one_value", proto(4) + "}" + str("a") + "\x94" + "Nsh" + number(0, 1) + "Ns.",
       "the key 'a' stands twice"},
      {"key_twice", proto() + dict({str("a"), "N", str("a"), "N"}) + ".",
       "the key 'a' stands twice"},
      {"key_twice_in_two_steps", proto() + "}" + str("a") + "Ns" + str("a") + "Ns.",
       "the key 'a' stands twice"},
      {"number_twice", proto() + dict({integer(7), "N", integer(7), "N"}) + ".",
       "the key 7 stands twice"},
      {"additems_to_list", proto(4) + "](N\x90.", "it adds members to a list"},
      {"member_is_list", proto(4) + "\x8f(]\x90.", "a list cannot be a key or a member"},
      {"frozenset_of_list", proto(4) + "(]\x91.", "a list cannot be a key or a member"},
      {"get_empty", proto() + "h\x05.", "place 5 of the memo is empty"},
      {"long_get_empty", proto() + "j" + number(UINT32_MAX, 4) + ".", "4294967295 of the memo"},
      {"put_of_nothing", proto() + "q" + std::string(1, '\0') + ".", "from an empty stack"},
      {"put_of_a_mark", proto() + "N(q" + std::string(1, '\0') + "t.", "from below a mark"},
      {"reduce_nothing", proto() + "R.", "from an empty stack"},
      {"reduce_without_tuple", proto() + global("os", "system") + "NR.",
       "calls something with None"},
      {"newobj_with_list", proto() + global("a", "B") + "]\x81.", "calls something with a list"},
      {"newobj_ex_keywords", proto(4) + global("a", "B") + ")]\x92.", "with a list for keywords"},
      {"build_of_class", proto() + global("builtins", "print") + "}b.",
       "sets the state of a class"},
      {"build_of_dict", proto() + "}}b.", "sets the state of a dict"},
      {"build_of_nothing", proto() + "}b.", "from an empty stack"},
      {"persistent_of_nothing", proto() + "Q.", "from an empty stack"},
  };
}

TEST(MalformedPickle, EveryCaseIsRefusedForItsOwnReason) {
  size_t count = 0;
  for (const auto& cases : {frame_cases(), value_cases(), stack_cases()}) {
    for (const Case& c : cases) {
      const std::string refused_with = refusal(c.bytes);
      EXPECT_EQ(refused_with.empty(), *c.message == '\0') << c.name << ": " << refused_with;
      EXPECT_NE(refused_with.find(c.message), std::string::npos) << c.name << ": " << refused_with;
      ++count;
    }
  }
  EXPECT_GE(count, 80u);
}

TEST(MalformedPickle, OpcodesOfProtocols0And1AreRefused) {
  for (const char* op : {"2", "F1\n", "I1\n", "L1L\n", "P0\n", "S'x'\n", "T\1\0\0\0x", "U\1x",
                         "Vx\n", "(d", "g0\n", "(ios\nsystem\n", "(l", "(o", "p0\n"}) {
    EXPECT_NE(refusal("N" + std::string(op) + ".").find("in protocols 2 to 5"), std::string::npos)
        << op;
  }
}

TEST(MalformedPickle, LimitsHold) {
  const auto limited = [](int64_t PickleLimits::*limit, int64_t value) {
    PickleLimits limits;
    limits.*limit = value;
    return limits;
  };
  EXPECT_NE(refusal(proto() +
                        repeat("K\x01"
                               "0",
                               200) +
                        "N.",
                    limited(&PickleLimits::values, 100))
                .find("more than 100 values"),
            std::string::npos);
  EXPECT_NE(refusal(proto() + "(" + repeat("N", 200) + "t.", limited(&PickleLimits::items, 100))
                .find("more than 100 items"),
            std::string::npos);
  EXPECT_NE(refusal(proto() + repeat("N", 200), limited(&PickleLimits::stack, 100))
                .find("beyond 100 values"),
            std::string::npos);
  EXPECT_NE(refusal(proto(4) + "N" + repeat("\x94", 200) + ".", limited(&PickleLimits::memo, 100))
                .find("memo grows beyond 100"),
            std::string::npos);
  EXPECT_NE(refusal(proto() + repeat("(", 1001)).find("more than 1000 marks"), std::string::npos);
}

TEST(MalformedPickle, AMillionListsInEachOtherAreRefused) {
  EXPECT_NE(refusal(proto() + repeat("]", 1'000'000) + repeat("a", 999'999) + ".")
                .find("more than 1000 deep"),
            std::string::npos);
  EXPECT_NE(refusal(proto() + "N" + repeat("\x85", 1'000'000) + ".").find("more than 1000 deep"),
            std::string::npos);
  EXPECT_EQ(refusal(proto() + repeat("]", 1000) + repeat("a", 999) + "."), "");
}

// Tuples of 900 in each other are remembered; each further chain grows on the one before, and the
// last value names them all, so that no way from it that is walked for the first time is long.
TEST(MalformedPickle, SharedValuesCountWithTheirDepth) {
  std::string chain = ")", all;
  for (uint64_t i = 0; i < 3; ++i) {
    chain += repeat("\x85", 900) + "r" + number(i, 4);
    all = "j" + number(i, 4) + all;
  }
  EXPECT_NE(refusal(proto() + chain + "0](" + all + "e.").find("more than 1000 deep"),
            std::string::npos);
  // The circle l = [l, t], where t lies 900 deep.
  EXPECT_EQ(refusal(proto() + ")" + repeat("\x85", 900) + "q" + number(0, 1) + "0]q\x01(h\x01h" +
                    number(0, 1) + "e."),
            "");
}

// Six bytes of pickle for a class each, with names of 500 bytes.
TEST(MalformedPickle, PairsOfNamesDoNotMultiply) {
  constexpr uint64_t kNames = 400;
  std::string bytes = proto(4);
  for (uint64_t i = 0; i < kNames; ++i) {
    bytes += str(std::string(500, 'n') + std::to_string(i)) + "r" + number(i, 4) + "0";
  }
  const size_t strings = bytes.size();
  const int64_t before = peak_resident_bytes();
  for (uint64_t i = 0; i < kNames * kNames; ++i) {
    bytes += "j" + number(i / kNames, 4) + "j" + number(i % kNames, 4) + "\x93" + "0";
  }
  EXPECT_NE(refusal(bytes + "N.").find("names more than 100000 classes"), std::string::npos);
  EXPECT_LT(peak_resident_bytes() - before, 80 << 20);
  const std::string few = bytes.substr(0, strings + 12 * 1000) + "N.";
  EXPECT_EQ(read_pickle(few, "'x'").globals().size(), 1000u);
}

TEST(MalformedPickle, ContainersAndObjectsCountAsMuchAsTheyTake) {
  PickleLimits limits;
  limits.memory = 100'000;
  EXPECT_EQ(refusal(proto() + repeat("N0", 100'000) + "N.", limits), "");
  EXPECT_EQ(refusal(proto() +
                        repeat("K\x01"
                               "0",
                               2000) +
                        "N.",
                    limits),
            "");
  for (const std::string& part : {std::string("]0"), std::string("}0"), global("a", "B") + ")R0"}) {
    EXPECT_NE(refusal(proto() + repeat(part, 2000) + "N.", limits)
                  .find("takes more than 100000 bytes of memory"),
              std::string::npos)
        << part;
  }
  const int64_t before = peak_resident_bytes();
  EXPECT_NE(refusal(proto() + repeat("]0", 4'000'000) + "N.").find("bytes of memory"),
            std::string::npos);
  EXPECT_LT(peak_resident_bytes() - before, 600 << 20);
}

// Each list holds the one before twice: 2^60 values to who walks them all.
TEST(MalformedPickle, SharedListsDoNotMultiply) {
  std::string bytes = proto(4) + "]\x94";
  for (int i = 0; i < 60; ++i) {
    bytes += "](h" + number(static_cast<uint64_t>(i), 1) + "h" +
             number(static_cast<uint64_t>(i), 1) + "e\x94";
  }
  // The lists before stay below on the stack; a tuple takes them all.
  const PickleTree tree = read_pickle(proto(4) + "(" + bytes.substr(2) + "t.", "'x'");
  EXPECT_LT(tree.size(), 100u);
}

TEST(MalformedPickle, CirclesAreRead) {
  // l = [l]; d = {"d": d}
  EXPECT_EQ(refusal(proto(4) + "]\x94h" + number(0, 1) + "a."), "");
  EXPECT_EQ(refusal(proto(4) + "}\x94" + str("d") + "h" + number(0, 1) + "s."), "");
}

TEST(MalformedPickle, ClaimedLengthsTakeNoMemory) {
  const int64_t before = peak_resident_bytes();
  for (const char* op : {"\x8d", "\x8e", "\x96", "\x95"}) {
    EXPECT_NE(refusal(proto(5) + op + number(10'000'000'000, 8) + std::string(1000, 'x')), "");
  }
  EXPECT_LT(peak_resident_bytes() - before, 64 << 20);
}

TEST(PickleReader, CallsAreKeptAsData) {
  const std::string evil = proto() + global("os", "system") + str("touch /tmp/never") + "\x85R.";
  const PickleTree tree = read_pickle(evil, "'x'");
  ASSERT_EQ(tree.globals().size(), 1u);
  EXPECT_EQ(tree.globals()[0].full_name(), "os.system");
  EXPECT_EQ(tree.globals()[0].calls, 1);
  ASSERT_TRUE(tree.is_call(tree.root(), "os", "system"));
  EXPECT_TRUE(
      tree.is_string(tree.items(tree.object(tree.root()).args).front(), "touch /tmp/never"));
}

TEST(PickleReader, EveryWayOfCallingIsNoticed) {
  // getattr(__import__("os"), "system")("x"), eval in NEWOBJ, a class in NEWOBJ_EX, and attributes
  // set by BUILD.
  const std::string nested = testing::call(
      testing::call(global("builtins", "getattr"),
                    {testing::call(global("builtins", "__import__"), {str("os")}), str("system")}),
      {str("x")});
  const std::string made = global("builtins", "eval") + testing::tuple({str("1+1")}) + "\x81";
  const std::string newobj = global("subprocess", "Popen") + ")}\x92" + dict({str("a"), "N"}) + "b";
  const std::string bytes = proto(4) + testing::tuple({nested, made, newobj}) + ".";
  const PickleTree tree = read_pickle(bytes, "'x'");
  std::string named;
  for (const PickleGlobal& global : tree.globals()) {
    named += global.full_name() + " " + std::to_string(global.calls) + "; ";
  }
  EXPECT_EQ(named,
            "builtins.getattr 1; builtins.__import__ 1; builtins.eval 1; subprocess.Popen 1; ");
  EXPECT_EQ(tree.object(tree.items(tree.root())[2]).states.size(), 1u);
}

TEST(PickleReader, ValuesAreRead) {
  const std::string bytes = proto(4) + "(N\x88\x89" + "K\xff" + "M\xff\xff" + "J" +
                            number(0xfffffffe, 4) + "\x8a" + number(0, 1) + "\x8a\x01\x80" +
                            "G\x3f\xe0" + std::string(6, '\0') + "\x8c\x02h\xc3" + "t.";
  EXPECT_NE(refusal(bytes), "");  // half a character
  const std::string whole = bytes.substr(0, bytes.size() - 5) + "\x02\xc3\xa9" + "t.";
  const PickleTree tree = read_pickle(whole, "'x'");
  const auto& items = tree.items(tree.root());
  ASSERT_EQ(items.size(), 10u);
  EXPECT_EQ(tree[items[0]].kind, PickleKind::kNone);
  EXPECT_EQ(items[1], PickleTree::kTrueId);
  EXPECT_EQ(items[2], PickleTree::kFalseId);
  const int64_t integers[] = {255, 65535, -2, 0, -128};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(tree[items[3 + i]].integer, integers[i]) << i;
  EXPECT_EQ(tree[items[8]].number, 0.5);
  EXPECT_TRUE(tree.is_string(items[9], "\xc3\xa9"));
}

}  // namespace pickle_malformed_test
}  // namespace tost
