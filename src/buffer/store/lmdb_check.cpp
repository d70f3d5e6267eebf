#include "buffer/store/lmdb_check.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"

// Implements the format of LMDB 0.9 on 64-bit machines, in the machine's byte order.

namespace evenkeel {
namespace {

using PageNumber = std::uint64_t;

constexpr PageNumber no_page = ~PageNumber{0};
constexpr std::uint32_t lmdb_magic = 0xBEEFC0DE;
constexpr std::uint32_t lmdb_version = 1;
constexpr std::size_t header_bytes = 16;
constexpr std::size_t node_header = 8;
constexpr int deepest = 32;
constexpr std::uint16_t integer_keys = 0x08;

enum PageFlag : std::uint16_t {
  branch_page = 0x01,
  leaf_page = 0x02,
  overflow_page = 0x04,
  meta_page = 0x08
};
enum NodeFlag : std::uint16_t { value_elsewhere = 0x01, is_tree = 0x02 };

struct Tree {
  std::uint32_t pad = 0;
  std::uint16_t flags = 0;
  std::uint16_t depth = 0;
  std::uint64_t branches = 0;
  std::uint64_t leaves = 0;
  std::uint64_t overflows = 0;
  std::uint64_t entries = 0;
  PageNumber root = no_page;
};
static_assert(sizeof(Tree) == 48);

struct Meta {
  std::uint32_t magic = 0;
  std::uint32_t version = 0;
  std::uint64_t address = 0;
  std::uint64_t map_bytes = 0;
  Tree free;
  Tree main;
  PageNumber last_page = 0;
  std::uint64_t transaction = 0;
};
static_assert(sizeof(Meta) == 136);

struct Node {
  std::uint16_t low = 0;
  std::uint16_t high = 0;
  std::uint16_t flags = 0;
  std::uint16_t key_bytes = 0;

  [[nodiscard]] std::uint64_t value_bytes() const { return low | std::uint64_t{high} << 16; }
  [[nodiscard]] PageNumber child() const { return value_bytes() | PageNumber{flags} << 32; }
};
static_assert(sizeof(Node) == node_header);

struct PageHeader {
  PageNumber number = 0;
  std::uint16_t pad = 0;
  std::uint16_t flags = 0;
  std::uint16_t lower = 0;
  std::uint16_t upper = 0;

