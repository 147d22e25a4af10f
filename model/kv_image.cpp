// Layout of a file: magic, version, size of the head, identity, tokens, which blocks, their checksums, size of the
// file, checksum of the head; then from the next page on the blocks, one after the other. Little-endian.
#include "model/kv_image.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "core/check.hpp"
#include "model/formats/atomic_file.hpp"

namespace troupe::model {
namespace {

constexpr std::string_view magic = "TROUPEKV";
constexpr std::uint32_t version = 1;
constexpr std::uint64_t page = 4096, most_head = 256u << 20;
constexpr std::uint32_t most_blocks = 1u << 22;

static_assert(std::endian::native == std::endian::little);

std::uint32_t checksum(std::span<const std::byte> bytes) {
    uLong crc = crc32(0, nullptr, 0);
    constexpr std::size_t most = 1u << 30;
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), most)))
        crc = crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(std::min(bytes.size(), most)));
    return static_cast<std::uint32_t>(crc);
}

std::span<const std::byte> bytes_of(const std::string& s) { return std::as_bytes(std::span(s.data(), s.size())); }

template <class T> void put(std::string& to, const T& value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T> void put_all(std::string& to, const std::vector<T>& values) {
    to.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}
void put_text(std::string& to, const std::string& text) {
    put(to, static_cast<std::uint32_t>(text.size()));
    to += text;
}

/// Reads what put wrote; past the end everything is zero and `good` is false.
class reader {
 public:
    explicit reader(std::span<const std::byte> bytes) : left_(bytes) {}
    template <class T> T get() {
        T value{};
        copy(&value, sizeof value);
        return value;
    }
    template <class T> std::vector<T> get_all(std::uint64_t n) {
        if (n > left_.size() / sizeof(T)) return good_ = false, std::vector<T>{};
        std::vector<T> values(n);
        copy(values.data(), n * sizeof(T));
        return values;
    }
    std::string get_text() {
        const auto chars = get_all<char>(get<std::uint32_t>());
        return {chars.begin(), chars.end()};
    }
    bool good() const { return good_; }

 private:
    void copy(void* to, std::size_t n) {
        if (n > left_.size()) {
            good_ = false;
            return;
        }
        if (n > 0) std::memcpy(to, left_.data(), n);
        left_ = left_.subspan(n);
    }
    std::span<const std::byte> left_;
    bool good_ = true;
};

std::string describe(const kv_layout& layout) {
    std::string text = "kv " + std::to_string(static_cast<int>(layout.type)) + " x " + std::to_string(block_tokens);
    for (const auto& g : layout.groups)
        text += " [" + std::to_string(g.window) + ' ' + std::to_string(g.n_layers) + ' ' +
                std::to_string(g.block_bytes) + ' ' + std::to_string(g.latent) + ']';
    return text;
}

/// The head without checksums of blocks, whose values do not change its size.
std::string head_text(const kv_identity& identity, const kv_image_head& head, const std::vector<std::uint32_t>& crcs,
    std::uint64_t file_bytes) {
    std::string text(magic);
    put(text, version);
    const std::size_t size_at = text.size();
    put(text, std::uint64_t{0});
    put_text(text, identity.model_hash);
    put_text(text, identity.numerics_id);
    put_text(text, describe(identity.layout));
    put(text, head.first_block);
    put(text, static_cast<std::uint32_t>(head.groups.size()));
    put_all(text, head.tokens);
    put_all(text, head.groups);
    put_all(text, crcs);
    put(text, file_bytes);
    const std::uint64_t size = text.size() + sizeof(std::uint32_t);
    std::memcpy(text.data() + size_at, &size, sizeof size);
    put(text, checksum(bytes_of(text)));
    return text;
}

struct sizes {
    std::size_t n_places = 0;
    std::uint64_t head = 0, payload = 0;
    std::uint64_t start() const { return (head + page - 1) / page * page; }
};

sizes sizes_of(const kv_identity& identity, const kv_image_head& head) {
    sizes s;
    for (const std::uint32_t mask : head.groups)
        for (std::size_t g = 0; g < identity.layout.groups.size(); ++g)
            if (mask >> g & 1) {
                ++s.n_places;
                s.payload += identity.layout.groups[g].block_bytes;
            }
    s.head = head_text(identity, head, std::vector<std::uint32_t>(s.n_places), 0).size();
    return s;
}

error refused(const std::filesystem::path& path, const char* why) {
    return fail(errc::io, "'" + path.string() + "' is no usable KV image: " + why, why);
}

}  // namespace

struct kv_image::open_file {
    explicit open_file(int fd) : fd(fd) {}
    open_file(const open_file&) = delete;
    ~open_file() { ::close(fd); }
    bool read(std::uint64_t at, std::span<std::byte> to) const {
        while (!to.empty()) {
            const ssize_t n = ::pread(fd, to.data(), to.size(), static_cast<off_t>(at));
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return false;
            at += static_cast<std::uint64_t>(n);
            to = to.subspan(static_cast<std::size_t>(n));
        }
        return true;
    }
    const int fd;
};

std::uint64_t prefix_key(std::uint64_t parent, std::span<const std::int32_t> block) {
    const auto mix = [](std::uint64_t x) {  // the finalizer of SplitMix64
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        return x ^ (x >> 31);
    };
    std::uint64_t h = mix(parent + 0x9e3779b97f4a7c15u);
    for (const std::int32_t t : block) h = mix(h ^ static_cast<std::uint32_t>(t)) + 0x9e3779b97f4a7c15u;
    return h;
}

std::uint64_t kv_image_bytes(const kv_identity& identity, const kv_image_head& head) {
    const sizes s = sizes_of(identity, head);
    return s.start() + s.payload;
}

