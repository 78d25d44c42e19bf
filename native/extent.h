// How far apart the poses of a set are, which decides whether single precision will do.
#pragma once

#include <algorithm>
#include <cmath>

namespace lieattn {

// The largest Frobenius norms of the linear parts of a set and of their inverses, the largest product
// of the two, a bound of the condition number, and the largest entry of a translation.
struct Extent {
    double size = 0, inverse = 0, condition = 0, far = 0;

    void add(double one, double inverse_of_one, double translation) {
        join({one, inverse_of_one, one * inverse_of_one, translation});
    }

    void join(const Extent& x) {
        size = std::max(size, x.size), inverse = std::max(inverse, x.inverse);
        condition = std::max(condition, x.condition), far = std::max(far, x.far);
    }

    // Beyond these single precision loses the logarithm of a relative matrix, or the square of a
    // relative translation.
    bool fits_affine() const {
        return condition < 1e3 && size * inverse < 1e7 && far * inverse < 1e14;
    }
};

}  // namespace lieattn
