#!/bin/sh
# System packages that some checks use. Each is optional: what is missing is said, and the checks that need it say that they
# were skipped. Installs with apt-get where it can.
set -u

missing=""
need() { # command, packages
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need coqc "coq libcoq-stdlib libcoq-coquelicot"
need ocamlfind "ocaml-findlib"
[ -e /usr/lib/ocaml/zarith/z.cmi ] || missing="$missing libzarith-ocaml-dev"
need chromium "chromium"
need node "nodejs npm"
need valgrind "valgrind"

[ -z "$missing" ] && exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "== installing system packages with apt-get:$missing"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >/dev/null ||
        echo "== apt-get failed; the checks that need$missing will be skipped"
else
    echo "== not installed:$missing (needs apt-get and root); the checks that need them will be skipped"
fi
exit 0
