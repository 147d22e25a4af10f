// Why a child process is no more: what the system tells its parent. No CAF, so that decision code can use it.
#pragma once

namespace troupe::actors {

struct child_exit {
    int signal = 0;              ///< 0: it exited by itself
    int code = 0;                ///< exit code if signal is 0
    bool out_of_memory = false;  ///< the kernel killed it for memory
};

}  // namespace troupe::actors
