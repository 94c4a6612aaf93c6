# Sourced by the other scripts. Makes one virtual environment on first use, and installs into it again only after
# pyproject.toml, constraints.txt or homerl.pth have changed. The environment is .venv, or the folder in HOMERL_VENV.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${HOMERL_VENV:-$root/.venv}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac  # absolute, since the callers change the folder

say() { printf '%s\n' "homerl: $*" >&2; }

# Prints the first Python on the PATH that is new enough and can make virtual environments.
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

# Python compiles a file when it is first imported; to compile all of them beforehand takes a minute.
pip_install() { "$venv/bin/python" -m pip install --no-compile --quiet --disable-pip-version-check "$@"; }

# Whether the default torch wheel fits: the one with CUDA needs an NVIDIA GPU, and macOS has only one wheel.
default_torch_fits() { [ "$(uname)" = Darwin ] || { command -v nvidia-smi && nvidia-smi -L; } >/dev/null 2>&1; }

# Installs the CPU build of torch. Without a GPU, the CUDA packages (several GB) would be useless.
install_cpu_torch() {
    local torch
    torch=$(sed -n 's/^torch==\([^ +]*\).*/torch==\1+cpu/p' "$root/constraints.txt")
    if pip_install -c "$root/constraints.txt" "$torch" 2>/dev/null; then return; fi  # works if pip is set up with a mirror or a wheel folder
    if pip_install -c "$root/constraints.txt" "$torch" --index-url https://download.pytorch.org/whl/cpu \
        --extra-index-url https://pypi.org/simple; then return; fi
    say "no CPU build of torch could be had; the default build follows, with CUDA packages that this machine cannot use."
}

# Prints a hash of everything on which the installation depends.
fingerprint() {
    "$venv/bin/python" - "$root" "$1" <<'PYTHON'
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
files = ("pyproject.toml", "constraints.txt", "homerl.pth")
print(hashlib.sha256(b"\0".join([*((root / name).read_bytes() for name in files), *map(str.encode, sys.argv[1:])])).hexdigest())
PYTHON
}

# Prints what a person types so that `homerl` is found in the shell; nothing where it is found already.
activation() {
    [ "$(command -v homerl || true)" = "$venv/bin/homerl" ] && return
    [ "$PWD" = "$root" ] || printf 'cd %q && ' "$root"
    case $venv in "$root"/*) printf 'source %q' "${venv#"$root"/}/bin/activate" ;; *) printf 'source %q' "$venv/bin/activate" ;; esac
}

# Ends with a message if the environment was moved or copied: its programs still start the Python, and the homerl, of the old
# place. Each program names that Python in its first line, or in its second if the path is long or has spaces.
refuse_moved() {
    local made
    [ -e "$venv/bin/pip" ] || return 0
    made=$(sed -n '1,2s|^[^/]*\(/.*\)/python[0-9.]*.*|\1|p' "$venv/bin/pip")
    [ -z "$made" ] || [ "$made" -ef "$venv/bin" ] || {
        say "the virtual environment $venv was moved or copied from $made, and its programs look for that place."
        say "Delete it, and start this again, which makes a new one:  rm -r $(printf '%q' "$venv")"
        exit 2
    }
}

# ensure_venv EXTRAS: installs homerl, editable, with the extras ("[train]", "[test]", "[gpu]"; "[env]" has no torch), and puts
# the environment first on the PATH.
ensure_venv() {
    local extras=$1 stamp="$venv/.homerl$1" python wanted
    HOMERL_ACTIVATE=${HOMERL_ACTIVATE-$(activation)}  # a run says it at its end
    export HOMERL_ACTIVATE
    refuse_moved
    if [ ! -x "$venv/bin/python" ] || [ ! -e "$venv/bin/pip" ]; then  # one that was broken off has no pip yet
        python=$(find_python)
        say "making the virtual environment $venv with $python"
        "$python" -m venv "$venv"
    fi
    wanted=$(fingerprint "$extras")
    if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
        say "installing homerl$extras into $venv (some minutes the first time)"
        [ "$extras" = "[env]" ] || default_torch_fits || install_cpu_torch
        pip_install -c "${HOMERL_CONSTRAINTS:-$root/constraints.txt}" -e "$root$extras"
        printf '%s\n' "$wanted" >"$stamp"
    fi
    export VIRTUAL_ENV=$venv PATH="$venv/bin:$PATH"
    unset PYTHONDONTWRITEBYTECODE  # many processes start, and each would compile what it imports anew
}
