#include "tost/io/zip_writer.h"

#include <utility>

#include "tost/base/error.h"
#include "tost/io/zip_crc32.h"

namespace tost {
namespace {

// From these on, numbers stand in zip64 fields.
constexpr uint64_t kNarrow = 0xffffffff, kManyEntries = 0xffff;
constexpr uint64_t kAlignment = 64, kEntryHeader = 30, kFieldHeader = 4;
// 1 January 1980: files do not tell when they were made.
constexpr uint32_t kDate = 0x00210000;

class Bytes {
 public:
  Bytes& u16(uint64_t value) { return number(value, 2); }
  Bytes& u32(uint64_t value) { return number(value, 4); }
  Bytes& u64(uint64_t value) { return number(value, 8); }
  Bytes& narrow(uint64_t value) { return u32(value >= kNarrow ? kNarrow : value); }
  Bytes& text(std::string_view bytes) {
    out_ += bytes;
    return *this;
  }
  const std::string& get() const { return out_; }

 private:
  Bytes& number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  std::string out_;
};

// The numbers that do not fit into 32 bits.
std::string zip64_field(const std::vector<uint64_t>& numbers) {
  Bytes body;
  for (const uint64_t value : numbers) {
    if (value >= kNarrow) body.u64(value);
  }
  if (body.get().empty()) return {};
  return Bytes().u16(1).u16(body.get().size()).text(body.get()).get();
}

// A field of torch's kind that moves the data to a multiple of kAlignment.
std::string padding_field(uint64_t data_without) {
  const uint64_t past = (data_without + kFieldHeader) % kAlignment;
  const uint64_t size = past == 0 ? 0 : kAlignment - past;
  return Bytes().text("FB").u16(size).text(std::string(size, 'Z')).get();
}

}  // namespace

ZipWriter::ZipWriter(std::filesystem::path path)
    : path_(std::move(path)), partial_(path_.string() + ".tmp"), out_(partial_) {}

ZipWriter::~ZipWriter() {
  if (!finished_) discard(partial_);
}

void ZipWriter::write(std::string_view bytes) {
  out_.write(bytes);
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::string_view bytes) {
  const Entry entry{name, bytes.size(), at_, zip_crc32(bytes)};
  std::string extra = zip64_field({entry.size, entry.size});
  extra += padding_field(at_ + kEntryHeader + name.size() + extra.size());
  write(Bytes()
            .u32(0x04034b50)
            .u16(extra.size() > 0 && entry.size >= kNarrow ? 45 : 20)
            .u16(0)
            .u16(0)
            .u32(kDate)
            .u32(entry.crc)
            .narrow(entry.size)
            .narrow(entry.size)
            .u16(name.size())
            .u16(extra.size())
            .text(name)
            .text(extra)
            .get());
  write(bytes);
  entries_.push_back(entry);
}

void ZipWriter::write_record(const Entry& entry) {
  const std::string extra = zip64_field({entry.size, entry.size, entry.header});
  write(Bytes()
            .u32(0x02014b50)
            .u16(45)
            .u16(extra.empty() ? 20 : 45)
            .u16(0)
            .u16(0)
            .u32(kDate)
            .u32(entry.crc)
            .narrow(entry.size)
            .narrow(entry.size)
            .u16(entry.name.size())
            .u16(extra.size())
            .u16(0)
            .u16(0)
            .u16(0)
            .u32(0)
            .narrow(entry.header)
            .text(entry.name)
            .text(extra)
            .get());
}

void ZipWriter::write_end(uint64_t begin) {
  const uint64_t end = at_, count = entries_.size();
  const uint64_t narrow_count = count >= kManyEntries ? kManyEntries : count;
  if (end >= kNarrow || count >= kManyEntries) {
    Bytes wide;
    wide.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0).u64(count).u64(count);
    wide.u64(end - begin).u64(begin);
    wide.u32(0x07064b50).u32(0).u64(end).u32(1);  // the locator
    write(wide.get());
  }
  Bytes record;
  record.u32(0x06054b50).u16(0).u16(0).u16(narrow_count).u16(narrow_count);
  write(record.narrow(end - begin).narrow(begin).u16(0).get());
}

void ZipWriter::finish() {
  const uint64_t begin = at_;
  for (const Entry& entry : entries_) write_record(entry);
  write_end(begin);
  out_.sync();
  out_.close();
  rename_durably(partial_, path_);
  finished_ = true;
}

}  // namespace tost
