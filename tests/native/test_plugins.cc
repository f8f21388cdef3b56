// What a user is told when a plug-in is missing or does not fit.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "build_info.h"
#include "check.h"
#include "engines/plugins.h"

namespace {

ff::EngineConfig one_device() { return {}; }

TEST(a_missing_plugin_is_named) {
  CHECK(!ff::has_plugin("unheard_of"));
  CHECK_THROWS(ff::open_runtime("unheard_of", one_device()), "needs libflexflow_unheard_of.so");
  CHECK_THROWS(ff::open_runtime("unheard_of", one_device()), "or use engine \"local\"");
}

TEST(a_file_that_is_no_plugin_is_refused) {
  const auto folder = std::filesystem::temp_directory_path() / ff::cat("flexflow_plugins_", getpid());
  std::filesystem::create_directories(folder);
  const std::string text = (folder / "libflexflow_text.so").string();
  std::ofstream(text) << "no library";
  CHECK_THROWS(ff::load_plugin(text), "cannot load " + text);
  std::ofstream(text) << "FF_BUILT_" << "FOR=legion-1.2.3";
  CHECK_THROWS(ff::load_plugin(text), "built for Legion legion-1.2.3");
  std::filesystem::remove_all(folder);
  CHECK_THROWS(ff::load_plugin("libm.so.6"), "is no plug-in of flexflow");
}

TEST(a_plugin_of_another_build_is_refused) {
  const ff::TaskPlugin other{"0.0.0-other", nullptr, nullptr}, own{FF_BUILD_ID, nullptr, nullptr};
  CHECK_THROWS(ff::checked_plugin(other, "some.so"), "some.so is of build 0.0.0-other");
  CHECK_THROWS(ff::checked_plugin(other, "some.so"), FF_BUILD_ID);
  CHECK(&ff::checked_plugin(own, "some.so") == &own);
}

}  // namespace
