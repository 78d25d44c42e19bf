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

// How to run a function on threads: OpenMP's GOMP_parallel, whose threads the caller's other work
// has at hand. New ones would have to share the cores with those, which wait for work busily.
typedef void (*Team)(void (*function)(void*), void* data, unsigned threads, unsigned flags);

// Calls work(item, thread) for all items; the calling thread takes part. Without a team threads are
// started.
template <class Work>
void parallel(int64_t items, int64_t threads, Team team, const Work& work) {
    if (threads > items) threads = items;
    std::atomic<int64_t> next{0}, arrived{0};
    auto run = [&] {
        const NoSubnormals quick;
        const int64_t thread = arrived.fetch_add(1);
        for (int64_t item; (item = next.fetch_add(1)) < items;) work(item, thread);
    };
    typedef decltype(run) Run;
    if (threads > 1 && team) {
        team([](void* data) { (*(Run*)data)(); }, &run, (unsigned)threads, 0);
        return;
    }
    std::vector<std::thread> others;
    try {
        for (int64_t t = 1; t < threads; t++) others.emplace_back(run);
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
