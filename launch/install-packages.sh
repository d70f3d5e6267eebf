#!/usr/bin/env bash
# Installs the missing packages of Debian 12 or 13 that Evenkeel needs to build and run. Prints nothing if none is
# missing. Runs as root, or as a user who may use sudo without a password.
#
#   --tests   also what the tests, the micro-benchmarks and the simulated nodes need, libtorch, the Python package and
#             the documentation site among them
#   --lint    also what launch/lint.sh needs, which only Debian 12 has
#   --fuzz    also what the preset fuzz needs: Clang with libFuzzer
#   --torch   also libtorch, for the optional library Evenkeel::torch
#   --python  also what the Python package is built with
#   --debs    also what packages of Debian are built and tested with
#   --wheels  also what wheels of the Python package are built with
#   --docs    also what the documentation site is built with
set -euo pipefail

packages=(
  cmake g++ ninja-build                              # build
  openmpi-bin libopenmpi-dev                         # MPI
  libboost-mpi-dev libboost-serialization-dev        # serialization, messages
  libcli11-dev libfmt-dev libspdlog-dev              # command line, text, log
  libsimdjson-dev libyaml-cpp-dev nlohmann-json3-dev # JSON and YAML
  libcpp-httplib-dev liblmdb-dev libssl-dev           # evenkeel buffer
  libhiredis-dev                                     # evenkeel buffer --store redis://HOST
  prometheus-cpp-dev                                 # evenkeel run --prometheus
  zlib1g-dev libzstd-dev                             # .gz and .zst files
)
python=(
  python3 python3-numpy                                        # the package
  python3-pip python3-setuptools python3-venv python3-wheel    # pip install ./python
  python3-omegaconf                                            # the import of other systems' configurations
)
debs=(
  dpkg-dev pkg-config # libraries that a program needs; the name of MPI's .pc file
  mmdebstrap          # a bare Debian for installing packages
)
wheels=(
  "${python[@]}"
  binutils # smaller libraries
)
# Debian 12's default Clang cannot read the ranges of GCC 12's library, but Debian 12 also has a later version.
# shellcheck source=/dev/null
codename="$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}" || true)"
later=""
if [[ $codename == bookworm ]]; then later=-16; fi
fuzz=(
  "clang$later"
  "libclang-rt$later-dev" # libFuzzer and the sanitizers
)
docs=(
  mkdocs mkdocs-material # the site
  doxygen                # its C++ API
)
tests=(
  "${python[@]}" "${debs[@]}" "${docs[@]}"
  libgmock-dev libgtest-dev librapidcheck-dev # tests
  libbenchmark-dev                            # micro-benchmarks
  clang-format git                            # the check of formatting
  iproute2                                    # simulated nodes
  valgrind                                    # memory of jobs
  gcc spin                                    # the model of the protocol
  redis-server                                # a store of several servers
  chromium                                    # the page of a report, drawn by a browser
  python3 python3-numpy                       # the commands and recipes of README and docs
  python3-scipy                               # the bound that docs/flexible-cp.md proves
  mypy python3-pytest python3-torch           # the Python package, also with tensors
  python3-mpi4py                              # its service over MPI
  slurmctld slurmd slurm-client munge         # a Slurm cluster on simulated nodes
  python3-yaml                                # the job for Kubernetes
  libtorch-dev                                # the optional library Evenkeel::torch
)
# In a test, a worker of Kubernetes has an sshd of its own. The package would also start one for the whole machine,
# unless the machine does not start services on installation, as containers do not.
if [[ -x /usr/sbin/policy-rc.d && ! -d /run/systemd/system ]]; then tests+=(openssh-client openssh-server); fi
while (($#)); do
  case "$1" in
    --tests) packages+=("${tests[@]}") ;;
    --lint)
      if [[ $codename != bookworm ]]; then
        echo "install-packages: --lint needs Debian 12, since style is checked with its clang-format 14 and clang-tidy 16" >&2
        exit 1
      fi
      packages+=(clang-format clang-tidy-16 shellcheck codespell)
      ;;
    --fuzz) packages+=("${fuzz[@]}") ;;
    --torch) packages+=(libtorch-dev) ;;
    --python) packages+=("${python[@]}") ;;
    --wheels) packages+=("${wheels[@]}") ;;
    --debs) packages+=("${debs[@]}") ;;
    --docs) packages+=("${docs[@]}") ;;
    *)
      echo "install-packages: unknown argument '$1'; there are --tests, --lint, --fuzz, --torch, --python, --wheels, --debs and --docs" >&2
      exit 2
      ;;
  esac
  shift
done

# dpkg-query fails if it does not know one of the packages.
mapfile -t missing < <(
  installed="$(dpkg-query -W -f='${binary:Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null |
    sed -n 's/^\([^: ]*\).* installed$/\1/p' || true)"
  printf '%s\n' "${packages[@]}" | sort -u | grep -vxF -e "${installed:- }"
)
((${#missing[@]})) || exit 0

if ! command -v apt-get >/dev/null; then
  echo "install-packages: this machine has no apt-get. Install what these Debian packages hold: ${missing[*]}" >&2
  exit 1
fi

as_root=()
if ((EUID != 0)); then
  if ! sudo -n true 2>/dev/null; then
    echo "install-packages: root is needed to install: ${missing[*]}" >&2
    echo "Run this once as root: apt-get update && apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo -n)
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Use-Pty=0 "$@" </dev/null >/dev/null
}

echo "Installing ${missing[*]}"
apt update
apt install -y --no-install-recommends "${missing[@]}"
