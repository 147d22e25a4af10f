// KV images: what was written comes back; every damaged byte, every cut and every other model is refused.
#include "model/kv_image.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include <gtest/gtest.h>
#include <unistd.h>

namespace troupe::model {
namespace {

namespace fs = std::filesystem;

kv_identity identity() {
    kv_identity i{"abc", "ref/kv1-f16/x", {}};
    i.layout.segment_bytes = 2u << 20;
    i.layout.groups = {{0, 2, 96, 1000, 0}, {32, 4, 160, 1000, 0}};
    return i;
}

/// Blocks 1 to 3 of 64 tokens; the window's only of the last.
kv_image_head head() {
    kv_image_head h;
    for (int i = 0; i < 64; ++i) h.tokens.push_back(1000 + i);
    h.first_block = 1;
    h.groups = {1, 1, 3};
    return h;
}

std::byte content(std::size_t group, std::uint32_t i, std::size_t at) {
    return static_cast<std::byte>(group * 100 + i * 31 + at * 7);
}

void fill(std::size_t group, std::uint32_t i, std::span<std::byte> to) {
    for (std::size_t at = 0; at < to.size(); ++at) to[at] = content(group, i, at);
}

class KvImage : public ::testing::Test {
 protected:
    KvImage() { fs::create_directories(folder_); }
    ~KvImage() override { fs::remove_all(folder_); }
    fs::path path() const { return folder_ / "image.kv"; }
    void write() { ASSERT_TRUE(write_kv_image(path(), identity(), head(), fill)); }
    std::string read_file() const {
        std::ifstream in(path(), std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void write_file(const std::string& bytes) const {
        std::ofstream(path(), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    /// Why the image or one of its blocks is refused; empty: everything reads as it was written.
    std::string refusal(const kv_identity& as) const {
        const auto image = kv_image::open(path(), as);
        if (!image) return image.error().param;
        if (image->head().tokens != head().tokens || image->head().groups != head().groups) return "another head";
        for (std::uint32_t i = 1; i < 4; ++i)
            for (std::size_t g = 0; g < 2; ++g) {
                std::vector<std::byte> block;
                const auto got = image->read(g, i, block);
                const bool held = head().groups[i - 1] >> g & 1;
                if (!held && got) return "a block that was not written";
                if (!held) continue;
                if (!got) return got.error().param;
                for (std::size_t at = 0; at < block.size(); ++at)
                    if (block[at] != content(g, i, at)) return "another block";
            }
        return "";
    }

    fs::path folder_ = fs::temp_directory_path() / ("troupe-kv-image-" + std::to_string(::getpid()));
};

TEST_F(KvImage, ComesBackAsItWas) {
    write();
    EXPECT_EQ(refusal(identity()), "");
    EXPECT_EQ(fs::file_size(path()), kv_image_bytes(identity(), head()));
    EXPECT_EQ(fs::file_size(path()), 4096 + 3 * 96 + 160u);
    EXPECT_FALSE(kv_image::open(folder_ / "none.kv", identity()).ok());
}

TEST_F(KvImage, EveryFlippedBitIsFound) {
    write();
    const std::string good = read_file();
    std::set<std::string> reasons;
    for (std::size_t at = 0; at < good.size(); at += at < 300 ? 1 : 7) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
        write_file(bad);
        const std::string why = refusal(identity());
        const std::size_t head_end = 4096;
        // Nothing is read between the head and the first block.
        if (why.empty()) {
            EXPECT_TRUE(at < head_end && good.find_last_not_of('\0', head_end - 1) < at) << "byte " << at;
        }
        reasons.insert(why);
    }
    EXPECT_TRUE(reasons.contains("checksum") && reasons.contains("malformed") && reasons.contains("foreign"));
    EXPECT_FALSE(reasons.contains("another block") || reasons.contains("another head"));
}

TEST_F(KvImage, EveryCutIsFound) {
    write();
    const std::string good = read_file();
    for (std::size_t size = 0; size < good.size(); size += size < 400 ? 1 : 37) {
        write_file(good.substr(0, size));
        const auto image = kv_image::open(path(), identity());
        ASSERT_FALSE(image.ok()) << size;
        EXPECT_EQ(image.error().param, "truncated") << size;
    }
    write_file(good + "x");
    EXPECT_EQ(refusal(identity()), "truncated") << "longer is not right either";
}

TEST_F(KvImage, AFileThatIsCutWhileItIsReadIsAnErrorAndNoSignal) {
    write();
    const auto image = kv_image::open(path(), identity());
    ASSERT_TRUE(image.ok());
    fs::resize_file(path(), 4096);
    std::vector<std::byte> block;
    const auto got = image->read(0, 1, block);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().param, "unreadable");
}

TEST_F(KvImage, AnotherModelNumericsOrLayoutIsForeign) {
    write();
    auto other = identity();
    other.model_hash = "abd";
    EXPECT_EQ(refusal(other), "foreign");
    other = identity();
    other.numerics_id += "y";
    EXPECT_EQ(refusal(other), "foreign");
    other = identity();
    other.layout.groups[1].window = 33;
    EXPECT_EQ(refusal(other), "foreign");
    other = identity();
    other.layout.type = kernels::dtype::f32;
    EXPECT_EQ(refusal(other), "foreign");
    other = identity();
    other.layout.segment_bytes *= 2;
    EXPECT_EQ(refusal(other), "") << "where blocks lie in memory does not matter";
}

TEST_F(KvImage, AFullDiskOrAMissingFolderIsAnErrorAndLeavesNothing) {
    EXPECT_FALSE(write_kv_image(folder_ / "none" / "image.kv", identity(), head(), fill).ok());
    EXPECT_TRUE(fs::is_empty(folder_));
}

TEST(PrefixKey, DependsOnEveryTokenAndOnWhatComesBefore) {
    std::vector<std::int32_t> block(block_tokens, 5);
    std::set<std::uint64_t> keys{prefix_key(root_key, block), prefix_key(1, block)};
    for (auto& t : block) {
        ++t;
        keys.insert(prefix_key(root_key, block));
    }
    EXPECT_EQ(keys.size(), 2u + block_tokens);
}

}  // namespace
}  // namespace troupe::model
