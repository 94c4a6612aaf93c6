# Sourced by scripts/quickstart and scripts/test: one virtual environment, made on first use, left alone until
# pyproject.toml, constraints.txt or homerl.pth change. HOMERL_VENV names another place for it than .venv.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${HOMERL_VENV:-$root/.venv}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac  # the callers change folder

say() { printf '%s\n' "homerl: $*" >&2; }

# The first Python on the PATH that is new enough and can make virtual environments.
find_python() {
    local candidate
    for candidate in python3 python3.11 python3.12 python3.13 python; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    say "no Python 3.11 or newer with its venv module was found on the PATH."
    say "Install one (Debian, Ubuntu: apt install python3.11-venv; macOS: brew install python@3.12) and try again."
    return 1
}

pip_install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

# Whether the default torch wheel is the right one: CUDA's where there is an NVIDIA GPU, the only one on a Mac.
default_torch_fits() { [ "$(uname)" = Darwin ] || { command -v nvidia-smi && nvidia-smi -L; } >/dev/null 2>&1; }

# Installs the CPU build of torch where no GPU would use the CUDA packages (several GB).
install_cpu_torch() {
    local torch
    torch=$(sed -n 's/^torch==\([^ +]*\).*/torch==\1+cpu/p' "$root/constraints.txt")
    if pip_install -c "$root/constraints.txt" "$torch" 2>/dev/null; then return; fi  # a mirror or wheel folder of yours
    if pip_install -c "$root/constraints.txt" "$torch" --index-url https://download.pytorch.org/whl/cpu \
        --extra-index-url https://pypi.org/simple; then return; fi
    say "no CPU build of torch could be had; the default build follows, with CUDA packages that this machine cannot use."
}

# What the installation depends on, as one hash.
fingerprint() {
    "$venv/bin/python" - "$root" "$1" <<'PYTHON'
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
files = ("pyproject.toml", "constraints.txt", "homerl.pth")
print(hashlib.sha256(b"\0".join([*((root / name).read_bytes() for name in files), *map(str.encode, sys.argv[1:])])).hexdigest())
PYTHON
}

# ensure_venv EXTRAS: homerl, editable, with the given extras ("" or "[test]"), first on the PATH.
ensure_venv() {
    local extras=$1 stamp="$venv/.homerl$1" python wanted
    if [ ! -x "$venv/bin/python" ]; then
        python=$(find_python)
        say "making the virtual environment $venv with $python"
        "$python" -m venv "$venv"
    fi
    wanted=$(fingerprint "$extras")
    if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
        say "installing homerl$extras into $venv (some minutes the first time)"
        default_torch_fits || install_cpu_torch
        pip_install -c "$root/constraints.txt" -e "$root$extras"
        printf '%s\n' "$wanted" >"$stamp"
    fi
    export VIRTUAL_ENV=$venv PATH="$venv/bin:$PATH"
}