result<void> write_kv_image(const std::filesystem::path& path, const kv_identity& identity, const kv_image_head& head,
    const std::function<void(std::size_t group, std::uint32_t i, std::span<std::byte> to)>& read) {
    CHECK(head.tokens.size() == static_cast<std::size_t>(head.end_block()) * block_tokens);
    const sizes s = sizes_of(identity, head);
    const auto each = [&](auto&& f) -> result<void> {
        for (std::size_t i = 0; i < head.groups.size(); ++i)
            for (std::size_t g = 0; g < identity.layout.groups.size(); ++g)
                if (head.groups[i] >> g & 1) {
                    std::vector<std::byte>& buffer = f.buffer;
                    buffer.resize(identity.layout.groups[g].block_bytes);
                    read(g, head.first_block + static_cast<std::uint32_t>(i), buffer);
                    TROUPE_TRYV(f(buffer));
                }
        return {};
    };
    // Checksums stand before the blocks and the file is written in one go, so the blocks are read twice.
    struct summing {
        std::vector<std::byte> buffer;
        std::vector<std::uint32_t> crcs;
        result<void> operator()(std::span<const std::byte> b) {
            crcs.push_back(checksum(b));
            return {};
        }
    } sums;
    TROUPE_TRYV(each(sums));
    const std::uint64_t total = s.start() + s.payload;
    TROUPE_TRY(auto file, atomic_file::create(path, total));
    TROUPE_TRYV(file.append(bytes_of(head_text(identity, head, sums.crcs, total))));
    TROUPE_TRYV(file.append_zeros(s.start() - s.head));
    struct writing {
        atomic_file& file;
        std::vector<std::byte> buffer;
        result<void> operator()(std::span<const std::byte> b) { return file.append(b); }
    } out{file, {}};
    TROUPE_TRYV(each(out));
    return file.commit();
}

result<kv_image> kv_image::open(const std::filesystem::path& path, const kv_identity& identity) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return refused(path, "unreadable");
    kv_image image;
    image.file_ = std::make_shared<const open_file>(fd);
    struct stat status{};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return refused(path, "unreadable");
    image.bytes_ = static_cast<std::uint64_t>(status.st_size);
    constexpr std::size_t fixed = magic.size() + sizeof(std::uint32_t) + sizeof(std::uint64_t);
    if (image.bytes_ < fixed) return refused(path, "truncated");
    std::vector<std::byte> bytes(fixed);
    if (!image.file_->read(0, bytes)) return refused(path, "unreadable");
    if (std::memcmp(bytes.data(), magic.data(), magic.size()) != 0) return refused(path, "malformed");
    reader start(std::span<const std::byte>(bytes).subspan(magic.size()));
    if (start.get<std::uint32_t>() != version) return refused(path, "foreign");
    const auto head_bytes = start.get<std::uint64_t>();
    if (head_bytes > most_head || head_bytes < fixed + sizeof(std::uint32_t)) return refused(path, "malformed");
    if (head_bytes > image.bytes_) return refused(path, "truncated");
    bytes.resize(head_bytes);
    if (!image.file_->read(0, bytes)) return refused(path, "unreadable");
    const auto summed = std::span<const std::byte>(bytes).first(head_bytes - sizeof(std::uint32_t));
    if (reader(std::span<const std::byte>(bytes).subspan(summed.size())).get<std::uint32_t>() != checksum(summed))
        return refused(path, "checksum");

    reader in(summed.subspan(fixed));
    const bool same = in.get_text() == identity.model_hash;
    const bool numerics = in.get_text() == identity.numerics_id;
    if (!(in.get_text() == describe(identity.layout)) || !same || !numerics) return refused(path, "foreign");
    kv_image_head& head = image.head_;
    head.first_block = in.get<std::uint32_t>();
    const auto n = in.get<std::uint32_t>();
    if (n == 0 || n > most_blocks || head.first_block > most_blocks) return refused(path, "malformed");
    head.tokens = in.get_all<std::int32_t>((std::uint64_t{head.first_block} + n) * block_tokens);
    head.groups = in.get_all<std::uint32_t>(n);
    if (!in.good()) return refused(path, "malformed");

    image.n_groups_ = identity.layout.groups.size();
    for (const auto& g : identity.layout.groups) image.block_bytes_.push_back(g.block_bytes);
    std::uint64_t at = (head_bytes + page - 1) / page * page;
    for (const std::uint32_t mask : head.groups) {
        if (mask >> image.n_groups_ != 0) return refused(path, "malformed");
        for (std::size_t g = 0; g < image.n_groups_; ++g) {
            place p;
            if (mask >> g & 1) {
                p = {at, in.get<std::uint32_t>()};
                at += image.block_bytes_[g];
            }
            image.places_.push_back(p);
        }
    }
    const auto file_bytes = in.get<std::uint64_t>();
    if (!in.good() || file_bytes != at) return refused(path, "malformed");
    if (file_bytes != image.bytes_) return refused(path, "truncated");
    return image;
}

result<void> kv_image::read(std::size_t group, std::uint32_t i, std::vector<std::byte>& to) const {
    if (i < head_.first_block || i >= head_.end_block() || group >= n_groups_)
        return fail(errc::io, "the KV image does not hold this block", "malformed");
    const place& p = places_[(i - head_.first_block) * n_groups_ + group];
    if (p.offset == 0) return fail(errc::io, "the KV image does not hold this block", "malformed");
    to.resize(block_bytes_[group]);
    if (!file_->read(p.offset, to)) return fail(errc::io, "a block of the KV image cannot be read", "unreadable");
    if (checksum(to) != p.crc) return fail(errc::io, "a block of the KV image is damaged", "checksum");
    return {};
}

}  // namespace troupe::model
