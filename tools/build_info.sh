#!/bin/sh
# Writes build_info.h: what `python -m flexflow info` tells about the build. Makefile and CMake both call it on
# every build; the file is touched only when its text changed, so that an unchanged build recompiles nothing.
#
# usage: build_info.sh OUT COMPILER FLAGS TYPE ONEDNN_INCLUDE_DIR
set -eu
out=$1 compiler=$2 flags=$3 type=$4 onednn=$5
root=$(cd "$(dirname "$0")/.." && pwd -P)
version=$(cat "$root/VERSION")

header=$onednn/oneapi/dnnl/dnnl_version.h
onednn_version=$(awk '/define DNNL_VERSION_(MAJOR|MINOR|PATCH) / { v = v dot $3; dot = "." } END { print v }' \
  "$header" 2>/dev/null) || true
case ${onednn_version:-none} in
  [3-9].*) ;;
  none) echo "flexflow: no oneDNN headers in $onednn (pip install onednn-devel-cpu-gomp==2023.2.0)" >&2; exit 1 ;;
  *) echo "flexflow: oneDNN $onednn_version in $onednn is too old: 3.0 or later is needed" >&2; exit 1 ;;
esac

# An unpacked source archive may lie inside somebody else's repository, whose commit says nothing about us.
commit=unknown
if [ "$(git -C "$root" rev-parse --show-toplevel 2>/dev/null)" = "$root" ]; then
  commit=$(git -C "$root" describe --always 2>/dev/null || echo unknown)
fi
# Two builds with one id can exchange plug-ins, so the id covers the text of the sources, not only the commit.
digest=$({ find "$root/native" -type f -name '*.[hc]*' | LC_ALL=C sort | tr '\n' '\0' | xargs -0 cat
           echo "$compiler $flags $type $onednn_version"; } | sha256sum | cut -c1-12)

quote() { printf '%s' "$1" | sed 's/[\\"]/\\&/g'; }
mkdir -p "$(dirname "$out")"
cat > "$out.new" <<EOF
#pragma once
#define FF_VERSION "$version"
#define FF_BUILD_ID "$version-$commit-$digest"
#define FF_BUILD_COMPILER "$(quote "$compiler")"
#define FF_BUILD_FLAGS "$(quote "$flags")"
#define FF_BUILD_TYPE "$type"
#define FF_ONEDNN_VERSION "$onednn_version"
#define FF_ABI_DIGEST "$(sed -n 's/^DIGEST = "\(.*\)"$/\1/p' "$root/flexflow/core/_abi.py")"
EOF
if cmp -s "$out.new" "$out"; then rm "$out.new"; else mv "$out.new" "$out"; fi
