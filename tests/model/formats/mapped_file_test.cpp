// What a path may lead to besides a readable file.
#include "model/formats/mapped_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

namespace troupe::model {

namespace {

class mapped_file_test : public ::testing::Test {
 protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "troupe_map_XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::filesystem::path write(const std::string& name, const std::string& content) const {
        std::ofstream(folder_ / name, std::ios::binary) << content;
        return folder_ / name;
    }

    std::filesystem::path folder_;
};

TEST_F(mapped_file_test, maps_the_bytes) {
    const auto file = mapped_file::open(write("a", std::string("ab\0c", 4)));
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto bytes = (*file)->bytes();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), std::string("ab\0c", 4));
}

TEST_F(mapped_file_test, the_bytes_outlive_the_directory_entry) {
    const auto path = write("a", "abc");
    const auto file = mapped_file::open(path);
    ASSERT_TRUE(file.ok());
    std::filesystem::remove(path);
    EXPECT_EQ((*file)->bytes()[2], std::byte{'c'});
}

TEST_F(mapped_file_test, missing_file) {
    const auto file = mapped_file::open(folder_ / "none");
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().code, errc::model_missing);
    EXPECT_NE(file.error().message.find("none"), std::string::npos);
}

TEST_F(mapped_file_test, empty_file) {
    EXPECT_EQ(mapped_file::open(write("a", "")).error().code, errc::model_malformed);
}

TEST_F(mapped_file_test, folder) { EXPECT_EQ(mapped_file::open(folder_).error().code, errc::model_malformed); }

TEST_F(mapped_file_test, a_fifo_does_not_block) {
    const auto path = folder_ / "fifo";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(mapped_file::open(path).error().code, errc::model_malformed);
}

}  // namespace

}  // namespace troupe::model
