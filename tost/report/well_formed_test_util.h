// For tests: whether text is well-formed markup, and what its elements are.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tost/report/text.h"

namespace tost::testing {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;  // still escaped
};

// Reads XML without comments, CDATA and declarations; `html` allows a doctype, elements that are
// never closed (<meta>), attributes without value, and raw text in <style>.
class MarkupReader {
 public:
  MarkupReader(std::string_view text, bool html) : text_(text), html_(html) {}

  // The elements in order; records the first fault.
  std::vector<Element> read() {
    if (clean_text(text_) != text_) fail("characters that XML forbids");
    if (html_ && text_.starts_with("<!doctype html>")) at_ = 15;
    while (fault_.empty() && at_ < text_.size()) {
      if (text_[at_] == '<') {
        text_.substr(at_, 2) == "</" ? close() : open();
      } else {
        content();
      }
    }
    if (fault_.empty() && !stack_.empty()) fail("<" + stack_.back() + "> is not closed");
    return elements_;
  }
  const std::string& fault() const { return fault_; }

 private:
  void fail(const std::string& what) {
    if (fault_.empty()) fault_ = what + " at byte " + std::to_string(at_);
  }
  static bool name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == ':';
  }
  std::string name() {
    const size_t begin = at_;
    while (at_ < text_.size() && name_char(text_[at_])) ++at_;
    if (at_ == begin) fail("a name is missing");
    return std::string(text_.substr(begin, at_ - begin));
  }
  void spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  void check_escapes(std::string_view part) {
    static const std::set<std::string_view> kKnown = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = part.find('&'); i != part.npos; i = part.find('&', i + 1)) {
      if (!kKnown.contains(part.substr(i, part.find(';', i) - i + 1))) fail("a bare &");
    }
  }
  void content() {
    const size_t end = std::min(text_.find('<', at_), text_.size());
    const std::string_view part = text_.substr(at_, end - at_);
    check_escapes(part);
    if (part.find('>') != part.npos) fail("a bare >");
    if (stack_.empty() && part.find_first_not_of(" \n") != part.npos) fail("text outside");
    at_ = end;
  }
  void open() {
    ++at_;
    Element element{name(), {}};
    bool closed = false;
    while (fault_.empty()) {
      spaces();
      if (text_.substr(at_, 2) == "/>") {
        closed = true;
        at_ += 2;
        break;
      }
      if (text_.substr(at_, 1) == ">") {
        ++at_;
        break;
      }
      attribute(element);
    }
    static const std::set<std::string> kVoid = {"meta", "link", "img", "input"};
    if (html_ && element.name == "style") at_ = std::min(text_.find("</style>", at_), text_.size());
    if (!closed && !(html_ && kVoid.contains(element.name))) stack_.push_back(element.name);
    elements_.push_back(std::move(element));
  }
  void attribute(Element& element) {
    const std::string key = name();
    if (text_.substr(at_, 2) != "=\"") {
      if (!html_) fail("attribute " + key + " has no value");
      element.attributes[key] = "";
      return;
    }
    at_ += 2;
    const size_t end = text_.find('"', at_);
    if (end == text_.npos) return fail("an attribute is not ended");
    const std::string value(text_.substr(at_, end - at_));
    check_escapes(value);
    if (value.find('<') != value.npos) fail("a bare < in an attribute");
    if (!element.attributes.emplace(key, value).second) fail("attribute " + key + " twice");
    at_ = end + 1;
  }
  void close() {
    at_ += 2;
    const std::string closing = name();
    if (text_.substr(at_, 1) != ">") fail("an end tag is not ended");
    ++at_;
    if (stack_.empty() || stack_.back() != closing) return fail("</" + closing + "> was not open");
    stack_.pop_back();
  }

  std::string_view text_;
  bool html_;
  size_t at_ = 0;
  std::vector<std::string> stack_;
  std::vector<Element> elements_;
  std::string fault_;
};

// The elements of well-formed text; a test failure otherwise.
inline std::vector<Element> elements_of(std::string_view text, bool html = false) {
  MarkupReader reader(text, html);
  std::vector<Element> elements = reader.read();
  EXPECT_EQ(reader.fault(), "");
  return elements;
}

inline size_t count_named(const std::vector<Element>& elements, std::string_view name) {
  size_t count = 0;
  for (const Element& element : elements) count += element.name == name;
  return count;
}

}  // namespace tost::testing
