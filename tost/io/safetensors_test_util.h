// Safetensors files that break one rule of the format each, and their closest valid neighbours.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tost::testing {

inline std::string with_length(uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}

inline std::string make_file(const std::string& json, size_t data_bytes) {
  return with_length(json.size(), json + std::string(data_bytes, '\0'));
}

// {"a": {dtype, shape, data_offsets}}
inline std::string one(const std::string& dtype, const std::string& shape,
                       const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

inline const std::string kGood = one("F32", "[2]", "[0,8]");
inline const std::string kEntry = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

struct SafetensorsFileCase {
  const char* name;
  std::string bytes;
  const char* message;  // part of it; "" where the file is valid
};

inline std::vector<SafetensorsFileCase> frame_cases() {
  const std::string good = make_file(kGood, 8);
  return {
      {"good", good, ""},
      {"empty_file", "", "fewer than the 8"},
      {"seven_bytes", good.substr(0, 7), "fewer than the 8"},
      {"length_only", with_length(10, ""), "truncated"},
      {"zero_length", with_length(0, ""), "begin with '{'"},
      {"zero_length_with_data", with_length(0, "{}"), "begin with '{'"},
      {"length_past_end", with_length(kGood.size() + 9, kGood + std::string(8, '\0')), "truncated"},
      {"length_over_cap", with_length(100'000'001, "{}"), "the limit is"},
      {"length_64_bit", with_length(UINT64_MAX, "{}"), "the limit is"},
      {"length_sign_bit", with_length(uint64_t{1} << 63, "{}"), "the limit is"},
      {"length_wraps_with_8", with_length(UINT64_MAX - 7, "{}"), "the limit is"},
      {"header_cut", with_length(kGood.size() - 1, kGood + std::string(8, '\0')), "not JSON"},
      {"leading_space", make_file(" " + kGood, 8), "begin with '{'"},
      {"byte_order_mark", make_file("\xef\xbb\xbf" + kGood, 8), "begin with '{'"},
      {"padded_with_spaces", make_file(kGood + "   ", 8), ""},
      {"padded_with_nul", make_file(kGood + std::string(3, '\0'), 8), "NUL"},
      {"text_after_nul", make_file(kGood + std::string(1, '\0') + "x", 8), "NUL"},
      {"text_after_object", make_file(kGood + "x", 8), "not JSON"},
      {"two_objects", make_file(kGood + "{}", 8), "not JSON"},
      {"comment", make_file("{/*c*/" + kGood.substr(1), 8), "not JSON"},
      {"list", make_file("[]", 0), "begin with '{'"},
      {"nothing_inside", make_file("{}", 0), ""},
      {"nothing_inside_but_data", make_file("{}", 4), "belong to none"},
      {"data_cut", make_file(kGood, 7), "truncated"},
      {"data_missing", make_file(kGood, 0), "truncated"},
      {"data_too_long", make_file(kGood, 9), "belong to none"},
      {"pickle", std::string("\x80\x02}q\x00(X\x06\x00\x00\x00weight", 16), "the limit is"},
      {"deep_nesting", make_file("{\"a\":" + std::string(1'000'000, '['), 0), "found a list"},
      {"invalid_utf8", make_file("{\"\xff\":" + kEntry + "}", 8), "not JSON"},
      {"lone_surrogate", make_file("{\"\\ud800\":" + kEntry + "}", 8), "not JSON"},
  };
}

inline std::vector<SafetensorsFileCase> entry_cases() {
  return {
      {"scalar", make_file(one("F32", "[]", "[0,4]"), 4), ""},
      {"empty_tensor", make_file(one("F32", "[0,3]", "[0,0]"), 0), ""},
      {"empty_name", make_file("{\"\":" + kEntry + "}", 8), ""},
      {"value_null", make_file(R"({"a":null})", 0), "must be an object"},
      {"value_number", make_file(R"({"a":1})", 0), "must be an object"},
      {"value_string", make_file(R"({"a":"F32"})", 0), "must be an object"},
      {"value_list", make_file(R"({"a":["F32",[2],[0,8]]})", 8), "must be an object"},
      {"no_dtype", make_file(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8), "lacks dtype"},
      {"no_shape", make_file(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8), "lacks shape"},
      {"no_offsets", make_file(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "lacks data_offsets"},
      {"nothing", make_file(R"({"a":{}})", 0), "lacks dtype"},
      {"unknown_field",
       make_file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8),
       "unknown field"},
      {"dtype_twice",
       make_file(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
       "'dtype' twice"},
      {"shape_twice",
       make_file(R"({"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", 8),
       "'shape' twice"},
      {"offsets_twice",
       make_file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"data_offsets":[0,8]}})",
                 8),
       "'data_offsets' twice"},
      {"name_twice", make_file("{\"a\":" + kEntry + ",\"a\":" + kEntry + "}", 8), "appears twice"},
      {"name_twice_escaped", make_file("{\"a\":" + kEntry + ",\"\\u0061\":" + kEntry + "}", 8),
       "appears twice"},
      {"dtype_lower_case", make_file(one("f32", "[2]", "[0,8]"), 8), "has the type 'f32'"},
      {"dtype_unknown", make_file(one("F128", "[2]", "[0,32]"), 32), "has the type 'F128'"},
      {"dtype_4_bit", make_file(one("F4", "[2]", "[0,1]"), 1), "none of those this program reads"},
      {"dtype_6_bit", make_file(one("F6_E2M3", "[4]", "[0,3]"), 3), "none of those"},
      {"dtype_exponent", make_file(one("F8_E8M0", "[4]", "[0,4]"), 4), "none of those"},
      {"dtype_complex", make_file(one("C64", "[2]", "[0,16]"), 16), "none of those"},
      {"dtype_empty", make_file(one("", "[2]", "[0,8]"), 8), "has the type ''"},
      {"dtype_number", make_file(R"({"a":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", 8),
       "dtype of 'a' must be a string"},
      {"shape_number", make_file(one("F32", "2", "[0,8]"), 8), "shape of 'a'"},
      {"shape_negative", make_file(one("F32", "[-2]", "[0,8]"), 8), "shape of 'a'"},
      {"shape_float", make_file(one("F32", "[2.0]", "[0,8]"), 8), "shape of 'a'"},
      {"shape_string", make_file(one("F32", "[\"2\"]", "[0,8]"), 8), "shape of 'a'"},
      {"shape_nested", make_file(one("F32", "[[2]]", "[0,8]"), 8), "shape of 'a'"},
      {"shape_null", make_file(one("F32", "null", "[0,8]"), 8), "shape of 'a'"},
      {"shape_over_int64", make_file(one("F32", "[9223372036854775808]", "[0,8]"), 8),
       "shape of 'a'"},
      {"shape_over_uint64", make_file(one("F32", "[99999999999999999999]", "[0,8]"), 8),
       "shape of 'a'"},
      {"shape_product_wraps", make_file(one("F32", "[4294967296,4294967296]", "[0,0]"), 0),
       "impossible"},
      {"shape_wraps_to_8", make_file(one("F32", "[4611686018427387906]", "[0,8]"), 8),
       "impossible"},
      {"shape_wraps_times_0", make_file(one("F32", "[4294967296,4294967296,0]", "[0,0]"), 0),
       "impossible"},
      {"shape_65_dimensions",
       make_file(one(
                     "U8",
                     "[1" +
                         [] {
                           std::string s;
                           for (int i = 0; i < 64; ++i) s += ",1";
                           return s;
                         }() +
                         "]",
                     "[0,1]"),
                 1),
       "64 dimensions"},
      {"shape_too_large", make_file(one("F32", "[3]", "[0,8]"), 8), "needs 12 bytes"},
      {"shape_too_small", make_file(one("F32", "[1]", "[0,8]"), 8), "needs 4 bytes"},
      {"ten_gigabytes_claimed", make_file(one("F32", "[2684354560]", "[0,10737418240]"), 8),
       "truncated"},
  };
}

