// What a pointer points to; elsewhere there are several kinds of pointers.
#pragma once

namespace metal {
template <class T> using pointer_element_t = std::remove_cv_t<std::remove_pointer_t<std::remove_cv_t<T>>>;
}
