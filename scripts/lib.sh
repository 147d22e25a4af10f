# Shared by the scripts: installs what a fresh Debian 12 lacks and builds. Source it; needs bash.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${TROUPE_BUILD_DIR:-$root/build}
say() { printf '%s\n' "troupe: $*" >&2; }

# install_packages FILE [SKIP_REGEX]: every Debian package named in FILE that is not installed yet.
install_packages() {
  local missing=() name
  while read -r name; do
    [[ -z $name || $name == \#* || ( -n ${2:-} && $name =~ $2 ) ]] && continue
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done <"$1"
  [[ ${#missing[@]} -eq 0 ]] && return 0
  if [[ $(id -u) -ne 0 ]]; then
    say "these Debian packages are missing; install them as root, then call this again:"
    say "  apt-get install --no-install-recommends ${missing[*]}"
    exit 1
  fi
  say "installing ${#missing[@]} Debian packages"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >&2
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# ensure_venv: a Python environment with scripts/requirements.txt; sets $python.
ensure_venv() {
  local venv=$build/venv stamp=$build/venv/requirements
  python=$venv/bin/python
  if ! cmp -s "$root/scripts/requirements.txt" "$stamp"; then
    say "setting up the Python environment for tests"
    mkdir -p "$build"
    python3 -m venv "$venv"
    "$python" -m pip install -q --disable-pip-version-check -r "$root/scripts/requirements.txt" >&2
    cp "$root/scripts/requirements.txt" "$stamp"
  fi
}

# build_troupe [TARGET...]: configures once, then builds.
build_troupe() {
  local type=${TROUPE_BUILD_TYPE:-Release}
  if [[ ! -f $build/build.ninja ]]; then
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE="$type" -DTROUPE_UNITY=ON "${cmake_options[@]}" >&2
  fi
  ninja -C "$build" "$@" >&2
}
cmake_options=()

# build_peer TARGET: mainline llama.cpp outside the repository, from the sdist of llama-cpp-python on PyPI; sets $peers.
build_peer() {
  peers=${XDG_CACHE_HOME:-$HOME/.cache}/troupe/peers
  [[ -x $peers/build/bin/$1 ]] && return 0
  ensure_venv
  mkdir -p "$peers"
  if [[ ! -f $peers/build/build.ninja ]]; then
    tar xzf "$("$python" "$root/scripts/fetch_test_data" --sdist)" -C "$peers"
    cmake -S "$(echo "$peers"/llama_cpp_python-*/vendor/llama.cpp)" -B "$peers/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
      -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_TOOLS=ON \
      -DGGML_NATIVE=ON >&2
  fi
  ninja -C "$peers/build" "$1" >&2
}