inline std::vector<SafetensorsFileCase> place_cases() {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + a +
           R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + b + "}}";
  };
  return {
      {"adjacent", make_file(two("[0,4]", "[4,8]"), 8), ""},
      {"reversed_order", make_file(two("[4,8]", "[0,4]"), 8), ""},
      {"hole", make_file(two("[0,4]", "[8,12]"), 12), "a hole"},
      {"hole_at_start", make_file(two("[4,8]", "[8,12]"), 12), "a hole"},
      {"same_place", make_file(two("[0,4]", "[0,4]"), 4), "an overlap"},
      {"overlap", make_file(two("[0,4]", "[2,6]"), 6), "an overlap"},
      {"backwards", make_file(one("F32", "[2]", "[8,0]"), 8), "ends before"},
      {"past_end", make_file(two("[0,4]", "[4,8]"), 7), "truncated"},
      {"offsets_at_int64_end",
       make_file(one("U8", "[1]", "[9223372036854775806,9223372036854775807]"), 1), "a hole"},
      {"offsets_over_int64", make_file(one("U8", "[1]", "[0,18446744073709551615]"), 1),
       "data_offsets"},
      {"one_offset", make_file(one("F32", "[2]", "[0]"), 8), "1 of them"},
      {"no_offset", make_file(one("F32", "[2]", "[]"), 8), "0 of them"},
      {"three_offsets", make_file(one("F32", "[2]", "[0,8,8]"), 8), "a third"},
      {"negative_offset", make_file(one("F32", "[2]", "[-8,0]"), 8), "data_offsets"},
      {"float_offset", make_file(one("F32", "[2]", "[0,8.0]"), 8), "data_offsets"},
      {"offset_string", make_file(one("F32", "[2]", "\"0,8\""), 8), "data_offsets"},
      {"unaligned",
       make_file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                 R"("b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})",
                 9),
       ""},
      {"bool_two",
       with_length(one("BOOL", "[2]", "[0,2]").size(), one("BOOL", "[2]", "[0,2]") + "\x01\x02"),
       "holds the byte 2"},
      {"metadata", make_file(R"({"__metadata__":{"k":"v"},"a":)" + kEntry + "}", 8), ""},
      {"metadata_null", make_file(R"({"__metadata__":null,"a":)" + kEntry + "}", 8), ""},
      {"metadata_number", make_file(R"({"__metadata__":{"k":1}})", 0),
       "metadata 'k' must be a string"},
      {"metadata_nested", make_file(R"({"__metadata__":{"k":{}}})", 0),
       "metadata 'k' must be a string"},
      {"metadata_list", make_file(R"({"__metadata__":["k"]})", 0), "must be an object of strings"},
      {"metadata_string", make_file(R"({"__metadata__":"k"})", 0), "must be an object of strings"},
      {"metadata_twice", make_file(R"({"__metadata__":{},"__metadata__":{}})", 0), "appears twice"},
      {"metadata_key_twice", make_file(R"({"__metadata__":{"k":"1","k":"2"}})", 0),
       "appears twice"},
  };
}

}  // namespace tost::testing
