#include "net/port_holder.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>

namespace troupe::net {
namespace {

namespace fs = std::filesystem;

/// Inodes of listening sockets on the port, from /proc/net/tcp and tcp6 (state 0A).
std::set<std::string> listening_inodes(std::uint16_t port) {
    std::set<std::string> inodes;
    for (const auto* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream file(table);
        std::string line;
        std::getline(file, line);
        while (std::getline(file, line)) {
            std::istringstream fields(line);
            std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
            fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
            if (state == "0A" && local.ends_with(fmt::format(":{:04X}", port))) inodes.insert("socket:[" + inode + "]");
        }
    }
    return inodes;
}

}  // namespace

std::string describe_port_holder(std::uint16_t port) {
    const auto inodes = listening_inodes(port);
    std::error_code ec;
    for (const auto& process : fs::directory_iterator("/proc", ec)) {
        const auto pid = process.path().filename().string();
        if (!std::all_of(pid.begin(), pid.end(), [](unsigned char c) { return std::isdigit(c); })) continue;
        std::error_code denied;
        for (const auto& fd : fs::directory_iterator(process.path() / "fd", denied)) {
            const auto target = fs::read_symlink(fd.path(), denied).string();
            if (!inodes.contains(target)) continue;
            std::ifstream comm(process.path() / "comm");
            std::string name;
            std::getline(comm, name);
            return fmt::format(" by process {} ({})", pid, name);
        }
    }
    return {};
}

}  // namespace troupe::net
