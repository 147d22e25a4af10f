#include "actors/supervisor/predecessor.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

class predecessor : public ::testing::Test {
 protected:
    predecessor()
        : file((std::filesystem::temp_directory_path() / ("troupe-child-" + std::to_string(getpid()))).string()) {}
    ~predecessor() override {
        forget_child(file);
        if (pid <= 0) return;
        ::kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
    void fork_one() {
        pid = fork();
        if (pid != 0) return;
        for (;;) pause();
    }
    std::string file;
    pid_t pid = 0;
};

TEST_F(predecessor, that_still_lives_is_ended) {
    fork_one();
    record_child(file, pid);
    EXPECT_TRUE(end_predecessor(file, 5s).ok());
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    pid = 0;
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(predecessor, whose_number_another_process_has_is_left_alone) {
    fork_one();
    record_child(file, pid);
    std::string number, started, boot;
    std::ifstream(file) >> number >> started >> boot;
    std::ofstream(file) << number << ' ' << started << "1 " << boot << '\n';
    EXPECT_TRUE(end_predecessor(file, 5s).ok());
    EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), 0) << "it lives";
}

TEST_F(predecessor, that_nobody_wrote_down_or_that_is_gone_is_none) {
    EXPECT_TRUE(end_predecessor("", 5s).ok());
    EXPECT_TRUE(end_predecessor(file, 5s).ok());
    std::ofstream(file) << "no number";
    EXPECT_TRUE(end_predecessor(file, 5s).ok());
    std::ofstream(file) << "1 2 3";
    EXPECT_TRUE(end_predecessor(file, 5s).ok()) << "never the first process";
    std::ofstream(file) << 0x3fffffff << " 2 3";
    EXPECT_TRUE(end_predecessor(file, 5s).ok());
    EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace troupe::actors
