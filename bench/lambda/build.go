package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// maxBytes is the largest binary that is accepted: Lambda loads it when a sandbox starts.
const maxBytes = 20 << 20

// module is ours.
const module = "github.com/tradewind-broker/tradewind/"

// small says which packages are compiled without inlining, which makes a function two MB smaller: what waits for AWS
// and for clients anyway. What decides is inlined as ever. The last pattern that matches a package counts.
func small() (flags []string) {
	for _, pattern := range []string{
		"github.com/...", "golang.org/...", "google.golang.org/...", "go.opentelemetry.io/...", "go.yaml.in/...",
		"crypto/ecdsa/...", "crypto/rsa/...", "crypto/tls/...", "crypto/x509/...", "encoding/asn1/...",
		"encoding/json/...", "encoding/xml/...", "fmt/...", "html/...", "log/...", "math/big/...", "mime/...",
		"net/...", "os/...", "text/...",
	} {
		flags = append(flags, "-gcflags="+pattern+"=-l")
	}
	for _, pattern := range []string{
		module + "events/...", module + "pkg/bidding/...", module + "pkg/broker/...", module + "pkg/market/...",
		module + "pkg/optimizer/...", module + "pkg/scheduler/...", module + "pkg/store/...",
		"github.com/go-json-experiment/...",
	} {
		flags = append(flags, "-gcflags="+pattern+"=")
	}
	for _, pattern := range []string{module + "pkg/broker/history/...", module + "pkg/broker/view/..."} {
		flags = append(flags, "-gcflags="+pattern+"=-l") // what is shown to people
	}
	return flags
}

// functions lists the folders of functions/.
func functions() ([]string, error) {
	found, err := filepath.Glob("functions/*/main.go")
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("no functions/*/main.go here: run it from the project's root (%w)", err)
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = filepath.Base(filepath.Dir(f))
	}
	return names, nil
}

// tags leave out a runtime that only go1.x had; grpc's pages for debugging, whose templates have the linker keep every
// method of every type; and HTTP/2, which none of the services needs that functions call.
const tags = "lambda.norpc,grpcnotrace,nethttpomithttp2"

// build compiles a package as Lambda wants it: one static file named bootstrap.
func build(ctx context.Context, pkg, arch, file string) error {
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-tags", tags}, small()...)
	stamp := exec.CommandContext(ctx, "go", append(args, "-o", file, pkg)...) //nolint:gosec // our own packages
	stamp.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	stamp.Stdout, stamp.Stderr = os.Stderr, os.Stderr
	if err := stamp.Run(); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	// A zip of the same content is the same zip, and is not uploaded again.
	past := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	return os.Chtimes(file, past, past)
}

// buildAll compiles every function below dir, prints sizes, and fails when one is too large for Lambda, unless any size
// will do.
func buildAll(ctx context.Context, arch, dir string, anySize bool) error {
	names, err := functions()
	if err != nil {
		return err
	}
	var large []string
	for _, name := range names {
		file := filepath.Join(dir, name, "bootstrap")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // not secret
			return err
		}
		if err := build(ctx, "./functions/"+name, arch, file); err != nil {
			return err
		}
		size, err := bytesOf(file)
		if err != nil {
			return err
		}
		fmt.Printf("%-10s %5.1f MB  %s\n", name, mb(size), file)
		if size > maxBytes && !anySize {
			large = append(large, name)
		}
	}
	if len(large) > 0 {
		return fmt.Errorf("over %.0f MB: %v; `go list -deps ./functions/NAME` says what is in it",
			mb(maxBytes), slices.Sorted(slices.Values(large)))
	}
	return nil
}

func bytesOf(file string) (int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func mb(bytes int64) float64 { return float64(bytes) / (1 << 20) }
