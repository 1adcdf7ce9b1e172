# shellcheck shell=sh
# Read by ci/hardware and ci/nightly: what a run on a lab begins and ends with. POSIX sh.
# Sets: inventory, artifacts (a folder of this script's own), history (kept from night to night).
# The caller calls `hold PURPOSE` once, which empties artifacts; whatever happens then, the lab is freed at the end.
inventory=${1:-}
if [ -z "$inventory" ] || [ ! -e "$inventory" ]; then
    echo "$0: name the lab's inventory, such as inventories/my-lab; there is no '$inventory'." >&2
    exit 2
fi
artifacts=${KVLAB_ARTIFACTS:-.cache/artifacts}/${0##*/}
mkdir -p "$artifacts"
artifacts=$(cd "$artifacts" && pwd -P)
history=${KVLAB_HISTORY:-.lab/history}
mkdir -p "$history"
history=$(cd "$history" && pwd -P)
accepted=$history/accepted-stack
./lab --version >/dev/null
PATH="$PWD/.venv/bin:$PATH"

# GitHub, GitLab and Jenkins each say where their run can be looked at; by hand it is who and where.
holder=${CI_JOB_URL:-${BUILD_URL:-}}
if [ -n "${GITHUB_RUN_ID:-}" ]; then
    holder="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID"
fi
: "${holder:=$(id -un)@$(uname -n), process $$}"
held=

# Names and values as JSON, whatever stands in them.
as_json() {
    python -c 'import json, sys; print(json.dumps(dict(zip(sys.argv[1::2], sys.argv[2::2]))))' "$@"
}

play() {
    ansible-playbook -i "$inventory" "$@"
}

# Brings the lab up: with the stack that is named, else with the one that ci/nightly accepted, else the inventory's.
bring_up() {
    stack=${1:-$(cat "$accepted" 2>/dev/null || true)}
    play site.yml ${stack:+-e "kvlab_stack=$stack"}
}

# The lab as it is now: what the doctor says, with the names that its people know, and anonymized facts for everybody else.
# Exit status: the doctor's (0 healthy, 1 something is wrong, 2 something could not be looked at).
look() {
    kvlab facts collect -i "$inventory" -o "$artifacts/facts.json" --anonymize || true
    named=$(mktemp -d)
    kvlab facts collect -i "$inventory" -o "$named/facts.json" || true
    looked=0
    kvlab doctor --facts "$named/facts.json" --json >"$artifacts/doctor.json" || true
    kvlab doctor --facts "$named/facts.json" >"$artifacts/doctor.txt" || looked=$?
    rm -rf "$named"
    cat "$artifacts/doctor.txt"
    return "$looked"
}

free() {
    status=$?
    trap - EXIT
    # A second signal must not leave the lab locked.
    trap '' INT TERM
    if [ "$status" -ne 0 ] && [ -n "$held" ]; then
        play playbooks/logs.yml -e "$(as_json kvlab_logs_dir "$artifacts/logs")" >"$artifacts/logs.txt" 2>&1 ||
            echo "the logs could not be collected; $artifacts/logs.txt says why" >&2
    fi
    play playbooks/unlock.yml -e "$(as_json kvlab_lock_holder "$holder")" >"$artifacts/unlock.txt" 2>&1 ||
        echo "the lab could not be freed; $artifacts/unlock.txt says why" >&2
    echo "$0: exit status $status; what it leaves is in $artifacts"
    exit "$status"
}

hold() {
    trap free EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    play playbooks/lock.yml -e "$(as_json kvlab_lock_holder "$holder" kvlab_lock_purpose "$1")" || {
        echo "$0: the lab was not taken, and nothing of it was touched; the message above says why." >&2
        exit 2
    }
    held=yes
    rm -rf "${artifacts:?}"/*
}