  [[nodiscard]] std::uint32_t pages() const { return lower | std::uint32_t{upper} << 16; }
};
static_assert(sizeof(PageHeader) == header_bytes);

/// File mapped into memory for reading.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) throw system_error(path.string(), "cannot be opened", errno);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) throw system_error(path.string(), "cannot be read", errno);
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ > 0) data_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
    if (data_ == MAP_FAILED) throw system_error(path.string(), "cannot be read", errno);
  }
  ~MappedFile() {
    if (size_ > 0) ::munmap(data_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::string_view bytes() const noexcept { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

template <typename Value>
Value value_at(std::string_view bytes, std::size_t offset) {
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

class Check {
 public:
  Check(std::string_view file, std::string where) : file_(file), where_(std::move(where)) {}

  void run() {
    const Meta meta = read_newest_meta();
    const PageNumber meta_number = meta.transaction % 2;
    is_used_.assign(static_cast<std::size_t>(meta.last_page + 1), false);
    is_used_[0] = is_used_[1] = true;
    check_tree(meta.main, meta_number, [&](std::string_view key, std::string_view value, bool is_sub_tree) {
      const PageNumber by = meta.main.root;
      require(is_sub_tree && value.size() == sizeof(Tree), by, "has an invalid table");
      const auto tree = value_at<Tree>(value, 0);
      const bool has_numbers = key == "bodies" || key == "events";
      require(has_numbers || key == "seen" || key == "notes", by, "has a table with an unknown name");
      require(tree.flags == (has_numbers ? integer_keys : 0), by, "has a table of the wrong type");
      check_tree(tree, by, [&](std::string_view, std::string_view, bool is_other) {
        require(!is_other, tree.root, "has a table within a table");
      });
    });
    check_tree(meta.free, meta_number, [&](std::string_view key, std::string_view value, bool is_sub_tree) {
      require(!is_sub_tree && key.size() == sizeof(PageNumber) && value.size() >= sizeof(PageNumber), 0,
              "has an invalid list of free pages");
      check_free_list(value);
    });
  }

 private:
  struct Walk {
    Tree tree;
    Tree found{};  // numbers of pages and entries visited so far, to be compared with `tree`
    std::optional<std::string> last_key;
    // Latest key of a branch page. All following keys must be greater than or equal to it.
    std::optional<std::string> floor;
  };

  void require(bool is_right, PageNumber page, const char* what) const {
    if (is_right) return;
    throw IoError(where_, "is damaged: page " + std::to_string(page) + " " + what,
                  "Check the disk, and restore the folder from a backup");
  }

  Meta read_newest_meta() {
    require(file_.size() >= header_bytes + sizeof(Meta), 0, "is truncated");
    page_bytes_ = value_at<Meta>(file_, header_bytes).free.pad;
    require(page_bytes_ >= 512 && page_bytes_ <= 65536 && (page_bytes_ & (page_bytes_ - 1)) == 0, 0,
            "does not specify a page size");
    require(file_.size() >= 2 * page_bytes_, 1, "is truncated");
    std::array<Meta, 2> metas;
    for (const PageNumber number : {PageNumber{0}, PageNumber{1}}) {
      const auto header = value_at<PageHeader>(file_, number * page_bytes_);
      const auto meta = value_at<Meta>(file_, number * page_bytes_ + header_bytes);
      require(header.number == number && header.flags == meta_page, number, "is not a valid first page");
      require(meta.magic == lmdb_magic && meta.version == lmdb_version, number, "is not a page of LMDB");
      require(meta.free.pad == page_bytes_, number, "specifies a different page size");
      require(meta.free.flags == integer_keys && meta.main.flags == 0, number,
              "has tables of the wrong type");
      require(meta.last_page >= 1 && meta.last_page < file_.size() / page_bytes_, number,
              "specifies more pages than the file has");
      metas[number] = meta;
    }
    // Each transaction overwrites the older of the two meta pages, so their transaction numbers must be
    // consecutive. If they are not, the latest transaction was lost.
    const std::uint64_t first = metas[0].transaction;
    const std::uint64_t second = metas[1].transaction;
    const bool is_new = first == 0 && second == 0;
    require(is_new || (first % 2 == 0 && (first + 1 == second || second + 1 == first)), 0,
            "and page 1 are not from consecutive transactions");
    return second > first ? metas[1] : metas[0];
  }

  /// Marks `count` pages from `page` on, to which the page `by` refers, as used. Throws IoError if one of
  /// them is beyond the last page that LMDB has allocated (Meta::last_page), or is already used.
  void mark_used(PageNumber page, std::uint64_t count, PageNumber by) {
    require(page < is_used_.size() && count <= is_used_.size() - page, by,
            "points to a page beyond the last one");
    for (PageNumber number = page; number < page + count; ++number) {
      require(!is_used_[static_cast<std::size_t>(number)], number, "is used twice");
      is_used_[static_cast<std::size_t>(number)] = true;
    }
  }

  [[nodiscard]] std::string_view page_at(PageNumber page) const {
    return file_.substr(static_cast<std::size_t>(page) * page_bytes_, page_bytes_);
  }

  template <typename Take>
  void check_tree(const Tree& tree, PageNumber by, const Take& take) {
    Walk walk{tree, {}, {}, {}};
    if (tree.root != no_page) {
      require(tree.depth >= 1 && tree.depth <= deepest, by, "has a tree of invalid depth");
      check_page(walk, tree.root, by, 1, take);
    }
    const Tree& found = walk.found;
    require(tree.entries == found.entries && tree.leaves == found.leaves && tree.branches == found.branches &&
                tree.overflows == found.overflows && (tree.root != no_page || tree.depth == 0),
            by, "has a tree with a wrong number of pages");
  }

  template <typename Take>
  void check_page(Walk& walk, PageNumber number, PageNumber by, int depth, const Take& take) {
    mark_used(number, 1, by);
    const std::string_view page = page_at(number);
    const auto header = value_at<PageHeader>(page, 0);
    const bool is_leaf = depth == walk.tree.depth;
    require(header.number == number, number, "has the number of another page");
    require(header.flags == (is_leaf ? leaf_page : branch_page), number, "has the wrong type");
    require(header.lower > header_bytes && header.lower % 2 == 0 && header.lower <= header.upper &&
                header.upper <= page_bytes_,
            number, "is too small for its contents");
    ++(is_leaf ? walk.found.leaves : walk.found.branches);
    std::size_t taken = 0;
    for (std::size_t at = header_bytes; at < header.lower; at += 2) {
      const std::size_t offset = value_at<std::uint16_t>(page, at);
      require(offset >= header.upper && offset % 2 == 0 && offset + node_header <= page_bytes_, number,
              "points beyond its own end");
      const auto node = value_at<Node>(page, offset);
      const bool is_first = at == header_bytes;
      taken += is_leaf ? check_value(walk, number, page.substr(offset), node, take)
                       : check_child(walk, number, page.substr(offset), node, is_first, depth, take);
    }
    require(taken == page_bytes_ - header.upper, number, "has values that overlap, or gaps");
  }

  std::string_view key_of(const Walk& walk, PageNumber number, std::string_view rest,
                          const Node& node) const {
    require(node_header + node.key_bytes <= rest.size(), number, "has a key beyond its end");
    require((walk.tree.flags & integer_keys) == 0 || node.key_bytes == sizeof(std::uint64_t), number,
            "has a key that is not a number");
    return rest.substr(node_header, node.key_bytes);
  }

  [[nodiscard]] static bool is_less(const Walk& walk, std::string_view left, std::string_view right) {
    if ((walk.tree.flags & integer_keys) == 0) return left < right;
    return value_at<std::uint64_t>(left, 0) < value_at<std::uint64_t>(right, 0);
  }

  template <typename Take>
  std::size_t check_child(Walk& walk, PageNumber number, std::string_view rest, const Node& node,
                          bool is_first, int depth, const Take& take) {
    require(node_header + node.key_bytes <= rest.size(), number, "has a key beyond its end");
    if (!is_first) {
      const std::string_view key = key_of(walk, number, rest, node);
      require(walk.last_key && is_less(walk, *walk.last_key, key), number, "has keys that are out of order");
      walk.floor = key;
    }
    require(depth < deepest, number, "is too deep");
    check_page(walk, node.child(), number, depth + 1, take);
    return node_header + (node.key_bytes + std::size_t{1}) / 2 * 2;
  }

  template <typename Take>
  std::size_t check_value(Walk& walk, PageNumber number, std::string_view rest, const Node& node,
                          const Take& take) {
    const std::string_view key = key_of(walk, number, rest, node);
    require((!walk.last_key || is_less(walk, *walk.last_key, key)) &&
                (!walk.floor || !is_less(walk, key, *walk.floor)),
            number, "has keys that are out of order");
    walk.last_key = key;
    ++walk.found.entries;
    require((node.flags & ~(value_elsewhere | is_tree)) == 0, number, "has a value of the wrong type");
    const bool is_elsewhere = (node.flags & value_elsewhere) != 0;
    const std::uint64_t inside = is_elsewhere ? sizeof(PageNumber) : node.value_bytes();
    const std::uint64_t size = node_header + node.key_bytes + inside;
    require(size <= rest.size(), number, "has a value beyond its end");
    std::string_view value = rest.substr(node_header + node.key_bytes, static_cast<std::size_t>(inside));
    if (is_elsewhere)
      value = read_overflow_value(walk, number, value_at<PageNumber>(value, 0), node.value_bytes());
    take(key, value, (node.flags & is_tree) != 0);
    return static_cast<std::size_t>((size + 1) / 2 * 2);
  }

  std::string_view read_overflow_value(Walk& walk, PageNumber by, PageNumber page, std::uint64_t bytes) {
    const std::uint64_t pages = (header_bytes - 1 + bytes) / page_bytes_ + 1;
    mark_used(page, pages, by);
    walk.found.overflows += pages;
    const auto header = value_at<PageHeader>(page_at(page), 0);
    require(header.number == page && header.flags == overflow_page && header.pages() == pages, page,
            "does not have the value that another page refers to");
    return file_.substr(static_cast<std::size_t>(page) * page_bytes_ + header_bytes,
                        static_cast<std::size_t>(bytes));
  }

  /// Checks a list of free pages, which consists of their count and their numbers in descending order.
  void check_free_list(std::string_view list) {
    const auto count = value_at<std::uint64_t>(list, 0);
    require(count < list.size() / sizeof(PageNumber), 0, "has a list of free pages that is too short");
    PageNumber last = no_page;
    for (std::size_t i = 1; i <= count; ++i) {
      const auto page = value_at<PageNumber>(list, i * sizeof(PageNumber));
      require(page < last, 0, "has a list of free pages that is out of order");
      mark_used(page, 1, 0);
      last = page;
    }
  }

  std::string_view file_;
  std::string where_;
  std::size_t page_bytes_ = 0;
  std::vector<bool> is_used_;
};

}  // namespace

void require_valid_lmdb(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  Check(mapped.bytes(), file.string()).run();
}

}  // namespace evenkeel
