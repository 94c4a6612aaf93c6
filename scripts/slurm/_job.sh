# What all templates here share; each sources it. It asks for bash 5.1.
#
# Variables that you may set before `sbatch`:
# - RECIPE: the recipe. USER_MODEL: a model that plays the user, in place of the recipe's. HOMERL_VENV: the environment, by default
#   .venv in the folder from which you submit. GPUS_PER_NODE: 8 by default. MASTER_PORT: of the trainers, 29500 by default.
# - CONTAINER: an image in place of the environment, for Slurm's plug-in pyxis: `homerl#gpu.sqsh`, or an address of a registry.
#   MOUNTS: what it sees, as pyxis has it; by default the folder from which you submit, at its own path.
# - WAIT: the most seconds for which a server is waited for.
set -euo pipefail
((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)) || { echo "needs bash 5.1 or newer, and this is $BASH_VERSION" >&2; exit 2; }

gpus=${GPUS_PER_NODE:-8} port=${MASTER_PORT:-29500} wait_seconds=${WAIT:-1800}
export PATH="${HOMERL_VENV:-$SLURM_SUBMIT_DIR/.venv}/bin:$PATH"

trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT  # the next start needs the ports and the run's folder
trap 'scontrol requeue "$SLURM_JOB_ID"; exit 0' USR1
trap 'exit 143' TERM

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
container=()
[ -z "${CONTAINER:-}" ] || container=(--container-image="$CONTAINER" --container-workdir="$SLURM_SUBMIT_DIR"
    --container-mounts="${MOUNTS:-$SLURM_SUBMIT_DIR:$SLURM_SUBMIT_DIR}")

# run_on and train_on replace the shell that calls them, so that a signal for a job's process reaches srun: call them with &.

run_on() { # run_on NODE COMMAND...: one process on this node
    exec srun --nodes=1 --ntasks=1 --nodelist="$1" ${container[@]+"${container[@]}"} "${@:2}"
}

wait_for_server() { # wait_for_server URL PID: until it answers; the job ends if its process does, or after `wait_seconds`
    local until=$((SECONDS + wait_seconds))
    until curl --silent --fail --output /dev/null --max-time 10 "$1/health"; do
        kill -0 "$2" 2>/dev/null || { echo "the server at $1 ended before it was ready" >&2; exit 1; }
        ((SECONDS < until)) || { echo "the server at $1 did not answer within $wait_seconds s (WAIT)" >&2; exit 1; }
        sleep 1
    done
}

train_on() { # train_on NODES RECIPE [--some.key value ...]: the last NODES nodes train; the other ones are left out
    local count=$1 others=("${nodes[@]:0:${#nodes[@]}-$1}")
    # SLURM_PROCID differs by task: the single quotes leave it to the trainer's own shell.
    exec srun --kill-on-bad-exit=1 --nodes="$count" --ntasks="$count" \
        ${others[@]+--exclude="$(IFS=,; echo "${others[*]}")"} ${container[@]+"${container[@]}"} bash -c '
        (($2 == 1)) || several=--multi_gpu
        exec accelerate launch ${several-} --num_machines "$1" --num_processes "$2" --machine_rank "$SLURM_PROCID" \
            --main_process_ip "$3" --main_process_port "$4" "${@:5}"' \
        trainer "$count" "$((count * gpus))" "${nodes[${#others[@]}]}" "$port" "${@:2}"
}

new_key() { # a key of this job, so that nobody else on the cluster uses its servers
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}
closed=homerl.models.endpoint.key_guard.KeyGuard # vLLM asks for VLLM_API_KEY below /v1 alone, and this middleware everywhere

end_with_first() { # end_with_first TRAINER SERVER...: the job ends as the trainer does, or with the server that ends before it
    local code=0 ended
    wait -n -p ended "$@" || code=$?
    [ "$ended" = "$1" ] || { echo "a server (pid $ended) ended with code $code, and so does the run" >&2; exit 1; }
    exit "$code"
}

serve_user() { # serve_user NODE: serves the user of $recipe, waits for it, and sets `user` (options of the trainer) and `servers`
    HOMERL_USER_KEY=${HOMERL_USER_KEY:-$(new_key)}
    export HOMERL_USER_KEY VLLM_API_KEY=$HOMERL_USER_KEY
    local url="http://$1:8400" indices
    indices=$(seq -s, 0 $((gpus - 1)))
    user=(${USER_MODEL:+--user.kind llm --user.model "$USER_MODEL"} --user.key HOMERL_USER_KEY)
    run_on "$1" homerl serve-user "$recipe" "${user[@]}" ${USER_MODEL:+--user.serve.model "$USER_MODEL"} \
        --user.serve.gpus "[$indices]" --user.serve.port 8400 --user.serve.arguments '["--host", "0.0.0.0", "--middleware", "'"$closed"'"]' &
    servers=($!)
    unset VLLM_API_KEY  # it is the user's
    wait_for_server "$url" "${servers[0]}"
    user+=(--user.serve null --user.url "$url/v1")
}
