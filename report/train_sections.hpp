#pragma once

#include <vector>

#include "reading.hpp"

// The sections of the page of `bilevel train`. Whatever the result lacks is left out.
namespace report {

/// "trusted", "doubtful" or "untrusted", the worse of what the certificate and the run as a whole say; "" if
/// neither says anything.
std::string gradients_verdict(const Reading& result);
/// The angle between two gradients of this cosine: "2.9°", "" where there is no cosine.
std::string angle_word(double cosine);
/// "1.9 %" for 0.019, "" for what is not finite.
std::string percent_word(double share);
/// The numbers of an array, NaN for null.
std::vector<double> numbers_of(const Reading& array);

/// Errors and costs against epochs, and a table of all epochs.
void add_learning(Json& sections, const Reading& result);
/// How well the gradients agree with exact ones.
void add_gradients(Json& sections, const Reading& result);
/// Energy and movement against steps, for a free phase and the nudged ones after it.
void add_relaxation(Json& sections, const Reading& result);
/// Samples a second, the network and how it was trained.
void add_settings(Json& sections, const Reading& result);
/// The weights of the first layer as images.
void add_weights(Json& sections, const Reading& result);
/// Which classes are taken for which.
void add_confusion(Json& sections, const Reading& result);
/// Samples that the network gets wrong.
void add_wrong(Json& sections, const Reading& result);

}  // namespace report
