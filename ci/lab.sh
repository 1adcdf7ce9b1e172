# shellcheck shell=sh
# Read by ci/hardware and ci/nightly: what a run on a lab begins and ends with. POSIX sh.
# Sets: inventory, artifacts. The caller calls `hold PURPOSE` once; whatever happens then, the lab is freed at the end.
inventory=${1:-}
if [ -z "$inventory" ] || [ ! -e "$inventory" ]; then
    echo "$0: name the lab's inventory, such as inventories/my-lab; there is no '$inventory'." >&2
    exit 2
fi
artifacts=${KVLAB_ARTIFACTS:-.cache/artifacts}
mkdir -p "$artifacts"
./lab --version >/dev/null
PATH="$PWD/.venv/bin:$PATH"

# GitHub, GitLab and Jenkins each say where their run can be looked at; by hand it is who and where.
holder=${CI_JOB_URL:-${BUILD_URL:-}}
if [ -n "${GITHUB_RUN_ID:-}" ]; then
    holder="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID"
fi
: "${holder:=$(id -un)@$(uname -n), process $$}"

play() {
    ansible-playbook -i "$inventory" "$@"
}

free() {
    status=$?
    trap - EXIT
    if [ "$status" -ne 0 ]; then
        play playbooks/logs.yml -e "kvlab_logs_dir=$(realpath "$artifacts")/logs" >"$artifacts/logs.txt" 2>&1 ||
            echo "the logs could not be collected; $artifacts/logs.txt says why" >&2
    fi
    play playbooks/unlock.yml -e "{kvlab_lock_holder: '$holder'}" >"$artifacts/unlock.txt" 2>&1 ||
        echo "the lab could not be freed; $artifacts/unlock.txt says why" >&2
    exit "$status"
}

hold() {
    trap free EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    play playbooks/lock.yml -e "{kvlab_lock_holder: '$holder', kvlab_lock_purpose: '$1'}"
}
