// Work items handed to threads that live for one call.
#pragma once

#include <atomic>
#include <exception>
#include <thread>

#include "simd.h"
#include <vector>
#include <memory>
#include <new>

namespace lieattn {

// Calls work(item, share) for all items, in threads that take a share each; the calling one takes
// part. Which items make a share is fixed, so that results do not depend on who was faster.
template <class Work>
void parallel(int64_t items, int64_t shares, const Work& work) {
    std::atomic<int64_t> next{0};
    auto run = [&] {
        const NoSubnormals quick;
        for (int64_t share; (share = next.fetch_add(1)) < shares;)
            for (int64_t item = share; item < items; item += shares) work(item, share);
    };
    std::vector<std::thread> others;
    try {
        for (int64_t t = 1; t < shares && t < items; t++) others.emplace_back(run);
    } catch (const std::exception&) {  // no more threads to be had: those there are do the work
    }
    run();
    for (auto& other : others) other.join();
}

// Uninitialised floats on a cache line's border.
class Buffer {
   public:
    explicit Buffer(int64_t count) : data_(new (std::align_val_t(64)) float[count > 0 ? count : 1]) {}
    ~Buffer() { operator delete[](data_, std::align_val_t(64)); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    operator float*() { return data_; }

   private:
    float* data_;
};

}  // namespace lieattn
