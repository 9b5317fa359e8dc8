#!/usr/bin/env bash
# Builds Helm's own template engine as a program, .tools/helm/render CHART NAMESPACE VALUES, for the test that the chart
# renders the same objects as `tradewind deploy kubernetes`. It is a separate module, to keep Helm out of go.mod.
set -euo pipefail
VERSION=v3.21.4
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DIR=${TRADEWIND_TOOLS:-$(dirname "$HERE")/.tools}/helm
[[ "$(cat "$DIR/version" 2>/dev/null)" == "$VERSION" ]] && exit
mkdir -p "$DIR"
DIR=$(cd "$DIR" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printf 'module render\n\ngo 1.26\n\nrequire helm.sh/helm/v3 %s\n' "$VERSION" >go.mod
cat >main.go <<'GO'
// Renders a chart as `helm template --include-crds` does.
package main

import (
	"fmt"
	"log"
	"os"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

func main() {
	chart, err := loader.Load(os.Args[1])
	check(err)
	given, err := chartutil.ReadValuesFile(os.Args[3])
	check(err)
	release := chartutil.ReleaseOptions{Name: "tradewind", Namespace: os.Args[2], IsInstall: true, Revision: 1}
	values, err := chartutil.ToRenderValues(chart, given, release, chartutil.DefaultCapabilities)
	check(err)
	files, err := engine.Render(chart, values)
	check(err)
	for _, crd := range chart.CRDObjects() {
		fmt.Printf("---\n%s\n", crd.File.Data)
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			fmt.Printf("---\n%s\n", text)
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
GO
go mod tidy
CGO_ENABLED=0 nice go build -trimpath -ldflags='-s -w' -o "$DIR/render" .
echo "$VERSION" >"$DIR/version"
