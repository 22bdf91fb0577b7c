set -euo pipefail
wanted=${REF:-${GITHUB_REF:-}}
wanted=${wanted#refs/heads/}
depth=(--depth="$DEPTH")
[ "$DEPTH" = 0 ] && depth=()
git init --quiet --initial-branch=none .
git remote add origin "$STUB_REMOTE"
if [ "$DEPTH" = 0 ]; then git fetch --quiet --tags origin '+refs/heads/*:refs/remotes/origin/*'; fi
[ "$LFS" = true ] || export GIT_LFS_SKIP_SMUDGE=1
case "$wanted" in
  refs/pull/*)
    git fetch --quiet --no-tags "${depth[@]}" origin "+$wanted:refs/remotes/${wanted#refs/}"
    git checkout --quiet --detach "refs/remotes/${wanted#refs/}" ;;
  refs/tags/*)
    git fetch --quiet "${depth[@]}" origin "+$wanted:$wanted"
    git checkout --quiet --detach "$wanted" ;;
  *)
    git fetch --quiet --no-tags "${depth[@]}" origin "+refs/heads/$wanted:refs/remotes/origin/$wanted"
    git checkout --quiet -B "$wanted" "refs/remotes/origin/$wanted" ;;
esac
