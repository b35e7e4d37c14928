# Sourced by quickstart and check, from the root of the repository.

logs=build/logs
mkdir -p "$logs"

# stage TEXT NAME COMMAND...: runs the command with its output in build/logs/NAME.log and prints one line.
# When it fails, shows the end of the log and ends the script.
stage() {
  local text=$1 log=$logs/$2.log start=$SECONDS status=0
  shift 2
  printf '%s (%s) ... ' "$text" "$log"
  "$@" >"$log" 2>&1 || status=$?
  if ((status != 0)); then
    printf 'failed (status %d)\n\n' "$status"
    tail -n 60 "$log"
    printf '\nThe whole log: %s\n' "$PWD/$log" >&2
    exit 1
  fi
  printf 'done (%d s)\n' $((SECONDS - start))
}
