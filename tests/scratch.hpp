#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

/// A path in a folder of this process, gone when it ends.
inline std::string scratch(const std::string& name) {
  struct Folder {
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("bilevel_" + std::to_string(::getpid()));
  };
  static const Folder folder;
  return (folder.path / name).string();
}

/// A file there that holds the text; its path.
inline std::string write(const std::string& name, const std::string& text) {
  const std::string path = scratch(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}
