#!/bin/sh
# Builds the documentation site with MkDocs and its Material theme, in a separate environment below
# .tools/docs: scripts/docs.sh build|serve. Fails on broken links. Concurrent runs wait for each other.
set -eu
cd "$(dirname "$0")/.."
to=.tools/docs
mkdir -p .tools
exec 9>.tools/docs.lock && flock 9
if [ ! -x "$to/bin/mkdocs" ]; then
	python3 -m venv "$to"
	"$to/bin/python3" -m pip install -q --disable-pip-version-check 'mkdocs==1.6.1' 'mkdocs-material==9.6.14'
fi
flock -u 9
case "${1:-build}" in
build) "$to/bin/mkdocs" build --strict --site-dir dist/docs ;;
serve) "$to/bin/mkdocs" serve --strict ;;
*)
	echo "usage: docs.sh build | serve" >&2
	exit 2
	;;
esac
